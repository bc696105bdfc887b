import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.ByteBufferOutputStream;
import org.apache.kafka.common.utils.Utils;

/**
 * The Java client's record batches as a process: frames of a size, a command and its argument come
 * in, frames of a size and JSON go out. Commands: r, batches to be read; w, a batch to be written,
 * described in JSON. Bytes in JSON are base64.
 */
public final class KafkaBatches {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws IOException {
        DataInputStream in = new DataInputStream(System.in);
        DataOutputStream out = new DataOutputStream(System.out);
        for (int size = in.readInt(); size > 0; size = in.readInt()) {
            byte[] answer = JSON.writeValueAsBytes(answer(in.readNBytes(size)));
            out.writeInt(answer.length);
            out.write(answer);
            out.flush();
        }
    }

    private static ObjectNode answer(byte[] command) {
        ObjectNode result = JSON.createObjectNode();
        ByteBuffer buffer = ByteBuffer.wrap(command);
        try {
            if (buffer.get() == 'r') {
                read(buffer.slice(), result.putArray("batches"));
            } else {
                write(JSON.readTree(command, 1, command.length - 1), result);
            }
        } catch (Exception error) {
            result.removeAll().put("error", error.toString());
        }
        return result;
    }

    private static void read(ByteBuffer buffer, ArrayNode batches) {
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(buffer).batches()) {
            batch.ensureValid();
            ObjectNode node = batches.addObject()
                .put("base_offset", batch.baseOffset())
                .put("partition_leader_epoch", batch.partitionLeaderEpoch())
                .put("last_offset", batch.lastOffset())
                .put("base_timestamp", ((DefaultRecordBatch) batch).baseTimestamp())
                .put("max_timestamp", batch.maxTimestamp())
                .put("producer_id", batch.producerId())
                .put("producer_epoch", batch.producerEpoch())
                .put("base_sequence", batch.baseSequence())
                .put("last_sequence", batch.lastSequence())
                .put("compression", batch.compressionType().id)
                .put("is_transactional", batch.isTransactional())
                .put("is_control", batch.isControlBatch())
                .put("is_log_append_time", batch.timestampType() == TimestampType.LOG_APPEND_TIME);
            ArrayNode records = node.putArray("records");
            for (Record record : batch) {
                read(record, batch.isControlBatch(), records.addObject());
            }
        }
    }

    private static void read(Record record, boolean isControl, ObjectNode node) {
        node.put("offset", record.offset()).put("timestamp", record.timestamp());
        node.put("key", record.hasKey() ? Utils.toArray(record.key()) : null);
        node.put("value", record.hasValue() ? Utils.toArray(record.value()) : null);
        ArrayNode headers = node.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(header.value());
        }
        if (!isControl) {
            return;
        }
        ControlRecordType type = ControlRecordType.parse(record.key());
        node.put("control_type", type.name());
        if (type == ControlRecordType.COMMIT || type == ControlRecordType.ABORT) {
            node.put("coordinator_epoch", EndTransactionMarker.deserialize(record).coordinatorEpoch());
        }
    }

    private static void write(JsonNode spec, ObjectNode result) throws IOException {
        boolean isControl = spec.has("control_type");
        ByteBufferOutputStream stream = new ByteBufferOutputStream(1024);
        CompressionType type = CompressionType.forId(spec.get("compression").intValue());
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
            stream, RecordBatch.CURRENT_MAGIC_VALUE, Compression.of(type).build(),
            TimestampType.CREATE_TIME, spec.get("base_offset").longValue(),
            RecordBatch.NO_TIMESTAMP, spec.get("producer_id").longValue(),
            spec.get("producer_epoch").shortValue(), spec.get("base_sequence").intValue(),
            spec.get("is_transactional").booleanValue(), isControl,
            spec.get("partition_leader_epoch").intValue(), Integer.MAX_VALUE);
        for (JsonNode record : spec.get("records")) {
            append(builder, spec, record);
        }
        result.put("written", Utils.toArray(builder.build().buffer()));
    }

    private static void append(MemoryRecordsBuilder builder, JsonNode spec, JsonNode record)
        throws IOException {
        long timestamp = record.get("timestamp").longValue();
        if (spec.has("control_type")) {
            builder.appendEndTxnMarker(timestamp, new EndTransactionMarker(
                ControlRecordType.valueOf(spec.get("control_type").textValue()),
                spec.get("coordinator_epoch").intValue()));
            return;
        }
        JsonNode pairs = record.get("headers");
        Header[] headers = new Header[pairs.size()];
        for (int index = 0; index < headers.length; index++) {
            JsonNode pair = pairs.get(index);
            headers[index] = new RecordHeader(pair.get(0).textValue(), bytes(pair.get(1)));
        }
        builder.appendWithOffset(record.get("offset").longValue(), timestamp,
            bytes(record.get("key")), bytes(record.get("value")), headers);
    }

    private static byte[] bytes(JsonNode node) throws IOException {
        return node.isNull() ? null : node.binaryValue();
    }
}
