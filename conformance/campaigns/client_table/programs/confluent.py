"""confluent-kafka, which is librdkafka; `features.py` says what each verb does."""

import sys
import time
from collections import Counter

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

VERB, TOPIC, ADDRESS, *GIVEN = sys.argv[1:]
OPTIONS = dict(option.split("=", 1) for option in GIVEN)
SETTINGS = {"bootstrap.servers": ADDRESS, "log_level": 0}
if "mechanism" in OPTIONS:
    SETTINGS |= {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": OPTIONS["ca"],
        "sasl.mechanism": OPTIONS["mechanism"],
        "sasl.username": OPTIONS["user"],
        "sasl.password": OPTIONS["password"],
    }
WAIT_S = 20


def until(is_true):
    """Wait; what does not come true is seen in the facts."""
    end = time.monotonic() + WAIT_S
    while not is_true() and time.monotonic() < end:
        time.sleep(0.1)


def value(letter):
    """Long enough for a codec to be worth it."""
    return letter.encode() * 100


def letters(values):
    return " ".join(one[:1].decode() for one in values)


def write(producer, topic, values, partition=0):
    """Write and await; raises the first error."""
    errors = []
    for one in values:
        producer.produce(
            topic, one, partition=partition, on_delivery=lambda error, _: errors.append(error)
        )
    producer.flush(WAIT_S)
    for error in errors:
        if error is not None:
            raise KafkaException(error)
    if len(errors) < len(values):
        raise TimeoutError(f"{len(errors)} of {len(values)} records were answered")


def reader(group, **more):
    return Consumer(
        {
            **SETTINGS,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **more,
        }
    )


def take(consumer, count):
    found = []
    end = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < end:
        message = consumer.poll(0.2)
        if message is None:
            continue
        if message.error():
            raise KafkaException(message.error())
        found.append(message)
    if len(found) < count:
        raise TimeoutError(f"{len(found)} of {count} records after {WAIT_S} s")
    return found


def read(topic, count):
    """Of `count` records, what is committed."""
    consumer = reader("open-none")
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = take(consumer, count)
    consumer.close()
    return letters(message.value() for message in found)


def metadata():
    topics = AdminClient(SETTINGS).list_topics(timeout=WAIT_S).topics
    print(f"partitions {len(topics[TOPIC].partitions)}")


def admin():
    client = AdminClient(SETTINGS)

    def partitions():
        topics = client.list_topics(timeout=WAIT_S).topics
        return len(topics[TOPIC].partitions) if TOPIC in topics else 0

    def retention():
        [asked] = client.describe_configs([ConfigResource(ResourceType.TOPIC, TOPIC)]).values()
        return asked.result(WAIT_S)["retention.ms"].value

    new = NewTopic(TOPIC, 2, 1, config={"retention.ms": "60000"})
    client.create_topics([new])[TOPIC].result(WAIT_S)
    until(lambda: partitions() == 2)
    print(f"partitions {partitions()}")
    print(f"retention.ms {retention()}")
    entry = ConfigEntry("retention.ms", "120000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
    [altered] = client.incremental_alter_configs([resource]).values()
    altered.result(WAIT_S)
    until(lambda: retention() == "120000")
    print(f"retention.ms {retention()}")
    client.create_partitions([NewPartitions(TOPIC, 3)])[TOPIC].result(WAIT_S)
    until(lambda: partitions() == 3)
    print(f"partitions {partitions()}")
    client.delete_topics([TOPIC])[TOPIC].result(WAIT_S)
    until(lambda: partitions() == 0)
    print("deleted" if partitions() == 0 else "still there")


def round_trip():
    idempotent = "idempotent" in OPTIONS
    settings = {"compression.type": OPTIONS.get("codec", "none"), "linger.ms": 100}
    write(
        Producer({**SETTINGS, **settings, "enable.idempotence": idempotent}),
        TOPIC,
        [value(letter) for letter in "abc"],
    )
    print(f"read {read(TOPIC, 3)}")


def write_to_all(producer):
    for partition in range(4):
        write(producer, TOPIC, [value("a")] * 5, partition)


def join(protocol):
    settings = {"group.protocol": protocol}
    if protocol == "classic":
        settings["heartbeat.interval.ms"] = 300
    member = reader(TOPIC, **settings)
    member.subscribe([TOPIC])
    return member


def share(*members):
    return [len(member.assignment()) for member in members]


def group():
    write_to_all(Producer(SETTINGS))

    def poll(*members):
        for member in members:
            member.poll(0.1)

    one = join(OPTIONS["protocol"])
    found = take(one, 20)
    print(f"alone {share(one)[0]}")
    print(f"read {len(found)}")
    one.commit(asynchronous=False)
    two = join(OPTIONS["protocol"])
    until(lambda: poll(one, two) or share(one, two) == [2, 2])
    print("shared", *share(one, two))
    one.close()
    until(lambda: poll(two) or share(two) == [4])
    print(f"after {share(two)[0]}")
    two.close()


def roll():
    producer = Producer(SETTINGS)
    times = Counter()

    def work(members):
        """What is committed is done."""
        for member in members:
            message = member.poll(0.05)
            if message is None or message.error():
                continue
            try:
                member.commit(message, asynchronous=False)
            except KafkaException:
                continue
            times[message.partition(), message.offset()] += 1

    members = [None, None]
    for stage, protocol in enumerate(("classic", "consumer", "classic"), 1):
        for number, old in enumerate(members):
            if old is not None:
                old.close()
            members[number] = join(protocol)
            there = [member for member in members if member is not None]
            until(lambda there=there: work(there) or sum(share(*there)) == 4)
        until(lambda: work(members) or share(*members) == [2, 2])
        write_to_all(producer)
        until(lambda count=20 * stage: work(members) or len(times) == count)
        print(f"{protocol}", *share(*members), f"done {len(times)}")
    print(f"twice {sum(count > 1 for count in times.values())}")
    for member in members:
        member.close()


def transactional():
    producer = Producer({**SETTINGS, "transactional.id": TOPIC})
    producer.init_transactions(WAIT_S)
    return producer


def transactions():
    producer = transactional()
    for letter, end in (
        ("a", producer.commit_transaction),
        ("b", producer.abort_transaction),
        ("c", producer.commit_transaction),
    ):
        producer.begin_transaction()
        write(producer, TOPIC, [value(letter)])
        end(WAIT_S)
    print(f"read {read(TOPIC, 2)}")


def fencing():
    old = transactional()
    old.begin_transaction()
    write(old, TOPIC, [value("a")])
    new = transactional()
    try:
        old.commit_transaction(WAIT_S)
    except KafkaException as error:
        if error.args[0].code() not in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH):
            raise
        print("fenced")
    new.begin_transaction()
    write(new, TOPIC, [value("b")])
    new.commit_transaction(WAIT_S)
    print(f"read {read(TOPIC, 1)}")


def process():
    write(Producer(SETTINGS), TOPIC, [value("a"), value("b")])
    consumer = reader(TOPIC)
    consumer.subscribe([TOPIC])
    found = take(consumer, 2)
    producer = transactional()
    producer.begin_transaction()
    write(producer, f"{TOPIC}-out", [message.value().upper() for message in found])
    offsets = consumer.position(consumer.assignment())
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), WAIT_S)
    producer.commit_transaction(WAIT_S)
    print(f"processed {letters(message.value() for message in found)}")
    consumer.close()
    print(f"read {read(f'{TOPIC}-out', 2)}")


def refused():
    try:
        write(Producer(SETTINGS), TOPIC, [value("a")])
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise
        print("topic refused")
    consumer = reader(TOPIC)
    consumer.subscribe([OPTIONS["open"]])
    try:
        take(consumer, 1)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise
        print("group refused")


globals()[VERB]()
