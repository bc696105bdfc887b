"""`make docs`: assemble the pages and let Sphinx write the site.

The site's sources have the repository's layout, so that a link that works in the repository works
on the site. Beside the pages in git there are generated ones: the guarantees (`kafka-eos docs`
wrote them), the risks by release (from their registry), the references of verbs (from the parsers)
and of releases (from the registry), the tables of systematic and random mutants, of the matrix and
of known defects (from `evidence/`), and the page of each trace.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from sphinx.cmd.build import main as sphinx

from conformance.campaigns.client_table.page import kept_page as kept_clients
from conformance.campaigns.known_defects.report import kept_page as kept_defects
from conformance.campaigns.mutants.survivors import kept_page as kept_random_mutants
from conformance.verbs.matrix import kept_pages
from kafka_eos.command_line import parser_of
from kafka_eos.verbs import VERBS, Verb, find_verb
from model.releases import CHANGES, NEWEST, RuleChange
from proofs.pages.risk_page import risk_page
from proofs.systematic_mutants.summary import kept_page as kept_systematic_mutants
from proofs.trace.format import read
from proofs.trace.html import page_of

REPOSITORY = Path(__file__).resolve().parents[1]
EVIDENCE = REPOSITORY / "evidence"
AT_THE_TOP = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")


class MissingPages(Exception):
    """What the site is made of is not there; the message names the command that makes it."""


INDEX = """# kafka-eos

```{include} README.md
:start-line: 1
```

```{toctree}
:hidden:
:caption: Tutorials

docs/paths
docs/tour
docs/guides/tutorial
```

```{toctree}
:hidden:
:caption: How-to guides

docs/guides/index
docs/guides/kafka_in_your_tests
docs/guides/faults
docs/guides/from_aiokafka
docs/guides/judge_a_system
docs/guides/audit_topics
docs/guides/query_runs
docs/guides/change_a_rule
docs/guides/add_a_variant
docs/guides/add_a_guarantee
docs/guides/add_a_scope
docs/guides/add_a_fault
docs/guides/add_a_theorem
docs/guides/add_a_story
docs/experiments
docs/testing
CONTRIBUTING
```

```{toctree}
:hidden:
:caption: Reference, guarantees and results

docs/risks
docs/guarantees/README
docs/matrix/matrix
docs/client_table
docs/known_defects
docs/reference/held
docs/reference/systematic_mutants
docs/reference/random_mutants
docs/reference/traces
```

```{toctree}
:hidden:
:caption: Reference, programs and formats

docs/glossary
docs/reference/commands
docs/reference/verbs
docs/reference/releases
docs/reference/embedded_broker
docs/reference/settings
docs/reference/log_directory
docs/reference/producer
docs/reference/consumer
docs/reference/audit
docs/reference/client_lines
docs/reference/patches
docs/reference/dataset
docs/reference/spark
docs/reference/limits
CHANGELOG
```

```{toctree}
:hidden:
:caption: Explanations

ARCHITECTURE
docs/walks
docs/breaches
docs/why_five
docs/delayed_end_txn
docs/distinguishable_rules
docs/decisions/index
```
"""
"""Four doors: to learn, to do something, to look something up, to understand."""


def assemble(source: Path, guarantees: Path) -> None:
    """Put all pages into `source`, the generated ones of `guarantees` too.

    Raises `MissingPages`.
    """
    if not (guarantees / "README.md").exists():
        raise MissingPages(
            f"{guarantees} has no pages of guarantees: type `make docs`, which writes them first"
        )
    shutil.rmtree(source, ignore_errors=True)
    ignore = shutil.ignore_patterns("build.py", "conf.py", "__pycache__", "guarantees")
    shutil.copytree(REPOSITORY / "docs", source / "docs", ignore=ignore)
    shutil.copytree(guarantees, source / "docs" / "guarantees")
    for name in AT_THE_TOP:
        shutil.copy(REPOSITORY / name, source)
    (source / "index.md").write_text(INDEX, encoding="utf-8")
    (source / "docs" / "risks.md").write_text(risk_page(), encoding="utf-8")
    reference = source / "docs" / "reference"
    (reference / "verbs.md").write_text(reference_of_verbs(), encoding="utf-8")
    (reference / "releases.md").write_text(reference_of_releases(), encoding="utf-8")
    systematic = kept_systematic_mutants(EVIDENCE / "systematic_mutants.json")
    (reference / "systematic_mutants.md").write_text(systematic, encoding="utf-8")
    random = kept_random_mutants(EVIDENCE / "random_mutants.json")
    (reference / "random_mutants.md").write_text(random, encoding="utf-8")
    write_matrix(source / "docs" / "matrix")
    clients = kept_clients(EVIDENCE / "client_table.json").markdown()
    (source / "docs" / "client_table.md").write_text(clients, encoding="utf-8")
    defects = kept_defects(EVIDENCE / "known_defects.json").markdown()
    (source / "docs" / "known_defects.md").write_text(defects, encoding="utf-8")
    (reference / "traces.md").write_text(write_traces(source), encoding="utf-8")
    list_pages(source / "docs" / "guarantees")


def write_matrix(folder: Path) -> None:
    """The table of brokers, levels and clients, and a page for each cause."""
    folder.mkdir()
    pages = kept_pages(EVIDENCE / "matrix.json")
    for name, page in pages.items():
        (folder / f"{name}.md").write_text(page.markdown(), encoding="utf-8")
    contents = "\n".join(name for name in pages if name != "matrix")
    with (folder / "matrix.md").open("a", encoding="utf-8") as file:
        file.write(f"\n```{{toctree}}\n:hidden:\n\n{contents}\n```\n")


def list_pages(folder: Path) -> None:
    """Append a table of contents to the first page of the guarantees."""
    first = folder / "README.md"
    names = sorted(path.relative_to(folder).with_suffix("") for path in folder.rglob("*/*.md"))
    contents = "\n".join(map(str, names))
    with first.open("a", encoding="utf-8") as file:
        file.write(f"\n```{{toctree}}\n:hidden:\n\n{contents}\n```\n")


# The reference of verbs


def reference_of_verbs() -> str:
    """A section for each verb, with its parser's own help."""
    head = "# Verbs\n\nWritten from the parsers of the command line.\n\n"
    return head + "\n".join(map(section, VERBS))


def section(verb: Verb) -> str:
    """One verb."""
    title = verb.name if find_verb(verb.name) is verb else f"{verb.room} {verb.name}"
    shown = parser_of(verb).format_help()
    return f"## {title}\n\n{verb.summary}\n\n```text\n{shown}```\n"


# Releases


def reference_of_releases() -> str:
    """A table for each composition: what releases do otherwise than the newest."""
    head = (
        f"# Releases\n\nWhat releases do otherwise than {NEWEST}, from `model/releases.py`. Up to"
        " and including the release in the third column, a rule has the value in the second.\n"
    )
    columns = "| rule | value | up to | changed by | observed in |\n|---|---|---|---|---|"
    parts = (
        f"\n## {name}\n\n{columns}\n" + "\n".join(map(row_of, changes)) + "\n"
        for name, changes in CHANGES.items()
    )
    return head + "".join(parts)


def row_of(change: RuleChange) -> str:
    """One change as a row."""
    until = f"{change.until} ({change.mode})" if change.mode else change.until
    cells = (change.rule, change.value, until, change.reference, change.observed)
    return f"| {' | '.join(cells)} |"


# Traces


def write_traces(source: Path) -> str:
    """Write a page with pictures for each trace, and return the list of all."""
    rows = []
    for path in sorted((source / "docs").rglob("*.jsonl")):
        trace = read(path)
        made = source / "extra" / "traces" / f"{path.stem}.html"
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(page_of(trace, path.stem), encoding="utf-8")
        where = f"{trace.header.scope}, {trace.header.variant}"
        link = f'<a href="../../traces/{path.stem}.html">{path.stem}</a>'
        rows.append(f"| {link} | {len(trace.steps)} | {where} |")
    table = "\n".join(["| trace | steps | scope and variant |", "|---|---|---|", *rows])
    return f"# Traces\n\nEach page draws its trace step by step, and works offline.\n\n{table}\n"


# The site


def build(source: Path, out: Path, guarantees: Path) -> int:
    """Assemble and build; Sphinx's exit code. A link that leads nowhere is an error."""
    assemble(source, guarantees)
    settings = str(REPOSITORY / "docs")
    extra = f"html_extra_path={source / 'extra'}"
    return sphinx(["-q", "-W", "--keep-going", "-c", settings, "-D", extra, str(source), str(out)])


def main() -> int:
    """Build the site that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__)
    folder = REPOSITORY / "build"
    parser.add_argument("--guarantees", type=Path, default=folder / "guarantees", metavar="DIR")
    parser.add_argument("--source", type=Path, default=folder / "docs-source", metavar="DIR")
    parser.add_argument("--out", type=Path, default=folder / "docs", metavar="DIR")
    options = parser.parse_args()
    try:
        code = build(options.source, options.out, options.guarantees)
    except MissingPages as missing:
        parser.exit(2, f"docs: {missing}\n")
    print(f"the site: {options.out / 'index.html'}")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
