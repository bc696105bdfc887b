import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Apache Kafka's own producer aborts a transaction one batch of which nobody answers, and begins the
 * next. Arguments: {@code BOOTSTRAP TOPIC SETTINGS ABORT_AFTER_MS}; each line of the standard output
 * is a call and what became of it.
 */
public final class LateAbort {
    private static final long PATIENCE_S = 20;
    private static final long PAUSE_MS = 1_000;

    private LateAbort() {}

    /** What an application calls. */
    private interface Call {
        void make() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        for (String setting : arguments[2].split(",")) {
            String[] pair = setting.split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        String topic = arguments[1];
        KafkaProducer<String, String> producer =
                new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
        say("initTransactions", producer::initTransactions);
        say("beginTransaction", producer::beginTransaction);
        say("send a", () -> told(send(producer, topic, "a")));
        Future<RecordMetadata> late = send(producer, topic, "b");
        Thread.sleep(Long.parseLong(arguments[3]));
        say("abortTransaction", producer::abortTransaction);
        say("send b", () -> told(late));
        Thread.sleep(PAUSE_MS);
        for (String record : new String[] {"c", "d"}) {
            say("beginTransaction", producer::beginTransaction);
            say("send " + record, () -> told(send(producer, topic, record)));
            say("commitTransaction", producer::commitTransaction);
        }
        say("initTransactions", producer::initTransactions);
        System.exit(0);
    }

    private static Future<RecordMetadata> send(
            KafkaProducer<String, String> producer, String topic, String record) {
        return producer.send(new ProducerRecord<>(topic, 0, null, record));
    }

    private static void told(Future<RecordMetadata> sent) throws Exception {
        sent.get(PATIENCE_S, TimeUnit.SECONDS);
    }

    private static void say(String name, Call call) {
        String end = "done";
        try {
            call.make();
        } catch (Exception error) {
            Throwable cause = error.getCause();
            end = error.getClass().getSimpleName() + (cause == null ? "" : " of " + cause);
            end += cause == null ? ": " + error.getMessage() : "";
        }
        System.out.println(System.nanoTime() + " " + name + ": " + end.replace('\n', ' '));
    }
}
