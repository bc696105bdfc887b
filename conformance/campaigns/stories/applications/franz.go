// An application of franz-go. See Application.java for its arguments, calls and answers.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	length   = 48
	patience = 60 * time.Second
)

func options(bootstrap, topic, settings string) []kgo.Opt {
	of := map[string]string{}
	for _, setting := range strings.Split(settings, ",") {
		name, value, _ := strings.Cut(setting, "=")
		of[name] = value
	}
	return []kgo.Opt{
		kgo.SeedBrokers(bootstrap),
		kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProduceRequestTimeout(milliseconds(of["request.timeout.ms"])),
		kgo.RecordDeliveryTimeout(milliseconds(of["delivery.timeout.ms"])),
		kgo.RetryBackoffFn(func(int) time.Duration { return milliseconds(of["retry.backoff.ms"]) }),
	}
}

func milliseconds(text string) time.Duration {
	number, _ := strconv.Atoi(text)
	return time.Duration(number) * time.Millisecond
}

func answer(record *kgo.Record, err error) string {
	var code *kerr.Error
	switch {
	case err == nil:
		return fmt.Sprintf("stored %d", record.Offset)
	case errors.As(err, &code):
		return "failed " + code.Message
	default:
		return "failed " + strings.ReplaceAll(err.Error(), "\n", " ")
	}
}

func main() {
	client, err := kgo.NewClient(options(os.Args[1], os.Args[2], os.Args[3])...)
	if err != nil {
		log.Fatal(err)
	}
	told := map[string]chan string{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if words[0] == "await" {
			select {
			case text := <-told[words[1]]:
				fmt.Println(text)
			case <-time.After(patience):
				fmt.Println("failed TimeoutException")
			}
			continue
		}
		for _, name := range words[1:] {
			ended := make(chan string, 1)
			told[name] = ended
			record := &kgo.Record{Value: []byte(strings.Repeat(name, length))}
			client.Produce(context.Background(), record, func(record *kgo.Record, err error) {
				ended <- answer(record, err)
			})
		}
		fmt.Println("done")
	}
}
