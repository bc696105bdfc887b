import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * An application of Apache Kafka's own producer. Each line of its standard input is a call: {@code
 * send RECORD[*TIMES][@PARTITION]...} begins to send records, some longer, {@code await RECORD} waits
 * for one, all others are methods of the producer. Each is answered by a line: {@code done}, {@code
 * stored OFFSET}, or {@code failed EXCEPTION}, with the producer's state if that is why. Arguments:
 * {@code BOOTSTRAP TOPIC SETTINGS}.
 */
public final class Application {
    private static final long PATIENCE_S = 60;
    private static final int LENGTH = 48; // with batch.size=1 no second record finds room
    private static final Pattern STATE = Pattern.compile("from state (\\w+)");

    private final KafkaProducer<String, String> producer;
    private final String topic;
    private final Map<String, Future<RecordMetadata>> sent = new HashMap<>();

    private Application(Properties properties, String topic) {
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
        Application application = new Application(properties, arguments[1]);
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in));
        for (String line = calls.readLine(); line != null; line = calls.readLine()) {
            System.out.println(application.answer(line.split(" ")));
        }
        System.exit(0);
    }

    private String answer(String[] call) {
        try {
            switch (call[0]) {
                case "send":
                    for (int i = 1; i < call.length; i++) {
                        String[] placed = call[i].split("@");
                        int partition = placed.length > 1 ? Integer.parseInt(placed[1]) : 0;
                        String[] named = placed[0].split("\\*");
                        int times = named.length > 1 ? Integer.parseInt(named[1]) : 1;
                        String value = named[0].repeat(LENGTH * times);
                        var record = new ProducerRecord<String, String>(topic, partition, null, value);
                        sent.put(named[0], producer.send(record));
                    }
                    return "done";
                case "await":
                    return "stored " + sent.get(call[1]).get(PATIENCE_S, TimeUnit.SECONDS).offset();
                default:
                    KafkaProducer.class.getMethod(call[0]).invoke(producer);
                    return "done";
            }
        } catch (ReflectiveOperationException | ExecutionException error) {
            return failure(error.getCause());
        } catch (Exception error) {
            return failure(error);
        }
    }

    private static String failure(Throwable error) {
        Matcher state = STATE.matcher(String.valueOf(error.getMessage()));
        String why = state.find() ? " " + state.group() : "";
        return "failed " + error.getClass().getSimpleName() + why;
    }
}
