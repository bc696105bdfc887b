"""Causes: differences that one defect makes, whatever steps lead to them.

A cause is the rule of the model that decides, the fields that differ, and what an answer's error is
on both sides. Numbers beside are left out: an offset is another one in each trace. So are fields
that merely follow: an answer with another error has other fields too. What a broker tells of
itself is no rule's work: there the cause is the API that tells it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from conformance.judging.signatures import INDEX, Finding
from proofs.run.files import line


class Severity(StrEnum):
    """What a difference breaks."""

    PROMISE = "a promise"
    """A guarantee is violated."""
    PROTOCOL = "the protocol"
    """A request, an answer or a log is not what the protocol's rules make it."""
    INTROSPECTION = "an introspection API"
    """What a broker tells of itself to operators; no client's data depends on it."""
    POLICY = "nothing: the client's policy differs"
    """A client does otherwise than Kafka's, as the protocol allows."""


WORST_FIRST: Final = tuple(Severity)

AT_BROKERS: Final = ("kafka", "wire", "serve", "nodes")
"""Systems whose state is known from what they tell of it."""

PROBES: Final = ("probe_", "settle")
"""How the names of what is asked behind a trace begin."""
CLIENT: Final = "Client"
"""The actor that gives no answers."""

TELLS: Final = {"producers": "DescribeProducers", "coordinator": "DescribeTransactions"}
"""The API that tells of a part of a broker's state, by a name in paths."""

NAMED_VALUES: Final = ("error", "state", "kind", "would_send")
"""Fields whose values are names: they tell causes apart."""


class Cause(NamedTuple):
    """What differences have in common. `decider` is a rule of the model, a probe, or an API;
    `values` are those of named fields, expected and observed, as text."""

    decider: str
    fields: tuple[str, ...]
    values: str

    @property
    def text(self) -> str:
        """`on_produce: leader.sends.error`."""
        return f"{self.decider}: {', '.join(self.fields)}" if self.decider else ""


NO_CAUSE: Final = Cause("", (), "")


def cause_of(finding: Finding, system: str, decider: str) -> Cause:
    """The cause of a finding; `decider` is the rule of the model that decides in its last step."""
    paths = list(finding["expected"])
    told = {path: api_of(path, system) for path in paths}
    done = [path for path in paths if told[path] is None]
    if not done:
        apis = "+".join(sorted({str(api) for api in told.values()}))
        return Cause(apis, fields_in(paths), "")
    errors = [path for path in done if path.endswith(".error")]
    leading = errors or done
    named = [path for path in leading if path.rpartition(".")[2] in NAMED_VALUES]
    values = [[finding[side].get(path) for path in named] for side in ("expected", "observed")]
    return Cause(decider, fields_in(leading), line(values))


def join_probes(causes: Sequence[Cause]) -> list[Cause]:
    """The causes in their order; what a probe shows of the same fields, as a rule makes them, is
    that rule's."""
    decided = {(c.fields, c.values): c for c in causes if not c.decider.startswith(PROBES)}
    return [
        decided.get((c.fields, c.values), c) if c.decider.startswith(PROBES) else c for c in causes
    ]


def severity_of(finding: Finding, system: str, *, breaks_promise: bool) -> Severity:
    """What a finding at a system breaks."""
    if breaks_promise:
        return Severity.PROMISE
    is_told = all(api_of(path, system) for path in finding["expected"])
    return Severity.INTROSPECTION if is_told and finding["expected"] else Severity.PROTOCOL


def api_of(path: str, system: str) -> str | None:
    """The API by which a broker tells what stands there; None for answers, logs, and systems whose
    state is looked at itself."""
    if system not in AT_BROKERS:
        return None
    names = INDEX.sub("", path).split(".")
    return next((api for name, api in TELLS.items() if name in names), None)


def fields_in(paths: list[str]) -> tuple[str, ...]:
    """Paths without indices, each once, sorted."""
    return tuple(sorted({INDEX.sub("", path) for path in paths}))


def decider_of(finding: Finding, calls: Sequence[tuple[str, str]]) -> str:
    """The rules of the model that the actor takes in the last step, of all `calls` there, actor and
    rule; the last one of a broker, where an answer differs; the name of the step, where it is a
    probe, or no actor moves."""
    actor = INDEX.sub("", next(iter(finding["expected"]), "")).partition(".")[0]
    of_actor = [rule for kind, rule in calls if kind.lower() == actor]
    of_brokers = [rule for kind, rule in calls if kind != CLIENT]
    found = of_actor or of_brokers[-1:] or [rule for _, rule in calls]
    return "+".join(dict.fromkeys(found)) or str(finding["rule"])
