import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Apache Kafka's own producer sends {@code a}, {@code b} and {@code c}; when it has been told of
 * {@code a}, {@code d} and {@code e}; when it has been told of all, {@code f}. Each record is a batch.
 * Arguments: {@code BOOTSTRAP TOPIC SETTINGS}. Out: {@code NANOSECONDS RECORD stored OFFSET} or
 * {@code NANOSECONDS RECORD failed EXCEPTION}, the nanoseconds those of the monotonic clock.
 */
public final class ForgottenId {
    private static final long PATIENCE_S = 60;
    private static final int LENGTH = 48; // no second one finds room in a batch

    private final KafkaProducer<String, String> producer;
    private final String topic;
    private final Map<String, Future<RecordMetadata>> sent = new LinkedHashMap<>();

    private ForgottenId(Properties properties, String topic) {
        this.producer =
                new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
        this.topic = topic;
    }

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        for (String setting : arguments[2].split(",")) {
            String[] pair = setting.split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        ForgottenId client = new ForgottenId(properties, arguments[1]);
        client.send("a", "b", "c");
        client.tell("a");
        client.send("d", "e");
        client.tell("b", "c", "d", "e");
        client.send("f");
        client.tell("f");
        System.exit(0);
    }

    private void send(String... records) {
        for (String record : records) {
            String value = record.repeat(LENGTH);
            sent.put(record, producer.send(new ProducerRecord<>(topic, 0, null, value)));
        }
    }

    private void tell(String... records) throws Exception {
        for (String record : records) {
            String what;
            try {
                what = "stored " + sent.get(record).get(PATIENCE_S, TimeUnit.SECONDS).offset();
            } catch (ExecutionException error) {
                what = "failed " + error.getCause().getClass().getSimpleName();
            }
            System.out.println(System.nanoTime() + " " + record + " " + what);
        }
    }
}
