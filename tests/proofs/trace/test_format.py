"""The trace format: written and read back; anything malformed is named with its line."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proofs.trace.format import (
    HEADER_KEYS,
    Header,
    Trace,
    TraceError,
    TraceStep,
    dumps,
    label,
    loads,
    read,
    write,
)

pytestmark = pytest.mark.fast

HEADER = Header("idempotent-tiny", "4.3.1/level=2/requests=v2", patches=(("a.b", "c", "d"),))
STEP = TraceStep("client_sends", (("producer", 0),), ({"error": "NONE"},), {"clients[0]": "00"})
TRACE = Trace(HEADER, (STEP, TraceStep("leader_restarts", (("partition", 0),))))

names = st.text(st.characters(categories=["L", "N"], include_characters="_-"), min_size=1)
choices = st.dictionaries(names, st.integers(0, 9)).map(lambda d: tuple(d.items()))
steps = st.builds(
    TraceStep,
    names,
    choices,
    st.none() | st.lists(st.dictionaries(names, st.integers())).map(tuple),
    st.none() | st.dictionaries(names, names),
)


@settings(max_examples=25)
@given(st.lists(steps, max_size=4).map(tuple), names, st.integers(0, 99))
def test_what_is_written_is_read(all_steps, scope, seed):
    trace = Trace(Header(scope, "v2", seed), all_steps)
    assert loads(dumps(trace)) == trace


def test_a_file(tmp_path):
    path = tmp_path / "deep" / "trace.jsonl"
    write(TRACE, path)
    assert read(path) == TRACE
    assert path.read_text().count("\n") == 3


def test_a_label_is_that_of_reports():
    assert STEP.label == label("client_sends", (("producer", 0),)) == "client_sends(producer=0)"


def header(**changes):
    value = json.loads(dumps(TRACE).splitlines()[0])
    value.update(changes)
    return json.dumps({name: part for name, part in value.items() if part is not ...})


STEP_LINE = dumps(TRACE).splitlines()[1]

MALFORMED = {
    "empty": ("", 1, "empty"),
    "not json": ("{", 1, "not JSON"),
    "not an object": ("[]", 1, "not an object"),
    "format": (header(format="other"), 1, "'format'"),
    "version": (header(version=2), 1, "'version'"),
    "version is no truth": (header(version=True), 1, "'version'"),
    "missing scope": (header(scope=...), 1, "'scope' is missing"),
    "unknown key": (header(extra=1), 1, "unknown key 'extra'"),
    "patches": (header(patches=[["a", "b"]]), 1, "'patches'"),
    "seed": (header(seed="x"), 1, "'seed'"),
    "no choice": (header() + '\n{"rule": "a"}', 2, "'choice' is missing"),
    "choice of a truth": (header() + '\n{"rule": "a", "choice": {"p": true}}', 2, "'choice'"),
    "second step": (header() + "\n" + STEP_LINE + "\nnull", 3, "not an object"),
    "blank line": (header() + "\n\n", 2, "not JSON"),
    "digests": (header() + '\n{"rule":"a","choice":{},"digests":{"x":1}}', 2, "'digests'"),
}


@pytest.mark.parametrize(("text", "line", "what"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_trace_is_refused_with_its_place(text, line, what):
    with pytest.raises(TraceError, match=f"^here:{line}: .*; .+") as error:
        loads(text, "here")
    assert what in str(error.value)
    assert (error.value.source, error.value.line) == ("here", line)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(TraceError, match="readable trace file"):
        read(tmp_path / "none.jsonl")


def test_the_header_has_the_keys_that_are_guaranteed():
    guaranteed = ["format", "version", "scope", "variant", "seed", "system", "prefix", "patches"]
    assert list(HEADER_KEYS) == [*guaranteed, "loop", "differs", "exchanges"]
