"""A model in which an older release does nothing is vacuous, whichever of its scopes is asked."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from proofs.explore.expected import EXPECTED
from proofs.explore.gauge import counts_of_gauge, lost_in
from proofs.explore.release_claims import (
    CORE,
    GAUGES,
    HAPPENS,
    MEASURED_TOO,
    MOST_STATES,
    NEVER,
    is_claimed,
)
from proofs.explore.scope import DEFAULT_VARIANT, explore_scope
from proofs.explore.sometimes import happened
from proofs.lift.source import composition_of, load_model
from proofs.run.files import REPOSITORY
from tests.sizes import sized

NEW = "    require(may_send(k, client))\n"
"""A line of `send_new`, and of `send_again`."""
EXPLORE = """
import sys
from proofs.explore.scope import explore_scope
from proofs.run import EXIT_CODES

found = explore_scope(*sys.argv[1:], engine="ints")
print(found.verdict, *found.sometimes.lost)
sys.exit(EXIT_CODES[found.verdict])
"""
KIP_360 = "    require(k.variant.recovery == Recovery.LOCAL_BUMP)\n"


@pytest.fixture(scope="module")
def edited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The text, edited in place: only producers that recover by an epoch of their own send."""
    folder = tmp_path_factory.mktemp("edited")
    for room in ("model", "proofs"):
        shutil.copytree(REPOSITORY / room, folder / room, ignore=shutil.ignore_patterns("*.pyc"))
    client = folder / "model/idempotent/client.py"
    text = client.read_text(encoding="utf-8")
    assert NEW in text
    assert "Recovery" in text
    client.write_text(text.replace(NEW, NEW + KIP_360), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("scope", "variant", "code"),
    [
        ("idempotent-tiny", "2.4.1", 1),
        ("idempotent-tiny/refusals=0", "2.0.0", 1),
        ("idempotent-tiny", "2.4.1/restart_window=full", 1),
        ("idempotent-tiny", "2.8.2", 0),
    ],
)
def test_a_release_of_which_nothing_happens_is_vacuous(
    edited: Path, scope: str, variant: str, code: int
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", EXPLORE, scope, variant],
        cwd=edited,
        env={"PYTHONPATH": str(edited), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    assert ("vacuous" in ran.stdout) == bool(code)
    assert ("something_acknowledged" in ran.stdout) == bool(code)


SMALL = [
    (scope, release)
    for scope, expected in EXPECTED.items()
    for release in load_model(composition_of(scope)).variants.RELEASES
    if release != DEFAULT_VARIANT and (expected.distinct <= MOST_STATES or scope in MEASURED_TOO)
]


@pytest.mark.parametrize(
    ("scope", "release"), sized(SMALL, [one for one in SMALL if one not in SMALL[::29]])
)
def test_what_must_happen_under_a_release_does(scope: str, release: str) -> None:
    variant = load_model(composition_of(scope)).variants.parse(release)
    assert is_claimed(scope, variant)
    found = explore_scope(scope, release, engine="c" if scope in MEASURED_TOO else "ints")
    assert found.sometimes.is_enforced
    assert (found.sometimes.lost, found.sometimes.unexpected) == ((), {})


def test_what_the_table_says_is_of_scopes_and_releases_and_differs_from_the_newest() -> None:
    for table in (NEVER, HAPPENS):
        assert set(table) <= set(SMALL)
    for (scope, _), names in HAPPENS.items():
        model = load_model(composition_of(scope))
        assert names <= model.scopes.SCOPES[scope].never.keys()


REPLACED = [
    (home, text)
    for home in GAUGES
    for variants in (load_model(home).variants,)
    for text in (
        *variants.RELEASES,
        *variants.ALIASES,
        *(f"{name}={m.name.lower()}" for name, kind in variants.RULES.items() for m in kind),
    )
]


@pytest.mark.parametrize(
    ("home", "text"), sized(REPLACED, [one for one in REPLACED if one not in REPLACED[::13]])
)
def test_the_core_of_a_gauge_happens_whatever_one_rule_is(home: str, text: str) -> None:
    gauge, variants = GAUGES[home], load_model(home).variants
    assert happened(counts_of_gauge(gauge, text)) >= CORE[gauge]
    assert lost_in(gauge, variants.parse(text).name) == ()
