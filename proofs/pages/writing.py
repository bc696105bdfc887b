"""Writes the pages: a function of the model's text, the theorems, and the evidence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from proofs.lift.source import COMPOSITIONS, load_model
from proofs.mutants.table import ModelMutant
from proofs.pages.evidence import Evidence, ExploredScope, LassoRun, ShortestRun
from proofs.pages.markdown import (
    Lines,
    amount,
    console_block,
    page,
    paragraph,
    section,
    shell_block,
    table,
)
from proofs.pages.not_modelled import UNSEEN
from proofs.pages.subjects import (
    Column,
    assumed_properties_in,
    columns,
    composition_of_mutant,
    condition,
    covers,
    guarantee_of,
    in_the_end,
    is_guaranteed,
    known_defects,
    page_of,
    sentence,
    theorems_of,
    title_of,
    trace_of,
    why_not_proved,
)
from proofs.prove.engine.theorem import Theorem
from proofs.prove.run.all_theorems import THEOREMS, proves
from proofs.prove.run.assumption_necessity import DROPPED
from proofs.prove.run.assumptions import ASSUMPTIONS

GENERATED = "*Written by `kafka-eos docs`; do not edit.*"


def title(name: str, says: str) -> Lines:
    """Return the beginning of every page."""
    return [f"# {name}", "", f"> {says}", "", GENERATED, ""]


def length(run: ShortestRun) -> str:
    """Return the length of a run in words."""
    return f"{amount(run.steps, 'step')} ({amount(run.events, 'event')})"


def after(run: ShortestRun) -> str:
    """Return what breaks in a run, and when."""
    return f"`{run.property}` is broken after {length(run)}"


# A page of a guarantee: theorems


def assumption_row(evidence: Evidence, name: str) -> tuple[str, str, str]:
    """Return a row: an assumption, its sentence, and what happens without it."""
    run = evidence.without.get(name)
    lost = f"[{after(run)}](../without/{name}.md)" if run else "nothing is known to break"
    return f"`{name}`", ASSUMPTIONS[name].says, lost


def theorem_lines(evidence: Evidence, theorem: Theorem, name: str) -> Lines:
    """Return one theorem, with everything that it assumes."""
    kind = "" if proves(theorem, name) else "Part of it. "
    rules = f"{theorem.variant}; {theorem.regime.says}"
    head = [f"**{theorem.name}**, of {rules}. {kind}{theorem.says}", ""]
    rows = [assumption_row(evidence, name) for name in theorem.assumptions]
    return [
        *head,
        *table(("it assumes", "that", "without it"), rows),
        *shell_block(f"prove --only {theorem.name}"),
    ]


def theorems_section(evidence: Evidence, composition: str, name: str) -> Lines:
    """Return what is proved, without bounds."""
    why = why_not_proved(composition, name)
    parts = [theorem_lines(evidence, t, name) for t in theorems_of(composition, name)]
    missing = paragraph(f"Not proved, but explored: {why}.") if why else []
    return section("Theorems", *parts, missing)


# A page of a guarantee: scopes


def named(scopes: list[ExploredScope], name: str) -> str:
    """Return how much was explored, and the largest scope."""
    largest = max(scopes, key=lambda seen: seen.distinct)
    states = sum(seen.distinct for seen in scopes)
    return (
        f"{amount(len(scopes), 'scope')}, {amount(states, 'state')}"
        f" (most in `{largest.scope}`: {largest.distinct:,})"
    )


def by_condition(
    evidence: Evidence, composition: str, name: str, variant: str
) -> tuple[list[ExploredScope], list[ExploredScope], list[ExploredScope]]:
    """Return three lists of scopes: guaranteed; not guaranteed and broken; not guaranteed and
    kept."""
    guaranteed: list[ExploredScope] = []
    broken: list[ExploredScope] = []
    kept: list[ExploredScope] = []
    for seen in evidence.of(composition, variant):
        if is_guaranteed(composition, name, seen.scope, variant):
            guaranteed.append(seen)
        else:
            (broken if seen.found(name) else kept).append(seen)
    return guaranteed, broken, kept


def scopes_row(evidence: Evidence, composition: str, name: str, column: Column) -> tuple[str, ...]:
    """Return what was explored of a guarantee under the variants of a column."""
    guaranteed, broken, kept = by_condition(evidence, composition, name, column.variant)
    run = evidence.shortest(composition, name, column.variant)
    return (
        column.title,
        named(guaranteed, name) if guaranteed else "nowhere",
        f"{amount(len(broken), 'scope')}; `{run.scope}`: {length(run)}" if run else "",
        named(kept, name) if kept else "",
    )


OF_GUARANTEES = (
    "release",
    "guaranteed and kept",
    "not guaranteed, and broken",
    "not guaranteed, and kept",
)
OF_ASSUMED_PROPERTIES = (
    "release",
    "true as said",
    "elsewhere, and broken",
    "elsewhere, and not broken",
)


def scopes_section(evidence: Evidence, composition: str, name: str, head: tuple[str, ...]) -> Lines:
    """Return what was explored completely."""
    rows = [scopes_row(evidence, composition, name, column) for column in columns(composition)]
    said = paragraph(
        "Each scope was explored to its end: all that can happen in it was seen, and nothing"
        " beyond it. `kafka-eos explore SCOPE --variant RELEASE` shows one again."
    )
    return section("Scopes", said, table(head, rows))


# A page of a guarantee: the run


def run_section(evidence: Evidence, composition: str, name: str, heading: str) -> Lines:
    """Return the shortest run that breaks a guarantee where it is not given."""
    key = page_of(composition, name)
    run = evidence.shown.get(key)
    if run is None:
        return []
    said = paragraph(
        f"In `{run.scope}` of {run.variant} the condition is not met, and this is broken"
        f" after {length(run)}; no shorter run breaks it there."
    )
    command = f"explain build/guarantees/traces/{trace_of(key)}.jsonl"
    return section(heading, said, console_block(command, run.told))


def guarantee_page(evidence: Evidence, composition: str, name: str) -> str:
    """Return the page of a guarantee about every world."""
    guarantee = guarantee_of(composition, name)
    where = paragraph(f"**Guaranteed where:** {condition(guarantee)}")
    return page(
        [
            *title(name, sentence(guarantee.check)),
            *where,
            *theorems_section(evidence, composition, name),
            *scopes_section(evidence, composition, name, OF_GUARANTEES),
            *run_section(evidence, composition, name, "Where it is not guaranteed"),
        ]
    )


# A page of an assumed property


def again(evidence: Evidence, composition: str, name: str) -> Lines:
    """Return the command that finds the run again."""
    run = evidence.shown.get(page_of(composition, name))
    return (
        shell_block(f"explore {run.scope} --variant {run.variant} --property {name}") if run else []
    )


def assumed_property_page(evidence: Evidence, composition: str, name: str) -> str:
    """Return the page of an assumed property."""
    assumed_property = guarantee_of(composition, name)
    return page(
        [
            *title(name, sentence(assumed_property.check)),
            *paragraph("**Believed, and not guaranteed.**"),
            *paragraph(f"**True where:** {condition(assumed_property)}"),
            *run_section(evidence, composition, name, "The shortest run"),
            *again(evidence, composition, name),
            *scopes_section(evidence, composition, name, OF_ASSUMED_PROPERTIES),
        ]
    )


# A page of a liveness property


def ends(loop: LassoRun) -> str:
    """Return how a run goes on."""
    what = f"{amount(loop.loop, 'step')} for ever" if loop.loop else "nothing more happens"
    return f"after {amount(loop.stem, 'step')} {what}"


def loops_of(evidence: Evidence, composition: str, name: str) -> Iterator[LassoRun]:
    """Yield the runs that break a liveness property."""
    return (x for x in evidence.lasting if (x.composition, x.property) == (composition, name))


def under_section(evidence: Evidence, composition: str, guarantee: Any) -> Lines:
    """Return the assumptions, each with what happens without it."""
    table_of = load_model(composition).liveness.ASSUMPTIONS
    lost = {loop.without: loop for loop in loops_of(evidence, composition, guarantee.name)}
    rows = [
        (f"`{a}`", table_of[a].says, ends(lost[a]) if a in lost else "nothing is known to break")
        for a in guarantee.under
    ]
    return section("It assumes", table(("assumption", "that", "without it"), rows))


def unbounded_rows(evidence: Evidence, composition: str, name: str) -> Iterator[tuple[str, ...]]:
    """Yield the scopes in which the property was checked, with the results."""
    for row in evidence.unbounded:
        if row.composition == composition and name in (*row.guaranteed, *row.holds):
            guaranteed = "guaranteed" if name in row.guaranteed else "not guaranteed"
            holds = "holds" if name in row.holds else "fails"
            size = f"{amount(row.distinct, 'state')}, {amount(row.transitions, 'transition')}"
            yield f"`{row.scope}`", row.variant, size, f"{guaranteed}, {holds}"


def lasting_section(loop: LassoRun) -> Lines:
    """Return the section about a run without end."""
    command = f"liveness {loop.scope} --variant {loop.variant}"
    if loop.without:
        heading, command = f"Without `{loop.without}`", f"{command} --drop {loop.without}"
    else:
        heading = "Where it is not guaranteed"
    said = paragraph(f"In `{loop.scope}` of {loop.variant}, {ends(loop)}:")
    return section(heading, said, ["```text", *loop.told, "```", ""], shell_block(command))


def end_page(evidence: Evidence, composition: str, guarantee: Any) -> str:
    """Return the page of a liveness property."""
    name = guarantee.name
    head = ("scope", "variant", "size", "in the end")
    loops = [lasting_section(loop) for loop in loops_of(evidence, composition, name)]
    return page(
        [
            *title(name, f"In the end: {guarantee.says}."),
            *paragraph(f"**Guaranteed where:** {condition(guarantee)}"),
            *under_section(evidence, composition, guarantee),
            *section("Scopes", table(head, unbounded_rows(evidence, composition, name))),
            *(line for loop in loops for line in loop),
        ]
    )


# Pages of non-guarantees


def defect_page(mutant: ModelMutant, run: ShortestRun) -> str:
    """Return the page of a known defect."""
    composition = composition_of_mutant(mutant)
    broken = f"[`{run.property}`](../{page_of(composition, run.property)}.md)"
    trace = f"build/guarantees/traces/{mutant.name}.jsonl"
    twin = mutant.twin_scope or mutant.scope
    return page(
        [
            *title(mutant.name, mutant.mechanism),
            *paragraph(f"**Not guaranteed:** {broken}, in `{run.scope}` of {run.variant}."),
            *paragraph(f"**Known as:** {mutant.reference}."),
            *paragraph(f"**Not so** in `{twin}` of {mutant.twin}, which was explored to its end."),
            *section(
                "The shortest run",
                paragraph(f"{after(run)}."),
                console_block(f"explain {trace}", run.told),
                shell_block(
                    f"mutants --only {mutant.name}",
                    f"replay {trace} --system model",
                ),
            ),
        ]
    )


def resting_on(assumption: str) -> Iterator[Theorem]:
    """Yield the theorems that rest on an assumption."""
    return (t for t in THEOREMS if assumption in t.assumptions)


def without_page(evidence: Evidence, name: str) -> str:
    """Return the page of an assumption: what breaks without it."""
    run = evidence.without[name]
    command = f"prove --drop {name}"
    told = (
        f"without {name} {run.property} is broken after {run.steps} steps ({run.events} events)",
        *(f"    {line}" for line in run.told),
    )
    theorems = ", ".join(f"`{t.name}`" for t in resting_on(name))
    return page(
        [
            *title(f"Without {name}", f"Assumed: {ASSUMPTIONS[name].says}"),
            *paragraph(f"**Theorems that rest on it:** {theorems}."),
            *section("The shortest run without it", console_block(command, told, code=1)),
        ]
    )


# The index


def evidence_in_a_word(evidence: Evidence, composition: str, name: str, column: Column) -> str:
    """Return a cell of the index: a theorem, or scopes and a theorem about a part of the guarantee;
    and the trace that shows its limit."""
    guaranteed, _, _ = by_condition(evidence, composition, name, column.variant)
    theorems = [t for t in theorems_of(composition, name) if covers(t, column.variant)]
    words = [f"theorem `{t.name}`" for t in theorems if proves(t, name)][:1]
    if not words:
        words = [amount(len(guaranteed), "scope")] if guaranteed else ["not guaranteed"]
        words += [f"part of it by theorem `{t.name}`" for t in theorems[:1] if guaranteed]
    run = evidence.shortest(composition, name, column.variant)
    return "; ".join([*words, f"trace of {amount(run.events, 'event')}"] if run else words)


def guarantees_table(evidence: Evidence, composition: str) -> Lines:
    """Return the table of guarantees by release."""
    rows = [
        (
            f"[`{p.name}`]({page_of(composition, p.name)}.md)",
            *(
                evidence_in_a_word(evidence, composition, p.name, column)
                for column in columns(composition)
            ),
        )
        for p in load_model(composition).guarantees.GUARANTEES
    ]
    return table(("guarantee", *titles(composition)), rows)


def assumed_property_in_a_word(
    evidence: Evidence, composition: str, name: str, column: Column
) -> str:
    """Return a cell of the index: the trace that refutes an assumed property, and where the
    property is true."""
    true, _, _ = by_condition(evidence, composition, name, column.variant)
    run = evidence.shortest(composition, name, column.variant)
    broken = f"trace of {amount(run.events, 'event')}" if run else "no trace"
    return f"{broken}; true in {amount(len(true), 'scope')}" if true else broken


def assumed_properties_table(evidence: Evidence, composition: str) -> Lines:
    """Return the table of assumed properties by release."""
    rows = [
        (
            f"[`{name}`]({page_of(composition, name)}.md)",
            sentence(guarantee_of(composition, name).check),
            *(
                assumed_property_in_a_word(evidence, composition, name, column)
                for column in columns(composition)
            ),
        )
        for name in assumed_properties_in(composition)
    ]
    return table((f"of {title_of(composition).lower()}", "believed", *titles(composition)), rows)


def titles(composition: str) -> list[str]:
    """Return the names of the columns."""
    return [column.title for column in columns(composition)]


def ends_table(evidence: Evidence, composition: str) -> Lines:
    """Return the table of liveness properties."""
    rows = []
    for guarantee in in_the_end(composition):
        lost = [loop.without for loop in loops_of(evidence, composition, guarantee.name)]
        needed = sum(name in lost for name in guarantee.under)
        rows.append(
            (
                f"[`{guarantee.name}`]({page_of(composition, guarantee.name)}.md)",
                ", ".join(f"`{name}`" for name in guarantee.under),
                f"{needed} of {len(guarantee.under)} are shown to be needed",
            )
        )
    return table(("in the end", "under", "assumptions"), rows)


def not_guaranteed(evidence: Evidence) -> dict[ModelMutant, ShortestRun]:
    """Return the known defects that break what is not guaranteed there, with their runs."""
    runs = {mutant: evidence.defects.get(mutant.name) for mutant in known_defects()}
    return {mutant: run for mutant, run in runs.items() if run is not None and not run.guaranteed}


def defects_table(evidence: Evidence) -> Lines:
    """Return the table of known defects."""
    rows = [
        (f"[{m.name}](not_guaranteed/{m.name}.md)", m.mechanism, m.reference, after(run))
        for m, run in not_guaranteed(evidence).items()
    ]
    return table(("name", "what happens", "known as", "shortest run"), rows)


def unseen_table() -> Lines:
    """Return the table of what the model cannot show."""
    return table(("not guaranteed", "what the model lacks to show it"), UNSEEN)


def without_table(evidence: Evidence) -> Lines:
    """Return the table of what each assumption of the theorems is for."""
    rows = [
        (f"[{name}](without/{name}.md)", ASSUMPTIONS[name].says, after(evidence.without[name]))
        for name in DROPPED
        if name in evidence.without
    ]
    return table(("assumption", "that", "without it"), rows)


INTRODUCTION = (
    "A page for each guarantee, and for each thing that users may believe although it is not "
    "guaranteed. Three kinds of evidence: a *theorem* has no bounds, and says what it "
    "assumes; a *scope* was explored to its end, and nothing is said beyond it; a *trace* is "
    "a shortest run that breaks the guarantee where its condition is not met, which is no "
    "fault of the release. Releases that do the same share a column."
)


def index_page(evidence: Evidence) -> str:
    """Return the first page."""
    tables = [
        section(title_of(c), guarantees_table(evidence, c), ends_table(evidence, c))
        for c in COMPOSITIONS
    ]
    lines = ["# Guarantees", "", GENERATED, "", INTRODUCTION, ""]
    lines += [line for part in tables for line in part]
    believed = (line for c in COMPOSITIONS for line in assumed_properties_table(evidence, c))
    lines += section("Not guaranteed", [*believed], defects_table(evidence))
    lines += section("Not guaranteed, and not shown", unseen_table())
    lines += section("Without an assumption", without_table(evidence))
    lines += shell_block("docs --out build/guarantees")
    return page(lines)


def pages(evidence: Evidence) -> dict[str, str]:
    """Return all pages, by their paths in the folder."""
    found = {"README.md": index_page(evidence)}
    for composition in COMPOSITIONS:
        for guarantee in load_model(composition).guarantees.GUARANTEES:
            path = f"{page_of(composition, guarantee.name)}.md"
            found[path] = guarantee_page(evidence, composition, guarantee.name)
        for guarantee in in_the_end(composition):
            found[f"{page_of(composition, guarantee.name)}.md"] = end_page(
                evidence, composition, guarantee
            )
        for name in assumed_properties_in(composition):
            found[f"{page_of(composition, name)}.md"] = assumed_property_page(
                evidence, composition, name
            )
    for mutant, run in not_guaranteed(evidence).items():
        found[f"not_guaranteed/{mutant.name}.md"] = defect_page(mutant, run)
    for name in evidence.without:
        found[f"without/{name}.md"] = without_page(evidence, name)
    return found
