"""The deployment that `guarantees` is asked about: a cluster and its clients, in a model's terms.

Idempotent and transactional producers share their options as far as possible. Each kind has its own
scopes, its notes before the answers, and its theorems.
"""

from __future__ import annotations

import argparse
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from model.idempotent.configuration import Acks
from model.producer_config import Given, decided, era_of
from model.properties import Guarantee
from model.releases import MAX_BATCHES_TO_REMEMBER
from model.variant_syntax import UnknownVariant
from proofs.lift.source import load_model
from proofs.trace.replay import configuration_of

ACKS: Mapping[str, Acks] = {"all": Acks.ALL, "1": Acks.LEADER, "0": Acks.NONE}

FAILOVERS: Mapping[str, str] = {
    "none": "idempotent-tiny",
    "clean": "idempotent-failover",
    "unclean": "idempotent-loss/refusals=1/restarts=1",
}
"""The scope for each kind of failover."""

REST = "deletions=0/crashes=0/late_errors=0/timeouts=0"
EXPIRIES: Mapping[str, str] = {
    "none": "idempotent-expiry/refusals=1/restarts=1",
    "clean": f"idempotent-replicas/{REST}/losses=0",
    "unclean": f"idempotent-replicas/{REST}",
}
"""The scope for each kind of failover, if leaders also forget producers."""

MORE_THAN_REMEMBERED = "idempotent-six-in-flight"


@dataclass(frozen=True, slots=True)
class Deployment(ABC):
    """The configurations in question; `release` is a modelled one."""

    release: str
    level: int
    failover: str
    expiry: bool

    @property
    @abstractmethod
    def composition(self) -> str:
        """The composition that answers."""

    @property
    @abstractmethod
    def variant(self) -> str:
        """The variant's text."""

    @property
    @abstractmethod
    def scopes(self) -> tuple[str, ...]:
        """The scopes that fit."""

    @property
    @abstractmethod
    def title(self) -> str:
        """The configurations in a line."""

    @abstractmethod
    def notes(self) -> Iterator[str]:
        """Yield notes that come before the answers."""

    @abstractmethod
    def limits(self, k: Any) -> str:
        """Return the bounds and budgets of a scope."""

    def names(self) -> tuple[str, ...]:
        """Return the guarantees about such a producer, in the model's order."""
        return tuple(p.name for p in self.guarantees() if self.has_subject_of(p))

    def guarantees(self) -> tuple[Guarantee[Any, Any], ...]:
        """Return all guarantees of the composition."""
        found: tuple[Guarantee[Any, Any], ...] = load_model(self.composition).guarantees.GUARANTEES
        return found

    def has_subject_of(self, guarantee: Guarantee[Any, Any]) -> bool:
        """Whether some of the scopes has what the guarantee needs."""
        model = load_model(self.composition)
        return any(
            guarantee.needs(configuration_of(model, scope, self.variant)) for scope in self.scopes
        )

    def has_theorems(self) -> bool:
        """Whether theorems are about these configurations at all."""
        return True

    def settings(self) -> frozenset[str]:
        """Return the settings of clients in question, as Kafka spells them."""
        return frozenset()


@dataclass(frozen=True, slots=True)
class IdempotentDeployment(Deployment):
    """A producer without transactions."""

    acks: str
    in_flight: int

    @property
    def composition(self) -> str:
        """The composition of idempotent producers."""
        return "idempotent"

    @property
    def is_idempotent(self) -> bool:
        """Whether the producer is idempotent, which needs acks=all."""
        return ACKS[self.acks] == Acks.ALL

    @property
    def variant(self) -> str:
        """The variant's text."""
        base = f"{self.release}/level={self.level}"
        weaker = f"{base}/acks={ACKS[self.acks].name.lower()}/idempotence=disabled"
        return base if self.is_idempotent else weaker

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that fit. With F <= W the number in flight does not matter, except that one is
        a special case: no request can overtake another."""
        fitting = [FAILOVERS[self.failover]]
        if self.expiry:
            fitting.append(EXPIRIES[self.failover])
        if self.in_flight == 1:
            fitting = [f"{name}/in_flight=1" for name in fitting]
        if self.in_flight > MAX_BATCHES_TO_REMEMBER:
            fitting.append(MORE_THAN_REMEMBERED)
        return tuple(fitting)

    @property
    def title(self) -> str:
        """The configurations in a line."""
        return (
            f"{self.release}, level {self.level}, acks={self.acks}, {self.in_flight} in flight,"
            f" failover {self.failover}, expiry {'yes' if self.expiry else 'no'}"
        )

    def notes(self) -> Iterator[str]:
        """Yield what the client of this release makes of the configurations, if idempotence is
        requested."""
        given = Given(
            enable_idempotence=True,
            acks=ACKS[self.acks],
            max_in_flight_requests_per_connection=self.in_flight,
        )
        rule = decided(era_of(self.release), given)
        if not self.is_idempotent:
            left_out = ", ".join(
                sorted({p.name for p in self.guarantees()}.difference(self.names()))
            )
            yield f"idempotence is refused ({rule.name}): this is about a producer without it"
            yield f"without sequences there is nothing to ask of {left_out}"
        elif self.in_flight > MAX_BATCHES_TO_REMEMBER:
            yield f"every client refuses this with idempotence ({rule.name}): see what would happen"

    def settings(self) -> frozenset[str]:
        """Return the setting of how many requests may be in flight."""
        return frozenset({f"max.in.flight.requests.per.connection={self.in_flight}"})

    def limits(self, k: Any) -> str:
        """Return the bounds and budgets of a scope."""
        return f"in_flight={k.bounds.in_flight}, {spent(k)}, and nothing else happens"

    def has_theorems(self) -> bool:
        """Whether theorems cover the configurations; they exclude leaders that forget producers, or
        lack acknowledged records."""
        forgets = self.expiry or self.failover == "unclean"
        return self.is_idempotent and self.in_flight <= MAX_BATCHES_TO_REMEMBER and not forgets


NOTHING_LATE = "transactions-moves/delays=0/expirations=0/unheard=0"
"""A coordinator that moves without clients noticing, while no message is late."""


@dataclass(frozen=True, slots=True)
class TransactionalDeployment(Deployment):
    """A producer with a transactional id."""

    requests: str
    late: bool

    @property
    def composition(self) -> str:
        """The composition of transactions."""
        return "transactions"

    @property
    def variant(self) -> str:
        """The variant's text."""
        return f"{self.release}/level={self.level}/requests={self.requests}"

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that fit: two transactions over two partitions, offsets of a group, and the
        requested troubles."""
        late = "" if self.late else "/delays=0"
        fitting = [f"transactions-default{late}", f"transactions-offsets-again{late}"]
        if self.failover == "clean":
            moves = "transactions-moves/unheard=0" if self.late else NOTHING_LATE
            fitting += ["transactions-small/delays=0/unheard=0", "transactions-leaderless", moves]
        if self.expiry:
            fitting.append(f"transactions-forgotten/begun=1{late}")
        return tuple(fitting)

    @property
    def title(self) -> str:
        """The configurations in a line."""
        said = {True: "yes", False: "no"}
        return (
            f"{self.release}, level {self.level}, requests of {self.requests.upper()},"
            f" late requests {said[self.late]}, failover {self.failover},"
            f" expiry {said[self.expiry]}"
        )

    def notes(self) -> Iterator[str]:
        """Yield where observed breaches are listed, and which verb checks liveness."""
        yield (
            "`kafka-eos list changes` says what each release does otherwise;"
            " `kafka-eos experiments --guarantees` breaks guarantees on a real broker"
        )
        yield "`liveness` checks what eventually happens; these are guarantees about every state"

    def limits(self, k: Any) -> str:
        """Return the bounds and budgets of a scope."""
        sizes = f"instances={k.bounds.instances}, partitions={k.bounds.partitions}"
        return f"{sizes}, {spent(k)}, and nothing else happens"


def spent(k: Any) -> str:
    """Return which faults may happen in a scope, and how often."""
    happens = ((f.name, getattr(k.budgets, f.name)) for f in fields(k.budgets))
    return ", ".join(f"{name}={count}" for name, count in happens if count)


# From the command line


def deployment_of(arguments: argparse.Namespace) -> Deployment:
    """Return the configurations in a model's terms. Raises UnknownVariant."""
    composition = "transactions" if arguments.transactions else "idempotent"
    releases = load_model(composition).variants.RELEASES
    release = release_of(arguments.release, releases)
    level = level_of(arguments.level, release, releases[release].level)
    given = (release, level, arguments.failover, arguments.expiry == "yes")
    if not arguments.transactions:
        refuse_options(arguments, ("requests", "late"), "--transactions")
        return IdempotentDeployment(*given, arguments.acks or "all", arguments.in_flight or 5)
    if arguments.acks not in (None, "all") or (arguments.in_flight or 1) > MAX_BATCHES_TO_REMEMBER:
        raise UnknownVariant(
            "every client refuses a transactional id without acks=all, or with more than"
            f" {MAX_BATCHES_TO_REMEMBER} requests in flight: leave --acks and --in-flight out"
        )
    if arguments.failover == "unclean":
        raise UnknownVariant(
            "no scope of transactions has logs that lose what they had; write --failover clean,"
            " or ask of --failover unclean without --transactions"
        )
    speaks = arguments.requests or ("v2" if level == 2 else "v1")
    deployment = TransactionalDeployment(*given, speaks, arguments.late != "no")
    load_model(composition).variants.parse(deployment.variant)
    return deployment


def refuse_options(arguments: argparse.Namespace, names: tuple[str, ...], of: str) -> None:
    """Raise UnknownVariant for options that have no meaning here."""
    for name in names:
        if getattr(arguments, name) is not None:
            raise UnknownVariant(f"--{name} is about transactions: write {of} too, or leave it out")


def level_of(given: int | None, release: str, highest: int) -> int:
    """Return the requested level, or the highest. Raises UnknownVariant."""
    level = highest if given is None else given
    if level > highest:
        raise UnknownVariant(
            f"level {level} is not to be had with {release}: write --level 0"
            " or a release from 4.0 on"
        )
    return level


def release_of(text: str, releases: Mapping[str, Any]) -> str:
    """Return the release of this name, or of this major and minor version. Raises
    UnknownVariant."""
    found = full_name(text, releases)
    if found not in releases:
        known = ", ".join(releases)
        raise UnknownVariant(f"invalid --release {text!r}; valid: {known}")
    return found


def full_name(text: str, releases: Iterable[str]) -> str:
    """Return the one release with these first numbers (2.8 is 2.8.2), ignoring releases with other
    settings (2.8.2-...); return any other text unchanged."""
    found = [name for name in releases if name.startswith(f"{text}.") and "-" not in name]
    return found[0] if len(found) == 1 else text
