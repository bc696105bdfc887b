"""The tables of planted bugs: each fits the text of impl, and is another one."""

import ast
import functools
from pathlib import Path

import pytest

from conformance.campaigns.mutants import GROUPS, MUTANTS, HuntScope
from conformance.campaigns.mutants.patched_impl import patch_files, write_patched
from conformance.judging.compositions import judged_composition
from conformance.judging.plan import Plan, configuration
from model.releases import NEWEST

pytestmark = pytest.mark.fast

IMPL = Path(__file__).parents[4] / "impl"

SHIPPED = (
    "delayed_end_txn",
    "late_produce_hangs",
    "late_produce_adopted",
    "marker_at_equal_epoch",
    "marker_strictly_greater",
    "timeout_without_bump",
    "double_bump_on_fence",
    "failed_fence_burns_epoch",
    "ongoing_not_logged",
    "pending_state_leaks",
    "completion_written_twice",
    "exhausted_epoch_not_rotated",
    "next_producer_id_not_logged",
    "empty_abort_fences_itself",
    "end_txn_epoch_not_compared",
    "produce_during_completion",
    "verification_is_a_boolean",
    "lso_inclusive",
    "lso_ahead_of_applied",
    "late_offset_commit",
    "unstable_offset_read",
    "send_failure_not_poisoning",
    "bump_inside_transaction",
    "commit_of_nothing",
    "end_txn_error_ignored",
    "sequence_used_by_unsent_record",
)
"""Bugs of transactions that were in a release of Kafka, or of a system that speaks its protocol."""


def test_there_are_so_many_bugs_and_each_is_another_one():
    assert len(GROUPS["idempotent"]) >= 40
    assert len(GROUPS["transactions"]) >= 60
    assert sum(map(len, GROUPS.values())) == len(MUTANTS)
    assert len({mutant.what for mutant in MUTANTS.values()}) == len(MUTANTS)
    assert len({mutant.patches for mutant in MUTANTS.values()}) == len(MUTANTS)


def test_what_shipped_once_is_planted_under_its_name():
    assert set(SHIPPED) <= {mutant.name for mutant in GROUPS["transactions"]}


def test_a_bug_of_transactions_says_which_rule_it_breaks():
    """A KIP, an issue, a change log or a class of Kafka, in brackets at the end."""
    for group in ("transactions", "processing", "producer_ids"):
        for mutant in GROUPS[group]:
            assert mutant.what.endswith(")"), mutant.name


@pytest.mark.parametrize("text", ["transactions-tiny", "transactions-small/moves=0 of v1"])
def test_a_ground_is_read_as_it_is_written(text):
    assert str(HuntScope.parse(text)) == text


@functools.cache
def as_it_stands(path: Path) -> str:
    return f"{ast.unparse(ast.parse((IMPL / path).read_text()))}\n"


@pytest.mark.parametrize("name", MUTANTS)
def test_a_bug_fits_the_text_and_leaves_python(name):
    files = dict(patch_files(MUTANTS[name].patches, IMPL))
    assert files
    for path, text in files.items():
        assert text != as_it_stands(path)
        compile(text, path, "exec")


def test_a_bug_is_planted_in_a_copy_of_all(tmp_path):
    write_patched(MUTANTS["wrap_refused"], tmp_path)
    planted = {path.relative_to(tmp_path / "impl"): path for path in tmp_path.rglob("*.py")}
    original = {path.relative_to(IMPL): path for path in IMPL.rglob("*.py")}
    assert planted.keys() == original.keys()
    changed = {
        path for path in original if planted[path].read_bytes() != original[path].read_bytes()
    }
    assert changed == {Path("protocol/record_batch.py")}


@pytest.mark.parametrize("scope", sorted({m.hunted_in for m in MUTANTS.values()}, key=str), ids=str)
def test_each_scope_is_a_configuration(scope):
    parse = judged_composition(scope.scope).model.variants.parse
    assert configuration(Plan(scope=scope.scope, variant=parse(scope.variant or NEWEST).name))
