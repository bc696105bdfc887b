"""Consume, transform, produce: which way of processing keeps what, and how the others break it."""

import pytest

from proofs.explore.scope import explore_scope

BROKEN = {
    "4.3.1": {},
    "2.4.1": {},
    "generation_check=absent": {
        "output_produced_once": 12,
        "offsets_never_go_back": 18,
        "output_in_order": 16,
    },
    "offset_reads=unstable": {"output_produced_once": 12, "offsets_never_go_back": 18},
    "processing=produce_first": {"output_produced_once": 8, "output_in_order": 10},
    "processing=commit_first": {"nothing_is_skipped": 4, "output_in_order": 10},
}


@pytest.mark.parametrize("variant", BROKEN)
def test_each_way_of_processing_breaks_what_it_does_not_guarantee(variant):
    report = explore_scope("processing", variant, engine="c", workers=1)
    assert report.verdict == "holds"
    assert report.counts.complete
    broken = {f.property: f.steps for f in report.violations}
    assert broken == BROKEN[variant]
    assert not any(f.guaranteed for f in report.violations)


def test_both_designs_let_a_replaced_member_work_in_vain():
    """What keeps it out is not that it never runs."""
    for variant in ("4.3.1", "2.4.1"):
        report = explore_scope("processing", variant, engine="c", workers=1)
        met = {name for name, depth in report.witnesses.items() if depth is not None}
        assert met == {"a_replaced_member_works", "an_offset_is_awaited", "two_have_shared"}


def test_ids_of_members_need_the_group():
    """KIP-447: with neither check nor stable reads only the partition's own id keeps it out."""
    report = explore_scope("processing", "2.4.1/transactional_ids=of_member", engine="c", workers=1)
    assert "output_produced_once" in {f.property for f in report.violations}
