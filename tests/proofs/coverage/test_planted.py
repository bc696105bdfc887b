"""Text that cannot matter is found, and so is a reason that is none (any more)."""

import pytest

from proofs.coverage.report import coverage
from proofs.coverage.survey import evidence
from proofs.coverage.survey_cases import survey_cases, surveys
from proofs.lift.patch import Patch
from proofs.run import EXIT_CODES

SCOPE = "idempotent-restart"


def looked(*patches):
    """What a small scope shows of a patched model."""
    look = next(look for look in survey_cases([SCOPE], "ints") if look.variant == "4.3.1")
    survey = surveys([look], patches)["idempotent"]
    survey.look(look)
    return survey


def missing(survey, reasons=()):
    found = coverage([survey], dict(reasons))
    return {p.says: p.name for kind in found.kinds for p in kind.missing}


EPOCH = "batch.producer_epoch < entry.producer_epoch"
OTHER_EPOCH = "batch.producer_epoch != entry.producer_epoch"
SENT = "w.clients[producer].partitions[partition].records_sent > 0"

PLANTED = {
    "a branch that the ranges exclude": (
        Patch("leader.check_producer_epoch", EPOCH, f"{EPOCH} and entry.producer_epoch < 0"),
        f"leader.check_producer_epoch: {EPOCH} and entry.producer_epoch < 0: then",
        "excluded by ranges",
    ),
    "a conjunct that always holds": (
        Patch("leader.check_sequence", OTHER_EPOCH, f"{OTHER_EPOCH} and len(entry.batches) <= 5"),
        "leader.check_sequence: len(entry.batches) <= 5: false",
        "never evaluated",
    ),
    "a limit that no reachable state meets": (
        Patch("world.answer_arrives", "len(link.answers) > 0", f"len(link.answers) > 0 and {SENT}"),
        f"world.answer_arrives: {SENT}: false",
        "not met",
    ),
    "a choice of which one side never comes": (
        Patch(
            "network.received",
            "link.answers[1:]",
            "link.answers[1:] if len(link.answers) > 0 else link.answers",
        ),
        "network.received: len(link.answers) > 0: else",
        "excluded by ranges",
    ),
}


@pytest.fixture(scope="module")
def plain_survey():
    return looked()


@pytest.fixture(scope="module")
def planted_survey():
    return looked(*(patch for patch, _, _ in PLANTED.values()))


@pytest.mark.parametrize(("patch", "says", "sure"), PLANTED.values(), ids=PLANTED)
def test_it_is_missing(patch, says, sure, planted_survey, plain_survey):
    name = missing(planted_survey)[says]
    assert evidence([planted_survey], [name]) == {name: sure}
    assert says not in missing(plain_survey)


def test_a_reason_makes_a_missing_point_explained(plain_survey):
    says = next(iter(missing(plain_survey)))
    found = coverage([plain_survey], {says: "because"})
    assert "because" in {why for kind in found.kinds for why in kind.explained.values()}
    assert says not in missing(plain_survey, {says: "because"})
    assert not found.wrong_rows


def test_all_explained_holds_and_one_less_does_not(plain_survey):
    reasons = dict.fromkeys(missing(plain_survey), "because")
    assert coverage([plain_survey], reasons).verdict == "holds"
    reasons.popitem()
    assert coverage([plain_survey], reasons).verdict == "violated"


def test_a_reason_for_what_is_met_or_gone_is_wrong(plain_survey):
    reasons = dict.fromkeys(missing(plain_survey), "because")
    wrong = {"leader_restarts": "it is met", "leader.nothing: x: then": "there is no such point"}
    found = coverage([plain_survey], {**reasons, **dict.fromkeys(wrong, "because")})
    assert found.wrong_rows == wrong
    assert EXIT_CODES[found.verdict] == 1
