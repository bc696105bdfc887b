import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Kafka's own ProducerConfig: settings a line ("name=value", "name" for null), what is in force out. */
public class Configs {
    public static void main(String[] arguments) throws Exception {
        Method timeout = KafkaProducer.class.getDeclaredMethod(
            "configureDeliveryTimeout", ProducerConfig.class, Logger.class);
        timeout.setAccessible(true);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, Object> settings = new HashMap<>();
            String serializer = "org.apache.kafka.common.serialization.ByteArraySerializer";
            settings.put("bootstrap.servers", "localhost:1");
            settings.put("key.serializer", serializer);
            settings.put("value.serializer", serializer);
            for (String word : line.split(" "))
                if (!word.isEmpty()) {
                    int equals = word.indexOf('=');
                    settings.put(
                        equals < 0 ? word : word.substring(0, equals),
                        equals < 0 ? null : word.substring(equals + 1));
                }
            System.out.println(inForce(settings, timeout));
        }
    }

    static String inForce(Map<String, Object> settings, Method timeout) throws Exception {
        try {
            ProducerConfig config = new ProducerConfig(settings);
            Object timeoutMs = timeout.invoke(
                null, config, LoggerFactory.getLogger(Configs.class));
            return config.getBoolean("enable.idempotence") + " " + config.getString("acks") + " "
                + config.getInt("retries") + " "
                + config.getInt("max.in.flight.requests.per.connection") + " " + timeoutMs;
        } catch (ConfigException error) {
            return "refused";
        } catch (InvocationTargetException error) {
            if (error.getCause() instanceof ConfigException)
                return "refused";
            throw error;
        }
    }
}
