// Apache Kafka's own client; features.py says what each verb does.

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupAuthorizationException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Application {
    static final long PATIENCE_MS = 20_000;
    static final Map<String, String> options = new HashMap<>();
    static String topic;
    static String address;

    public static void main(String[] words) throws Exception {
        topic = words[1];
        address = words[2];
        for (int index = 3; index < words.length; index++) {
            String[] parts = words[index].split("=", 2);
            options.put(parts[0], parts[1]);
        }
        try {
            switch (words[0]) {
                case "metadata" -> metadata();
                case "admin" -> admin();
                case "round_trip" -> roundTrip();
                case "group" -> group();
                case "roll" -> roll();
                case "transactions" -> transactions();
                case "fencing" -> fencing();
                case "process" -> process();
                case "refused" -> refused();
                default -> throw new IllegalArgumentException(words[0]);
            }
        } catch (Exception error) {
            System.err.println(error);
            System.exit(1);
        }
        System.exit(0);
    }

    static Properties settings(String... more) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", address);
        if (options.containsKey("mechanism")) {
            String mechanism = options.get("mechanism");
            String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule"
                : "scram.ScramLoginModule";
            properties.put("security.protocol", "SASL_SSL");
            properties.put("ssl.truststore.type", "PEM");
            properties.put("ssl.truststore.location", options.get("ca"));
            properties.put("sasl.mechanism", mechanism);
            properties.put("sasl.jaas.config", String.format(
                "org.apache.kafka.common.security.%s required username=\"%s\" password=\"%s\";",
                module, options.get("user"), options.get("password")));
        }
        for (String setting : more) {
            String[] parts = setting.split("=", 2);
            properties.put(parts[0], parts[1]);
        }
        return properties;
    }

    // Wait; what does not come true is seen in the facts.
    static void until(Callable<Boolean> isTrue) throws Exception {
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (!isTrue.call() && System.currentTimeMillis() < end) Thread.sleep(100);
    }

    static KafkaProducer<String, String> producer(String... more) {
        return new KafkaProducer<>(settings(more), new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, String> consumer(String... more) {
        Properties all = settings("auto.offset.reset=earliest", "enable.auto.commit=false");
        all.putAll(settings(more));
        return new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
    }

    // Long enough for a codec to be worth it.
    static ProducerRecord<String, String> record(String topic, String letter, int partition) {
        return new ProducerRecord<>(topic, partition, null, letter.repeat(100));
    }

    static void write(KafkaProducer<String, String> producer, String letters) throws Exception {
        var sent = letters.chars().mapToObj(
            letter -> producer.send(record(topic, Character.toString(letter), 0))).toList();
        for (var future : sent) future.get();
    }

    static List<ConsumerRecord<String, String>> take(
        KafkaConsumer<String, String> consumer, int count) throws Exception {
        var found = new ArrayList<ConsumerRecord<String, String>>();
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (found.size() < count && System.currentTimeMillis() < end) {
            consumer.poll(Duration.ofMillis(200)).forEach(found::add);
        }
        if (found.size() < count) {
            throw new Exception(found.size() + " of " + count + " records");
        }
        return found;
    }

    static String letters(List<ConsumerRecord<String, String>> records) {
        return records.stream().map(one -> one.value().substring(0, 1))
            .collect(Collectors.joining(" "));
    }

    static String read(String topic, int count) throws Exception {
        try (var consumer = consumer("isolation.level=read_committed")) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            return letters(take(consumer, count));
        }
    }

    static void metadata() {
        try (var producer = producer()) {
            System.out.println("partitions " + producer.partitionsFor(topic).size());
        }
    }

    static int partitions(Admin admin) throws Exception {
        try {
            return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic)
                .partitions().size();
        } catch (ExecutionException error) {
            if (error.getCause() instanceof UnknownTopicOrPartitionException) return 0;
            throw error;
        }
    }

    static void admin() throws Exception {
        try (var admin = Admin.create(settings())) {
            var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            Callable<String> retention = () -> admin.describeConfigs(List.of(resource)).all().get()
                .get(resource).get("retention.ms").value();
            var wanted = new NewTopic(topic, 2, (short) 1).configs(Map.of("retention.ms", "60000"));
            admin.createTopics(List.of(wanted)).all().get();
            until(() -> partitions(admin) == 2);
            System.out.println("partitions " + partitions(admin));
            System.out.println("retention.ms " + retention.call());
            var change = new AlterConfigOp(
                new ConfigEntry("retention.ms", "120000"), AlterConfigOp.OpType.SET);
            Map<ConfigResource, Collection<AlterConfigOp>> changes = Map.of(
                resource, List.of(change));
            admin.incrementalAlterConfigs(changes).all().get();
            until(() -> retention.call().equals("120000"));
            System.out.println("retention.ms " + retention.call());
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
            until(() -> partitions(admin) == 3);
            System.out.println("partitions " + partitions(admin));
            admin.deleteTopics(List.of(topic)).all().get();
            until(() -> !admin.listTopics().names().get().contains(topic));
            if (!admin.listTopics().names().get().contains(topic)) System.out.println("deleted");
        }
    }

    static void roundTrip() throws Exception {
        String codec = options.getOrDefault("codec", "none");
        String idempotent = options.getOrDefault("idempotent", "false");
        try (var producer = producer(
            "compression.type=" + codec, "enable.idempotence=" + idempotent, "linger.ms=100")) {
            write(producer, "abc");
        }
        System.out.println("read " + read(topic, 3));
    }

    static KafkaConsumer<String, String> join(String ofTopic) {
        return join(ofTopic, options.getOrDefault("protocol", "classic"));
    }

    static KafkaConsumer<String, String> join(String ofTopic, String protocol) {
        var consumer = protocol.equals("consumer")
            ? consumer("group.id=" + topic, "group.protocol=consumer")
            : consumer("group.id=" + topic, "heartbeat.interval.ms=300");
        consumer.subscribe(List.of(ofTopic));
        return consumer;
    }

    static void writeToAll() throws Exception {
        try (var producer = producer()) {
            for (int number = 0; number < 20; number++) {
                producer.send(record(topic, "a", number % 4)).get();
            }
        }
    }

    static void group() throws Exception {
        writeToAll();
        var one = join(topic);
        var found = take(one, 20);
        System.out.println("alone " + one.assignment().size());
        System.out.println("read " + found.size());
        one.commitSync();
        var two = join(topic);
        until(() -> {
            one.poll(Duration.ofMillis(100));
            two.poll(Duration.ofMillis(100));
            return one.assignment().size() == 2 && two.assignment().size() == 2;
        });
        System.out.println("shared " + one.assignment().size() + " " + two.assignment().size());
        one.close();
        until(() -> {
            two.poll(Duration.ofMillis(100));
            return two.assignment().size() == 4;
        });
        System.out.println("after " + two.assignment().size());
        two.close();
    }

    // What is committed is done.
    static void work(Collection<KafkaConsumer<String, String>> members, Map<String, Integer> times) {
        for (var member : members) {
            var records = member.poll(Duration.ofMillis(50));
            if (records.isEmpty()) continue;
            try {
                member.commitSync();
            } catch (CommitFailedException | RebalanceInProgressException error) {
                continue;
            }
            records.forEach(one -> times.merge(one.partition() + "/" + one.offset(), 1, Integer::sum));
        }
    }

    static List<Integer> shares(Collection<KafkaConsumer<String, String>> members) {
        return members.stream().map(member -> member.assignment().size()).toList();
    }

    static void roll() throws Exception {
        var times = new HashMap<String, Integer>();
        var members = new ArrayList<KafkaConsumer<String, String>>();
        int written = 0;
        for (String protocol : List.of("classic", "consumer", "classic")) {
            for (int number = 0; number < 2; number++) {
                if (members.size() == 2) members.remove(0).close();
                members.add(join(topic, protocol));
                until(() -> {
                    work(members, times);
                    return shares(members).stream().mapToInt(share -> share).sum() == 4;
                });
            }
            until(() -> {
                work(members, times);
                return shares(members).equals(List.of(2, 2));
            });
            writeToAll();
            int count = written += 20;
            until(() -> {
                work(members, times);
                return times.size() == count;
            });
            System.out.println(protocol + " " + members.get(0).assignment().size() + " "
                + members.get(1).assignment().size() + " done " + times.size());
        }
        long twice = times.values().stream().filter(count -> count > 1).count();
        System.out.println("twice " + twice);
        for (var member : members) member.close();
    }

    static KafkaProducer<String, String> transactional() {
        var producer = producer("transactional.id=" + topic);
        producer.initTransactions();
        return producer;
    }

    static void transactions() throws Exception {
        try (var producer = transactional()) {
            for (String letter : List.of("a", "b", "c")) {
                producer.beginTransaction();
                write(producer, letter);
                if (letter.equals("b")) producer.abortTransaction();
                else producer.commitTransaction();
            }
        }
        System.out.println("read " + read(topic, 2));
    }

    static void fencing() throws Exception {
        var old = transactional();
        old.beginTransaction();
        write(old, "a");
        var next = transactional();
        try {
            old.commitTransaction();
        } catch (ProducerFencedException | InvalidProducerEpochException error) {
            System.out.println("fenced");
        }
        next.beginTransaction();
        write(next, "b");
        next.commitTransaction();
        System.out.println("read " + read(topic, 1));
    }

    static void process() throws Exception {
        try (var source = producer()) {
            write(source, "ab");
        }
        var consumer = join(topic);
        var found = take(consumer, 2);
        var producer = transactional();
        producer.beginTransaction();
        for (var one : found) {
            producer.send(record(topic + "-out", one.value().substring(0, 1).toUpperCase(), 0));
        }
        var next = new OffsetAndMetadata(found.get(1).offset() + 1);
        producer.sendOffsetsToTransaction(
            Map.of(new TopicPartition(topic, 0), next), consumer.groupMetadata());
        producer.commitTransaction();
        System.out.println("processed " + letters(found));
        consumer.close();
        System.out.println("read " + read(topic + "-out", 2));
    }

    static void refused() throws Exception {
        try (var producer = producer()) {
            write(producer, "a");
        } catch (ExecutionException error) {
            if (!(error.getCause() instanceof TopicAuthorizationException)) throw error;
            System.out.println("topic refused");
        }
        try {
            take(join(options.get("open")), 1);
        } catch (GroupAuthorizationException error) {
            System.out.println("group refused");
        }
    }
}
