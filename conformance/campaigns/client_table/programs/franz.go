// franz-go; features.py says what each verb does.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const patience = 20 * time.Second

var (
	topic   = os.Args[2]
	options = map[string]string{}
	codecs  = map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	lock  sync.Mutex
	times = map[[2]int64]int{} // by partition and offset: how often a record was committed
	verbs = map[string]func(){
		"metadata": metadata, "admin": admin, "round_trip": roundTrip, "group": group,
		"roll": roll, "transactions": transactions, "fencing": fencing, "process": process,
		"refused": refused,
	}
)

func main() {
	for _, option := range os.Args[4:] {
		name, value, _ := strings.Cut(option, "=")
		options[name] = value
	}
	verbs[os.Args[1]]()
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func client(more ...kgo.Opt) *kgo.Client {
	opts := append([]kgo.Opt{kgo.SeedBrokers(os.Args[3])}, more...)
	if mechanism := options["mechanism"]; mechanism != "" {
		pem, err := os.ReadFile(options["ca"])
		check(err)
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		user, password := options["user"], options["password"]
		how := plain.Auth{User: user, Pass: password}.AsMechanism()
		switch mechanism {
		case "SCRAM-SHA-256":
			how = scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
		case "SCRAM-SHA-512":
			how = scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
		}
		opts = append(opts, kgo.DialTLSConfig(&tls.Config{RootCAs: pool}), kgo.SASL(how))
	}
	made, err := kgo.NewClient(opts...)
	check(err)
	return made
}

func within() context.Context {
	ctx, _ := context.WithTimeout(context.Background(), patience)
	return ctx
}

// until waits; what does not come true is seen in the facts.
func until(isTrue func() bool) {
	for end := time.Now().Add(patience); !isTrue() && time.Now().Before(end); {
		time.Sleep(100 * time.Millisecond)
	}
}

// record is long enough for a codec to be worth it.
func record(topic, letter string, partition int32) *kgo.Record {
	return &kgo.Record{Topic: topic, Partition: partition, Value: []byte(strings.Repeat(letter, 100))}
}

func producer(more ...kgo.Opt) *kgo.Client {
	return client(append(more, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
}

func letters(records []*kgo.Record) string {
	var found []string
	for _, record := range records {
		found = append(found, string(record.Value[:1]))
	}
	return strings.Join(found, " ")
}

func take(consumer *kgo.Client, count int) ([]*kgo.Record, error) {
	var found []*kgo.Record
	ctx := within()
	for len(found) < count {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		found = append(found, fetches.Records()...)
	}
	return found, nil
}

func read(topic string, count int) string {
	from := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}
	consumer := client(
		kgo.ConsumePartitions(from), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer consumer.Close()
	found, err := take(consumer, count)
	check(err)
	return letters(found)
}

func partitions(asking *kgo.Client) int {
	request := kmsg.NewPtrMetadataRequest()
	one := kmsg.NewMetadataRequestTopic()
	one.Topic = kmsg.StringPtr(topic)
	request.Topics = append(request.Topics, one)
	answer, err := request.RequestWith(within(), asking)
	check(err)
	return len(answer.Topics[0].Partitions)
}

func metadata() {
	fmt.Println("partitions", partitions(client()))
}

func admin() {
	asking := client()
	retention := func() string {
		request := kmsg.NewPtrDescribeConfigsRequest()
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, topic
		resource.ConfigNames = []string{"retention.ms"}
		request.Resources = append(request.Resources, resource)
		answer, err := request.RequestWith(within(), asking)
		check(err)
		return *answer.Resources[0].Configs[0].Value
	}

	create := kmsg.NewPtrCreateTopicsRequest()
	one := kmsg.NewCreateTopicsRequestTopic()
	one.Topic, one.NumPartitions, one.ReplicationFactor = topic, 2, 1
	config := kmsg.NewCreateTopicsRequestTopicConfig()
	config.Name, config.Value = "retention.ms", kmsg.StringPtr("60000")
	one.Configs = append(one.Configs, config)
	create.Topics = append(create.Topics, one)
	created, err := create.RequestWith(within(), asking)
	check(err)
	check(kerr.ErrorForCode(created.Topics[0].ErrorCode))
	until(func() bool { return partitions(asking) == 2 })
	fmt.Println("partitions", partitions(asking))
	fmt.Println("retention.ms", retention())

	alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	change := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	change.Name, change.Value = "retention.ms", kmsg.StringPtr("120000")
	resource.Configs = append(resource.Configs, change)
	alter.Resources = append(alter.Resources, resource)
	altered, err := alter.RequestWith(within(), asking)
	check(err)
	check(kerr.ErrorForCode(altered.Resources[0].ErrorCode))
	until(func() bool { return retention() == "120000" })
	fmt.Println("retention.ms", retention())

	grow := kmsg.NewPtrCreatePartitionsRequest()
	more := kmsg.NewCreatePartitionsRequestTopic()
	more.Topic, more.Count = topic, 3
	grow.Topics = append(grow.Topics, more)
	grown, err := grow.RequestWith(within(), asking)
	check(err)
	check(kerr.ErrorForCode(grown.Topics[0].ErrorCode))
	until(func() bool { return partitions(asking) == 3 })
	fmt.Println("partitions", partitions(asking))

	remove := kmsg.NewPtrDeleteTopicsRequest()
	gone := kmsg.NewDeleteTopicsRequestTopic()
	gone.Topic = kmsg.StringPtr(topic)
	remove.Topics, remove.TopicNames = append(remove.Topics, gone), []string{topic}
	removed, err := remove.RequestWith(within(), asking)
	check(err)
	check(kerr.ErrorForCode(removed.Topics[0].ErrorCode))
	until(func() bool { return partitions(asking) == 0 })
	if partitions(asking) == 0 {
		fmt.Println("deleted")
	}
}

func roundTrip() {
	codec := options["codec"]
	if codec == "" {
		codec = "none"
	}
	opts := []kgo.Opt{kgo.ProducerBatchCompression(codecs[codec]), kgo.ProducerLinger(time.Second / 10)}
	if options["idempotent"] == "" {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	writing := producer(opts...)
	records := []*kgo.Record{record(topic, "a", 0), record(topic, "b", 0), record(topic, "c", 0)}
	check(writing.ProduceSync(within(), records...).FirstErr())
	fmt.Println("read", read(topic, 3))
}

// member counts its partitions, and keeps polling until it is closed. What commits is counted when
// it is committed.
type member struct {
	*kgo.Client
	share   int
	found   []*kgo.Record
	commits bool
	done    chan struct{}
}

func count(records []*kgo.Record) {
	lock.Lock()
	defer lock.Unlock()
	for _, one := range records {
		times[[2]int64{int64(one.Partition), one.Offset}]++
	}
}

func counted() (distinct, twice int) {
	lock.Lock()
	defer lock.Unlock()
	for _, number := range times {
		if number > 1 {
			twice++
		}
	}
	return len(times), twice
}

func join(protocol string, commits bool) *member {
	m := &member{commits: commits, done: make(chan struct{})}
	opts := []kgo.Opt{
		kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, given map[string][]int32) {
			m.share += len(given[topic])
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
			m.share -= len(lost[topic])
		}),
	}
	if protocol == "consumer" {
		opts = append(opts, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	} else {
		opts = append(opts, kgo.HeartbeatInterval(300*time.Millisecond))
	}
	m.Client = client(opts...)
	go func() {
		defer close(m.done)
		for {
			fetches := m.PollFetches(context.Background())
			if fetches.IsClientClosed() {
				return
			}
			for _, failed := range fetches.Errors() {
				var restarted *kgo.ErrGroupSession // the member joins again
				if !commits || !errors.As(failed.Err, &restarted) {
					check(failed.Err)
				}
			}
			if !m.commits {
				m.found = append(m.found, fetches.Records()...)
			} else if m.CommitRecords(within(), fetches.Records()...) == nil {
				count(fetches.Records())
			}
		}
	}()
	return m
}

func writeToAll() {
	writing := producer()
	defer writing.Close()
	for partition := int32(0); partition < 4; partition++ {
		for number := 0; number < 5; number++ {
			check(writing.ProduceSync(within(), record(topic, "a", partition)).FirstErr())
		}
	}
}

func group() {
	writeToAll()
	one := join(options["protocol"], false)
	until(func() bool { return len(one.found) == 20 })
	fmt.Println("alone", one.share)
	fmt.Println("read", len(one.found))
	check(one.CommitUncommittedOffsets(within()))
	two := join(options["protocol"], false)
	until(func() bool { return one.share == 2 && two.share == 2 })
	fmt.Println("shared", one.share, two.share)
	one.Close()
	until(func() bool { return two.share == 4 })
	fmt.Println("after", two.share)
	two.Close()
}

func roll() {
	var members []*member
	written := 0
	for _, protocol := range []string{"classic", "consumer", "classic"} {
		for number := 0; number < 2; number++ {
			if len(members) == 2 {
				members[0].Close()
				members = members[1:]
			}
			members = append(members, join(protocol, true))
			until(func() bool {
				sum := 0
				for _, m := range members {
					sum += m.share
				}
				return sum == 4
			})
		}
		until(func() bool { return members[0].share == 2 && members[1].share == 2 })
		writeToAll()
		written += 20
		until(func() bool { distinct, _ := counted(); return distinct == written })
		distinct, _ := counted()
		fmt.Println(protocol, members[0].share, members[1].share, "done", distinct)
	}
	_, twice := counted()
	fmt.Println("twice", twice)
	for _, m := range members {
		m.Close()
	}
}

func transactional() *kgo.Client {
	return producer(kgo.TransactionalID(topic))
}

func transact(writing *kgo.Client, letter string, end kgo.TransactionEndTry) {
	check(writing.BeginTransaction())
	check(writing.ProduceSync(within(), record(topic, letter, 0)).FirstErr())
	check(writing.EndTransaction(within(), end))
}

func transactions() {
	writing := transactional()
	transact(writing, "a", kgo.TryCommit)
	transact(writing, "b", kgo.TryAbort)
	transact(writing, "c", kgo.TryCommit)
	fmt.Println("read", read(topic, 2))
}

func fencing() {
	old := transactional()
	check(old.BeginTransaction())
	check(old.ProduceSync(within(), record(topic, "a", 0)).FirstErr())
	next := transactional()
	_, _, err := next.ProducerID(within())
	check(err)
	err = old.EndTransaction(within(), kgo.TryCommit)
	if errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch) {
		fmt.Println("fenced")
	} else {
		check(err)
	}
	transact(next, "b", kgo.TryCommit)
	fmt.Println("read", read(topic, 1))
}

func process() {
	source := producer()
	check(source.ProduceSync(within(), record(topic, "a", 0), record(topic, "b", 0)).FirstErr())
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(os.Args[3]), kgo.TransactionalID(topic), kgo.ConsumerGroup(topic),
		kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequireStableFetchOffsets(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	check(err)
	found, err := take(session.Client(), 2)
	check(err)
	check(session.Begin())
	for _, one := range found {
		letter := strings.ToUpper(string(one.Value[:1]))
		check(session.ProduceSync(within(), record(topic+"-out", letter, 0)).FirstErr())
	}
	committed, err := session.End(within(), kgo.TryCommit)
	check(err)
	if committed {
		fmt.Println("processed", letters(found))
	}
	session.Close()
	fmt.Println("read", read(topic+"-out", 2))
}

func refused() {
	err := producer().ProduceSync(within(), record(topic, "a", 0)).FirstErr()
	if !errors.Is(err, kerr.TopicAuthorizationFailed) {
		check(err)
	}
	fmt.Println("topic refused")
	consumer := client(kgo.ConsumerGroup(topic), kgo.ConsumeTopics(options["open"]))
	_, err = take(consumer, 1)
	if !errors.Is(err, kerr.GroupAuthorizationFailed) {
		check(err)
	}
	fmt.Println("group refused")
}
