// Command franz is franz-go, as `kafka-eos run --system client` drives it.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var background = context.Background()

// group, and the topic of whose partition 0 its offsets are.
const group, input = "readers", "input"

// What franz-go takes at least.
const leastRequest, leastDelivery = 100 * time.Millisecond, time.Second

// client is one run's producer, with a session if it has transactions; failed is an error of the
// current one, lost that of a record, offset what it commits for group.
type client struct {
	*kgo.Client
	session    *kgo.GroupTransactSession
	run, topic string
	failed     error
	lost       atomic.Pointer[error]
	offset     *int64
}

func main() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		line := strings.Fields(lines.Text())
		c := open(line[1], line[3])
		c.run, c.topic = line[0], line[2]
		for _, word := range strings.Split(line[4], ",") {
			if !c.act(word) {
				break
			}
		}
		wait, cancel := context.WithTimeout(background, 5*time.Second)
		c.Flush(wait)
		cancel()
		c.Close()
		fmt.Println(line[0], "closed")
	}
}

func open(bootstrap, configs string) *client {
	of := map[string]string{}
	for _, pair := range strings.Split(configs, ",") {
		name, value, _ := strings.Cut(pair, "=")
		of[name] = value
	}
	ms := func(name string) time.Duration {
		n, _ := strconv.Atoi(of[name])
		return time.Duration(n) * time.Millisecond
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(ms("linger.ms")),
		kgo.RecordDeliveryTimeout(max(ms("delivery.timeout.ms"), leastDelivery)),
		kgo.ProduceRequestTimeout(max(ms("request.timeout.ms"), leastRequest)),
		kgo.RequestTimeoutOverhead(max(ms("request.timeout.ms"), leastRequest)),
		kgo.RetryBackoffFn(func(int) time.Duration { return ms("retry.backoff.ms") }),
		kgo.AllowAutoTopicCreation(), kgo.ProducerBatchCompression(kgo.NoCompression()),
	}
	made := &client{}
	var err error
	if id := of["transactional.id"]; id != "" {
		options = append(options, kgo.TransactionalID(id), kgo.ConsumerGroup(group))
		if made.session, err = kgo.NewGroupTransactSession(options...); err == nil {
			made.Client = made.session.Client()
		}
	} else {
		made.Client, err = kgo.NewClient(options...)
	}
	if err != nil {
		panic(err)
	}
	return made
}

// act does what one word says; false ends the run.
func (c *client) act(word string) bool {
	name, value, _ := strings.Cut(word, ":")
	switch {
	case name == "commit" || name == "abort":
		return c.end(name == "commit", value)
	case name == "begin":
		c.failed, c.offset = c.session.Begin(), nil
	case c.failed != nil:
	case strings.HasPrefix(name, "+"):
		n, _ := strconv.Atoi(name[1:])
		time.Sleep(time.Duration(n) * time.Millisecond)
	case name == "offsets":
		n, _ := strconv.ParseInt(value, 10, 64)
		c.offset = &n
	default:
		partition, _ := strconv.Atoi(name)
		record := &kgo.Record{Topic: c.topic, Partition: int32(partition), Value: []byte(value)}
		c.Produce(background, record, func(r *kgo.Record, err error) {
			told := fmt.Sprint("stored ", r.Offset)
			if err != nil {
				told = "failed " + strings.ReplaceAll(err.Error(), " ", "_")
				c.lost.Store(&err)
			}
			fmt.Println(c.run, name, value, told)
		})
	}
	return true
}

// end ends a transaction as a session does: it sends the offsets, and commits, or aborts.
func (c *client) end(commit bool, number string) bool {
	if commit {
		c.Flush(background)
	}
	lost := c.lost.Swap(nil)
	tries := kgo.TransactionEndTry(commit && c.failed == nil && lost == nil)
	c.failed = nil
	committed, err := c.session.End(kgo.PreTxnCommitFnContext(background, c.addOffset), tries)
	switch {
	case err != nil:
		fmt.Println(c.run, "transaction", number, "failed", err)
	case committed:
		fmt.Println(c.run, "transaction", number, "committed")
	default:
		fmt.Println(c.run, "transaction", number, "aborted")
	}
	return err == nil
}

// addOffset adds the offset of a record that the session did not read itself.
func (c *client) addOffset(request *kmsg.TxnOffsetCommitRequest) error {
	if c.offset != nil {
		partition := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		partition.Offset = *c.offset
		topic := kmsg.NewTxnOffsetCommitRequestTopic()
		topic.Topic, topic.Partitions = input, append(topic.Partitions, partition)
		request.Topics = append(request.Topics, topic)
	}
	return nil
}
