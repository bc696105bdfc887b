// An application of confluent-kafka-go, which is librdkafka, also in releases for which no wheel of
// confluent-kafka fits today's Python. See Application.java for its arguments, calls and answers.
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

	"github.com/confluentinc/confluent-kafka-go/kafka"
)

const (
	length   = 48
	patience = 60 * time.Second
)

var (
	renamed = map[string]string{
		"request.timeout.ms": "socket.timeout.ms",
		"batch.size":         "batch.num.messages",
	}
	unknown = map[string]bool{"max.block.ms": true}
)

func config(bootstrap, settings string) *kafka.ConfigMap {
	c := kafka.ConfigMap{"bootstrap.servers": bootstrap, "log_level": 0}
	for _, setting := range strings.Split(settings, ",") {
		name, value, _ := strings.Cut(setting, "=")
		if other, ok := renamed[name]; ok {
			name = other
		}
		if !unknown[name] {
			c[name] = value
		}
	}
	return &c
}

// tell gives each record's name its answer.
func tell(producer *kafka.Producer, told map[string]chan string) {
	for event := range producer.Events() {
		if message, ok := event.(*kafka.Message); ok {
			answer := fmt.Sprintf("stored %d", message.TopicPartition.Offset)
			if message.TopicPartition.Error != nil {
				answer = failure(message.TopicPartition.Error)
			}
			told[string(message.Value[:1])] <- answer
		}
	}
}

func failure(err error) string {
	var named kafka.Error
	if errors.As(err, &named) {
		return fmt.Sprintf("failed error %d", int(named.Code()))
	}
	return "failed " + err.Error()
}

func transaction(producer *kafka.Producer, call string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	switch call {
	case "initTransactions":
		return producer.InitTransactions(ctx)
	case "beginTransaction":
		return producer.BeginTransaction()
	case "commitTransaction":
		return producer.CommitTransaction(ctx)
	default:
		return producer.AbortTransaction(ctx)
	}
}

func main() {
	producer, err := kafka.NewProducer(config(os.Args[1], os.Args[3]))
	if err != nil {
		log.Fatal(err)
	}
	told := map[string]chan string{}
	for letter := 'a'; letter <= 'z'; letter++ {
		told[string(letter)] = make(chan string, 1)
	}
	go tell(producer, told)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "await":
			select {
			case answer := <-told[words[1]]:
				fmt.Println(answer)
			case <-time.After(patience):
				fmt.Println("failed TimeoutException")
			}
		case "send":
			for _, word := range words[1:] {
				name, partition, _ := strings.Cut(word, "@")
				number, _ := strconv.Atoi(partition)
				at := kafka.TopicPartition{Topic: &os.Args[2], Partition: int32(number)}
				value := []byte(strings.Repeat(name, length))
				producer.ProduceChannel() <- &kafka.Message{TopicPartition: at, Value: value}
			}
			fmt.Println("done")
		default:
			if err := transaction(producer, words[0]); err != nil {
				fmt.Println(failure(err))
			} else {
				fmt.Println("done")
			}
		}
	}
}
