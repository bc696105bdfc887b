"""The newest release stands in one place: all that names none follows when one is added."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from model.releases import NEWEST

pytestmark = pytest.mark.fast

REPOSITORY = Path(__file__).parents[1]
ROOMS = ("model", "proofs", "conformance", "kafka_eos")
REGISTRY = REPOSITORY / "model" / "releases.py"
NEXT = f"{int(NEWEST.partition('.')[0]) + 1}.0.0"

WITH_ANOTHER = f"""
import sys
from pathlib import Path
from types import ModuleType

import model

first = 'SINCE_3_3 = ("{NEWEST}"'
text = Path(r"{REGISTRY}").read_text(encoding="utf-8")
assert text.count(first) == 1
registry = model.releases = sys.modules["model.releases"] = ModuleType("model.releases")
exec(text.replace(first, 'SINCE_3_3 = ("{NEXT}", "{NEWEST}"'), vars(registry))
assert registry.NEWEST == "{NEXT}"
"""
"""What a process runs first that has a release more."""


def run(text: str) -> str:
    """What a process prints that has a release more."""
    done = subprocess.run(
        [sys.executable, "-c", WITH_ANOTHER + text],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def texts_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The strings of a module with their lines, without those that stand alone, as docstrings."""
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in alone else None
        if isinstance(text, str):
            yield node.lineno, text


@pytest.mark.parametrize("room", ROOMS)
def test_no_module_names_the_newest_release_by_hand(room: str) -> None:
    found = [
        f"{path.relative_to(REPOSITORY)}:{line}"
        for path in sorted((REPOSITORY / room).rglob("*.py"))
        for line, text in texts_of(ast.parse(path.read_text(encoding="utf-8")))
        if NEWEST in text and path != REGISTRY
    ]
    assert found == [], "write NEWEST of model/releases.py"


DEFAULTS = """
from kafka_eos.command_line import parser_of
from kafka_eos.verbs import VERBS

for verb in VERBS:
    for action in parser_of(verb)._actions:
        print(verb.name, action.dest, action.default, action.help)
"""


def test_the_default_of_each_verb_follows() -> None:
    printed = run(DEFAULTS).splitlines()
    named = [line for line in printed if NEXT in line]
    assert {line.split()[0] for line in named} >= {"explore", "guarantees", "run", "liveness"}
    assert [line for line in printed if NEWEST in line.replace(f"{NEXT}, {NEWEST}, ", "")] == []


TABLES = """
from conformance.campaigns.client_table.clients import CLIENTS
from conformance.campaigns.matrix.cells import BROKERS
from conformance.campaigns.mutants import MUTANTS as PLANTED
from model.idempotent.variants import ALIASES
from model.transactions.spec import ASSUMPTIONS
from proofs.explore.scope import DEFAULT_VARIANT
from proofs.lift.source import load_model
from proofs.mutants.table import MUTANTS
from proofs.systematic_mutants.verdicts import CONFIGURATIONS
from proofs.pages.gather import IN_THE_END
from proofs.risks import risks
from proofs.prove.run.assumption_necessity import DROPPED
from proofs.prove.run.all_theorems import THEOREMS

print(DEFAULT_VARIANT, BROKERS[0], CLIENTS[0].release, *ALIASES.values())
print(*(v for mutant in MUTANTS for v in (mutant.variant, mutant.twin)))
print(*(risk.variant for risk in risks().values()), *(t.variant for t in THEOREMS))
print(*(mutant.hunted_in.variant for mutant in PLANTED.values()), *IN_THE_END.values())
print(*(a.variant for a in ASSUMPTIONS.values()), *(d.variant for d in DROPPED.values()))
print(*(variant for _, variant in CONFIGURATIONS))
"""


def test_the_tables_that_name_no_release_follow() -> None:
    printed = run(TABLES)
    assert printed.count(NEXT) > 100
    assert NEWEST not in printed


def test_explore_and_run_agree_about_the_newest_release() -> None:
    printed = run(
        "from kafka_eos.command_line import main\n"
        "assert main(['explore', 'producer-ids-alone']) == 0\n"
        "from conformance.judging.plan import Plan, configuration\n"
        "print(configuration(Plan(scope='idempotent-restart')).variant.release)\n"
        "print(configuration(Plan(scope='transactions-tiny')).variant.release)\n"
    )
    assert printed.startswith(f"producer-ids-alone [{NEXT}]")
    assert printed.splitlines()[-2:] == [NEXT, NEXT]
