import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from proofs.explore.explorer import explore, prepare
from proofs.explore.native import build_machine
from proofs.lift import compiler
from proofs.lift.c_form import Unprintable, print_c
from proofs.lift.compiler import CompilationUnit, CompilerFailed, NoCompiler, build
from proofs.lift.dag import TRUE, leaf, mul
from proofs.lift.machine import Leaf, Machine, RuleInstance
from tests.proofs.lift.toys import counters, two_phase_commit, window


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KAFKA_EOS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "compiled"


def made(machine: Machine, cache: Path) -> set[str]:
    prepared = prepare(machine)
    build_machine(prepared.machine, prepared.layout)
    return {path.name for path in cache.iterdir()}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the engine's own unit, which takes most of the time of compiling a toy."""
    folder = tmp_path_factory.mktemp("engine") / "cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KAFKA_EOS_CACHE", str(folder))
        made(two_phase_commit(3), folder / "compiled")
    return folder


@pytest.fixture
def warm(cache: Path, engine: Path) -> Path:
    """A cache that begins with the engine's unit."""
    shutil.copytree(engine, cache.parent)
    return cache


def test_budgets_recompile_nothing(warm: Path) -> None:
    assert made(counters(3), warm) == made(counters(9), warm)


def test_an_edited_rule_recompiles_alone(warm: Path) -> None:
    machine = counters()
    first = made(machine, warm)
    edited = dataclasses.replace(machine.rules[0], guard=TRUE)
    rules = (edited, *machine.rules[1:])
    new = made(dataclasses.replace(machine, rules=rules), warm) - first
    assert sorted(Path(name).suffix for name in new) == [".o", ".so"]


def test_text_does_not_depend_on_what_was_lifted_before() -> None:
    """`eq` orders operands by creation; another order of creation must print the same."""
    script = (
        "from tests.proofs.lift.toys import *\n"
        "from proofs.explore.explorer import prepare\n"
        "from proofs.lift.c_form import print_c\n"
        "from proofs.lift.dag import eq, leaf, const\n"
        "import sys\n"
        "for n in range(int(sys.argv[1])):\n"
        "    eq(add(leaf('lane[0].got', 0, 7), const(1)), const(n))\n"
        "p = prepare(window())\n"
        "print([u.text for u in print_c(p.machine, p.layout)])\n"
    )
    texts = [
        subprocess.run(
            [sys.executable, "-c", script, count], capture_output=True, text=True, check=True
        ).stdout
        for count in ("0", "5")
    ]
    assert texts[0] == texts[1]


def test_names_of_a_unit_say_what_they_are() -> None:
    prepared = prepare(counters())
    units = {unit.name: unit for unit in print_c(prepared.machine, prepared.layout)}
    assert units["rule_sink_0"].functions == ("r_sink_by_m1", "r_sink_by_1")
    assert "rule_never_0" not in units


def test_large_rules_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proofs.lift.c_form.NODES_A_UNIT", 150)
    prepared = prepare(window())
    units = print_c(prepared.machine, prepared.layout)
    assert len([unit for unit in units if unit.name.startswith("rule_arrive")]) > 1
    assert all(unit.nodes <= 150 or len(unit.functions) == 1 for unit in units)
    assert explore(window()).distinct == 27_613


def test_numbers_beyond_64_bits_are_refused() -> None:
    place = Leaf("x", 0, 1 << 40, False)
    node = leaf("x", 0, 1 << 40)
    rule = RuleInstance("square", (), TRUE, {"x": mul(node, node)})
    prepared = prepare(Machine("wide", (place,), (2,), {}, (rule,), {}, {}))
    with pytest.raises(Unprintable, match="64 bits"):
        print_c(prepared.machine, prepared.layout)


def test_what_the_compiler_says_is_passed_on(cache: Path) -> None:
    with pytest.raises(CompilerFailed, match=r"(?s)broken: .*error"):
        build([CompilationUnit("broken", "int f( {", ())])
    assert not [path for path in cache.iterdir() if path.suffix == ".o"]


def test_no_compiler_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    compiler.compiler_command.cache_clear()
    try:
        with pytest.raises(NoCompiler, match=r"kafka-eos\[compiler\]"):
            compiler.compiler_command()
    finally:
        compiler.compiler_command.cache_clear()


def test_the_cache_is_pruned_least_recently_used_first(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.mkdir(parents=True)
    for number in range(4):
        old = cache / f"{number}.o"
        old.write_bytes(bytes(1000))
        os.utime(old, (number, number))
    monkeypatch.setattr(compiler, "CACHE_BYTES", 2000)
    compiler._prune(cache)
    assert sorted(path.name for path in cache.iterdir()) == ["2.o", "3.o"]


SMALL = counters(), two_phase_commit(3)


@pytest.mark.parametrize(
    "machines", [SMALL, pytest.param((*SMALL, window()), marks=pytest.mark.full)], ids=len
)
def test_a_machine_compiles_without_warnings(
    machines: tuple[Machine, ...], monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.setattr(compiler, "_FLAGS", (*compiler._FLAGS, "-Werror"))
    for machine in machines:
        assert made(machine, cache)
