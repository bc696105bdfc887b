"""One experiment under way: the values of its names, and the facts that it found."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Final

from conformance.adapters.brokers.kafka.admin import TopicPartition
from conformance.adapters.brokers.kafka.errors import RequestRefused
from conformance.adapters.brokers.kafka.wait import poll
from conformance.adapters.brokers.testbed import ROLES, KafkaTestbed
from conformance.adapters.brokers.wire import (
    ClientIdentity,
    Conversation,
    CoordinatorConnection,
    Identified,
    error_in,
)
from conformance.campaigns.stories.names import ProducerNames
from conformance.campaigns.stories.text import NotUnderstood, StoryStep, fill
from conformance.campaigns.stories.vocabulary import (
    REQUEST_OPTIONS,
    VERBS,
    Committed,
    Identity,
    Name,
    Node,
    Nodes,
    StepVerb,
    Yes,
)
from impl.protocol.errors import ErrorCode

EVENTUALLY_S: Final = 6.0
"""The longest time until an effect of a marker or a time-out is visible."""
REACH_TIMEOUT_S: Final = 20.0
"""The longest time until a time-out has led to a state."""
ANSWERED: Final = "answered"
"""The variable that holds the last answer."""
UNKNOWN_PRODUCER_ID: Final = 987_654_321
NOWHERE: Final[TopicPartition] = ("absent", 0)

RESERVED: Final = frozenset({"none", "empty", "nothing", "new", "absent", *ROLES})
"""Words that cannot be names."""

_PRODUCER: Final = re.compile(r"(\w+)(?:@([+-]?\d+))?(?:/(other|nobody|empty))?")
_IDENTITY: Final = re.compile(r"(-?\d+):(-?\d+)")


@dataclass(frozen=True, slots=True)
class Fact:
    """One finding: the expected and the observed answer. A fact about a guarantee is `kept` by one
    answer."""

    experiment: str
    name: str
    expected: str
    observed: str
    guarantee: str = ""
    kept: str = ""

    @property
    def agrees(self) -> bool:
        """Whether the observed answer is the expected one."""
        return self.expected == self.observed

    @property
    def is_broken(self) -> bool:
        """Whether it breaks the guarantee that it is about."""
        return bool(self.guarantee) and self.observed != self.kept


KINDS: Final[Mapping[type, str]] = {
    ClientIdentity: "producer",
    CoordinatorConnection: "wire",
    list: "list",
    tuple: "partition",
}
"""The names that messages use for the things in stories."""


@dataclass(slots=True)
class Session:
    """Plays the steps of one experiment. `variables` are texts, `things` all other values with a
    name; `acknowledged` has the values that a broker accepted. `cleanup` runs at the end."""

    testbed: KafkaTestbed
    experiment: str
    variables: dict[str, str]
    facts: list[Fact] = field(default_factory=list)
    names: ProducerNames = field(default_factory=ProducerNames)
    things: dict[str, Any] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)
    log_starts: dict[TopicPartition, int] = field(default_factory=dict)
    cleanup: ExitStack = field(default_factory=ExitStack)
    targets: int = 1

    def perform(self, step: StoryStep) -> None:
        """Perform a step; note its answer if it is a fact.

        Raises RequestRefused if a step that is no fact is refused, NotUnderstood, and what a
        `CoordinatorConnection` raises.
        """
        verb = VERBS[step.verb]
        words, options = step.words(self.variables)
        self.targets = len(step.targets)
        if verb.ask:
            self._ask(step, verb, words, options)
            return
        arguments, named = verb.converted(words, options, self.convert)
        is_looked_for = step.manner == "eventually"
        expected = step.expected.text(self.variables) if step.expected else ""
        value = poll(
            lambda: verb.function(self, *arguments, **named),
            lambda found: not is_looked_for or _is_like(found, expected),
            EVENTUALLY_S,
        )
        self._bind(step.targets, value)
        if step.fact:
            self._note(step, value)

    def _ask(
        self, step: StoryStep, verb: StepVerb, words: Sequence[str], options: dict[str, str]
    ) -> None:
        common = {name: options.pop(name) for name in REQUEST_OPTIONS if name in options}
        arguments, named = verb.converted(words, options, self.convert)
        call = verb.function(self._conversation(verb, common), *arguments, **named)
        if step.manner == "send":
            self.things[step.connection].send(call)
            return
        wire = self._wire(verb, arguments, common)
        is_patient = step.manner == "retry" or not step.fact
        answer = wire.retry(call) if is_patient else wire.ask(call)
        error = error_in(answer)
        if not step.fact and error is not ErrorCode.NONE:
            raise RequestRefused(f"{step.line.text}: {error.name}")
        if error is ErrorCode.NONE:
            self.acknowledged |= set(words)
        self._bind(step.targets, self._identified(answer, arguments[0]))
        text = self.names.answer(answer)
        self._note(step, text) if step.fact else self.variables.update({ANSWERED: text})

    def _note(self, step: StoryStep, observed: str) -> None:
        name = fill(step.fact, self.variables)
        expected = step.expected.text(self.variables) if step.expected else observed
        kept = step.expected.first(self.variables) if step.guarantee and step.expected else ""
        self.variables[ANSWERED] = observed
        fact = Fact(self.experiment, name, expected, observed, step.guarantee, kept)
        self.facts.append(fact)

    def _bind(self, targets: Sequence[str], value: Any) -> None:
        values = value if len(targets) > 1 else [value]
        for name, one in zip(targets, values, strict=bool(targets)):
            if isinstance(one, str):
                self.variables[name] = one
            else:
                self.things[name] = one

    def _identified(self, answer: object, asked: Any) -> Any:
        """The producer's identity after InitProducerId or EndTxn; the previous one if the answer
        names none."""
        if not isinstance(answer, Identified):
            return answer
        who = asked if isinstance(asked, ClientIdentity) else ClientIdentity(asked, -1, -1)
        if answer.producer_id < 0:
            return who
        return replace(who, producer_id=answer.producer_id, producer_epoch=answer.producer_epoch)

    def _conversation(self, verb: StepVerb, common: dict[str, str]) -> Conversation:
        c = self.conversation(common.get("requests"))
        if "version" in common:
            c = replace(c, **{verb.version: int(common["version"])})
        return c

    def conversation(self, requests: str | None = None) -> Conversation:
        """The versions of the experiment's requests, or of the named ones."""
        kind = requests or self.variables["requests"]
        return self.testbed.conversation("v2" if kind == "v2" else "v1")

    def _wire(
        self, verb: StepVerb, arguments: Sequence[Any], common: dict[str, str]
    ) -> CoordinatorConnection:
        if "on" in common:
            wire: CoordinatorConnection = self.things[common["on"]]
            return wire
        if "to" in common:
            return self.testbed.wire(self.node(common["to"]))
        if verb.ask == "leader":
            return self.testbed.leader(next(a for a in arguments if isinstance(a, tuple)))
        is_of_group = verb.ask == "group"
        return self.testbed.group_coordinator() if is_of_group else self.testbed.coordinator()

    # The values of words

    def convert(self, kind: Any, word: str) -> Any:
        """A word of a step as a value. Raises NotUnderstood."""
        converters: dict[Any, Callable[[str], Any]] = {
            ClientIdentity: self.producer,
            TopicPartition: self.partition,
            Node: self.node,
            Nodes: lambda text: tuple(n for w in text.split(",") for n in self.nodes(w)),
            Name: self._name,
            Identity: self._identity,
            Committed: lambda text: _either(text, "commit", "abort"),
            Yes: lambda text: _either(text, "yes", "no"),
            CoordinatorConnection: lambda text: self._thing(text, CoordinatorConnection),
            list: lambda text: self._thing(text, list),
            int: int,
            float: float,
            str: str,
        }
        return converters[kind](word)

    def producer(self, word: str) -> ClientIdentity:
        """`p`; `p@0`, `p@+1` for another epoch; `p/other` for another producer id, `p/nobody` for
        an unknown one, `p/empty` for none."""
        match = _PRODUCER.fullmatch(word)
        if match is None:
            raise NotUnderstood(f"{word!r} is no producer")
        who: ClientIdentity = self._thing(match[1], ClientIdentity)
        if epoch := match[2]:
            is_relative = epoch[0] in "+-"
            who = who.at(int(epoch) + (who.producer_epoch if is_relative else 0))
        match match[3]:
            case "other":
                return replace(who, producer_id=UNKNOWN_PRODUCER_ID)
            case "nobody":
                return replace(who, transactional_id=self.testbed.fresh("nobody"))
            case "empty":
                return replace(who, transactional_id="")
        return who

    def partition(self, word: str) -> TopicPartition:
        """A partition by its name; `absent` does not exist, `new` is created now."""
        if word == "absent":
            return NOWHERE
        if word == "new":
            return self.testbed.topic()[0]
        found: TopicPartition = self._thing(word, tuple)
        return found

    def node(self, word: str) -> int:
        """The first of some brokers."""
        return self.nodes(word)[0]

    def nodes(self, word: str) -> tuple[int, ...]:
        """Brokers by a number, by their role, or by a partition that the broker leads; `none`."""
        if word.isdecimal():
            return (int(word),)
        if word in self.things:
            return (self.testbed.leader_of(self.partition(word)),)
        try:
            return () if word == "none" else self.testbed.role(word)
        except KeyError as unknown:
            raise NotUnderstood(f"{word!r} is no broker") from unknown

    def _name(self, word: str) -> str | None:
        if word in ("none", "empty"):
            return None if word == "none" else ""
        match = _PRODUCER.fullmatch(word)
        if match and match[1] in self.things:
            return self.producer(word).transactional_id
        return word

    def _identity(self, word: str) -> tuple[int, int]:
        if word == "nothing":
            return -1, -1
        if match := _IDENTITY.fullmatch(word):
            return int(match[1]), int(match[2])
        who = self.producer(word)
        return who.producer_id, who.producer_epoch

    def _thing(self, word: str, kind: type) -> Any:
        value = self.things.get(word)
        if not isinstance(value, kind):
            raise NotUnderstood(f"{word!r} is no {KINDS[kind]} here")
        return value


def _is_like(value: str, expected: str) -> bool:
    """Whether a value is the expected one; if that ends with `*`, the rest may be anything."""
    return value == expected or (expected.endswith("*") and value.startswith(expected[:-1]))


def _either(word: str, yes: str, no: str) -> bool:
    if word not in (yes, no):
        raise NotUnderstood(f"{word!r} is neither {yes} nor {no}")
    return word == yes


def await_true(holds: Callable[[], bool], problem: Callable[[], str], timeout_s: float) -> None:
    """Wait until the condition holds. Raises RequestRefused."""
    if not poll(holds, bool, timeout_s):
        raise RequestRefused(problem())
