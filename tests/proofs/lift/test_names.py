"""A name of the model's text has one meaning, which is Python's: what hides a word of the language,
or gives a function or a class another meaning, is refused with its place and a cure."""

from __future__ import annotations

import builtins
import re

import pytest

from model import language
from proofs.explore.scope import explore_scope
from proofs.lift import subset
from proofs.lift.annotations import LiftError
from proofs.lift.evaluate import Evaluator
from proofs.lift.patch import Patch
from proofs.lift.source import COMPOSITIONS, load_model
from proofs.lift.values import shapes_of
from proofs.lift.words import READ, WORDS
from proofs.trace.replay import configuration_of

pytestmark = pytest.mark.fast

LEADER = "model/idempotent/leader.py"
END = "UNKNOWN_PRODUCER = ProducerStateEntry(producer_epoch=NO_PRODUCER_EPOCH, batches=())"
LAST_LINE = "    return without_evicted(k, replace(leader, log_start_offset=log_start_offset))"
FIRST_LINE = "from __future__ import annotations"


def added(text: str, file: str = LEADER, behind: str = END) -> tuple[Patch, ...]:
    """The patch that adds lines to a file of the model."""
    return (Patch(file, behind, f"{behind}\n\n\n{text}"),)


def refused(*patches: Patch) -> str:
    with pytest.raises(subset.SubsetError) as caught:
        subset.check(load_model("idempotent", patches))
    return str(caught.value)


FOLD = (
    Patch(LEADER, "    fold,\n    map_values,", "    map_values,"),
    *added("def fold(k: Configuration, step: object, items: object, start: int) -> int:\n"
           '    """Folds nothing."""\n'
           "    return start"),
)  # fmt: skip


@pytest.mark.parametrize("engine", ["c", "ints"])
def test_a_fold_of_the_models_own_is_not_taken_for_the_languages(engine: str) -> None:
    with pytest.raises(subset.SubsetError, match=r"leader\.py:\d+:1: fold hides the word"):
        explore_scope("idempotent-loss", engine=engine, patches=FOLD)


def test_the_source_tells_what_a_fold_of_the_models_own_breaks() -> None:
    report = explore_scope("idempotent-loss", engine="source", patches=FOLD, stop=True)
    assert report.found("remembers_the_newest") is not None


def test_no_module_gives_a_word_another_meaning() -> None:
    texts = (f"def {word}(k: Configuration) -> int:\n    return 1" for word in WORDS)
    message = refused(*added("\n\n\n".join(texts), "model/idempotent/conditions.py", FIRST_LINE))
    for word in WORDS:
        assert f":1: {word} hides the word of the language; take another name" in message


OWN_NAMES = {
    "parameter": "(k: Configuration, {}: Offset) -> int:\n    return 1",
    "local": "(k: Configuration) -> int:\n    {} = 1\n    return 1",
    "bound": "(k: Configuration, xs: tuple[int, ...]) -> bool:\n"
    "    return any({} > 1 for {} in xs)",
}


def test_no_function_gives_a_word_another_meaning() -> None:
    words = [*READ, "print", "int"]
    texts = (
        f"def {kind}_{word}{text.replace('{}', word)}"
        for word in words
        for kind, text in OWN_NAMES.items()
    )
    message = refused(*added("\n\n\n".join(texts)))
    for word in words:
        for kind in OWN_NAMES:
            assert f"in {kind}_{word}: {word} hides the word of the language" in message


ODD: dict[str, tuple[str, str]] = {
    "a word under another name": (
        "from model.language import fold as gather",
        "fold is called gather here",
    ),
    "a method under a name": ("collect = Map.filled", "filled is called collect here"),
    "the language as a module": ("from model import language", "language is a module with words"),
    "a builtin": ("def abs(k: Configuration) -> int:\n    return 1", "abs hides Python's own abs"),
    "a local name of the module's": (
        "def added(k: Configuration) -> int:\n    UNKNOWN_PRODUCER = 1\n    return 1",
        "UNKNOWN_PRODUCER is a name of the module",
    ),
    "a statement": ("if True:\n    LIMIT = 1", "a module of the model has no such statement"),
    "a field of a class that is put": ("Leader.__eq__ = None", "an assignment to a part"),
    "a function bound anew": (
        "def again(k: Configuration) -> int:\n    return 1\n\n\nagain = first_sequence",
        "again is bound twice",
    ),
    "a decorator": (
        "def doubled(function: Offset) -> Offset:\n    return function\n\n\n"
        "@doubled\ndef added(k: Configuration) -> int:\n    return 1",
        "doubled may change what added does",
    ),
    "a record that compares": (
        "@record\nclass Odd:\n    size: Offset\n\n"
        "    def __eq__(self, other: object) -> bool:\n        return True",
        "Odd has fields only, not `def __eq__",
    ),
    "a record with options": (
        "from dataclasses import field\n\n\n"
        "@record\nclass Odd:\n    size: Offset = field(compare=False)",
        "Odd has fields only",
    ),
    "a record of another": (
        "@record\nclass Odd(Leader):\n    size: Offset",
        "Odd has a base class",
    ),
    "a record with a decorator more": (
        "from functools import total_ordering\n\n\n"
        "@total_ordering\n@record\nclass Odd:\n    size: Offset\n\n"
        "    def __lt__(self, other: object) -> bool:\n        return True",
        "Odd is more than a record",
    ),
    "members that compare": (
        "from enum import IntEnum\n\n\n"
        "class Odd(IntEnum):\n    ONE = 1\n\n"
        "    def __add__(self, other: int) -> int:\n        return 7",
        "Odd has members only, not `def __add__",
    ),
    "flags": (
        "from enum import IntFlag\n\n\nclass Odd(IntFlag):\n    ONE = 1",
        "Odd is no plain IntEnum",
    ),
}


def test_what_has_a_second_meaning_is_refused() -> None:
    """Each in a function or class of a name of its own, behind all that they use."""

    def own(text: str, number: int) -> str:
        return text.replace("Odd", f"Odd{number}").replace("added", f"added{number}")

    texts = (own(text, i) for i, (text, _) in enumerate(ODD.values()))
    message = refused(*added("\n\n\n".join(texts), behind=LAST_LINE))
    for i, (_, expected) in enumerate(ODD.values()):
        assert own(expected, i) in message


def test_two_events_of_one_name_are_refused() -> None:
    model = load_model("idempotent")
    name, event = next(iter(model.rules.items()))
    thread = next(n for n, v in event.__globals__.items() if isinstance(v, language.Thread))
    text = (
        f"from {event.__module__} import {thread}\nfrom model.language import event\n\n\n"
        f"@event({thread})\ndef {name}(k: Configuration) -> int:\n    return 1"
    )
    patches = added(text, "model/idempotent/liveness.py", FIRST_LINE)
    assert f"there is another event {name}" in refused(*patches)


def test_two_guarantees_of_one_name_are_refused() -> None:
    patch = Patch("model/idempotent/guarantees.py", *(
        f'        "{name}",\n        no_gap,\n        first_sequence_is_strict,'
        for name in ("no_gap", "at_most_once")
    ))  # fmt: skip
    assert "GUARANTEES has at_most_once twice" in refused(patch)


CALLS = {
    "sum((1 for x in xs), start=5)": "sum takes a comprehension, and nothing else",
    "sum(i for i, x in enumerate(xs, 1))": "enumerate takes 1 arguments here",
    "sum(i for i, x in enumerate(xs, start=1))": "enumerate takes 1 arguments here",
    "sum(i for i in range(1, 3))": "range takes 1 arguments here",
    "max(1, 2, key=log_end_offset)": "max takes 2 arguments here",
    "min(1, 2, 0)": "min takes 2 arguments here",
    "len(xs, 1)": "len takes 1 arguments here",
    "leader.producers.put(0, value=entry)": "no such method 'put'",
    "len(leader.producers.values(1))": "no such method 'values'",
    "flag.value": "nothing is 'value' here",
    "leader.log_start_offset.lo": "nothing is 'lo' here",
    "leader.log.length": "nothing is 'length' here",
    "leader == entry": "Leader and ProducerStateEntry cannot be compared",
    "(leader.log_start_offset == 1) == 1": "bool and int cannot be compared",
    "True < leader.log_start_offset": "only ints have an order",
    "leader.log_start_offset in xs": "only a Set tells what is in it",
    "StoredBatch(1, 2, 3)": "StoredBatch has the fields batch, base_offset",
    "StoredBatch(1, base_offset=2, batch=3)": "StoredBatch has the fields batch, base_offset",
    "replace(leader, 1, log_start_offset=2)": "replace takes 1 arguments here",
}  # fmt: skip


HEADER = (
    "(k: Configuration, leader: Leader, entry: ProducerStateEntry, flag: Error,"
    " xs: tuple[int, ...]) -> int:\n    return "
)


def test_no_argument_and_no_attribute_is_passed_over() -> None:
    """Each of these was lifted, as something else than what Python makes of it."""
    texts = (f"def added_{i}{HEADER}{text}" for i, text in enumerate(CALLS))
    model = load_model("idempotent", added("\n\n\n".join(texts), behind=LAST_LINE))
    k = configuration_of(model, "idempotent-tiny", "4.3.1")
    shapes, module = shapes_of(k.bounds), model.leader
    types = (module.Leader, module.ProducerStateEntry, module.Error)
    values = [shapes.leaves(hint, "it") for hint in types]
    evaluator = Evaluator(model, k)
    for i, message in enumerate(CALLS.values()):
        function = vars(module)[f"added_{i}"]
        with pytest.raises(LiftError, match=re.escape(message)) as caught:
            evaluator.call(function, [k, *values, evaluator.lift((1, 2))])
        assert str(caught.value).startswith("model/idempotent/leader.py:")


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_every_composition_is_within_the_subset(name: str) -> None:
    assert subset.refusals(load_model(name)) == ()


@pytest.mark.parametrize(("name", "is_refused"), [("@py_builtins", False), ("py_builtins", True)])
def test_names_that_no_text_can_write_are_passed_over(name: str, is_refused: bool) -> None:
    """As pytest's, where it rewrites the assertions of a package that has its plugin."""
    model = load_model("idempotent", added(f"SPARE = {int(is_refused)}"))
    vars(model.modules["leader"])[name] = builtins
    if not is_refused:
        subset.check(model)
        return
    with pytest.raises(subset.SubsetError, match="import the words themselves"):
        subset.check(model)
