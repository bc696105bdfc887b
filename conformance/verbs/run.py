"""`run`: judges a system against the model of its release, trace by trace.

It writes report.json, run.json, junit.xml, and a trace and a page for each divergence into --out.
The same command continues an interrupted run.
"""

from __future__ import annotations

import argparse
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from conformance.adapters.brokers.kafka.errors import UnknownRelease
from conformance.adapters.brokers.kafka.releases import RELEASES as KAFKA_RELEASES
from conformance.adapters.brokers.kafka.releases import find_release
from conformance.adapters.clients.processes import JAVA, SHIPPED
from conformance.backends.by_name import BACKENDS
from conformance.judging.compositions import IDEMPOTENT, JudgedComposition, judged_composition
from conformance.judging.known_differences import read_baseline
from conformance.judging.masks import Masks
from conformance.judging.plan import ACTORS, FAULTS, FORMS, SOURCES, Plan
from conformance.judging.reports.report import JUDGES
from conformance.verbs.all_scopes import ALL, judge_all_scopes
from conformance.verbs.backend_options import BEST_BACKEND, add_backend, run_place
from conformance.verbs.systems import SYSTEMS, system_of
from model.idempotent.variants import DEFAULT_VARIANT
from model.releases import NEWEST
from proofs.run import BadUse, one_of
from proofs.trace.replay import scope_of
from proofs.verbs.deployment import full_name

JUDGED_BY: Final = (
    "(differences that break the protocol, or a guarantee). Default: model; of a client that is"
    " not Kafka's: protocol"
)

IGNORE: Final = (
    "look past differences there and judge what is behind: [RULE:]FIELD[+FIELD...][=OBSERVED],"
    " as producers.coordinator_epoch; may be repeated"
)

BESIDE_RULES: Final = ("initial", "settle", "settled")
"""Parts of a trace, beside rules, in which a difference may occur."""
PROBE: Final = "probe_"

NODES: Final = (None, 1, 3)
WITH_NODES: Final = ("kafka", "serve", "nodes")
"""Systems that may have several nodes."""

DEFAULTS: Final = Plan()

TRACES_FROM: Final = (
    "cover (all transitions), pct (schedules that show each bug of a small depth with a known"
    " chance), hunts (walks that prefer what is rare), aimed (hunts that first go straight to a"
    f" transition of their own) (default: {','.join(DEFAULTS.traces_from)})"
)
DEPTH: Final = (
    "of the bugs that pct looks for: so many pairs of events must come in a certain order"
    f" (default: {DEFAULTS.depth})"
)
TRACES: Final = (
    "so many in all: the cover's first, then others, each with a seed of its own. A million:"
    " --scope idempotent-small --traces 1000000, or --scope transactions-small --traces-from"
    " cover,aimed --traces 1000000, where other hunts would often be the same walk"
)


def default_judge(options: argparse.Namespace) -> str:
    """Kafka's own client must behave as its model; any other client must keep the protocol."""
    is_foreign = options.client is not None and not options.client.startswith(JAVA)
    return "protocol" if is_foreign else JUDGES[0]


def add_codec(parser: Any, more: str) -> None:
    """Add --codec; its name in plans and reports is `on`."""
    parser.add_argument("--codec", dest="on", metavar="CODEC", help=f"{' or '.join(FORMS)} {more}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `run`."""
    what = parser.add_argument_group("what is judged")
    what.add_argument(
        "--system", default=DEFAULTS.system, help=f"{', '.join(SYSTEMS)} (default: impl)"
    )
    what.add_argument(
        "--kafka",
        metavar="RELEASE",
        help="sets the variant: " + ", ".join(kafkas_of(IDEMPOTENT)) + "; 2.8 is 2.8.2",
    )
    what.add_argument("--level", type=int, help="the cluster's transaction.version")
    what.add_argument("--variant", help=f"default: {DEFAULT_VARIANT} and the system's own rules")
    what.add_argument(
        "--client",
        metavar="CMD",
        help=f"with --system client: java:RELEASE, {', '.join(SHIPPED)}, or a command",
    )
    what.add_argument(
        "--transactions",
        action="store_true",
        help="with --system client: by its transactions, at --level",
    )
    what.add_argument(
        "--nodes", type=int, metavar="N", help=f"brokers: 1, or of {', '.join(WITH_NODES)} 3"
    )
    what.add_argument("--actors", help=f"of the system: {' or '.join(ACTORS)}")
    add_codec(what, f"(default: {DEFAULTS.on})")
    traces = parser.add_argument_group("by which traces")
    scopes = f"default: {DEFAULTS.scope}; {ALL}: one after the other, those too large by hunts"
    traces.add_argument("--scope", default=DEFAULTS.scope, help=scopes)
    traces.add_argument("--faults", help=f"{', '.join(FAULTS)} (default: {DEFAULTS.faults})")
    traces.add_argument("--traces-from", metavar="SOURCES", help=TRACES_FROM)
    traces.add_argument("--depth", type=int, metavar="N", help=DEPTH)
    traces.add_argument("--traces", type=int, metavar="N", help=TRACES)
    traces.add_argument("--seed", type=int, default=0, metavar="N", help="default: 0")
    how = parser.add_argument_group("how it is judged")
    how.add_argument("--judge", metavar="BY", help=f"{', '.join(JUDGES)} {JUDGED_BY}")
    how.add_argument("--ignore", action="append", metavar="MASK", help=IGNORE)
    how.add_argument(
        "--no-automatic-masks",
        dest="automatic_masks",
        action="store_false",
        help="end each trace at its first difference, however often a cause is found at a broker",
    )
    how.add_argument(
        "--baseline",
        type=Path,
        metavar="FILE",
        help="known differences, as --write-baseline writes them",
    )
    how.add_argument(
        "--write-baseline",
        type=Path,
        metavar="FILE",
        help="write what is found as a baseline",
    )
    add_place(parser)


def add_place(parser: argparse.ArgumentParser) -> None:
    """Add the options for the backend and for the files that a run writes."""
    where = parser.add_argument_group("where it runs")
    add_backend(where, BEST_BACKEND)
    where.add_argument(
        "--dataset",
        metavar="URI",
        help="tables of the run as Parquet, at a path or URI; several runs may share one",
    )
    where.add_argument("--json", type=Path, metavar="FILE", help="report and run in one file")
    where.add_argument(
        "--out",
        type=run_place,
        metavar="DIR",
        help="where the report and its files go: a folder, or a URI that outlives the driver",
    )


def execute(options: argparse.Namespace) -> int:
    """Judge the system; the exit code. Raises what its runner raises."""
    if options.scope == ALL:
        return judge_all_scopes(options, execute)
    _, system = system_of(options.system)
    options.judge = options.judge or default_judge(options)
    return system.run(plan_of(options), options)


def plan_of(options: argparse.Namespace) -> Plan:
    """The plan that the arguments describe. Raises BadUse, UnknownScope, UnknownVariant."""
    refuse_unbuilt(options)
    name_releases(options)
    refuse_masks(options)
    scope_of(judged_composition(options.scope).model, options.scope)  # before Spark is imported
    variant = variant_of(options)
    return Plan(
        scope=options.scope,
        variant=variant.name,
        seed=options.seed,
        system=system_of(options.system)[0],
        actors=actors_of(options.actors, options.scope),
        on=one_of("--codec", options.on or DEFAULTS.on, FORMS),
        traces_from=sources_of(options.traces_from),
        traces=positive("--traces", options.traces),
        faults=one_of("--faults", options.faults or DEFAULTS.faults, FAULTS),
        depth=depth_of(options),
        ignored=masks_of(options, variant),
        masks_often=options.automatic_masks,
    )


def masks_of(options: argparse.Namespace, variant: Any) -> tuple[str, ...]:
    """The masks of the run: --ignore, and the rows of a baseline for this release. Raises BadMask,
    BadBaseline."""
    rows = read_baseline(options.baseline) if options.baseline else ()
    known = (row.mask for row in rows if row.look_past and row.release == variant.release)
    masks = tuple(dict.fromkeys((*(options.ignore or ()), *known)))
    Masks(masks)
    return masks


def refuse_masks(options: argparse.Namespace) -> None:
    """Raises BadUse for --ignore with a rule that the scope does not have, BadMask. Clients are
    judged by rules of their own."""
    known = {*judged_composition(options.scope).model.rules, *BESIDE_RULES}
    for mask in Masks(options.ignore or ()).masks if options.system != "client" else ():
        if mask.rule is None or mask.rule in known or mask.rule.startswith(PROBE):
            continue
        near = get_close_matches(mask.rule, known) or sorted(known)
        raise BadUse(
            f"--ignore {mask.text}: no rule of {options.scope} is called {mask.rule!r};"
            f" there are {', '.join(near)}"
        )


def name_releases(options: argparse.Namespace) -> None:
    """Replace short names of releases in --kafka and --variant by full ones: 2.8 becomes 2.8.2."""
    composition = judged_composition(options.scope)
    if options.kafka is not None:
        options.kafka = full_name(options.kafka, kafkas_of(composition))
    if options.variant is not None:
        release, slash, rules = options.variant.partition("/")
        known = composition.model.variants.RELEASES
        options.variant = f"{full_name(release, known)}{slash}{rules}"


def refuse_unbuilt(options: argparse.Namespace) -> None:
    """Raises BadUse for unsupported combinations."""
    if options.client is not None and options.system != "client":
        raise BadUse("--client goes with --system client")
    if options.transactions and options.system != "client":
        raise BadUse(
            "--transactions goes with --system client; --scope transactions-default is for brokers"
        )
    if options.nodes not in NODES:
        raise BadUse(f"--nodes is {options.nodes}; write --nodes 1 or --nodes 3")
    if options.nodes == 3 and options.system not in WITH_NODES:
        raise BadUse(f"--nodes 3 needs brokers that are started: --system {', '.join(WITH_NODES)}")
    positive("--partitions", options.partitions)
    one_of("--judge", options.judge or JUDGES[0], JUDGES)
    if options.backend is not BEST_BACKEND:
        one_of("--backend", options.backend, BACKENDS)


def kafkas_of(composition: JudgedComposition) -> tuple[str, ...]:
    """The values of `--kafka`: the releases that the model has, in each mode that can be
    started."""
    known = composition.model.variants.RELEASES
    return tuple(r.name for r in KAFKA_RELEASES.values() if r.version in known)


def positive(name: str, value: int | None) -> int | None:
    """`value`, None where none is given. Raises BadUse for a number below 1."""
    if value is not None and value < 1:
        raise BadUse(f"{name} is {value}; write 1 or more")
    return value


def actors_of(text: str | None, scope: str) -> str:
    """The actors in a plan's order; all by default. Raises BadUse."""
    allowed = judged_composition(scope).actors
    if text is None:
        return allowed[0]
    return one_of("--actors", ",".join(sorted(text.split(","))), allowed)


def sources_of(text: str | None) -> tuple[str, ...]:
    """The sources of traces. Raises BadUse."""
    if text is None:
        return DEFAULTS.traces_from
    given = {one_of("--traces-from", name, SOURCES) for name in text.split(",")}
    return tuple(source for source in SOURCES if source in given)


def depth_of(options: argparse.Namespace) -> int:
    """The depth of the bugs that PCT looks for. Raises BadUse."""
    if options.depth is None:
        return DEFAULTS.depth
    if "pct" not in sources_of(options.traces_from):
        raise BadUse("--depth goes with --traces-from pct")
    positive("--depth", options.depth)
    return int(options.depth)


def with_own_rules(variant: str, system: str, scope: str) -> str:
    """The variant with the rules in which the system differs on purpose, unless the variant names
    them. Raises BadUse."""
    rules = system_of(system)[1].rules.get(judged_composition(scope).name, "")
    said = [part.partition("=")[0] for part in variant.split("/")]
    own = (rule for rule in rules.split("/") if rule.partition("=")[0] not in said)
    return "/".join(part for part in (variant, *own) if part)


def variant_of(options: argparse.Namespace) -> Any:
    """The variant that --variant, --kafka and --level name together; `v1`, `v2` and rules alone
    name no level.

    Raises BadUse if they contradict each other, UnknownVariant.
    """
    if options.kafka is not None:
        one_of("--kafka", options.kafka, kafkas_of(judged_composition(options.scope)))
    release = None if options.kafka is None else find_release(options.kafka).version
    variants = judged_composition(options.scope).model.variants
    parse = variants.parse
    given = options.variant or release or NEWEST
    variant = parse(with_own_rules(given, options.system, options.scope))
    level = getattr(variant, "level", None)
    has_level = given.partition("/")[0] in variants.RELEASES or "level=" in given
    for name, here, there in (
        ("--kafka", release, variant.release),
        ("--level", options.level, level if has_level else options.level),
    ):
        if here is not None and options.variant is not None and here != there:
            raise BadUse(f"{name} {here} contradicts --variant {variant.name}; leave one out")
    if options.level is not None:
        variant = parse(f"{variant.name}/level={options.level}")
    try:
        found = find_release(options.kafka or variant.release)
        if level is not None:
            found.check_level(variant.level)
    except UnknownRelease as error:
        raise BadUse(str(error)) from error
    return variant
