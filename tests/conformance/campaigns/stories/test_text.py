"""The language of stories: what is read, and how errors name their place."""

from pathlib import Path

import pytest

from conformance.campaigns.stories.player import check, rehearse
from conformance.campaigns.stories.story import read_story
from conformance.campaigns.stories.text import Condition, NotUnderstood, StoryError

pytestmark = pytest.mark.fast

HERE = {"release": "4.1.2", "level": "2", "state": "PrepareCommit"}


def written(folder: Path, text: str) -> Path:
    file = folder / "told.story"
    file.write_text(text)
    return file


def checked(file: Path) -> None:
    for experiment in read_story(file):
        check(experiment)


@pytest.mark.parametrize(
    ("terms", "holds"),
    [
        ("", True),
        ("4.1", True),
        ("4", True),
        ("4.1+", True),
        ("4.0+", True),
        ("4.10+", False),
        ("4.0", False),
        ("4.1.2", True),
        ("level=2", True),
        ("level=0,1", False),
        ("level!=0,1", True),
        ("state=Prepare*", True),
        ("state=Empty,Prepare*", True),
        ("state!=Prepare*", False),
        ("4.1+ level=2", True),
        ("4.1+ level=0", False),
    ],
)
def test_all_terms_of_a_condition_must_hold(terms: str, holds: bool) -> None:
    assert Condition(tuple(terms.split())).holds(HERE) == holds


def test_a_condition_on_nothing_is_no_condition() -> None:
    with pytest.raises(NotUnderstood, match="'outcome'"):
        Condition(("outcome=commit",)).holds(HERE)


STORY = """\
# What it is about,
# in two lines.
name: planted_{requests}
each requests: v1 v2
requests: {requests}
only: 4.0+

let epoch -> 1
  requests=v2 -> 2
for state in Empty Ongoing
  for each
    | what  | who |
    | its   | p   |
    | other | p@0 |
    names
    p = in_state {state}
    "{state}, {what}": EndTxn {who} commit -> INVALID_TXN_STATE
      state=Ongoing what=its -> NONE P:{epoch}
      4.1 state=Ongoing -> PRODUCER_FENCED
"""


def test_a_story_is_an_experiment_for_each_row(tmp_path: Path) -> None:
    v1, v2 = read_story(written(tmp_path, STORY))
    assert (v1.name, v2.name) == ("planted_v1", "planted_v2")
    assert v1.summary == "What it is about, in two lines."
    assert v2.requests == ("v2",)
    assert not v1.fits("3.9.2", 0, lambda requests: True)
    assert not v2.fits("4.0.2", 0, lambda requests: requests == "v1")
    check(v1)


@pytest.mark.parametrize(
    ("release", "its"), [("4.0.2", "NONE P:2"), ("4.1.2", "PRODUCER_FENCED"), ("4.2.1", "NONE P:2")]
)
def test_the_last_line_that_applies_is_what_is_expected(
    tmp_path: Path, release: str, its: str
) -> None:
    _, v2 = read_story(written(tmp_path, STORY))
    facts = rehearse(v2, release, 2)
    assert [fact.name for fact in facts] == [
        f"{state}, {what}" for state in ("Empty", "Ongoing") for what in ("its", "other")
    ]
    assert facts[0].expected == "INVALID_TXN_STATE"
    assert facts[2].expected == its


@pytest.mark.parametrize(
    ("line", "text", "problem"),
    [
        (1, "brokers: 2\nwait 1", "'2' is none of 1, 3"),
        (1, "requests: v3\nwait 1", "'v3' is none of v1, v2"),
        (1, "times: often\nwait 1", "no number"),
        (1, "name: {shape}\nwait 1", "'shape' has no value"),
        (1, "property: a\nwait 1", "expected: property: NAME=VALUE"),
        (2, "requests: v1\n???", "not a statement"),
        (1, "  wait 1\nrequests: v1", "indented by 2 spaces where 0"),
        (4, "requests: v1\nif level=2\n  wait 1\n     wait 1", "indented by 5 spaces"),
        (2, "requests: v1\nif level\n  wait 1", "'level' is no condition"),
        (2, "requests: v1\nfor each\n  wait 1", "no table below"),
        (4, "requests: v1\nfor each\n  | a | b |\n  | 1 |\n", "1 cells where 2 are expected"),
        (2, "requests: v1\nstate p -> Empty", "needs a name"),
        (3, 'requests: v1\n"a": state p -> b\n  4.1+', "expected: CONDITION -> TEXT"),
        (3, "requests: v1\nwait 1\n  4.1+ -> a", "below a step that expects nothing"),
        (2, "requests: v1\nstat p", "no verb 'stat'"),
        (2, "requests: v1\nstate", "missing a required argument: 'who'"),
        (2, "requests: v1\nstate p q", "too many positional arguments"),
        (2, "requests: v1\nEndTxn p commit colour=red", "unexpected keyword argument 'colour'"),
        (2, "requests: v1\nbegin timeout={ms}", "no variable 'ms'"),
        (2, "requests: v1\nif ms=1\n  wait 1", "no variable 'ms'"),
        (2, 'requests: v1\n"a": state p -> {ms}', "no variable 'ms'"),
        (2, "requests: v1\nempty = begin", "'empty' means something else"),
        (2, "requests: v1\nlet level -> 1", "'level' means something else"),
    ],
)
def test_an_error_names_its_line(tmp_path: Path, line: int, text: str, problem: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(StoryError) as refused:
        checked(file)
    assert str(refused.value).startswith(f"told.story:{line}: ")
    assert problem in str(refused.value)


def test_a_story_without_a_step_is_none(tmp_path: Path) -> None:
    with pytest.raises(StoryError, match=r"told.story: a story without a step"):
        read_story(written(tmp_path, "requests: v1\n"))
