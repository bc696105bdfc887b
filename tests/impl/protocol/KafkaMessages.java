import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.RequestAndSize;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.ResponseHeader;

/**
 * The Java client's messages as a process: frames of a size, a command and its argument come in,
 * frames of a size and JSON go out. Commands: q, a request; p, a response behind api key and version;
 * e, an error code and a request, for the response with which Kafka refuses it as a whole.
 */
public final class KafkaMessages {
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
            switch (buffer.get()) {
                case 'q' -> request(buffer, result);
                case 'e' -> refusal(Errors.forCode(buffer.getShort()), buffer, result);
                default -> response(buffer, result);
            }
        } catch (Exception error) {
            result.removeAll().put("error", error.toString());
        }
        return result;
    }

    private static void request(ByteBuffer buffer, ObjectNode result) throws Exception {
        RequestHeader header = RequestHeader.parse(buffer);
        result.put("correlation_id", header.correlationId()).put("client_id", header.clientId());
        ApiMessage body = ApiMessageType.fromApiKey(header.apiKey().id).newRequest();
        message(body, header.apiVersion(), buffer, result);
    }

    private static void response(ByteBuffer buffer, ObjectNode result) throws Exception {
        short key = buffer.getShort();
        short version = buffer.getShort();
        short headerVersion = ApiKeys.forId(key).responseHeaderVersion(version);
        ResponseHeader header = ResponseHeader.parse(buffer, headerVersion);
        result.put("correlation_id", header.correlationId());
        message(ApiMessageType.fromApiKey(key).newResponse(), version, buffer, result);
    }

    private static void refusal(
        Errors error, ByteBuffer buffer, ObjectNode result
    ) throws Exception {
        RequestHeader header = RequestHeader.parse(buffer);
        short version = header.apiVersion();
        AbstractRequest request = parse(header.apiKey(), version, buffer);
        AbstractResponse response = request.getErrorResponse(0, error.exception());
        if (response != null) {
            ResponseHeader answered = header.toResponseHeader();
            ObjectSerializationCache cache = new ObjectSerializationCache();
            int size = answered.size() + response.data().size(cache, version);
            ByteBuffer written = ByteBuffer.allocate(size);
            answered.data().write(new ByteBufferAccessor(written), cache, answered.headerVersion());
            response.data().write(new ByteBufferAccessor(written), cache, version);
            result.put("written", written.array());
        }
    }

    /** The last parameter of parseRequest became a Readable in 4.1. */
    private static AbstractRequest parse(
        ApiKeys key, short version, ByteBuffer buffer
    ) throws Exception {
        for (Method method : AbstractRequest.class.getMethods()) {
            if (method.getName().equals("parseRequest")) {
                boolean isOld = method.getParameterTypes()[2] == ByteBuffer.class;
                Object body = isOld ? buffer : new ByteBufferAccessor(buffer);
                return ((RequestAndSize) method.invoke(null, key, version, body)).request;
            }
        }
        throw new NoSuchMethodException("parseRequest");
    }

    private static void message(
        ApiMessage body, short version, ByteBuffer buffer, ObjectNode result
    ) throws Exception {
        body.read(new ByteBufferAccessor(buffer), version);
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer written = ByteBuffer.allocate(body.size(cache, version));
        body.write(new ByteBufferAccessor(written), cache, version);
        Class<?> converter = Class.forName(body.getClass().getName() + "JsonConverter");
        Object json = converter
            .getMethod("write", body.getClass(), short.class, boolean.class)
            .invoke(null, body, version, true);
        result.put("unread", buffer.remaining()).put("written", written.array());
        result.set("body", (JsonNode) json);
    }
}
