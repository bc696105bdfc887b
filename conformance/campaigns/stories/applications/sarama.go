// An application of sarama. See Application.java for its arguments, calls and answers.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/Shopify/sarama"
)

const (
	length   = 48
	patience = 60 * time.Second
)

func config(settings string) *sarama.Config {
	of := map[string]string{}
	for _, setting := range strings.Split(settings, ",") {
		name, value, _ := strings.Cut(setting, "=")
		of[name] = value
	}
	c := sarama.NewConfig()
	c.Version = sarama.V2_4_0_0
	c.Net.MaxOpenRequests = 1 // all that it allows with idempotence
	c.Net.ReadTimeout = milliseconds(of["request.timeout.ms"])
	c.Producer.Idempotent = true
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Producer.Return.Successes = true
	c.Producer.Retry.Backoff = milliseconds(of["retry.backoff.ms"])
	if retries, ok := of["retries"]; ok {
		c.Producer.Retry.Max, _ = strconv.Atoi(retries)
	}
	return c
}

func milliseconds(text string) time.Duration {
	number, _ := strconv.Atoi(text)
	return time.Duration(number) * time.Millisecond
}

// tell gives each record's name its answer.
func tell(producer sarama.AsyncProducer, told map[string]chan string) {
	for {
		select {
		case message := <-producer.Successes():
			told[message.Metadata.(string)] <- fmt.Sprintf("stored %d", message.Offset)
		case failure := <-producer.Errors():
			told[failure.Msg.Metadata.(string)] <- "failed " + name(failure.Err)
		}
	}
}

// name is that of Kafka's error, as far as there is one.
func name(err error) string {
	var code sarama.KError
	if errors.As(err, &code) {
		return fmt.Sprintf("error %d", int(code))
	}
	return fmt.Sprintf("%T", err)
}

func main() {
	producer, err := sarama.NewAsyncProducer([]string{os.Args[1]}, config(os.Args[3]))
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
		if words[0] == "await" {
			select {
			case answer := <-told[words[1]]:
				fmt.Println(answer)
			case <-time.After(patience):
				fmt.Println("failed TimeoutException")
			}
			continue
		}
		for _, record := range words[1:] {
			value := sarama.StringEncoder(strings.Repeat(record, length))
			producer.Input() <- &sarama.ProducerMessage{Topic: os.Args[2], Value: value, Metadata: record}
		}
		fmt.Println("done")
	}
}
