"""The console script: the table of verbs, lazy rooms, missing extras, exit codes."""

import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import pytest

import kafka_eos

REPOSITORY = Path(__file__).parent.parent

Room = Callable[[Sequence[str]], int]


@pytest.fixture
def install_room(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Room], None]:
    """Put a room with the given `main` in the place of the real one."""

    def install(name: str, main: Room) -> None:
        module = ModuleType(f"{name}.__main__")
        module.main = main  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, f"{name}.__main__", module)

    return install


@pytest.fixture
def calls(install_room: Callable[[str, Room], None]) -> list[tuple[str, list[str]]]:
    """Both rooms replaced: what each was called with."""
    seen: list[tuple[str, list[str]]] = []
    for name in kafka_eos.ROOMS:
        install_room(name, lambda argv, name=name: seen.append((name, list(argv))) or 0)
    return seen


@pytest.mark.parametrize(("verb", "row"), kafka_eos.VERBS.items())
def test_a_verb_calls_its_room_with_all_arguments(verb, row, calls):
    assert kafka_eos.main([verb, "--json", "report.json"]) == 0
    assert calls == [(row.room, [verb, "--json", "report.json"])]


def test_a_room_may_stand_before_the_verb(calls):
    assert kafka_eos.main(["conformance", "mutants", "--only", "x"]) == 0
    assert calls == [("conformance", ["mutants", "--only", "x"])]


def test_list_asks_both_rooms(calls):
    assert kafka_eos.main(["list"]) == 0
    assert calls == [("proofs", ["list"]), ("conformance", ["list"])]


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_the_exit_code_is_the_rooms(code, install_room):
    install_room("proofs", lambda argv: code)
    assert kafka_eos.main(["prove"]) == code


@pytest.mark.parametrize(
    ("verb", "module", "extra"),
    [
        ("prove", "z3", "proofs"),
        ("run", "pyspark.sql", "conformance"),
        ("run", "networkx", "conformance"),
        ("explore", "networkx", "proofs"),
        ("run", "kazoo.client", "zookeeper"),
    ],
)
def test_a_missing_extra_is_named(verb, module, extra, install_room, capsys):
    def main(argv: Sequence[str]) -> int:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    install_room(kafka_eos.VERBS[verb].room, main)
    assert kafka_eos.main([verb]) == 2
    assert f"pip install 'kafka-eos[{extra}]'" in capsys.readouterr().err


def test_a_missing_module_of_ours_is_a_defect(install_room):
    def main(argv: Sequence[str]) -> int:
        raise ModuleNotFoundError(
            "No module named 'model.idempotent.leader'", name="model.idempotent.leader"
        )

    install_room("proofs", main)
    with pytest.raises(ModuleNotFoundError):
        kafka_eos.main(["prove"])


def test_an_interrupted_verb_has_decided_nothing(install_room, capsys):
    def main(argv: Sequence[str]) -> int:
        raise KeyboardInterrupt

    install_room("proofs", main)
    assert kafka_eos.main(["explore"]) == 3
    assert "stopped" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [[], ["frobnicate"]])
def test_bad_use_exits_2_with_the_verbs(argv, capsys):
    assert kafka_eos.main(argv) == 2
    assert "explore" in capsys.readouterr().err


def test_help_lists_every_verb(capsys):
    assert kafka_eos.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {verb}" in out for verb in [*kafka_eos.VERBS, "list"])


def test_no_room_is_imported_before_its_verb_is_called():
    program = (
        "import sys, kafka_eos; kafka_eos.main(['--help']);"
        "print(sorted({'model', 'proofs', 'impl', 'conformance'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert result.stdout.endswith("[]\n")


def test_the_table_names_only_extras_that_exist():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = {extra for brought in kafka_eos.EXTRAS.values() for extra in brought}
    assert extras <= set(project["optional-dependencies"])
