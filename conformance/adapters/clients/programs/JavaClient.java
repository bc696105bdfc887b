import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
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
 *
 * <p>With a transactional id, {@code begin:T}, {@code offsets:OFFSET}, {@code commit:T} and {@code
 * abort:T} stand between the records; {@code RUN transaction T committed}, {@code aborted} or {@code
 * failed EXCEPTION} is what became of each. After an exception a transaction is aborted; where that
 * fails the run ends.
 */
public final class JavaClient {
    private static final long CLOSE_TIMEOUT_MS = 60_000;

    private JavaClient() {}

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
            if (settings.contains("transactional.id=")) {
                producer.initTransactions();
            }
            Exception problem = null;
            for (String word : records.split(",")) {
                boolean ends = word.startsWith("commit:") || word.startsWith("abort:");
                try {
                    if (ends && !end(producer, run, word.split(":"), problem)) {
                        break;
                    }
                    problem = ends ? null : problem;
                    if (!ends && problem == null) {
                        act(producer, run, topic, word);
                    }
                } catch (Exception error) {
                    problem = error;
                }
            }
        } catch (Exception error) {
            say(run + " broken " + error.toString().replace('\n', ' '));
        }
        say(run + " closed");
    }

    private static void act(
            KafkaProducer<String, String> producer, String run, String topic, String word)
            throws Exception {
        if (word.startsWith("+")) {
            Thread.sleep(Long.parseLong(word.substring(1)));
        } else if (word.startsWith("begin:")) {
            producer.beginTransaction();
        } else if (word.startsWith("offsets:")) {
            sendOffset(producer, Long.parseLong(word.substring("offsets:".length())));
        } else {
            send(producer, run, topic, word.split(":"));
        }
    }

    private static boolean end(
            KafkaProducer<String, String> producer, String run, String[] word, Exception before) {
        Exception problem = before;
        if (word[0].equals("commit") && problem == null) {
            try {
                producer.commitTransaction();
                say(run + " transaction " + word[1] + " committed");
                return true;
            } catch (Exception error) {
                problem = error;
            }
        }
        try {
            producer.abortTransaction();
            say(run + " transaction " + word[1] + " aborted");
            return true;
        } catch (Exception error) {
            Exception first = problem == null ? error : problem;
            say(run + " transaction " + word[1] + " failed " + first.getClass().getSimpleName());
            return false;
        }
    }

    /** The form with a group's name is gone since 4.0, the other came with 2.5. */
    private static void sendOffset(KafkaProducer<String, String> producer, long offset)
            throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets =
                Collections.singletonMap(
                        new TopicPartition("input", 0), new OffsetAndMetadata(offset));
        for (Method method : KafkaProducer.class.getMethods()) {
            if (method.getName().equals("sendOffsetsToTransaction")) {
                Class<?> group = method.getParameterTypes()[1];
                method.invoke(
                        producer,
                        offsets,
                        group == String.class
                                ? "readers"
                                : group.getConstructor(String.class).newInstance("readers"));
                return;
            }
        }
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
