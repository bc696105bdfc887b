"""Which faults a test can have at running brokers follows from what the events declare."""

import pytest

from conformance.generate.broker_graph import AT_NODES, AT_ONE
from conformance.generate.faults import CLIENTS, FAULT_CHOICES, events_by, faults_not_had, spent_by
from conformance.judging.plan import Plan, configuration, scope_text
from model.language import Wire, declaration_of
from proofs.lift.source import load_model
from proofs.trace.replay import configuration_of

pytestmark = pytest.mark.fast

BY_WAITING = {"expirations", "timeouts"}
BY_CONNECTIONS = {"breaks", "refusals", "rejections", "late_errors", "delays", "unheard"}


def had(name: str, means: frozenset[Wire]) -> set[str]:
    """The faults of a composition that such a test can have."""
    model = load_model(name)
    return {fault for fault, events in spent_by(model).items() if means & set(events.values())}


@pytest.mark.parametrize("name", ["idempotent", "transactions"])
def test_each_fault_is_spent_by_an_event(name: str) -> None:
    model = load_model(name)
    assert set(spent_by(model)) == set(model.faults.Faults.__annotations__)


def test_each_event_of_the_idempotent_producer_names_its_means() -> None:
    rules = load_model("idempotent").rules
    assert [name for name, rule in rules.items() if declaration_of(rule).wire is None] == []


def test_what_brokers_can_be_made_to_do() -> None:
    for name in ("idempotent", "transactions"):
        everything = set(load_model(name).faults.Faults.__annotations__)
        unplayed = {"rejections"} if name == "transactions" else set()
        assert had(name, CLIENTS) == (BY_WAITING | BY_CONNECTIONS) & everything - unplayed
    assert had("idempotent", CLIENTS | {Wire.CLUSTER}) - had("idempotent", CLIENTS) == {
        "failovers",
        "losses",
    }
    assert had("transactions", AT_ONE) - had("transactions", CLIENTS) == {
        "forgotten",
        "marker_delays",
    }
    assert had("transactions", AT_NODES) - had("transactions", CLIENTS) == {"moves", "leaves"}


def test_a_broker_that_acts_unasked_loses_no_answer() -> None:
    """A marker is written by the coordinator itself; its answer is lost between brokers alone."""
    assert "marker_is_written" in events_by(load_model("transactions"), CLIENTS)
    assert spent_by(load_model("transactions"))["marker_losses"] == {
        "marker_is_written": Wire.BROKER_CONNECTIONS
    }


def test_each_choice_of_faults_leaves_what_it_says() -> None:
    for scope, left in (
        ("idempotent-default", "/breaks=0/refusals=0/restarts=0"),
        ("transactions-others", ""),  # no means are known for another id: it stays
    ):
        assert scope_text(Plan(scope=scope, faults="none")) == scope + left
        assert scope_text(Plan(scope=scope, faults="nodes")) == scope
    connections = configuration(Plan(scope="idempotent-trouble", faults="connections")).budgets
    assert (connections.breaks, connections.crashes, connections.losses) == (1, 0, 0)
    assert set(FAULT_CHOICES["nodes"]) >= set(Wire)


def test_an_event_that_declares_no_means_is_had_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model("transactions")
    k = configuration_of(model, "transactions-offsets", "4.3.1")
    assert faults_not_had(k, model, CLIENTS) == {}
    event = model.rules["transaction_times_out"]
    undeclared = type(declaration_of(event))(declaration_of(event).thread, (), None)
    monkeypatch.setitem(vars(event), "declaration", undeclared)
    spent_by.cache_clear()
    try:
        assert faults_not_had(k, model, CLIENTS) == {
            "timeouts": "timeouts: nobody brings transaction_times_out about at brokers"
        }
    finally:
        spent_by.cache_clear()
