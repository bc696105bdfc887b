"""The command line and the public door: one table of verbs, lazy imports, extras, exit codes."""

import argparse
import gc
import inspect
import os
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

import kafka_eos
from conformance.__main__ import main as conformance
from conformance.verbs import listing
from kafka_eos import command_line
from kafka_eos.command_line import import_for_good, main
from kafka_eos.examples import EXAMPLES
from kafka_eos.verbs import EXTRAS, ROOMS, VERBS, Verb, find_verb, verbs_of
from proofs.__main__ import main as proofs
from proofs.explore.engines import EnginesDisagree
from proofs.explore.result import LimitReached
from tests.docs.pages import is_understood

pytestmark = pytest.mark.fast

REPOSITORY = Path(__file__).parent.parent

Execute = Callable[[argparse.Namespace], int]


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[Execute], None]:
    """Put a module that does this in the place of each verb's own."""

    def install(execute: Execute) -> None:
        def add_arguments(parser: argparse.ArgumentParser) -> None:
            parser.add_argument("--json", type=Path)

        module = SimpleNamespace(add_arguments=add_arguments, execute=execute)
        monkeypatch.setattr(command_line, "load", lambda verb: module)

    return install


# Verbs


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: f"{verb.room} {verb.name}")
def test_each_verb_has_a_module_a_parser_and_a_sentence(verb: Verb, capsys) -> None:
    assert main([verb.room, verb.name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("usage: kafka-eos ")
    assert "exit codes: 0 holds" in shown
    assert verb.summary[-1] in ".?"
    assert callable(command_line.load(verb).execute)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: f"{verb.room} {verb.name}")
def test_the_help_of_each_verb_ends_with_examples_that_it_understands(verb: Verb, capsys) -> None:
    for words, remark in EXAMPLES[verb.room, verb.name]:
        assert is_understood(shlex.split(words))
        shown = capsys.readouterr().out
        assert f"  kafka-eos {words}" in shown
        assert f"# {remark}\n" in shown
        assert max(map(len, shown.splitlines())) <= 100


def test_examples_are_of_verbs() -> None:
    assert {(verb.room, verb.name) for verb in VERBS} == EXAMPLES.keys()


@pytest.mark.parametrize(
    "words",
    [
        ["live"],
        ["pages"],
        ["facts"],
        ["explore", "idempotent-tiny", "--ask", "refused_is_not_stored"],
        ["run", "--on", "values"],
        ["run", "--judge", "promises"],
        ["mutants", "--systematic", "--count", "3"],
    ],
)
def test_a_thing_has_one_name(words: list[str], capsys) -> None:
    """Names of before are refused as any that there never was."""
    assert main(words) == 2
    assert capsys.readouterr().out == ""


def test_a_room_may_stand_before_the_verb_and_has_an_entry_point_of_its_own(stand_in) -> None:
    called: list[str] = []
    stand_in(lambda options: called.append(options.json.name) or 0)
    assert main(["conformance", "mutants", "--json", "a"]) == 0
    assert conformance(["mutants", "--json", "b"]) == proofs(["mutants", "--json", "c"]) == 0
    assert called == ["a", "b", "c"]
    assert find_verb("mutants").room == "proofs"
    assert find_verb("mutants", "conformance").room == "conformance"


def test_a_room_has_its_own_verbs_only(capsys) -> None:
    assert proofs(["replay"]) == 2
    assert "unknown verb 'replay'; `kafka-eos --help` lists all\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "meant"), [("explre", "explore"), ("known_defects", "known-defects")]
)
def test_a_mistyped_verb_is_refused_and_the_right_one_named(typed: str, meant: str, capsys) -> None:
    assert main([typed]) == 2
    assert (
        capsys.readouterr().err == f"kafka-eos: unknown verb {typed!r}: did you mean {meant!r}?\n"
    )


def test_list_says_on_one_screen_how_many_names_each_kind_has(capsys) -> None:
    assert main(["list"]) == 0
    first, *rows, last = capsys.readouterr().out.splitlines()
    assert first.split() == ["kind", "names", "which", "are"]
    counts = {name: int(count) for name, count, *_ in map(str.split, rows)}
    assert counts.keys() == {*listing.KINDS}
    assert min(counts.values()) > 0
    assert counts["scopes"] == len(listing.names_of("scopes"))
    assert last == "`kafka-eos list KIND` prints the names of a kind: `kafka-eos list scopes`"
    assert len(rows) + 2 <= 24
    assert max(map(len, rows)) < 80
    assert proofs(["list"]) == 0
    assert "systems" not in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["scopes", "changes", "theorems", "branches", "planted_bugs"])
def test_list_prints_one_kind(kind: str, capsys) -> None:
    assert main(["list", kind]) == 0
    heading, columns, *rows = capsys.readouterr().out.splitlines()
    assert heading == f"{kind}:"
    assert columns.split()[0] in ("name", "rule")
    assert [row.split()[0] for row in rows] == listing.names_of(kind)


def test_list_refuses_a_kind_that_is_none(capsys) -> None:
    assert main(["list", "scope"]) == 2
    assert "invalid KIND 'scope'; valid: scopes, variants" in capsys.readouterr().err


def test_bad_use_exits_2_and_says_where_the_verbs_are(capsys) -> None:
    assert main([]) == 2
    assert "explore" in capsys.readouterr().err
    assert main(["frob"]) == 2
    assert "unknown verb 'frob'; `kafka-eos --help` lists all\n" in capsys.readouterr().err


@pytest.mark.parametrize("room", [None, *ROOMS])
def test_help_lists_every_verb_once(room: str | None, capsys) -> None:
    assert main(["--help"], room) == 0
    lines = capsys.readouterr().out.splitlines()
    for verb in verbs_of(room):
        assert sum(line.startswith(f"  {verb.name} ") for line in lines) == 1


# How a verb ends


@pytest.mark.parametrize(
    ("option", "place", "message"),
    [
        ("--out", "file", "there is a file of this name; name a folder"),
        ("--out", "file/out", "is a file, no folder"),
        ("--json", ".", "there is a folder of this name; name a file"),
        ("--json", "file/report.json", "is a file, no folder"),
        ("--html", "/proc/page.html", "/proc cannot be written"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_any_work(
    option: str, place: str, message: str, tmp_path: Path, capsys
) -> None:
    (tmp_path / "file").touch()
    verb = ["explain", "no.jsonl"] if option == "--html" else ["run"]
    assert main([*verb, option, str(tmp_path / place)]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert (shown.err.count("\n"), shown.out) == (1, "")


def test_a_folder_that_hides_our_packages_is_named(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "__init__.py").touch()
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{REPOSITORY}"}
    result = subprocess.run(
        [sys.executable, "-m", "kafka_eos", "list"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert f"{tmp_path / 'model'} hides kafka-eos's own package 'model'" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_the_exit_code_is_the_verbs(code: int, stand_in) -> None:
    stand_in(lambda options: code)
    assert main(["prove"]) == code


def failing(error: BaseException) -> Execute:
    def execute(options: argparse.Namespace) -> int:
        raise error

    return execute


class InvalidScope(ValueError):
    """As a module of ours defines it."""

    __module__ = "proofs.somewhere"


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (InvalidScope("invalid SCOPE 'x'; valid: a, b"), 2, "explore: invalid SCOPE 'x'; valid"),
        (FileNotFoundError(2, "No such file", "x.jsonl"), 2, "explore: x.jsonl: No such file"),
        (LimitReached("too many states"), 3, "explore: too many states"),
        (KeyboardInterrupt(), 3, "stopped"),
        (EnginesDisagree("c 5, ints 6"), 3, "Traceback"),
        (ValueError("not one of ours"), 3, "Traceback"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_errors_become_messages_and_exit_codes(
    error: BaseException, code: int, message: str, stand_in, capsys
) -> None:
    stand_in(failing(error))
    assert main(["explore"]) == code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verb", "module", "extra"),
    [
        ("prove", "z3", "proofs"),
        ("run", "pyspark.sql", "conformance"),
        ("run", "networkx", "judge"),
        ("run", "py4j.protocol", "conformance"),
        ("prove", "networkx", "proofs"),
        ("run", "kazoo.client", "zookeeper"),
    ],
)
def test_a_missing_extra_is_named(verb: str, module: str, extra: str, stand_in, capsys) -> None:
    stand_in(failing(ModuleNotFoundError(f"No module named {module!r}", name=module)))
    assert main([verb]) == 2
    assert f"pip install 'kafka-eos[{extra}]'" in capsys.readouterr().err


def test_a_scope_that_is_none_is_told_before_spark_is_needed(monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "conformance.backends.spark", None)
    monkeypatch.setitem(sys.modules, "conformance.verbs.in_process", None)
    assert main(["run", "--scope", "foo"]) == 2
    assert "run: no scope is called 'foo'" in capsys.readouterr().err


def test_a_missing_module_of_ours_is_a_defect(stand_in) -> None:
    stand_in(failing(ModuleNotFoundError("No module named 'model.x'", name="model.x")))
    with pytest.raises(ModuleNotFoundError):
        main(["prove"])


def test_the_table_names_only_extras_that_exist() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = {extra for brought in EXTRAS.values() for extra in brought}
    assert extras <= set(project["optional-dependencies"])


# The public door


def test_each_public_name_is_there_and_documented() -> None:
    for name in kafka_eos.__all__:
        assert inspect.getdoc(getattr(kafka_eos, name)), name
    assert set(kafka_eos.__all__) <= set(dir(kafka_eos))
    with pytest.raises(AttributeError, match="no attribute 'Frobnicator'"):
        _ = kafka_eos.Frobnicator


def test_no_room_is_imported_before_it_is_used() -> None:
    program = (
        "import sys, kafka_eos; from kafka_eos.command_line import main; main(['--help']);"
        "rooms = lambda: sorted({'model', 'proofs', 'impl', 'conformance'} & set(sys.modules));"
        "print(rooms()); kafka_eos.ErrorCode; print(rooms())"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert result.stdout.endswith("[]\n['impl']\n")


@pytest.mark.parametrize("collects", [True, False])
@pytest.mark.parametrize("module", ["kafka_eos.verbs", "kafka_eos.no_such_module"])
def test_an_import_leaves_the_collector_as_it_was(module: str, collects: bool) -> None:
    (gc.enable if collects else gc.disable)()
    try:
        with suppress(ModuleNotFoundError):
            import_for_good(module)
        assert gc.isenabled() is collects
    finally:
        gc.enable()
