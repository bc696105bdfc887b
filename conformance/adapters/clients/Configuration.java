import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * What Apache Kafka's own producer makes of settings: each line of the standard input has {@code
 * name=value,...}, or nothing; each line of the standard output {@code IDEMPOTENT}, {@code PLAIN} or
 * {@code CONFIG_EXCEPTION}.
 */
public final class Configuration {
    private Configuration() {}

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(outcome(line));
        }
    }

    /** Nothing waits for a broker that is not there. The form with a duration is of 2.2. */
    private static void closeAtOnce(KafkaProducer<String, String> made) throws Exception {
        try {
            KafkaProducer.class.getMethod("close", Duration.class).invoke(made, Duration.ZERO);
        } catch (NoSuchMethodException older) {
            KafkaProducer.class
                    .getMethod("close", long.class, TimeUnit.class)
                    .invoke(made, 0L, TimeUnit.MILLISECONDS);
        }
    }

    private static String outcome(String settings) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", "127.0.0.1:1");
        for (String setting : settings.isEmpty() ? new String[0] : settings.split(",")) {
            String[] pair = setting.split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        StringSerializer strings = new StringSerializer();
        try {
            KafkaProducer<String, String> made = new KafkaProducer<>(properties, strings, strings);
            Field manager = KafkaProducer.class.getDeclaredField("transactionManager");
            manager.setAccessible(true);
            String outcome = manager.get(made) == null ? "PLAIN" : "IDEMPOTENT";
            closeAtOnce(made);
            return outcome;
        } catch (Exception error) {
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                if (cause instanceof ConfigException) {
                    return "CONFIG_EXCEPTION";
                }
            }
            throw error;
        }
    }
}
