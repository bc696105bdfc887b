"""Causes: a cause is one defect, which may show as many differences in many steps.

A cause consists of the rule of the model that decides, the fields that differ, and the error code
of the answer on both sides. Other numbers are left out: an offset is different in each trace.
Fields that merely follow are left out too: an answer with another error has other fields. No rule
decides what a broker says of its own state: the cause of such a difference is the API that says it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from conformance.judging.signatures import INDEX, Finding
from proofs.run.files import line


class Severity(StrEnum):
    """The kind of harm that a difference does."""

    PROMISE = "a promise"
    """A guarantee is violated."""
    PROTOCOL = "the protocol"
    """A request, an answer or a log is not what the rules of the protocol make of it."""
    INTROSPECTION = "an introspection API"
    """A broker describes itself differently to operators; no client's data depends on it."""
    POLICY = "nothing: the client's policy differs"
    """A client chooses differently from Kafka's client, as the protocol allows."""


WORST_FIRST: Final = tuple(Severity)

AT_BROKERS: Final = ("kafka", "wire", "serve", "nodes")
"""Systems whose state is known only from what their brokers say of it."""

PROBES: Final = ("probe_", "settle")
"""The prefix of the names of probes, the requests at the end of a trace."""
CLIENT: Final = "Client"
"""The actor that gives no answers."""

TELLS: Final = {"producers": "DescribeProducers", "coordinator": "DescribeTransactions"}
"""The API that describes a part of a broker's state, by a name in paths."""

NAMED_VALUES: Final = ("error", "state", "kind", "would_send")
"""Fields whose values are names, and therefore tell causes apart."""


class Cause(NamedTuple):
    """The common part of differences. `decider` is a rule of the model, a probe, or an API;
    `values` has the expected and observed values of named fields, as text."""

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
    """The causes in their order. If a probe shows the same fields as a rule does, its difference is
    counted as that rule's."""
    decided = {(c.fields, c.values): c for c in causes if not c.decider.startswith(PROBES)}
    return [
        decided.get((c.fields, c.values), c) if c.decider.startswith(PROBES) else c for c in causes
    ]


def severity_of(finding: Finding, system: str, *, breaks_promise: bool) -> Severity:
    """How much harm a finding at a system does."""
    if breaks_promise:
        return Severity.PROMISE
    is_told = all(api_of(path, system) for path in finding["expected"])
    return Severity.INTROSPECTION if is_told and finding["expected"] else Severity.PROTOCOL


def api_of(path: str, system: str) -> str | None:
    """The API by which a broker describes the state at this path. None for answers, logs, and
    systems whose state is read directly."""
    if system not in AT_BROKERS:
        return None
    names = INDEX.sub("", path).split(".")
    return next((api for name, api in TELLS.items() if name in names), None)


def fields_in(paths: list[str]) -> tuple[str, ...]:
    """Paths without indices, sorted and each once."""
    return tuple(sorted({INDEX.sub("", path) for path in paths}))


def decider_of(finding: Finding, calls: Sequence[tuple[str, str]]) -> str:
    """The rule of the model that decides in the last step. `calls` has the actors and rules of that
    step. If an answer differs, the last rule of a broker decides. If the step is a probe, or no
    actor moves, the name of the step is returned."""
    actor = INDEX.sub("", next(iter(finding["expected"]), "")).partition(".")[0]
    of_actor = [rule for kind, rule in calls if kind.lower() == actor]
    of_brokers = [rule for kind, rule in calls if kind != CLIENT]
    found = of_actor or of_brokers[-1:] or [rule for _, rule in calls]
    return "+".join(dict.fromkeys(found)) or str(finding["rule"])
