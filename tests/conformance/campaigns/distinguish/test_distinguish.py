"""Two variants that differ in one rule: the shortest trace that tells them apart, or none."""

import json
from contextlib import closing
from dataclasses import replace

import pytest

from conformance.__main__ import main
from conformance.adapters.brokers.transactions.node_server import opened_nodes
from conformance.adapters.brokers.transactions.transaction_probes import with_room
from conformance.adapters.brokers.transactions.transaction_script import TransactionScriptWriter
from conformance.adapters.brokers.transactions.transaction_session import api_of
from conformance.adapters.impl.in_process import InProcessPlayer
from conformance.adapters.impl.judges import judge_of
from conformance.adapters.impl.transactions.tables import tables_of
from conformance.campaigns.distinguish import rules_table
from conformance.campaigns.distinguish.leaders import LeaderObserver
from conformance.campaigns.distinguish.observers import ServerObserver, WorldObserver
from conformance.campaigns.distinguish.product_search import OBSERVERS, unanswered
from conformance.campaigns.distinguish.variants import variants_of
from conformance.campaigns.mutants import MUTANTS
from conformance.campaigns.mutants.patched_impl import hunt
from conformance.judging.compositions import (
    IDEMPOTENT,
    PROCESSING,
    PRODUCER_IDS,
    TRANSACTIONS,
    judged_composition,
)
from conformance.judging.distinguish import known
from conformance.judging.distinguish.alternatives import alternatives, base_of
from conformance.judging.distinguish.known import (
    ACTORS,
    ONE_BROKER,
    THREE_BROKERS,
    RuleVisibility,
    read_step,
)
from conformance.judging.distinguish.play import (
    LEFT_OUT,
    NOT_SEARCHED,
    play_distinguishing_traces,
    rows_of,
)
from conformance.judging.distinguish.product import Visibility, distinguishes, search
from conformance.judging.judge import NotAllowed
from conformance.judging.plan import Plan, check_plan, prepare, prepare_one
from conformance.judging.reports.answer import rules
from conformance.verbs import distinguish as distinguish_verb
from conformance.verbs.run import with_own_rules
from impl.protocol.errors import ErrorCode
from proofs.run.files import REPOSITORY
from proofs.trace.format import label
from proofs.trace.replay import configuration_of

NEW = "4.3.1/level=2/requests=v2"
OLD = f"{NEW}/marker_epoch=not_older"


def row_of(name: str, observer: str) -> RuleVisibility:
    [row] = [r for r in known.rows_about("transactions", NEW, observer) if r.name == name]
    return row


# Rules


def test_a_rule_is_compared_with_the_releases_before_and_after():
    newest = {a.name: a for a in alternatives(TRANSACTIONS.model, "4.3.1")}
    assert newest["marker_epoch=not_older"].own == "newer"
    assert newest["marker_epoch=not_older"].variant == OLD
    assert newest["marker_epoch=not_older"].reference == "KIP-1228"
    older = {a.name for a in alternatives(TRANSACTIONS.model, "4.0.2/requests=v1")}
    assert "marker_epoch=newer" in older
    assert not {"level", "requests"} & {name.partition("=")[0] for name in older}


def test_a_value_that_no_release_has_stands_beside_none():
    names = {a.rule for a in alternatives(TRANSACTIONS.model, "marker_epoch=strictly_newer")}
    assert "marker_epoch" not in names
    parse = TRANSACTIONS.model.variants.parse
    assert base_of(TRANSACTIONS.model, parse("4.3.1/late_bump=asked")) == NEW


def test_no_rule_of_leaders_asks_for_the_level():
    variant = IDEMPOTENT.model.variants.parse("4.0.2/level=1/requests=v1/sequence_order=wraps")
    assert base_of(IDEMPOTENT.model, variant) == "4.0.2/level=2/requests=v2"


def test_each_release_at_each_level_is_told_from_others():
    variants = variants_of(TRANSACTIONS)
    assert variants[:5] == [
        *(f"4.3.1/level=2/requests={v}" for v in ("v2", "v1")),
        *(f"4.3.1/level=1/requests={v}" for v in ("v2", "v1")),
        "4.3.1/level=0/requests=v1",
    ]
    assert variants[-2:] == ["3.9.2/level=0/requests=v1", "3.3.2/level=0/requests=v1"]
    assert len(variants) == 4 * 5 + 2
    assert len(variants_of(IDEMPOTENT)) == 9


# The product


def test_in_a_small_scope_nothing_tells_the_rule_apart():
    new, old = (ServerObserver("transactions-tiny", variant) for variant in (NEW, OLD))
    found = search(new, old, seconds=60)
    assert found.answer is Visibility.NOT_VISIBLE
    assert found.pairs > 100
    assert search(new, old, seconds=0).answer is Visibility.NOT_FOUND


def test_a_late_marker_tells_the_rule_apart():
    new, old = (ServerObserver("transactions-markers", variant) for variant in (NEW, OLD))
    found = search(new, old, seconds=60)
    assert found.answer is Visibility.FOUND
    assert found.steps[-1][0] == "late_marker_arrives"
    assert len(found.steps) == 12
    assert distinguishes(new, old, found.steps)
    assert not distinguishes(new, old, found.steps[:-1])
    assert not distinguishes(new, new, found.steps)


def test_a_late_marker_is_a_request_of_its_own():
    row = row_of("marker_epoch=not_older", ONE_BROKER)
    answers = {}
    for variant in (NEW, OLD):
        k = with_room(configuration_of(TRANSACTIONS.model, row.scope, variant))
        script = TransactionScriptWriter(tables_of(k)).script(row.steps)
        assert script.steps == row.steps
        last = script.moved[-1].sent
        assert api_of(last.request) == "WRITE_TXN_MARKERS"
        answers[variant] = last.answer[0]
    assert answers == {NEW: ErrorCode.INVALID_PRODUCER_EPOCH, OLD: ErrorCode.NONE}


def test_leaders_alone_are_told_apart_by_their_answers_and_by_what_they_tell():
    old = f"{NEW}/first_sequence=unknown_producer_id"
    found = search(*(LeaderObserver("idempotent-tiny", v) for v in (NEW, old)), seconds=60)
    assert [rule for rule, _ in found.steps][-2:] == ["request_is_refused", "request_arrives"]
    forgetful = f"{NEW}/head_truncation=evicts"
    deletion = [LeaderObserver("idempotent-deletion", v) for v in (NEW, forgetful)]
    assert search(*deletion, seconds=60).steps[-1][0] == "records_are_deleted"


def test_no_leader_shows_what_its_client_does():
    first, second = (
        LeaderObserver("idempotent-expiry", v) for v in (NEW, f"{NEW}/expiry=queued_only")
    )
    assert search(first, second, seconds=60).answer is Visibility.NOT_VISIBLE


def test_an_event_that_a_system_cannot_take_is_seen():
    checked, absent = (
        WorldObserver("processing", v) for v in ("4.3.1", "4.3.1/transactional_ids=of_partition")
    )
    assert search(checked, absent, seconds=60).steps[-1][0] == "start_aborts"


# What is kept


def test_rows_are_read_as_they_are_written():
    for row in known.rows():
        assert RuleVisibility.from_json(row.to_json()) == row
        assert bool(row.steps) is row.is_found
    step = ("batch_is_produced", (("instance", 0), ("partition", 0), ("heard", 1)))
    assert read_step(label(*step)) == step
    assert read_step("append_is_done()") == ("append_is_done", ())


def test_each_rule_of_the_newest_release_has_an_answer():
    for one in alternatives(TRANSACTIONS.model, "4.3.1"):
        for observer in (ONE_BROKER, ACTORS):
            assert row_of(one.name, observer).answer is not Visibility.NOT_FOUND


@pytest.mark.full
@pytest.mark.parametrize("row", [r for r in known.rows() if r.is_found], ids=str)
def test_each_trace_that_is_kept_tells_its_rule_apart(row):
    model = judged_composition(row.scope).model
    [other] = [a for a in alternatives(model, row.variant) if row.answers(a)]
    observe = OBSERVERS[row.composition, row.observer]
    first, second = (observe(row.scope, v) for v in (row.variant, other.variant))
    assert distinguishes(first, second, row.steps)


@pytest.mark.parametrize("composition", [PROCESSING, PRODUCER_IDS], ids=lambda c: c.name)
def test_each_rule_of_each_release_in_process_has_an_answer(composition):
    assert [v for v in variants_of(composition) if unanswered(composition, v)] == []


@pytest.mark.parametrize("release", ["4.3.1", "4.2.1", "4.1.2", "4.0.2"])
def test_each_rule_of_releases_that_speak_v2_has_an_answer(release):
    assert unanswered(TRANSACTIONS, f"{release}/level=2/requests=v2") == []
    assert unanswered(IDEMPOTENT, f"{release}/level=2/requests=v2") == []


def test_what_nobody_has_answered_is_asked_one_after_the_other(monkeypatch):
    kept = [row for row in known.rows() if row.variant != NEW]
    row = row_of("leaderless_marker=waits", ONE_BROKER)
    assert row.answer is Visibility.NOT_VISIBLE
    for rows, observer in ((kept, ONE_BROKER), ([*kept, row], THREE_BROKERS)):
        monkeypatch.setattr(known, "rows", lambda rows=rows: tuple(rows))
        asked = {one.name: way for one, way in unanswered(TRANSACTIONS, NEW)}
        assert asked["leaderless_marker=waits"] == observer


# In runs


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    variant = with_own_rules(NEW, "impl", "transactions-tiny")
    plan = Plan(
        scope="transactions-tiny",
        variant=TRANSACTIONS.model.variants.parse(variant).name,
        actors="client,coordinator,leader",
        traces_from=("cover",),
    )
    return prepare(plan, tmp_path_factory.mktemp("tiny") / "prepared")


def test_a_run_plays_the_traces_and_names_what_it_could_not_tell(tiny):
    apart = play_distinguishing_traces(tiny, InProcessPlayer(tiny.plan))
    assert apart.findings == []
    told = {row.name for row in apart.distinguished}
    assert {"marker_epoch=not_older", "older_epoch=asked"} <= told
    assert apart.not_distinguished["first_sequence=any"].startswith("not visible: searched all of ")
    assert not told & apart.not_distinguished.keys()
    lines = "\n".join(rules({"variant": NEW, "rules": apart.to_json()}))
    assert "this run could not have told 4.3.1 from" in lines
    assert "first_sequence=any" in lines


def test_a_rule_that_is_missing_in_the_table_could_not_have_been_told_apart(tiny, monkeypatch):
    gone = "marker_epoch=not_older"
    kept = tuple(r for r in known.rows() if (r.variant, r.name) != (NEW, gone))
    monkeypatch.setattr(known, "rows", lambda: kept)
    found, missing = rows_of(tiny.plan, ACTORS)
    assert gone not in {row.name for row in found}
    assert missing[gone] == NOT_SEARCHED
    report = {"variant": NEW, "rules": {"distinguished": {}, "not_distinguished": missing}}
    assert any(gone in line and line.endswith(NOT_SEARCHED) for line in rules(report))


def test_leaders_with_an_older_rule_differ_in_its_trace(tmp_path):
    variant = f"{NEW}/first_sequence=unknown_producer_id"
    plan = Plan(
        scope="idempotent-tiny", variant=variant, system="nodes", actors="leader", faults="none"
    )
    steps = next(
        r.steps for r in known.rows() if (r.rule, r.observer) == ("first_sequence", ONE_BROKER)
    )
    with closing(opened_nodes(prepare_one(plan, tmp_path, 1, len(steps)))) as nodes:
        assert nodes.replayed(steps).finding["rule"] == "request_arrives"
    same = replace(plan, variant=NEW)
    with closing(opened_nodes(prepare_one(same, tmp_path, 1, len(steps)))) as nodes:
        assert nodes.replayed(steps).finding is None


def test_a_limited_run_plays_none_and_says_so(tiny, tmp_path):
    plan = Plan(scope="transactions-tiny", variant=tiny.plan.variant, traces=10)
    prepared = prepare_one(plan, tmp_path, 10, 100)
    apart = play_distinguishing_traces(prepared, InProcessPlayer(plan))
    assert apart.distinguished == ()
    assert apart.not_distinguished["marker_epoch=not_older"] == LEFT_OUT


def test_an_older_rule_that_the_scope_does_not_show_is_found(tiny):
    finding = hunt(MUTANTS["marker_at_equal_epoch"], tiny.directory)
    assert finding["scope"].startswith("transactions-")
    assert finding["rule"] == "late_marker_arrives"
    assert finding["alternative"] == "marker_epoch=not_older"


def test_a_trace_is_played_up_to_the_step_that_only_the_other_rule_allows():
    [row] = [r for r in known.rows_about("processing", "4.3.1", ACTORS) if r.rule == "offset_reads"]
    plan = Plan(scope=row.scope, variant="4.3.1", actors="group,member")
    with pytest.raises(NotAllowed):
        judge_of(check_plan(plan)).judge(row.steps)
    assert list(InProcessPlayer(plan).play(row.scope, [row.steps])) == [None]
    with pytest.raises(NotAllowed):
        list(InProcessPlayer(plan).play(row.scope, [(row.steps[-1], *row.steps)]))


# At brokers


def test_what_no_broker_has_followed_is_missing(monkeypatch):
    row = row_of("marker_epoch=not_older", ONE_BROKER)
    place = ("4.3.1", NEW, ONE_BROKER)
    key = f"4.3.1 transactions {NEW} {ONE_BROKER}"
    assert rules_table.is_told(row)
    assert place not in rules_table.unplayed(TRANSACTIONS)
    for said in ("", "told apart: 3 steps in another scope", "differs: step 3"):
        rules = {**rules_table.kept()[key]["rules"], row.name: said}
        changed = rules_table.kept() | {key: {"date": "2026-11-23", "rules": rules}}
        with monkeypatch.context() as patched:
            patched.setattr(rules_table, "kept", lambda changed=changed: changed)
            assert place in rules_table.unplayed(TRANSACTIONS)
            assert rules_table.answer_of([row]) == rules_table.NOT_PLAYED


def test_each_rule_is_told_apart_at_a_broker_or_not_visible_or_no_brokers():
    """Whoever finds a new trace plays it: `distinguish --system kafka --missing --keep`."""
    assert {c.name: rules_table.unplayed(c) for c in rules_table.told()} == {
        "transactions": [],
        "idempotent": [],
        "processing": [],
        "producer_ids": [],
    }


def test_the_missing_are_played_release_by_release(monkeypatch, capsys):
    places = [("4.0.2", "4.0.2/requests=v1", THREE_BROKERS), ("3.3.2", "3.3.2", ONE_BROKER)]
    monkeypatch.setattr(rules_table, "unplayed", lambda composition: places)
    asked = []

    def play(composition, options):
        asked.append((options.kafka, options.variant, options.nodes))
        differs = {"rule": "fence", "value": "same_epoch", "says": "differs: step 3", "scope": ""}
        return [differs] if options.nodes == 1 else []

    monkeypatch.setattr(distinguish_verb, "played_at", play)
    arguments = ["distinguish", "--system", "kafka", "--missing"]
    assert main(arguments) == 1
    assert asked == [("4.0.2", "4.0.2/requests=v1", 3), ("3.3.2", "3.3.2", 1)]
    assert main([*arguments, "--kafka", "4.0.2"]) == 0
    assert main(["distinguish", "--system", "impl", "--missing"]) == 2
    assert "invalid --system 'impl'" in capsys.readouterr().err


# The verb


def test_the_matrix_and_the_traces(tmp_path, capsys):
    arguments = ["distinguish", "--rule", "marker_epoch", "--observer", ONE_BROKER]
    out = tmp_path / "traces"
    assert main([*arguments, "--json", str(tmp_path / "a.json"), "--out", str(out)]) == 0
    assert "marker_epoch=not_older" in capsys.readouterr().out
    [row] = json.loads((tmp_path / "a.json").read_text())["rules"]
    assert row["answer"] == "found"
    [trace] = out.iterdir()
    assert main(["replay", str(trace)]) == 0
    assert main(["explain", str(trace)]) == 0


def test_a_search_that_does_not_end_is_undecided(capsys):
    arguments = ["distinguish", "--search", "--rule", "first_sequence", "--observer", ONE_BROKER]
    assert main([*arguments, "--scope", "transactions-tiny", "--seconds", "0"]) == 3
    assert "not found: searched not all of transactions-tiny" in capsys.readouterr().out
    assert main(["distinguish", "--rule", "moon"]) == 2


def test_the_page_says_what_is_kept():
    page = (REPOSITORY / "docs" / "distinguishable_rules.md").read_text(encoding="utf-8")
    assert rules_table.format_page() == page
    assert page.index("## 4.3.1/level=2/requests=v2, transactions") < page.index("## 3.9.2")
