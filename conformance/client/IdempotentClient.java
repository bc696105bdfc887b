import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Apache Kafka's own producer, driven by lines: one run for each line of the standard input, one
 * line of the standard output for each record's outcome.
 *
 * <p>In: {@code RUN BOOTSTRAP TOPIC SETTINGS RECORDS}; settings are {@code name=value,...}, records
 * {@code PARTITION:NUMBER,...} with pauses {@code +MS} between them. Out: {@code RUN PARTITION NUMBER
 * stored OFFSET NANOSECONDS}, or {@code failed EXCEPTION NANOSECONDS}, and {@code RUN closed} at the
 * end of a run; and {@code RUN PARTITION NUMBER sent NANOSECONDS} before a record is handed over.
 * Runs go on at the same time, each with a producer of its own. The nanoseconds are those of the
 * monotonic clock; others may leave them out, and the lines of what was sent as well.
 */
public final class IdempotentClient {
    private static final long CLOSE_TIMEOUT_MS = 60_000;

    private IdempotentClient() {}

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        ExecutorService runs = Executors.newCachedThreadPool();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            runs.execute(() -> run(words[0], words[1], words[2], words[3], words[4]));
        }
        runs.shutdown();
        runs.awaitTermination(CLOSE_TIMEOUT_MS, TimeUnit.MILLISECONDS);
        System.exit(0); // a producer that never ends is nobody's any more
    }

    private static void run(
            String run, String bootstrap, String topic, String settings, String records) {
        try (KafkaProducer<String, String> producer = producer(bootstrap, settings)) {
            for (String word : records.split(",")) {
                if (word.startsWith("+")) {
                    Thread.sleep(Long.parseLong(word.substring(1)));
                } else {
                    send(producer, run, topic, word.split(":"));
                }
            }
        } catch (Exception error) {
            say(run + " broken " + error.toString().replace('\n', ' '));
        }
        say(run + " closed");
    }

    private static KafkaProducer<String, String> producer(String bootstrap, String settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        for (String setting : settings.split(",")) {
            int equals = setting.indexOf('=');
            properties.put(setting.substring(0, equals), setting.substring(equals + 1));
        }
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    private static void send(
            KafkaProducer<String, String> producer, String run, String topic, String[] record) {
        String who = run + " " + record[0] + " " + record[1];
        int partition = Integer.parseInt(record[0]);
        say(who + " sent " + System.nanoTime());
        producer.send(
                new ProducerRecord<>(topic, partition, null, record[1]),
                (metadata, error) -> {
                    long now = System.nanoTime();
                    String what =
                            error == null
                                    ? "stored " + metadata.offset()
                                    : "failed " + error.getClass().getSimpleName();
                    say(who + " " + what + " " + now);
                });
    }

    private static void say(String line) {
        PrintStream out = System.out;
        synchronized (out) {
            out.println(line);
            out.flush();
        }
    }
}
