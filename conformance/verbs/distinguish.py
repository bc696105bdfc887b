"""`distinguish`: which rules of a variant can be told from those of releases before and after it.

1. Without options it prints the known answers, rule by rule: the shortest trace, or that there is
   none.
2. `--search` searches again. `--keep` stores the answers in the package, where `run` finds them.
   `--missing` searches for all answers of the composition that are not known yet.
3. `--system` plays the traces: a rule is told apart at a system that follows its trace. `--keep`
   stores that in the page that `--page` writes. `--missing` plays, release by release, all traces
   that no broker of their release has followed yet.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from conformance.campaigns.distinguish import rules_table
from conformance.campaigns.distinguish.product_search import SCOPES, answer, looks_at, unanswered
from conformance.campaigns.distinguish.variants import variants_of
from conformance.judging.compositions import JUDGED_COMPOSITIONS, JudgedComposition
from conformance.judging.distinguish import known
from conformance.judging.distinguish.alternatives import (
    Alternative,
    alternatives,
    base_of,
)
from conformance.judging.distinguish.known import WAYS, RuleVisibility, in_words
from conformance.judging.distinguish.play import (
    DistinguishingReport,
    play_distinguishing_traces,
    row_for,
)
from conformance.judging.distinguish.product import Visibility
from conformance.judging.plan import check_plan, configuration, prepare_one
from conformance.judging.reports.report import sentence
from conformance.verbs import run
from conformance.verbs.targets import target_of
from proofs.run import EXIT_CODES, BadUse, one_of
from proofs.run.files import write_json, write_whole
from proofs.say import note, say
from proofs.trace.format import Header, Trace, TraceStep, dumps

SCHEMA_VERSION: Final = 1
SECONDS: Final = 20.0
WIDTH: Final = 34
DIFFERS: Final = "differs"
NODES: Final = {known.ONE_BROKER: 1, known.THREE_BROKERS: 3}

Line = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `distinguish`."""
    parser.add_argument("--composition", default="transactions", help=", ".join(COMPOSITIONS))
    parser.add_argument("--variant", metavar="V", help="default: the newest release")
    parser.add_argument("--rule", action="append", help="this one; again for more")
    parser.add_argument("--observer", metavar="WHO", help=f"only by {', '.join(WAYS)}")
    parser.add_argument("--search", action="store_true", help="search again")
    parser.add_argument(
        "--missing", action="store_true", help="of all variants, what is not known, or not played"
    )
    parser.add_argument("--scope", action="append", help="with --search: there; again for more")
    parser.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        metavar="N",
        help=f"with --search: of the processor, for a rule and scope (default: {SECONDS:g})",
    )
    parser.add_argument("--system", help="play the traces at: impl, nodes, kafka, wire://HOST:PORT")
    parser.add_argument("--kafka", metavar="RELEASE", help="with --system kafka; sets the variant")
    parser.add_argument("--nodes", type=int, metavar="N", help="with --system kafka: 1 or 3")
    parser.add_argument("--keep", action="store_true", help="keep what is found, or played")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write all that is kept")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the answer as JSON")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where traces go, a file each")


COMPOSITIONS: Final = tuple(dict.fromkeys(name for name, _ in SCOPES))


def execute(options: argparse.Namespace) -> int:
    """The matrix; 0, 1 if a system differs in a trace, 3 if a search did not end.

    Raises BadUse, UnknownVariant, BackendError.
    """
    name = one_of("--composition", options.composition, COMPOSITIONS)
    composition = JUDGED_COMPOSITIONS[name]
    if options.observer is not None:
        one_of("--observer", options.observer, looks_at(composition))
    lines, verdict = (
        played(composition, options) if options.system else searched(composition, options)
    )
    for line in lines:
        say(f"{line['rule'] + '=' + line['value']:<{WIDTH}} {line['says']}")
    if options.page is not None:
        write_whole(options.page, rules_table.format_page())
    report = {"schema_version": SCHEMA_VERSION, "rules": lines, "verdict": verdict}
    write_json(options.json, report)
    say(f"verdict: {verdict}")
    return EXIT_CODES[verdict]


# Searching


def searched(composition: JudgedComposition, options: argparse.Namespace) -> tuple[list[Line], str]:
    """The known answers, or those found now. Raises UnknownVariant."""
    lines: list[Line] = []
    found = []
    for row in rows_asked(composition, options):
        note(f"{row.name}, by {row.observer}: {row.answer}")
        found.append(row)
        if options.keep:
            known.keep([row])
        if row.is_found and options.out is not None:
            write_trace(row, options.out)
        lines.append({**row.to_json(), "says": f"{row.observer}: {in_words(row)}"})
    is_whole = all(row.answer is not Visibility.NOT_FOUND for row in found)
    return lines, "holds" if is_whole else "undecided"


def rows_asked(
    composition: JudgedComposition, options: argparse.Namespace
) -> Iterator[RuleVisibility]:
    """The rows of one variant, or all that are missing. Raises UnknownVariant, BadUse."""
    if options.missing:
        yield from missing(composition, options.seconds)
        return
    named = options.variant or options.kafka or next(iter(composition.model.variants.RELEASES))
    variant = composition.model.variants.parse(named)
    yield from answers(composition, base_of(composition.model, variant), options)


def missing(composition: JudgedComposition, seconds: float) -> Iterator[RuleVisibility]:
    """The answers that are not known yet, variant by variant; if one observer sees no difference,
    the next is tried. Each answer is kept, so that an interrupted search continues where it was."""
    for variant in variants_of(composition):
        asked: set[tuple[Alternative, str]] = set()
        while todo := [one for one in unanswered(composition, variant) if one not in asked]:
            asked.update(todo)
            for one, observer in todo:
                row = answer(composition, variant, one, observer, seconds, known=known.rows())
                known.keep([row])
                yield row


def answers(
    composition: JudgedComposition, variant: str, options: argparse.Namespace
) -> Iterator[RuleVisibility]:
    """An answer for each rule and observer. Raises BadUse, NotApplicable."""
    there_are = alternatives(composition.model, variant)
    rules = [one_of("--rule", rule, {a.rule: a for a in there_are}) for rule in options.rule or ()]
    for one in there_are:
        if rules and one.rule not in rules:
            continue
        for observer in [options.observer] if options.observer else looks_at(composition):
            if options.search:
                yield answer(
                    composition,
                    variant,
                    one,
                    observer,
                    options.seconds,
                    known=known.rows(),
                    scopes=options.scope or (),
                )
            elif row := row_for(one, known.rows_about(composition.name, variant, observer)):
                yield row


def write_trace(row: RuleVisibility, folder: Path) -> None:
    """Write a file that `replay` and `explain` take."""
    header = Header(row.scope, row.variant)
    steps = tuple(TraceStep(rule, choice) for rule, choice in row.steps)
    name = f"{row.rule}-{row.value}-{row.observer}".replace(" ", "_")
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / f"{name}.jsonl", dumps(Trace(header, steps)))


# Playing


def played(composition: JudgedComposition, options: argparse.Namespace) -> tuple[list[Line], str]:
    """The results of systems on the known traces. Raises BadUse, BackendError."""
    lines: list[Line] = []
    for one in plays(composition, options):
        lines += played_at(composition, one)
    differs = any(line["says"].startswith(DIFFERS) for line in lines)
    return lines, "violated" if differs else "holds"


def plays(
    composition: JudgedComposition, options: argparse.Namespace
) -> Iterator[argparse.Namespace]:
    """The options of each play: one, or with `--missing` one for each release, level and observer
    that was not played yet. Raises BadUse."""
    if not options.missing:
        yield options
        return
    one_of("--system", options.system, ("kafka",))
    for release, variant, observer in rules_table.unplayed(composition):
        if options.kafka in (None, release):
            note(f"{variant}, by {observer}")
            more = {"kafka": release, "variant": variant, "nodes": NODES[observer]}
            yield argparse.Namespace(**{**vars(options), **more})


def played_at(composition: JudgedComposition, options: argparse.Namespace) -> list[Line]:
    """The results of one system. Raises BadUse, BackendError."""
    arguments = arguments_of_run(composition, options)
    plan = run.plan_of(arguments)
    target = target_of(plan, arguments)
    with tempfile.TemporaryDirectory() as folder:
        prepared = prepare_one(check_plan(target.traces), Path(folder), 0, 0)
        with target.opens(prepared, Path(folder) / "backend.log") as system:
            if system.player is None:
                raise BadUse(f"nothing tells rules of {composition.name} apart at {plan.system}")
            apart = play_distinguishing_traces(prepared, system.player)
            observer = system.player.observer
    lines = list(played_lines(apart))
    if options.keep:
        today = datetime.now(UTC).date().isoformat()
        judged = options.kafka or plan.system
        variant = base_of(composition.model, configuration(target.plan).variant)
        rules_table.keep(judged, composition.name, variant, observer, today, lines)
    return lines


def played_lines(apart: DistinguishingReport) -> Iterator[Line]:
    """A line for each rule."""
    differs = {finding["alternative"]: finding for finding in apart.findings}
    for row in apart.distinguished:
        says = rules_table.told_apart(row)
        if row.name in differs:
            says = f"{DIFFERS}: {sentence(differs[row.name])}"
        yield {"rule": row.rule, "value": row.value, "says": says, "scope": row.scope}
    for name, why in apart.not_distinguished.items():
        rule, _, value = name.partition("=")
        yield {"rule": rule, "value": value, "says": f"not told apart: {why}", "scope": ""}


def arguments_of_run(
    composition: JudgedComposition, options: argparse.Namespace
) -> argparse.Namespace:
    """The arguments of the `run` whose system plays the traces."""
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    scope = next(scopes[0] for (name, _), scopes in SCOPES.items() if name == composition.name)
    given = ["--system", options.system, "--scope", scope]
    if options.nodes == 3:
        given += ["--faults", "nodes"]
    for name in ("variant", "kafka", "nodes"):
        value = getattr(options, name)
        given += [] if value is None else [f"--{name}", str(value)]
    return parser.parse_args(given)
