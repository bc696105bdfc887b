"""The wheel: what it ships, and that it works without extras beside a project's own `model/`."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

import pytest

REPOSITORY = Path(__file__).parent.parent
EXAMPLE = REPOSITORY / "docs" / "examples" / "transaction.py"
SOURCES = (
    "pyproject.toml", "setup.py", "README.md", "LICENSE", "kafka_eos",
    "model", "proofs", "impl", "conformance", "tests", "benchmarks",
)  # fmt: skip

PACKAGES = ("kafka_eos", "model", "proofs", "impl", "conformance")

pytestmark = pytest.mark.xdist_group("packaging")  # build the wheel once, not once a worker


PURE = {**os.environ, "KAFKA_EOS_COMPILED": "0"}  # compiling takes a minute: tests/test_compiled.py


def run(*command: str | Path, cwd: Path) -> str:
    result = subprocess.run(command, cwd=cwd, env=PURE, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy: a `build/` folder left in the tree would leak into it."""
    source = tmp_path_factory.mktemp("source")
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in SOURCES:
        path = REPOSITORY / name
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=ignore)
        elif path.exists():
            shutil.copy(path, source / name)
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, cwd=source)
    [built] = out.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def shipped(wheel: Path) -> list[PurePosixPath]:
    with zipfile.ZipFile(wheel) as archive:
        return [PurePosixPath(name) for name in archive.namelist()]


@pytest.fixture(scope="session")
def project(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stranger's project: folders named like ours, and a venv that holds the wheel, no extras."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("model", "proofs", "tests"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(f'OWNER = "the project\'s own {name}"\n')
    run(sys.executable, "-m", "venv", ".venv", cwd=folder)
    run(folder / ".venv/bin/python", "-m", "pip", "install", "--quiet", wheel, cwd=folder)
    return folder


def test_the_wheel_ships_the_rooms_and_nothing_else(shipped):
    tops = {path.parts[0] for path in shipped if not path.parts[0].endswith(".dist-info")}
    assert tops == set(PACKAGES)


def test_the_wheel_says_that_it_is_typed(shipped):
    for room in PACKAGES:
        assert PurePosixPath(room, "py.typed") in shipped


def test_the_wheel_ships_every_module_and_every_file_that_they_read(shipped):
    suffixes = {".py", ".c", ".h", ".toml", ".json", ".html", ".java"}
    for room in PACKAGES:
        for path in (REPOSITORY / room).rglob("*"):
            if path.suffix in suffixes:
                assert PurePosixPath(path.relative_to(REPOSITORY)) in shipped


def test_the_core_needs_a_checksum_and_the_compilers_library(project):
    listed = run(project / ".venv/bin/python", "-m", "pip", "list", "--format=freeze", cwd=project)
    names = {line.partition("==")[0] for line in listed.splitlines()}
    needed = {"google-crc32c", "librt", "mypy_extensions"}
    assert names - {"pip", "setuptools", "wheel", "kafka-eos"} == needed


def test_a_projects_own_model_does_not_break_impl(project):
    program = "import impl, model, tests; print(model.OWNER, tests.OWNER, impl.__file__)"
    out = run(project / ".venv/bin/python", "-c", program, cwd=project)
    assert "the project's own model" in out
    assert str(project / ".venv") in out


def test_the_first_example_runs_with_the_core_alone(project):
    shutil.copy(EXAMPLE, project)
    printed = run(project / ".venv/bin/python", EXAMPLE.name, cwd=project)
    assert printed in (REPOSITORY / "README.md").read_text(encoding="utf-8")


def test_the_console_script_is_installed(project):
    script = project / ".venv/bin/kafka-eos"
    assert "usage: kafka-eos" in run(script, "--help", cwd=project)
    assert run(script, "--version", cwd=project).startswith("kafka-eos ")


def test_the_plugin_of_pytest_is_installed_and_its_broker_needs_the_core_alone(project):
    program = "from importlib.metadata import entry_points; from kafka_eos import Broker\n"
    program += "print(*(p.value for p in entry_points(group='pytest11')))\n"
    program += "with Broker(nodes=2) as kafka: print(len(kafka.bootstrap_servers.split(',')))"
    shown = run(project / ".venv/bin/python", "-c", program, cwd=project)
    assert shown == "kafka_eos.pytest_plugin\n2\n"


def test_the_public_door_opens_with_the_core_alone(project):
    program = "import kafka_eos; print(kafka_eos.Producer.__name__, kafka_eos.Server.__name__)"
    assert run(project / ".venv/bin/python", "-c", program, cwd=project) == "Producer Server\n"
