"""The output of the verbs that check the model: a report that carries its arguments, and traces."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

from proofs.explore.result import SearchProgress
from proofs.explore.scope import DEFAULT_VARIANT, Finding
from proofs.explore.sometimes import Sometimes
from proofs.lift.source import Model
from proofs.run import EXIT_CODES
from proofs.run.directory import RunDirectory
from proofs.run.files import code_digest, write_whole
from proofs.run.progress import Clock, Display
from proofs.trace.format import Trace, dumps, write
from proofs.trace.html import page
from proofs.trace.pictures import mermaid, text
from proofs.trace.replay import replay
from proofs.trace.story import Story, tell

SCHEMA_VERSION = 2
PACKAGES = ("model", "proofs")
"""The code on which the results depend."""


class Output(RunDirectory):
    """A verb's run directory; its report names its arguments.

    `names` are the options that the report depends on; `more` are values derived from other
    options; `code` and `made` are as in `RunDirectory`, whose code is that of PACKAGES by default.
    """

    def __init__(
        self,
        options: argparse.Namespace,
        *names: str,
        code: str | None = None,
        made: Sequence[str] = (),
        **more: Any,
    ) -> None:
        asked = {name: getattr(options, name) for name in names}
        if code is None:
            code = code_digest(PACKAGES) if options.out else ""
        super().__init__(options.out, {"verb": options.verb, **asked, **more}, code, made)
        self._file = options.json
        self._begun = time.perf_counter()

    def finish(self, content: Mapping[str, Any], **run: Any) -> int:
        """Write everything that was requested, and return the exit code of the verdict."""
        report = {"schema_version": SCHEMA_VERSION, "arguments": self.asked, **content}
        took = {"seconds": round(time.perf_counter() - self._begun, 3), **run}
        self.write(report, took, self._file)
        return EXIT_CODES[content["verdict"]]

    def pictures(self, model: Model, name: str, trace: Trace) -> None:
        """Write a trace as `traces/NAME.jsonl`, .txt, .mmd and .html."""
        if self.path is not None:
            self.story(name, trace, tell(model, trace.header, trace.steps, replay(trace, model)))

    def story(self, name: str, trace: Trace, story: Story) -> None:
        """Write a trace whose story is at hand, as `pictures` does."""
        if self.path is None:
            return
        base = self.path / "traces" / name
        write(trace, base.with_name(f"{name}.jsonl"))
        for suffix, content in (
            (".txt", text(story)),
            (".mmd", mermaid(story)),
            (".html", page(story, name)),
        ):
            write_whole(base.with_name(f"{name}{suffix}"), content)


def trace_json(trace: Trace) -> list[Any]:
    """Return a trace in a report: its lines, the header first."""
    return [json.loads(line) for line in dumps(trace).splitlines()]


def finding_json(found: Finding) -> dict[str, Any]:
    """Return a broken property in a report."""
    return {
        "property": found.property,
        "guaranteed": found.guaranteed,
        "steps": found.steps,
        "events": found.events,
        "trace": trace_json(found.trace),
    }


# Claims of a scope


def sometimes_json(claims: Sometimes) -> dict[str, Any]:
    """Return a scope's claims in a report: what is lost, with a trace to it without patches if one
    is known, and what was not expected, with the scope's reason."""
    before = {name: trace_json(trace) for name, trace in claims.before.items()}
    return {
        "lost": {name: before.get(name) for name in claims.lost},
        "unexpected": dict(claims.unexpected),
        "witnesses_enforced": claims.is_enforced,
    }


def sometimes_lines(claims: Sometimes) -> Iterator[str]:
    """Yield what should have happened and did not, and what should not have happened and did."""
    if not claims.is_enforced:
        if claims.lost:
            yield f"never happens here: {', '.join(claims.lost)}"
            yield (
                f"    only named scopes of {DEFAULT_VARIANT}, and small ones of other releases,"
                " must have it; any, with --witnesses"
            )
        return
    for name, why in claims.unexpected.items():
        yield f"{name}: UNEXPECTED, the scope says that it never happens: {why}"
    for name in claims.lost:
        where = claims.looked_in or "this scope"
        yield f"{name}: LOST, it must happen in {where} and never does"
        if name in claims.before:
            steps = claims.before[name].steps
            yield f"    without the patch it takes {len(steps)} steps:"
            yield from (f"    {step.label}" for step in steps)


# Progress


def progress_text(name: str, now: SearchProgress) -> str:
    """Return one line: level, states, rate."""
    rate = now.distinct / now.seconds if now.seconds > 0 else 0.0
    if now.is_restoring:
        left = f"{now.done:,} of {now.frontier:,} states of the earlier run"
        return f"{name}: goes on; {left} are stepped again, {rate:,.0f}/s, {now.seconds:.0f} s"
    expanded = f", {now.done:,} of {now.frontier:,} expanded" if now.frontier else ""
    return (
        f"{name}: level {now.depth}{expanded};"
        f" {now.distinct:,} states, {rate:,.0f}/s, {now.seconds:.0f} s"
    )


class ExplorationDisplay(Display):
    """Shows the progress of one exploration."""

    def __init__(
        self, name: str, stream: TextIO | None = None, clock: Clock = time.monotonic
    ) -> None:
        super().__init__(stream, clock)
        self._name = name

    def __call__(self, now: SearchProgress) -> None:
        """Show the progress."""
        self.show(lambda: progress_text(self._name, now))
