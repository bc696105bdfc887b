import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.*;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** Kafka's own UnifiedLog, a command a line: what it answers, and what it is then. */
public class Logs {
    /** What is to be done later is done at once; what is to be done again and again, never. */
    static class AtOnce implements Scheduler {
        final ScheduledThreadPoolExecutor never = new ScheduledThreadPoolExecutor(1, task -> {
            Thread thread = new Thread(task);
            thread.setDaemon(true);
            return thread;
        });
        public void startup() {}
        public void shutdown() {}
        public void resizeThreadPool(int size) {}
        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            if (periodMs < 0)
                task.run();
            return never.schedule(() -> {}, 1000, TimeUnit.DAYS);
        }
    }

    static final short NO_VERSION = -1;

    /** Each guard has the number of its first use; 0 is none. */
    static final List<VerificationGuard> guards = new ArrayList<>();

    static UnifiedLog log;
    static File folder;

    public static void main(String[] arguments) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String answer;
            try {
                answer = run(line.split(" "));
            } catch (RecordValidationException error) {
                answer = "" + Errors.forException(error.invalidException()).code();
            } catch (Throwable error) {
                // What a broker does not expect, it answers with UNKNOWN_SERVER_ERROR.
                System.err.println(error);
                answer = "" + Errors.forException(error).code();
            }
            System.out.println(answer + "|" + (log == null ? "" : state()));
        }
    }

    static String run(String[] words) throws Exception {
        switch (words[0]) {
            case "open": open(words); return "0";
            case "append": return append(words, AppendOrigin.CLIENT, NO_VERSION);
            case "coordinate": return append(words, AppendOrigin.COORDINATOR, Short.parseShort(words[3]));
            case "begin": return "0 " + number(log.maybeStartTransactionVerification(
                Long.parseLong(words[1]), Integer.parseInt(words[3]), Short.parseShort(words[2]),
                Boolean.parseBoolean(words[4])));
            case "follow": log.appendAsFollower(records(words[1]), 0); return "0";
            case "hw": log.updateHighWatermark(Long.parseLong(words[1])); return "0";
            case "delete":
                log.maybeIncrementLogStartOffset(
                    Long.parseLong(words[1]), LogStartOffsetIncrementReason.ClientRecordDeletion);
                log.deleteOldSegments();
                return "0";
            case "truncate": log.truncateTo(Long.parseLong(words[1])); return "0";
            case "start": log.truncateFullyAndStartAt(Long.parseLong(words[1]), Optional.empty()); return "0";
            case "expire": log.removeExpiredProducers(Long.parseLong(words[1])); return "0";
            case "close": log.close(); return "0";
            case "read": return "0 " + read(words);
            case "find": return "0 " + find(Long.parseLong(words[1]));
            default: throw new IllegalArgumentException(words[0]);
        }
    }

    /** open FOLDER LOG_START RECOVERY_POINT CLEAN SEGMENT_BYTES */
    static void open(String[] words) throws Exception {
        folder = new File(words[1]);
        Properties settings = new Properties();
        settings.put("internal.segment.bytes", words[5]);
        settings.put("segment.index.bytes", "4096");
        settings.put("retention.ms", "-1");
        settings.put("file.delete.delay.ms", "0");
        guards.clear();
        guards.add(VerificationGuard.SENTINEL);
        log = UnifiedLog.create(
            folder, new LogConfig(settings), Long.parseLong(words[2]), Long.parseLong(words[3]),
            new AtOnce(), new BrokerTopicStats(), Time.SYSTEM, 900_000,
            new ProducerStateManagerConfig(Integer.MAX_VALUE, true), 600_000,
            new LogDirFailureChannel(10), Boolean.parseBoolean(words[4]), Optional.empty());
    }

    /** append RECORDS GUARD */
    static String append(String[] words, AppendOrigin origin, short transactionVersion) {
        return "0 " + log.appendAsLeader(
            records(words[1]), 0, origin, RequestLocal.noCaching(),
            guards.get(Integer.parseInt(words[2])), transactionVersion).firstOffset();
    }

    static int number(VerificationGuard guard) {
        if (!guards.contains(guard))
            guards.add(guard);
        return guards.indexOf(guard);
    }

    static String described(List<AbortedTxn> aborted) {
        return aborted.stream()
            .map(t -> t.producerId() + ":" + t.firstOffset() + "-" + t.lastOffset() + "@" + t.lastStableOffset())
            .collect(Collectors.joining(","));
    }

    static MemoryRecords records(String text) {
        return MemoryRecords.readableRecords(ByteBuffer.wrap(Base64.getDecoder().decode(text)));
    }

    /** read OFFSET MAX_BYTES AT_LEAST_ONE [ISOLATION]: base offsets of whole batches, what is aborted */
    static String read(String[] words) throws Exception {
        FetchDataInfo found = log.read(
            Long.parseLong(words[1]), Integer.parseInt(words[2]),
            words.length > 4 ? FetchIsolation.valueOf(words[4]) : FetchIsolation.HIGH_WATERMARK,
            Boolean.parseBoolean(words[3]));
        StringBuilder offsets = new StringBuilder();
        for (RecordBatch batch : found.records.batches())
            offsets.append(batch.baseOffset()).append(' ');
        String aborted = found.abortedTransactions.orElse(List.of()).stream()
            .map(t -> " " + t.producerId() + ":" + t.firstOffset()).collect(Collectors.joining());
        return offsets.toString().trim() + aborted;
    }

    static String find(long timestamp) throws Exception {
        return log.fetchOffsetByTimestamp(timestamp, Optional.empty()).timestampAndOffsetOpt()
            .map(found -> found.timestamp + " " + found.offset + " " + found.leaderEpoch.orElse(-1))
            .orElse("-1 -1 -1");
    }

    /** start end high_watermark last_stable_offset; producers; segments; snapshots; verifications; aborted */
    static String state() {
        String producers = log.producerStateManager().activeProducers().entrySet().stream()
            .sorted((a, b) -> Long.compare(a.getKey(), b.getKey()))
            .map(e -> e.getKey() + "/" + e.getValue().producerEpoch()
                + "/" + e.getValue().coordinatorEpoch()
                + "/" + e.getValue().currentTxnFirstOffset().orElse(-1) + ":"
                + e.getValue().batchMetadata().stream()
                    .map(b -> b.firstSeq() + "-" + b.lastSeq() + "@" + b.firstOffset())
                    .collect(Collectors.joining(",")))
            .collect(Collectors.joining(" "));
        String segments = log.logSegments().stream()
            .map(s -> "" + s.baseOffset()).collect(Collectors.joining(" "));
        String snapshots = Stream.of(folder.list()).filter(name -> name.endsWith(".snapshot"))
            .sorted().map(name -> "" + Long.parseLong(name.substring(0, 20)))
            .collect(Collectors.joining(" "));
        String verifications = Stream.iterate(1L, id -> id + 1).limit(9)
            .filter(id -> log.producerStateManager().verificationStateEntry(id) != null)
            .map(id -> verification(id, log.producerStateManager().verificationStateEntry(id)))
            .collect(Collectors.joining(" "));
        String aborted = log.logSegments().stream()
            .filter(s -> !s.txnIndex().allAbortedTxns().isEmpty())
            .map(s -> s.baseOffset() + "=" + described(s.txnIndex().allAbortedTxns()))
            .collect(Collectors.joining(" "));
        return log.logStartOffset() + " " + log.logEndOffset() + " " + log.highWatermark()
            + " " + log.lastStableOffset() + "|" + producers + "|" + segments + "|" + snapshots
            + "|" + verifications + "|" + aborted;
    }

    static String verification(long producerId, VerificationStateEntry entry) {
        return producerId + "/" + entry.epoch() + "/" + entry.lowestSequence()
            + "/" + number(entry.verificationGuard()) + "/" + (entry.supportsEpochBump() ? 1 : 0);
    }
}
