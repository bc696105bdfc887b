// sarama; features.py says what each verb does.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

const patience = 20 * time.Second

var (
	topic   = os.Args[2]
	brokers = []string{os.Args[3]}
	options = map[string]string{}
	codecs  = map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP,
		"snappy": sarama.CompressionSnappy, "lz4": sarama.CompressionLZ4,
		"zstd": sarama.CompressionZSTD,
	}
	verbs = map[string]func(){
		"metadata": metadata, "admin": admin, "round_trip": roundTrip, "group": group,
		"transactions": transactions, "fencing": fencing, "process": process, "refused": refused,
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

// scramClient is what sarama asks its users for.
type scramClient struct {
	of scram.HashGeneratorFcn
	*scram.ClientConversation
}

func (c *scramClient) Begin(user, password, authorization string) error {
	client, err := c.of.NewClient(user, password, authorization)
	if err == nil {
		c.ClientConversation = client.NewConversation()
	}
	return err
}

func config() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.V4_0_0_0
	c.Producer.Return.Successes = true
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Enable = false
	c.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
	c.Consumer.IsolationLevel = sarama.ReadCommitted
	if mechanism := options["mechanism"]; mechanism != "" {
		pem, err := os.ReadFile(options["ca"])
		check(err)
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		c.Net.TLS.Enable, c.Net.TLS.Config = true, &tls.Config{RootCAs: pool}
		c.Net.SASL.Enable, c.Net.SASL.Mechanism = true, sarama.SASLMechanism(mechanism)
		c.Net.SASL.User, c.Net.SASL.Password = options["user"], options["password"]
		hash := scram.SHA256
		if mechanism == "SCRAM-SHA-512" {
			hash = scram.SHA512
		}
		c.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{of: hash} }
	}
	return c
}

// until waits; what does not come true is seen in the facts.
func until(isTrue func() bool) {
	for end := time.Now().Add(patience); !isTrue() && time.Now().Before(end); {
		time.Sleep(100 * time.Millisecond)
	}
}

// record is long enough for a codec to be worth it.
func record(topic, letter string, partition int32) *sarama.ProducerMessage {
	value := sarama.StringEncoder(strings.Repeat(letter, 100))
	return &sarama.ProducerMessage{Topic: topic, Partition: partition, Value: value}
}

func producer(c *sarama.Config) sarama.SyncProducer {
	made, err := sarama.NewSyncProducer(brokers, c)
	check(err)
	return made
}

func write(writing sarama.SyncProducer, records ...*sarama.ProducerMessage) {
	check(writing.SendMessages(records))
}

func letters(records []*sarama.ConsumerMessage) string {
	var found []string
	for _, record := range records {
		found = append(found, string(record.Value[:1]))
	}
	return strings.Join(found, " ")
}

func read(topic string, count int) string {
	consumer, err := sarama.NewConsumer(brokers, config())
	check(err)
	reading, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	check(err)
	var found []*sarama.ConsumerMessage
	late := time.After(patience)
	for len(found) < count {
		select {
		case one := <-reading.Messages():
			found = append(found, one)
		case <-late:
			check(fmt.Errorf("%d of %d records after %s", len(found), count, patience))
		}
	}
	return letters(found)
}

func metadata() {
	asking, err := sarama.NewClient(brokers, config())
	check(err)
	found, err := asking.Partitions(topic)
	check(err)
	fmt.Println("partitions", len(found))
}

func admin() {
	asking, err := sarama.NewClusterAdmin(brokers, config())
	check(err)
	partitions := func() int {
		found, err := asking.DescribeTopics([]string{topic})
		check(err)
		return len(found[0].Partitions)
	}
	resource := sarama.ConfigResource{Type: sarama.TopicResource, Name: topic}
	resource.ConfigNames = []string{"retention.ms"}
	retention := func() string {
		found, err := asking.DescribeConfig(resource)
		check(err)
		return found[0].Value
	}
	first, second := "60000", "120000"
	given := map[string]*string{"retention.ms": &first}
	detail := &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1, ConfigEntries: given}
	check(asking.CreateTopic(topic, detail, false))
	until(func() bool { return partitions() == 2 })
	fmt.Println("partitions", partitions())
	fmt.Println("retention.ms", retention())
	change := sarama.IncrementalAlterConfigsEntry{
		Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &second}
	changes := map[string]sarama.IncrementalAlterConfigsEntry{"retention.ms": change}
	check(asking.IncrementalAlterConfig(sarama.TopicResource, topic, changes, false))
	until(func() bool { return retention() == second })
	fmt.Println("retention.ms", retention())
	check(asking.CreatePartitions(topic, 3, nil, false))
	until(func() bool { return partitions() == 3 })
	fmt.Println("partitions", partitions())
	check(asking.DeleteTopic(topic))
	isGone := func() bool {
		found, err := asking.ListTopics()
		check(err)
		_, isThere := found[topic]
		return !isThere
	}
	until(isGone)
	if isGone() {
		fmt.Println("deleted")
	}
}

func idempotent(c *sarama.Config) *sarama.Config {
	c.Producer.Idempotent, c.Net.MaxOpenRequests = true, 1 // all that it allows with idempotence
	return c
}

func roundTrip() {
	c := config()
	c.Producer.Compression = codecs[options["codec"]]
	if options["idempotent"] != "" {
		c = idempotent(c)
	}
	write(producer(c), record(topic, "a", 0), record(topic, "b", 0), record(topic, "c", 0))
	fmt.Println("read", read(topic, 3))
}

// member is a sarama.ConsumerGroupHandler that counts what it has.
type member struct {
	sarama.ConsumerGroup
	share, count atomic.Int64
	last         sarama.ConsumerGroupSession
	found        chan *sarama.ConsumerMessage
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.share.Store(int64(len(session.Claims()[topic])))
	m.last = session
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *member) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	for one := range claim.Messages() {
		session.MarkMessage(one, "")
		m.count.Add(1)
		m.found <- one
	}
	return nil
}

func join(topics ...string) *member {
	c := config()
	c.Consumer.Return.Errors = true
	consumers, err := sarama.NewConsumerGroup(brokers, topic, c)
	check(err)
	m := &member{ConsumerGroup: consumers, found: make(chan *sarama.ConsumerMessage, 100)}
	go func() {
		for {
			err := m.Consume(context.Background(), topics, m)
			if errors.Is(err, sarama.ErrClosedConsumerGroup) {
				return
			}
			if errors.Is(err, sarama.ErrGroupAuthorizationFailed) {
				fmt.Println("group refused")
				os.Exit(0)
			}
			check(err)
		}
	}()
	return m
}

func group() {
	writing := producer(config())
	for partition := int32(0); partition < 4; partition++ {
		for number := 0; number < 5; number++ {
			write(writing, record(topic, "a", partition))
		}
	}
	one := join(topic)
	until(func() bool { return one.count.Load() == 20 })
	fmt.Println("alone", one.share.Load())
	fmt.Println("read", one.count.Load())
	one.last.Commit()
	two := join(topic)
	until(func() bool { return one.share.Load() == 2 && two.share.Load() == 2 })
	fmt.Println("shared", one.share.Load(), two.share.Load())
	check(one.Close())
	until(func() bool { return two.share.Load() == 4 })
	fmt.Println("after", two.share.Load())
	check(two.Close())
}

func transactional() sarama.SyncProducer {
	c := idempotent(config())
	c.Producer.Transaction.ID = topic
	return producer(c)
}

func transactions() {
	writing := transactional()
	for _, step := range []struct {
		letter string
		end    func() error
	}{{"a", writing.CommitTxn}, {"b", writing.AbortTxn}, {"c", writing.CommitTxn}} {
		check(writing.BeginTxn())
		write(writing, record(topic, step.letter, 0))
		check(step.end())
	}
	fmt.Println("read", read(topic, 2))
}

func fencing() {
	old := transactional()
	check(old.BeginTxn())
	write(old, record(topic, "a", 0))
	next := transactional()
	err := old.CommitTxn()
	if errors.Is(err, sarama.ErrProducerFenced) || errors.Is(err, sarama.ErrInvalidProducerEpoch) {
		fmt.Println("fenced")
	} else {
		check(err)
	}
	check(next.BeginTxn())
	write(next, record(topic, "b", 0))
	check(next.CommitTxn())
	fmt.Println("read", read(topic, 1))
}

func process() {
	write(producer(config()), record(topic, "a", 0), record(topic, "b", 0))
	consumer := join(topic)
	found := []*sarama.ConsumerMessage{<-consumer.found, <-consumer.found}
	writing := transactional()
	check(writing.BeginTxn())
	for _, one := range found {
		write(writing, record(topic+"-out", strings.ToUpper(string(one.Value[:1])), 0))
		check(writing.AddMessageToTxn(one, topic, nil))
	}
	check(writing.CommitTxn())
	fmt.Println("processed", letters(found))
	check(consumer.Close())
	fmt.Println("read", read(topic+"-out", 2))
}

func refused() {
	_, _, err := producer(config()).SendMessage(record(topic, "a", 0))
	if !errors.Is(err, sarama.ErrTopicAuthorizationFailed) {
		check(err)
	}
	fmt.Println("topic refused")
	consumer := join(options["open"])
	select {
	case err = <-consumer.Errors():
		check(err)
	case <-time.After(patience):
		check(fmt.Errorf("no error after %s", patience))
	}
}
