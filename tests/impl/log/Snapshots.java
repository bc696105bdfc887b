import java.io.File;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

/**
 * Kafka's own ProducerStateManager over a folder: it loads the newest snapshot below an end, says
 * what it knows, and takes a snapshot at that end.
 */
public class Snapshots {
    public static void main(String[] arguments) throws Exception {
        long end = Long.parseLong(arguments[1]);
        ProducerStateManager states = new ProducerStateManager(
            new TopicPartition("t", 0), new File(arguments[0]), 900_000,
            new ProducerStateManagerConfig(86_400_000, false), Time.SYSTEM);
        states.truncateAndReload(0, end, Long.parseLong(arguments[2]));
        System.out.println("end " + states.mapEndOffset());
        states.activeProducers().forEach((id, entry) -> System.out.println(
            id + " " + entry.producerEpoch() + " " + entry.firstDataOffset()
            + " " + entry.lastDataOffset() + " " + entry.lastTimestamp()
            + " " + entry.coordinatorEpoch() + " " + entry.batchMetadata().size()));
        states.updateMapEndOffset(end);
        states.takeSnapshot();
    }
}
