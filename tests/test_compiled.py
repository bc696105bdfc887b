"""The compiled form of `impl`: all hot modules or none, and the same answers as Python's."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
REDUCED = (
    "impl/broker/test_connection_limits.py",
    "impl/broker/test_due_work.py",
    "impl/broker/test_node.py",
    "impl/broker/test_produce_order.py",
    "impl/broker/test_reads.py",
    "impl/client/test_transport.py",
    "impl/partition/test_leader.py",
    "impl/producer/test_aiokafka_names.py",
    "impl/producer/test_bad_input.py",
    "impl/producer/test_observers.py",
    "impl/producer/test_producer.py",
    "impl/producer/test_sender.py",
    "impl/producer/test_sending.py",
    "impl/producer/test_transactions.py",
    "impl/protocol/test_messages.py",
    "impl/protocol/test_native_codecs.py",
    "impl/protocol/test_primitives.py",
    "impl/protocol/test_record_batch.py",
    "impl/protocol/test_records.py",
)
"""Of `make compiled`, what takes seconds."""

pytestmark = pytest.mark.xdist_group("compiled")


@pytest.fixture(scope="session")
def tree() -> Path:
    """The compiled copy; compiling a new text takes a minute."""
    command = [sys.executable, REPOSITORY / "scripts" / "compiled.py"]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode == 2:
        pytest.skip(built.stderr.strip())
    assert built.returncode == 0, built.stderr
    return Path(built.stdout.strip())


def compiled_modules() -> list[str]:
    """The table in `setup.py`."""
    for statement in ast.parse((REPOSITORY / "setup.py").read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "COMPILED":
            return list(ast.literal_eval(statement.value))
    raise LookupError("setup.py has no COMPILED")


def run(program: str, path: str) -> str:
    env = {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout


def test_every_module_of_the_table_is_an_extension_module(tree: Path) -> None:
    names = [Path(file).with_suffix("").as_posix().replace("/", ".") for file in compiled_modules()]
    program = f"import importlib as i; [print(i.import_module(n).__file__) for n in {names}]"
    files = run(program, str(tree)).split()
    assert len(files) == len(names) > 10
    assert all(file.startswith(str(tree)) and not file.endswith(".py") for file in files)


def test_the_types_hold_where_nothing_but_the_compiler_is_installed(tmp_path: Path) -> None:
    """As in an isolated build: `pip install .` has what `build-system.requires` names alone."""
    options = ["--no-site-packages", "--strict", f"--cache-dir={tmp_path}"]
    command = [sys.executable, "-m", "mypy", *options, *compiled_modules()]
    checked = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_a_checkout_has_no_extension_module() -> None:
    assert not [*REPOSITORY.glob("impl/**/*.so"), *REPOSITORY.glob("impl/**/*.pyd")]


def test_it_says_which_form_runs(tree: Path) -> None:
    assert run("from impl.form import FORM; print(FORM)", str(tree)) == "compiled\n"
    program = "from kafka_eos.command_line import main; main(['--version'])"
    assert run(program, str(REPOSITORY)).endswith(" (python)\n")


JUDGE_ONE_TRACE = """
from pathlib import Path
from tempfile import mkdtemp
from conformance.adapters.impl.judges import judge_range
from conformance.judging.plan import BadPlan, Plan, prepare
from impl.form import FORM
plan = Plan(scope="idempotent-default", system="impl", traces_from=("cover",))
try:
    print(FORM, len(judge_range(prepare(plan, Path(mkdtemp())), 0, 1).findings))
except BadPlan as error:
    print(error)
"""


def test_the_judge_takes_the_steps_of_the_text(tree: Path) -> None:
    path = os.pathsep.join([str(tree), str(REPOSITORY)])
    assert run(JUDGE_ONE_TRACE, path) == "python 0\n"
    assert "impl is compiled in this process" in run("import impl.form\n" + JUDGE_ONE_TRACE, path)


def test_the_compiled_form_passes_the_same_tests(tree: Path) -> None:
    files = [str(REPOSITORY / "tests" / name) for name in REDUCED]
    options = ["-q", "-m", "not kafka and not slow", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, *files]
    form = {**os.environ, "KAFKA_EOS_FORM": "compiled"}
    done = subprocess.run(
        command, cwd=REPOSITORY, env=form, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    assert "passed" in done.stdout
