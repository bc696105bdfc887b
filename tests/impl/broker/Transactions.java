import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Commits, aborts, offsets and a zombie, by the Java client; prints what came of it. */
public final class Transactions {
    private static final TopicPartition T0 = new TopicPartition("t", 0);
    private static String broker;

    public static void main(String[] arguments) throws Exception {
        broker = arguments[0];
        KafkaProducer<String, String> producer = producer();
        for (int i = 0; i < 3; i++) {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("t", 0, null, "c" + i));
            producer.send(new ProducerRecord<>("t", 1, null, "d" + i));
            Map<TopicPartition, OffsetAndMetadata> offsets = Map.of(T0, new OffsetAndMetadata(i + 1));
            producer.sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata("g"));
            producer.commitTransaction();
        }
        producer.beginTransaction();
        producer.send(new ProducerRecord<>("t", 0, null, "aborted")).get();
        producer.abortTransaction();
        producer.beginTransaction();
        producer.abortTransaction();
        producer.beginTransaction();
        producer.send(new ProducerRecord<>("t", 0, null, "last"));
        producer.commitTransaction();
        System.out.println("committed " + read("read_committed", 4));
        System.out.println("all " + read("read_uncommitted", 5));
        producer.beginTransaction();
        producer.send(new ProducerRecord<>("t", 0, null, "zombie")).get();
        KafkaProducer<String, String> other = producer();
        try {
            producer.commitTransaction();
        } catch (KafkaException error) {
            System.out.println("zombie " + error.getClass().getSimpleName());
        }
        producer.close();
        other.close();
    }

    private static KafkaProducer<String, String> producer() {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", broker);
        settings.put("transactional.id", "T");
        settings.put("linger.ms", 0);
        KafkaProducer<String, String> producer =
            new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }

    private static List<String> read(String isolation, int wanted) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", broker);
        settings.put("isolation.level", isolation);
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "earliest");
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(T0));
            consumer.seekToBeginning(List.of(T0));
            long end = System.currentTimeMillis() + 20_000;
            while (values.size() < wanted && System.currentTimeMillis() < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    values.add(record.offset() + ":" + record.value());
                }
            }
        }
        return values;
    }
}
