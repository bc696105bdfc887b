import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.OffsetCommitRequestData;
import org.apache.kafka.common.message.OffsetFetchRequestData;
import org.apache.kafka.common.message.TxnOffsetCommitRequestData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.*;
import org.apache.kafka.coordinator.group.*;
import org.apache.kafka.coordinator.group.generated.*;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.timeline.SnapshotRegistry;

/** Kafka's own shard of the group coordinator, a command a line: what it answers, what it writes. */
public class Offsets {
    static final GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
    static SnapshotRegistry snapshots;
    static GroupCoordinatorShard shard;
    static long nextOffset;

    public static void main(String[] arguments) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String answer;
            try {
                answer = run(line.split(" "));
            } catch (Throwable error) {
                System.err.println(error);
                answer = "" + Errors.forException(error).code();
            }
            System.out.println(answer);
        }
    }

    static String run(String[] words) throws Exception {
        switch (words[0]) {
            case "new": start(); return "0";
            case "group": return group(words);
            case "commit": return commit(words);
            case "txn": return commitInTransaction(words);
            case "mark":
                shard.replayEndTransactionMarker(
                    Long.parseLong(words[1]), Short.parseShort(words[2]), TransactionResult.valueOf(words[3]));
                nextOffset++;
                return "0";
            case "tombstone":
                replay(CoordinatorRecord.tombstone(
                    new OffsetCommitKey().setGroup(words[1]).setTopic("t").setPartition(Integer.parseInt(words[2]))), -1, -1);
                return "0";
            case "fetch": return fetch(words);
            default: throw new IllegalArgumentException(words[0]);
        }
    }

    @SuppressWarnings("unchecked")
    static <T> T idle(Class<?> kind, Map<String, Object> answers) {
        return (T) Proxy.newProxyInstance(kind.getClassLoader(), new Class<?>[] {kind}, (self, method, args) ->
            answers.getOrDefault(method.getName(), method.getReturnType() == boolean.class ? false : null));
    }

    static void start() {
        LogContext context = new LogContext();
        snapshots = new SnapshotRegistry(context);
        nextOffset = 0;
        GroupCoordinatorConfig config = GroupCoordinatorConfig.fromProps(Map.of("offset.metadata.max.bytes", "3"));
        GroupCoordinatorShard.Builder builder = new GroupCoordinatorShard.Builder(
            config, new GroupConfigManager(Map.of(), config, ShareGroupConfig.fromProps(Map.of())));
        builder.withAuthorizerPlugin(Optional.empty());
        builder.withSnapshotRegistry(snapshots)
            .withLogContext(context)
            .withTime(Time.SYSTEM)
            .withTimer(idle(CoordinatorTimer.class, Map.of()))
            .withExecutor(idle(CoordinatorExecutor.class, Map.of()))
            .withCoordinatorMetrics(new GroupCoordinatorMetrics(
                new com.yammer.metrics.core.MetricsRegistry(), new Metrics()))
            .withTopicPartition(new TopicPartition("__consumer_offsets", 0));
        shard = builder.build();
        shard.onLoaded(CoordinatorMetadataImage.EMPTY);
    }

    static void replay(CoordinatorRecord record, long producerId, int epoch) {
        shard.replay(nextOffset++, producerId, (short) epoch, record);
    }

    /** group GROUP GENERATION [MEMBER INSTANCE]...: a stable group, or one without members */
    static String group(String[] words) {
        List<GroupMetadataValue.MemberMetadata> members = new ArrayList<>();
        for (int i = 3; i < words.length; i += 2)
            members.add(new GroupMetadataValue.MemberMetadata()
                .setMemberId(words[i]).setGroupInstanceId(nullable(words[i + 1])).setClientId("c").setClientHost("h")
                .setRebalanceTimeout(1000).setSessionTimeout(1000)
                .setSubscription(new byte[] {0, 1, 0, 0, 0, 0, -1, -1, -1, -1, 0, 0, 0, 0}).setAssignment(new byte[0]));
        GroupMetadataValue value = new GroupMetadataValue()
            .setProtocolType("consumer").setGeneration(Integer.parseInt(words[2]))
            .setProtocol(members.isEmpty() ? null : "range").setLeader(members.isEmpty() ? null : words[3])
            .setCurrentStateTimestamp(0).setMembers(members);
        replay(CoordinatorRecord.record(
            new GroupMetadataKey().setGroup(words[1]), new ApiMessageAndVersion(value, (short) 3)), -1, -1);
        return "0";
    }

    static AuthorizableRequestContext context(String version) {
        return idle(AuthorizableRequestContext.class, Map.of("requestVersion", Integer.parseInt(version), "clientId", "c"));
    }

    static String nullable(String word) {
        return word.equals("~") ? null : word;
    }

    static String empty(String word) {
        return word.equals("~") ? "" : word;
    }

    /** What is written has the time in it, which is not compared. */
    static String written(List<CoordinatorRecord> records, long producerId, int epoch) {
        StringBuilder text = new StringBuilder();
        for (CoordinatorRecord record : records) {
            ((OffsetCommitValue) record.value().message()).setCommitTimestamp(7);
            text.append(' ').append(HexFormat.of().formatHex(serde.serializeKey(record)))
                .append('=').append(HexFormat.of().formatHex(serde.serializeValue(record)));
            replay(record, producerId, epoch);
        }
        return text.toString();
    }

    /** commit VERSION GROUP GENERATION MEMBER INSTANCE PARTITION OFFSET EPOCH METADATA */
    static String commit(String[] words) {
        OffsetCommitRequestData request = new OffsetCommitRequestData()
            .setGroupId(words[2]).setGenerationIdOrMemberEpoch(Integer.parseInt(words[3]))
            .setMemberId(empty(words[4])).setGroupInstanceId(nullable(words[5]))
            .setTopics(List.of(new OffsetCommitRequestData.OffsetCommitRequestTopic().setName("t").setPartitions(List.of(
                new OffsetCommitRequestData.OffsetCommitRequestPartition()
                    .setPartitionIndex(Integer.parseInt(words[6])).setCommittedOffset(Long.parseLong(words[7]))
                    .setCommittedLeaderEpoch(Integer.parseInt(words[8])).setCommittedMetadata(nullable(words[9]))))));
        var result = shard.commitOffset(context(words[1]), request);
        short code = result.response().topics().get(0).partitions().get(0).errorCode();
        return code + written(result.records(), -1, -1);
    }

    /** txn VERSION GROUP GENERATION MEMBER INSTANCE PARTITION OFFSET EPOCH METADATA PRODUCER EPOCH */
    static String commitInTransaction(String[] words) {
        long producerId = Long.parseLong(words[10]);
        short epoch = Short.parseShort(words[11]);
        TxnOffsetCommitRequestData request = new TxnOffsetCommitRequestData()
            .setGroupId(words[2]).setGenerationId(Integer.parseInt(words[3])).setTransactionalId("x")
            .setProducerId(producerId).setProducerEpoch(epoch)
            .setMemberId(empty(words[4])).setGroupInstanceId(nullable(words[5]))
            .setTopics(List.of(new TxnOffsetCommitRequestData.TxnOffsetCommitRequestTopic().setName("t").setPartitions(List.of(
                new TxnOffsetCommitRequestData.TxnOffsetCommitRequestPartition()
                    .setPartitionIndex(Integer.parseInt(words[6])).setCommittedOffset(Long.parseLong(words[7]))
                    .setCommittedLeaderEpoch(Integer.parseInt(words[8])).setCommittedMetadata(nullable(words[9]))))));
        var result = shard.commitTransactionalOffset(context(words[1]), request);
        short code = result.response().topics().get(0).partitions().get(0).errorCode();
        return code + written(result.records(), producerId, epoch);
    }

    /** fetch GROUP STABLE PARTITION...; without partitions, all */
    static String fetch(String[] words) {
        List<Integer> partitions = new ArrayList<>();
        for (int i = 3; i < words.length; i++)
            partitions.add(Integer.parseInt(words[i]));
        boolean isStable = Boolean.parseBoolean(words[2]);
        snapshots.idempotentCreateSnapshot(nextOffset);
        long offset = isStable ? Long.MAX_VALUE : nextOffset;
        var request = new OffsetFetchRequestData.OffsetFetchRequestGroup().setGroupId(words[1]);
        var topics = List.of(
            new OffsetFetchRequestData.OffsetFetchRequestTopics().setName("t").setPartitionIndexes(partitions));
        var found = shard.fetchOffsets(request.setTopics(partitions.isEmpty() ? null : topics), offset);
        StringBuilder text = new StringBuilder("" + found.errorCode());
        found.topics().stream().flatMap(topic -> topic.partitions().stream())
            .sorted((a, b) -> a.partitionIndex() - b.partitionIndex())
            .forEach(p -> text.append(' ').append(p.partitionIndex()).append(':').append(p.errorCode()).append(':')
                .append(p.committedOffset()).append(':').append(p.committedLeaderEpoch()).append(':').append(p.metadata()));
        return text.toString();
    }
}
