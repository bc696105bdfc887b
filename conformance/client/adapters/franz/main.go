// Command franz is franz-go, as `kafka-eos run --system client` drives it.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var background = context.Background()

// client is one run's producer; failed is an error of the current transaction, lost that of a record.
type client struct {
	*kgo.Client
	run, topic string
	failed     error
	lost       atomic.Pointer[error]
}

func main() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		line := strings.Fields(lines.Text())
		c := &client{open(line[1], line[3]), line[0], line[2], nil, atomic.Pointer[error]{}}
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

func open(bootstrap, configs string) *kgo.Client {
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
		kgo.ProducerLinger(ms("linger.ms")), kgo.RecordDeliveryTimeout(ms("delivery.timeout.ms")),
		kgo.ProduceRequestTimeout(ms("request.timeout.ms")),
		kgo.RequestTimeoutOverhead(max(ms("request.timeout.ms"), 100*time.Millisecond)),
		kgo.RetryBackoffFn(func(int) time.Duration { return ms("retry.backoff.ms") }),
		kgo.AllowAutoTopicCreation(), kgo.ProducerBatchCompression(kgo.NoCompression()),
	}
	if id := of["transactional.id"]; id != "" {
		options = append(options, kgo.TransactionalID(id))
	}
	made, err := kgo.NewClient(options...)
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
		c.failed = c.BeginTransaction()
	case c.failed != nil:
	case strings.HasPrefix(name, "+"):
		n, _ := strconv.Atoi(name[1:])
		time.Sleep(time.Duration(n) * time.Millisecond)
	case name == "offsets": // franz-go commits offsets of its own consumer alone
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

func (c *client) end(commit bool, number string) bool {
	err := c.Flush(background)
	if lost := c.lost.Swap(nil); lost != nil {
		err = *lost
	}
	if c.failed != nil {
		err, c.failed = c.failed, nil
	}
	told := "aborted"
	if commit && err == nil {
		err = c.EndTransaction(background, kgo.TryCommit)
		if err == nil {
			fmt.Println(c.run, "transaction", number, "committed")
			return true
		}
		// Of any other error the outcome is not known, whatever an abort behind it says.
		if err != kerr.OperationNotAttempted && !errors.Is(err, kerr.TransactionAbortable) {
			told = "failed unconfirmed: " + err.Error()
		}
	}
	if aborted := c.EndTransaction(background, kgo.TryAbort); aborted != nil {
		fmt.Println(c.run, "transaction", number, "failed", aborted)
		return false
	}
	fmt.Println(c.run, "transaction", number, told)
	return true
}
