"""kcat, a command: this starts it as a shell would; `features.py` says what each verb does."""

import json
import signal
import subprocess
import sys
import threading
import time

VERB, TOPIC, ADDRESS, *GIVEN = sys.argv[1:]
OPTIONS = dict(option.split("=", 1) for option in GIVEN)
SETTINGS = ["-b", ADDRESS, "-X", "allow.auto.create.topics=false"]
if "mechanism" in OPTIONS:
    for name, given in (
        ("security.protocol", "SASL_SSL"),
        ("ssl.ca.location", OPTIONS["ca"]),
        ("sasl.mechanism", OPTIONS["mechanism"]),
        ("sasl.username", OPTIONS["user"]),
        ("sasl.password", OPTIONS["password"]),
    ):
        SETTINGS += ["-X", f"{name}={given}"]
WAIT_S = 20


class KcatFailed(Exception):
    """What kcat wrote to its standard error when it ended with another code than 0."""


def kcat(*arguments, given=""):
    """Its output."""
    said = subprocess.run(
        ["kcat", *SETTINGS, *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=2 * WAIT_S,
        check=False,
    )
    if said.returncode:
        raise KcatFailed(" ".join(said.stderr.split()))
    return said.stdout


def value(letter):
    """Long enough for a codec to be worth it."""
    return letter * 100


def letters(lines):
    return " ".join(line[:1] for line in lines.split())


def write(topic, text, *more, partition=0):
    values = "\n".join(value(letter) for letter in text)
    kcat("-P", "-t", topic, "-p", str(partition), *more, given=values)


def read(topic):
    return letters(kcat("-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q"))


class KcatProcess:
    """kcat, as long as it runs; `said` has the lines of both its outputs."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            ["kcat", *SETTINGS, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.said = []
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self):
        self.said += iter(self.process.stdout.readline, "")

    def give(self, letter):
        """More than it reads at once: until then it waits for more."""
        self.process.stdin.write(f"{value(letter)}\n" * 200)
        self.process.stdin.flush()

    def interrupt(self):
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        return self.end()

    def end(self):
        """The end of its input; what it said."""
        self.process.stdin.close()
        self.process.wait(WAIT_S)
        self._reading.join()
        return "".join(self.said)

    @property
    def records(self):
        return [line for line in self.said if not line.startswith("%")]

    @property
    def share(self):
        """How many partitions it was assigned last."""
        rebalances = [line for line in self.said if "rebalanced" in line]
        last = rebalances[-1] if rebalances else ""
        return last.count("[") if "assigned:" in last else 0


def until(is_true):
    """Wait; what does not come true is seen in the facts."""
    end = time.monotonic() + WAIT_S
    while not is_true() and time.monotonic() < end:
        time.sleep(0.1)


def metadata():
    [topic] = json.loads(kcat("-L", "-J", "-t", TOPIC))["topics"]
    print(f"partitions {len(topic['partitions'])}")


def round_trip():
    more = ["-z", OPTIONS["codec"]] if OPTIONS.get("codec", "none") != "none" else []
    if "idempotent" in OPTIONS:
        more += ["-X", "enable.idempotence=true"]
    write(TOPIC, "abc", "-X", "linger.ms=100", *more)
    print(f"read {read(TOPIC)}")


def group():
    for partition in range(4):
        write(TOPIC, "aaaaa", partition=partition)
    member = ["-X", "auto.offset.reset=earliest", "-X", "heartbeat.interval.ms=300", "-u"]
    one = KcatProcess(*member, "-G", TOPIC, TOPIC)
    until(lambda: len(one.records) == 20)
    print(f"alone {one.share}")
    print(f"read {len(one.records)}")
    two = KcatProcess(*member, "-G", TOPIC, TOPIC)
    until(lambda: (one.share, two.share) == (2, 2))
    print(f"shared {one.share} {two.share}")
    one.interrupt()
    until(lambda: two.share == 4)
    print(f"after {two.share}")
    two.interrupt()


def fencing():
    transaction = ["-P", "-t", TOPIC, "-p", "0", "-X", f"transactional.id={TOPIC}"]
    old = KcatProcess(*transaction)
    old.give("a")
    time.sleep(2)  # until they are sent; it does not say
    kcat(*transaction, given=value("b"))
    if "fenced" in old.end():
        print("fenced")
    print(f"read {read(TOPIC)}")


def refused():
    try:
        write(TOPIC, "a")
    except KcatFailed as error:
        if "Topic authorization failed" not in str(error):
            raise
        print("topic refused")
    try:
        kcat("-G", TOPIC, OPTIONS["open"], "-e")
    except KcatFailed as error:
        if "Group authorization failed" not in str(error):
            raise
        print("group refused")


globals()[VERB]()
