"""The page of a trace in Chromium: what it shows, at the width of a desk and of a telephone."""

from __future__ import annotations

import functools
import html
import json
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from conformance.adapters.clients.recorded_run import judge_run
from conformance.adapters.clients.trace_page import client_page
from model.idempotent.variants import parse
from proofs.explore.scope import explore_scope
from proofs.lift.source import model_for
from proofs.trace.format import Choice, Header, Trace, read
from proofs.trace.html import page_of
from proofs.trace.replay import Stepper, configuration_of, domains, record
from tests.conformance.adapters.clients.test_recorded import runs_of
from tests.docs.pages import STORIES

CHROMIUM = shutil.which("chromium")
WIDTHS = (1200, 400)
STEPS = 12

DIFFERS = (("leader[0].sends[0].error", "0 (NONE)", "45 (OUT_OF_ORDER_SEQUENCE_NUMBER)"),)


def walk(scope: str) -> Trace:
    """A trace of a scope that takes another rule each time, as long as there is one."""
    model = model_for(scope)
    stepper = Stepper(model, configuration_of(model, scope, "4.3.1"))
    world, path, taken = stepper.initial(), [], Counter[str]()
    for _ in range(STEPS):
        steps = enabled(stepper, world)
        rule, choice, world = min(steps, key=lambda step: taken[step[0]])
        taken[rule] += 1
        path.append((rule, choice))
    return record(stepper, Header(scope, stepper.k.variant.name), path)[0]


def enabled(stepper: Stepper, world: Any) -> Iterator[tuple[str, Choice, Any]]:
    """What may happen next."""
    for rule in stepper.model.rules:
        ranges = domains(stepper.model, stepper.k, rule)
        for values in product(*ranges.values()):
            choice = tuple(zip(ranges, values, strict=True))
            after = stepper.after(rule, choice, world)
            if after is not None and after != world:
                yield rule, choice, after


def traces() -> Mapping[str, Trace]:
    """One of each composition, and one in which a system differs; its scope names a budget twice,
    as a run's does that was asked for one by hand."""
    lost = read(STORIES / "answer_lost.jsonl")
    scope = "idempotent-six-in-flight/restarts=1/restarts=0"
    header = replace(lost.header, system="wire", differs=DIFFERS, scope=scope)
    return {
        "idempotent": lost,
        "transactions": read(STORIES / "delayed_end_txn_lost.jsonl"),
        "processing": walk("processing"),
        "producer-ids": walk("producer-ids-alone"),
        "differs": replace(lost, header=header),
        "on its way": explore_scope("idempotent-tiny", engine="ints").violations[0].trace,
    }


def client_pages() -> Mapping[str, str]:
    """A run that another release would not do, and one with transactions whose log lacks a
    batch."""
    (run, *_) = runs_of("java-2.4.1-resets.jsonl")
    differing = judge_run(parse("4.3.1"), run)
    told = next(t for t in runs_of("java-4.3.1-transactions-0.jsonl") if t.stored)
    lost = judge_run(parse("4.3.1"), replace(told, stored=told.stored[:-1]))
    return {
        "client": client_page(differing.trace, differing.finding, differing.lines),
        "client-transactions": client_page(lost.trace, lost.finding, lost.lines),
    }


@functools.cache
def written() -> Mapping[str, str]:
    """All pages that are looked at."""
    return {name: page_of(trace) for name, trace in traces().items()} | client_pages()


LOOK = """
const frames = [...document.querySelectorAll("iframe")];
const seen = frames.map(frame => {
  const page = frame.contentDocument, box = node => node.getBoundingClientRect();
  const labels = [...page.querySelectorAll("svg .label")].map(node => ({
    text: node.textContent, left: box(node).left, right: box(node).right, top: box(node).top,
    bottom: box(node).bottom }));
  const crossing = [];
  labels.forEach((a, i) => labels.slice(i + 1).forEach(b => {
    const beside = a.right - 1 < b.left || b.right - 1 < a.left;
    if (!beside && a.top < b.bottom && b.top < a.bottom)
      crossing.push([a.text, b.text]);
  }));
  return { name: frame.title, wide: page.documentElement.scrollWidth, room: frame.clientWidth,
    picture: page.querySelector("svg").getBoundingClientRect().width,
    panel: page.getElementById("picture").clientWidth,
    outside: labels.filter(l => l.left < -1 || l.right > page.getElementById("picture")
      .getBoundingClientRect().left + page.querySelector("svg").getBoundingClientRect().width + 1),
    crossing, labels: labels.map(l => l.text), wrong: page.querySelectorAll("svg .wrong").length,
    dots: [...page.querySelectorAll("svg .dot")].map(dot => dot.getAttribute("cx")),
    heads: [...page.querySelectorAll("svg .head")].length,
    text: page.body.innerText };
});
const out = document.createElement("pre");
out.id = "seen";
out.textContent = JSON.stringify(seen);
document.body.replaceChildren(out);
"""


@functools.cache
def seen() -> Mapping[str, dict[str, Any]]:
    """What Chromium makes of all pages, at all widths: one start of it."""
    frames = "".join(
        f'<iframe title="{name} {width}" style="width:{width}px;height:900px;border:0"'
        f' srcdoc="{html.escape(page)}"></iframe>'
        for name, page in written().items()
        for width in WIDTHS
    )
    text = f"<!doctype html><body>{frames}<script>onload = () => {{ {LOOK} }}</script>"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pages.html"
        file.write_text(text, encoding="utf-8")
        command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
        command += [f"--user-data-dir={folder}/profile", file.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, flags=re.DOTALL)
    assert found, done.stdout[-2000:]
    return {row["name"]: row for row in json.loads(html.unescape(found[1]))}


NAMES = (
    "idempotent",
    "transactions",
    "processing",
    "producer-ids",
    "differs",
    "on its way",
    "client",
    "client-transactions",
)
CASES = [f"{name} {width}" for name in NAMES for width in WIDTHS]

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="apt-get install chromium")


@needs_chromium
@pytest.mark.parametrize("case", CASES)
def test_a_page_fits_its_window_and_says_nothing_undefined(case: str) -> None:
    page = seen()[case]
    assert page["wide"] <= page["room"], "the page is wider than the window"
    assert page["picture"] <= page["panel"] + 1, "a lane is outside of the picture"
    assert page["outside"] == []
    assert page["crossing"] == []
    assert page["labels"]
    for text in (page["text"], *page["labels"]):
        assert not re.search(r"undefined|NaN|\[object|null", text)


@needs_chromium
@pytest.mark.parametrize("width", WIDTHS)
def test_the_differing_step_is_red_and_has_both_sides(width: int) -> None:
    page = seen()[f"differs {width}"]
    assert page["wrong"] == 1
    assert "wire differs in this step" in page["text"]
    for side in DIFFERS[0][1:]:
        assert side in page["text"]
    assert seen()[f"processing {width}"]["wrong"] == 0, "nothing is broken there"


@needs_chromium
def test_the_subtitle_names_a_budget_once() -> None:
    assert "restarts=1" not in seen()["differs 1200"]["text"]
    assert seen()["differs 1200"]["text"].count("restarts=0") == 2, "in the title, and below it"


@needs_chromium
def test_what_is_lost_and_what_is_broken_are_said_in_words() -> None:
    lost = seen()["idempotent 400"]
    assert any(label.endswith(": never delivered") for label in lost["labels"])
    broken = seen()["transactions 400"]
    assert "no_lost_write is broken by step 20" in broken["text"]
    assert "aborted" in broken["text"]
    assert broken["heads"] == 4


@needs_chromium
@pytest.mark.parametrize("width", WIDTHS)
def test_what_is_still_on_its_way_is_said_in_words(width: int) -> None:
    """It was a dashed line that ended in mid-air."""
    page = seen()[f"on its way {width}"]
    assert any(label.endswith("at offset 0: on its way") for label in page["labels"])
    assert "without an arrow: still on its way" in page["text"]


@needs_chromium
@pytest.mark.parametrize("width", WIDTHS)
def test_a_clients_run_says_who_did_what(width: int) -> None:
    """What the network plays stands in its lane, and each step in that of who did it."""
    page = seen()[f"client {width}"]
    run = judge_run(parse("4.3.1"), next(iter(runs_of("java-2.4.1-resets.jsonl"))))
    assert run.finding is not None
    steps = run.finding["steps"]
    assert len(page["dots"]) == steps, "each step has one actor"
    assert len(set(page["dots"])) == 3, "client, network, node"
    assert "connection 0 opened" in " ".join(page["labels"])
    told = seen()[f"client-transactions {width}"]["text"]
    assert "the application was told: transaction 0" in told
