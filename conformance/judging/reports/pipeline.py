"""The pipeline of every run, whatever system it judges: directory, waves, findings, report.

A system provides a `Target`: the traces by which it is judged, and a way to open it. While open, it
provides a backend, shrinks findings, and says which guarantees it shows.
"""

from __future__ import annotations

import argparse
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from conformance.judging.automatic_masks import NONE as NO_AUTOMATIC_MASKS
from conformance.judging.automatic_masks import AutomaticMasks
from conformance.judging.backend import Backend
from conformance.judging.causes import (
    WORST_FIRST,
    Cause,
    Severity,
    cause_of,
    decider_of,
    join_probes,
    severity_of,
)
from conformance.judging.compositions import judged_composition
from conformance.judging.distinguish.play import (
    DistinguishingReport,
    Player,
    play_distinguishing_traces,
)
from conformance.judging.findings import plan_of, steps_of
from conformance.judging.guaranteed import ObservedProperties, not_guaranteed, statuses
from conformance.judging.known_differences import (
    KNOWN_DIFFERENCES,
    KnownDifference,
    explanation,
    known_from,
    read_baseline,
    stale,
)
from conformance.judging.plan import (
    Plan,
    PreparedPlan,
    check_plan,
    compute_cover_bound,
    configuration,
    prepare,
)
from conformance.judging.reports import pages
from conformance.judging.reports.answer import answer
from conformance.judging.reports.report import (
    ReportedDivergence,
    Result,
    SideCheck,
    junit,
    report_json,
    run_json,
    sentence,
)
from conformance.judging.reports.run_page import run_page
from conformance.judging.reports.script import Exchanges, NotReproducible
from conformance.judging.rows import Found
from conformance.judging.runner import Wave, Waves, run_waves
from conformance.judging.signatures import (
    Finding,
    Occurrences,
    by_first_id,
    count_findings,
    merge_findings,
    signature_of,
)
from proofs.run import EXIT_CODES
from proofs.run.directory import RunDirectory
from proofs.run.files import code_digest, digest, pretty, write_whole
from proofs.run.progress import CountDisplay, Display
from proofs.say import note, say
from proofs.trace.format import TraceStep
from proofs.trace.messages import recorded_calls
from proofs.trace.replay import Stepper

if TYPE_CHECKING:
    from conformance.judging.reports.dataset import Dataset

MADE: Final = ("prepared", "divergences", "runs")
"""The folders that a run creates."""

MOST_TRANSITIONS_TO_BOUND: Final = 2_000_000
"""For this many transitions the linear program behind `cover.bound` takes 22 seconds; for more, the
bound stays null."""

Baseline = Sequence[KnownDifference]
Judged = tuple[Result, Sequence[Wave]]


class OpenTarget(Protocol):
    """A system that is being judged."""

    @property
    def not_applicable(self) -> Sequence[str]:
        """Guarantees that the system does not show, and by which it is therefore not judged."""

    @property
    def least_ranges(self) -> int:
        """The least number of ranges in a wave: more than 1 if a wave has a long fixed cost."""

    def take_note(self) -> Any:
        """The data that the checks need of the traces judged since the previous call, as plain data
        that the run keeps; None if the checks need nothing."""

    def checks(self, notes: Sequence[Any]) -> Mapping[str, SideCheck]:
        """The side checks by name; they run once, after all traces, with the notes of all waves.
        Raises BackendError."""

    def backend(self) -> Backend:
        """The backend that judges ranges of traces; called once, and only if ranges are left.

        It is closed together with the target. Raises BackendError.
        """

    def shrunk(self, finding: Finding) -> Finding:
        """The finding with a trace from which no step can be left out."""

    @property
    def player(self) -> Player | None:
        """The player of distinguishing traces; None if the system has none."""

    def masks(self, progress: Callable[[], None]) -> AutomaticMasks:
        """The masks that the run adds by itself. Raises BackendError."""

    def reproduced(self, finding: Finding) -> Exchanges:
        """The requests that show a finding, and their answers. Raises NotReproducible."""

    def shown_by(self, finding: Finding) -> ObservedProperties:
        """The guarantees that the system breaks, and the witnesses it meets, at its first
        difference."""


class TargetOpener(Protocol):
    """Opens a system, given the prepared plan and a file for its log."""

    def __call__(self, prepared: PreparedPlan, log: Path) -> AbstractContextManager[OpenTarget]:
        """The system; it stays open until the end of the run. Raises BackendError."""


@dataclass(frozen=True, slots=True)
class Target:
    """The subject of a run. `plan` is the plan that reports name, `traces` the plan from which
    traces are cut; `more` has further arguments on which the report depends."""

    plan: Plan
    traces: Plan
    opens: TargetOpener
    more: dict[str, Any] = field(default_factory=dict)


def run(target: Target, options: argparse.Namespace) -> int:
    """Judge a target, write the report, and return the exit code.

    Raises BackendError, OtherRun, BadPlan, BadBaseline, Stopped.
    """
    check_plan(target.traces)
    plan = target.plan
    return judge_and_report(
        f"{plan.system}-{plan.scope.replace('/', '-')}",
        {**plan.to_json(), **target.more},
        options,
        lambda directory, baseline: judge_target(target, options.judge, directory, baseline),
    )


def judge_and_report(
    name: str,
    question: Mapping[str, Any],
    options: argparse.Namespace,
    judge: Callable[[RunDirectory, Baseline], Judged],
) -> int:
    """Judge in a directory, write the report, and return the exit code. Without --out the directory
    is named after the question.

    The report depends on the question, --judge and --baseline alone. Raises BadBaseline, OtherRun,
    Stopped, BadUse for a dataset that cannot be written, and the errors of `judge`.
    """
    baseline = read_baseline(options.baseline) if options.baseline else ()
    known = digest(repr(baseline)) if baseline else None
    arguments = {**question, "judge": options.judge, "baseline": known}
    named = f"{name}-{digest(pretty(arguments))[:8]}"
    dataset = dataset_at(options.dataset)
    place = options.out or Path("out") / named
    with RunDirectory(place, arguments, code_digest(), MADE) as directory:
        assert directory.path is not None
        out = directory.path
        result, waves = judge(directory, baseline)
        report, times = report_json(result), run_json(waves)
        write_whole(out / "junit.xml", junit(report))
        page = run_page(report, out)
        write_whole(out / "report.md", page.markdown())
        write_whole(out / "index.html", page.html())
        directory.write(report, times, options.json)
        if dataset is not None:
            dataset.write(named, report, times, result, directory.journal.values())
        if options.write_baseline is not None:
            write_whole(options.write_baseline, pretty(baseline_of(baseline, result)))
    say(answer(report, times, directory.name, replayed_at(options)))
    return EXIT_CODES[result.verdict]


def replayed_at(options: argparse.Namespace) -> str:
    """The options with which `replay` plays a trace of this run at its system. Runs of clients are
    judged again without options."""
    if options.system == "client":
        return ""
    given = {name: getattr(options, name) for name in ("kafka", "nodes", "actors")}
    given["codec"] = options.on
    words = [f" --{name} {value}" for name, value in given.items() if value is not None]
    return f" --system {options.system}{''.join(words)}"


def dataset_at(uri: str | None) -> Dataset | None:
    """The dataset into which the run is written, if any. Raises BadUse."""
    if uri is None:
        return None
    from conformance.judging.reports.dataset import (
        Dataset,  # Arrow takes long to import, and few runs need it
    )

    return Dataset.at(uri)


def baseline_of(known: Baseline, result: Result) -> list[dict[str, Any]]:
    """The rows of a baseline, extended by the findings of this run."""
    release = result.prepared.plan.variant.partition("/")[0]
    found = (
        known_from(
            release,
            signature_of(dict(d.finding)),
            d.trace,
            look_past=d.breaks == Severity.INTROSPECTION,
        )
        for d in result.divergences
        if d.explained is None
    )
    return [asdict(row) for row in dict.fromkeys((*known, *found))]


class PreparationDisplay(Display):
    """Shows the name and progress of the preparation; a new piece of work is shown at once."""

    _what = ""

    def __call__(self, what: str, part: float) -> None:
        """`part` of the work `what` is done, 0 to 1."""
        is_new, self._what = what != self._what, what
        self.show(lambda: f"{what}, {part:.0%}" if part else what, at_once=is_new)


# Judging


def judge_target(target: Target, judge: str, directory: RunDirectory, baseline: Baseline) -> Judged:
    """Judge all waves, and return the findings. Raises KeyboardInterrupt, BackendError."""
    assert directory.path is not None
    out = directory.path
    with PreparationDisplay() as progress:
        prepared = prepare(target.traces, out / "prepared", progress)
        if (prepared.transitions_total or 0) <= MOST_TRANSITIONS_TO_BOUND:
            progress("computing the least cover", 0.0)
            prepared = compute_cover_bound(prepared)
    waves = Waves(directory.journal, prepared.count)
    with target.opens(prepared, out / "backend.log") as system:
        masks = NO_AUTOMATIC_MASKS
        if prepared.plan.masks_often:
            with PreparationDisplay() as display:
                masks = system.masks(lambda: display("judging a sample", 0.0))
        judge_rest(waves, prepared, system)
        player = system.player
        apart = None if player is None else play_distinguishing_traces(prepared, player)
        named = replace(prepared, plan=replace(prepared.plan, system=target.plan.system))
        result = examine_findings(named, waves, system, judge, out, baseline, apart, masks)
        return replace(result, prepared=replace(prepared, plan=target.plan)), waves.done


def judge_rest(waves: Waves, prepared: PreparedPlan, system: OpenTarget) -> None:
    """Run the remaining waves. Raises BackendError."""
    stood = waves.next_id
    if stood == prepared.count:
        note(f"judged before: {prepared.count:,} traces")
        return
    if stood:
        note(f"going on: {stood:,} of {prepared.count:,} traces are judged")
    backend = system.backend()
    with CountDisplay("traces", prepared.count, stood) as display:
        run_waves(
            waves,
            backend,
            lambda done, total: display(done, *format_findings(total, prepared.transitions_total)),
            time.monotonic,
            system.least_ranges,
            system.take_note,
        )


def side_checks(waves: Waves, system: OpenTarget) -> Mapping[str, SideCheck]:
    """The side checks, made once when all traces were judged: if the command is repeated, it does
    not ask a broker again. Raises BackendError."""
    rows = waves.checked(
        lambda notes: {name: asdict(check) for name, check in system.checks(notes).items()}
    )
    return {name: SideCheck(**row) for name, row in rows.items()}


def format_findings(total: Found, transitions: int | None) -> list[str]:
    """The message about findings that accompanies the progress of a run."""
    covered, diverged = total.summary.transitions_covered, total.summary.divergences
    said = [] if transitions is None else [f"transitions {covered:,} of {transitions:,}"]
    return [*said, f"{diverged:,} diverged"] if diverged else said


# Findings


class ShrunkFinding(NamedTuple):
    """A finding whose trace was shrunk, with all findings that it stands for."""

    finding: Finding
    occurrences: Occurrences


def examine_findings(
    prepared: PreparedPlan,
    waves: Waves,
    system: OpenTarget,
    judge: str,
    out: Path,
    baseline: Baseline,
    apart: DistinguishingReport | None,
    masks: AutomaticMasks,
) -> Result:
    """Shrink, explain and draw the findings, and conclude which guarantees hold. Distinguishing
    traces are shortest already, and are not shrunk."""
    summary, seen = waves.total.summary, waves.total.seen
    if apart is not None:
        more = count_findings(apart.findings)
        summary = replace(summary, findings=merge_findings(summary.findings, more))
    findings = merge_findings(summary.findings, masks.hidden(summary.masked))
    seen = seen.merge(ObservedProperties(broken=masks.broken))
    k = configuration(prepared.plan)
    shrunk = []
    with PreparationDisplay() as progress:
        for number, (_, found) in enumerate(by_first_id(findings)):
            progress("shrinking divergences", number / len(findings))
            finding = found.shortest[0]
            finding = finding if "scope" in finding else system.shrunk(finding)
            shown = system.shown_by(finding)
            breaks = severity_of(
                finding,
                prepared.plan.system,
                breaks_promise=not shown.broken <= set(not_guaranteed(k)),
            )
            shrunk.append(ShrunkFinding(finding | {"breaks": breaks}, found))
            seen = seen.merge(shown)
    rows = (*KNOWN_DIFFERENCES, *baseline)
    return Result(
        prepared=prepared,
        total=summary,
        judge=judge,
        divergences=draw_divergences(prepared, shrunk, rows, system, out),
        guarantees=statuses(seen, k),
        not_guaranteed=not_guaranteed(k),
        undecided=prepared.count - summary.traces,
        automatic_masks=masks.masks,
        not_applicable=system.not_applicable,
        checks=side_checks(waves, system),
        distinguished=apart,
        stale=[
            row
            for row in stale(rows, k.variant.release, findings)
            if row.mask not in summary.masked
        ],
    )


def draw_divergences(
    prepared: PreparedPlan,
    shrunk: Sequence[ShrunkFinding],
    rows: Sequence[KnownDifference],
    system: OpenTarget,
    out: Path,
) -> list[ReportedDivergence]:
    """Write one divergence for all findings of one cause, the worst causes first: the shortest
    trace, its page and its script, in `out`/divergences."""
    release = configuration(prepared.plan).variant.release
    same: dict[tuple[Cause, str, KnownDifference | None], list[ShrunkFinding]] = {}
    causes = [
        cause_of(one.finding, prepared.plan.system, decider_in(prepared, one.finding))
        for one in shrunk
    ]
    for one, cause in zip(shrunk, join_probes(causes), strict=True):
        known = explanation(rows, release, signature_of(one.finding))
        same.setdefault((cause, one.finding["breaks"], known), []).append(one)
    found = []
    for (cause, _, known), group in same.items():
        group.sort(key=lambda one: int(one.finding["steps"]))
        occurrences = reduce(Occurrences.merge, (one.occurrences for one in group))
        finding, *others = (one.finding for one in group)
        told = dict.fromkeys(sentence(other) for other in others)
        variations = tuple(text for text in told if text != sentence(finding))
        found.append(ReportedDivergence(finding, "", known, occurrences, cause, variations))
    found.sort(key=lambda row: (WORST_FIRST.index(row.breaks), -row.occurrences.count))
    divergences = []
    for number, row in enumerate(found, start=1):
        name = f"divergences/{number:02d}-{row.finding['rule']}"
        exchanges, why_not = exchanges_of(system, dict(row.finding))
        pages.write(prepared, dict(row.finding), out / name, exchanges)
        script = f"{name}.py" if exchanges else ""
        row = replace(row, trace=f"{name}.jsonl", script=script, no_script=why_not)
        divergences.append(replace(row, decided_by=rule_text(prepared, row.cause.decider)))
    return divergences


def exchanges_of(system: OpenTarget, finding: Finding) -> tuple[Exchanges, str]:
    """The requests that show a finding, or an empty tuple and the reason."""
    try:
        return system.reproduced(finding), ""
    except NotReproducible as why:
        return (), str(why)


def rule_text(prepared: PreparedPlan, decider: str) -> str:
    """The model's text about the deciding rule, with the KIP or the class of Kafka behind it."""
    rules = judged_composition(prepared.plan.scope).model.actor_rules
    rule = rules.get(decider.rpartition("+")[2].rpartition(".")[2])
    return "" if rule is None else inspect.getdoc(rule) or ""


def decider_in(prepared: PreparedPlan, finding: Finding) -> str:
    """The rule of the model that decides where a finding differs."""
    plan = plan_of(prepared, finding)
    model = judged_composition(plan.scope).model
    steps = steps_of(finding)
    if finding["rule"] not in model.rules or not steps:
        return str(finding["rule"])
    stepper = Stepper(model, configuration(plan))
    *_, before = stepper.run(TraceStep(*instance) for instance in steps[:-1])
    with recorded_calls(model) as calls:
        stepper.after(*steps[-1], before)
    return decider_of(finding, [(type(call.actor).__name__, call.name) for call in calls])
