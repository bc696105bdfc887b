"""Spark's sessions, settings and failures: what the user says comes first, and one sentence says
what is wrong."""

import os
import platform
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy
import pyspark
import pytest

from conformance.__main__ import main
from conformance.backends.environment import environment_reader, group_by_host
from conformance.backends.spark import Spark
from conformance.backends.spark_failures import describe_failure, meaning_of
from conformance.backends.spark_session import (
    LOCAL,
    OpenSession,
    name_python,
    require_server,
    user_configurations,
    with_ours_beneath,
)
from conformance.judging.backend import BackendError, Options
from conformance.judging.reports.report import run_json
from conformance.judging.runner import Wave
from proofs.run.files import REPOSITORY


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Nobody says anything about Spark."""
    for name in (
        "PYSPARK_SUBMIT_ARGS",
        "PYSPARK_GATEWAY_PORT",
        "PYSPARK_PYTHON",
        "SPARK_CONF_DIR",
        "SPARK_HOME",
    ):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


# Settings


def test_this_machine_is_the_master_where_nobody_names_one(bare, tmp_path):
    given = user_configurations(Options(tmp_path / "log"))
    assert given == {}
    wanted = with_ours_beneath(given, tmp_path)
    assert (wanted["spark.master"], wanted["spark.ui.enabled"]) == (LOCAL, "false")


def test_an_option_goes_before_the_arguments_of_spark_submit_and_these_before_the_file(
    bare, tmp_path
):
    (tmp_path / "spark-defaults.conf").write_text(
        "# a comment\nspark.master   spark://file:7077\nspark.app.name=theirs\n\n"
        "spark.executor.memory 3g\n"
    )
    bare.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert user_configurations(Options(tmp_path / "log")) == {
        "spark.master": "spark://file:7077",
        "spark.app.name": "theirs",
        "spark.executor.memory": "3g",
    }
    bare.setenv(
        "PYSPARK_SUBMIT_ARGS",
        "--master spark://args:7077 --name mine --conf spark.ui.port=4099 pyspark-shell",
    )
    given = user_configurations(Options(tmp_path / "log"))
    assert (given["spark.master"], given["spark.app.name"]) == ("spark://args:7077", "mine")
    assert given["spark.ui.port"] == "4099"
    conf = (("spark.executor.memory", "5g"),)
    given = user_configurations(Options(tmp_path / "log", master="local[3]", conf=conf))
    assert (given["spark.master"], given["spark.executor.memory"]) == ("local[3]", "5g")


def test_our_settings_are_for_this_machine_and_give_way(bare, tmp_path):
    given = {"spark.master": "local[1]", "spark.ui.enabled": "true", "spark.app.name": "mine"}
    wanted = with_ours_beneath(given, tmp_path)
    assert wanted.items() >= given.items()
    assert wanted["spark.task.maxFailures"] == "2"
    cluster = {"spark.master": "spark://there:7077", "spark.app.name": "mine"}
    assert with_ours_beneath(cluster, tmp_path) == cluster


def test_a_setting_names_the_python_of_executors_as_spark_submit_would(bare):
    bare.setenv("PYSPARK_PYTHON", "/theirs")
    name_python({})
    assert os.environ["PYSPARK_PYTHON"] == "/theirs"
    name_python({"spark.pyspark.python": "/there/bin/python"})
    assert os.environ["PYSPARK_PYTHON"] == "/there/bin/python"
    bare.delenv("PYSPARK_PYTHON")
    name_python({})
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


@pytest.mark.parametrize("text", ["spark.ui.port", "=4040"])
def test_a_setting_has_a_name_and_a_value(text, capsys):
    assert main(["run", "--conf", text]) == 2
    assert "NAME=VALUE" in capsys.readouterr().err


# Cores


def test_cores_are_read_when_they_are_asked_for(tmp_path):
    """Executors register while the session is open already, and may go again."""
    context = SimpleNamespace(defaultParallelism=2)
    opened = OpenSession(SimpleNamespace(sparkContext=context), False, True, False)
    backend = Spark(opened, SimpleNamespace(), Options(tmp_path / "log"), tmp_path)
    assert backend.cores == 2
    context.defaultParallelism = 8
    assert backend.cores == 8


# Environments


def test_a_worker_says_which_python_and_packages_it_has():
    here = environment_reader(("numpy", "nosuch"))()
    packages = {"numpy": numpy.__version__, "nosuch": None}
    assert here["packages"] == packages
    assert here["python"] == platform.python_version()


def test_hosts_with_the_same_environment_are_one_row():
    same = {"python": "3.11.7", "packages": {"numpy": "2.4.6"}}
    other = {"python": "3.11.9", "packages": {"numpy": "2.4.6"}}
    found = [{"host": host, **same} for host in ("b", "a", "b")] + [{"host": "c", **other}]
    assert group_by_host(found) == [{"hosts": ["a", "b"], **same}, {"hosts": ["c"], **other}]


def test_what_executors_run_is_in_run_json_once():
    group = {"hosts": ["a"], "python": "3.11.7", "packages": {"numpy": "2.4.6"}, "spark": "4.3.0"}
    waves = [Wave(n, n + 1, 1.0, 10, "spark", 2, [group]) for n in range(3)]
    run = run_json([*waves, Wave(3, 4, 1.0, 10, "processes", 2)])
    assert run["executors"] == [group]
    assert all("executors" not in wave for wave in run["waves"])


# Failures

LOST_TASK = (
    "Py4JJavaError: An error occurred while calling o108.collectToPython.\n"
    ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 2.0"
    " failed 1 times, most recent failure: Lost task 0.0 in stage 2.0 (TID 6) (192.0.2.2 executor"
    " driver): java.io.IOException: {}"
)
SAID = {
    "cannot start /no/python": 'java.io.IOException: Cannot run program "/no/python": error=2, No',
    "lacks pyarrow": "An exception\n  File x\nModuleNotFoundError: No module named 'pyarrow'\n",
    "run Python 3.9": "PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has"
    " different version: 3.9 than that in driver: 3.11, PySpark cannot run",
    "out of memory": "Py4JJavaError: An error occurred\n: java.lang.OutOfMemoryError: Java heap",
    "executors were lost": "Job aborted: ExecutorLostFailure (executor 1 exited caused by one of",
    "worker ended unexpectedly": "org.apache.spark.SparkException: Python worker exited"
    " unexpectedly (crashed)",
    "a Python worker ended": LOST_TASK.format("Stream closed"),
    "Python worker ended": "SparkException: EOFException occurred while reading the port number"
    " from pyspark.daemon's stdout.",
    "a Python worker ended unexpectedly": LOST_TASK.format("daemon failed to launch worker."),
    "SparkException: Job aborted due to": LOST_TASK.format("No locks available"),
    "Spark is gone": "IllegalStateException: Cannot call methods on a stopped SparkContext.",
    "a disk is full": "java.io.IOException: No space left on device",
    "ValueError: no such trace: 0": "An exception was thrown from the Python worker.\n"
    "Traceback (most recent call last):\n  File x\nValueError: no such trace: 0\n",
    "something else": "something else\n\tat org.apache.spark.Foo\n",
}


@pytest.mark.parametrize("meaning", SAID)
def test_a_failure_is_one_sentence_and_the_rest_is_in_the_log(meaning, tmp_path):
    trace = "\n".join(f"\tat org.apache.spark.Class{n}.method(Class.scala:{n})" for n in range(190))
    text = f"{SAID[meaning]}\n{trace}"
    sentence = describe_failure(RuntimeError(text), tmp_path / "backend.log")
    assert meaning in sentence
    assert "\n" not in sentence
    assert "Class189" in (tmp_path / "backend.log").read_text()


def test_spark_that_says_nothing_is_told_too():
    assert meaning_of("") == "Spark says nothing"


def test_a_server_that_does_not_listen_is_told_at_once():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(BackendError, match=f"no Spark master listens at .*:{port}"):
            require_server(f"spark://127.0.0.1:{port}")
        with pytest.raises(BackendError, match=f"no Spark Connect server listens at .*:{port}"):
            require_server(f"sc://127.0.0.1:{port}/;user_id=me")
        taken.listen()
        require_server(f"spark://127.0.0.1:1,127.0.0.1:{port}")
        require_server(f"sc://127.0.0.1:{port}/;user_id=me")
    require_server("yarn")


# Whole processes


SCOPE = ("run", "--scope", "idempotent-restart", "--traces", "40")


def run_in_process(
    *words: str, command: tuple[str, ...] = ("-m", "conformance"), **environment: str
) -> subprocess.CompletedProcess[str]:
    """A run of a small scope in a process of its own: sessions of tests are in this one."""
    return subprocess.run(
        [*((sys.executable,) if command[0] == "-m" else ()), *command, *SCOPE, *words],
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.full
@pytest.mark.xdist_group("spark")
def test_a_cluster_reports_the_same_bytes_as_processes(tmp_path):
    """Two executors with nothing but what was shipped, in processes of their own."""
    there, here = tmp_path / "cluster", tmp_path / "processes"
    cluster = ("--master", "local-cluster[2,1,1024]", "--partitions", "12")
    ended = run_in_process("--backend", "spark", *cluster, "--out", str(there))
    assert ended.returncode == 0, ended.stderr
    assert main([*SCOPE, "--backend", "processes", "--out", str(here)]) == 0
    assert (there / "report.json").read_bytes() == (here / "report.json").read_bytes()


@pytest.mark.full
@pytest.mark.xdist_group("spark")
def test_a_python_that_is_not_there_is_one_sentence(tmp_path):
    words = ("--backend", "spark", "--master", "local[1]", "--out", str(tmp_path / "out"))
    ended = run_in_process(*words, PYSPARK_PYTHON="/no/python")
    assert ended.returncode == 3
    last = ended.stderr.strip().splitlines()[-1]
    assert "cannot start /no/python" in last
    assert "\tat " not in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.full
@pytest.mark.xdist_group("spark")
def test_spark_submit_says_where_a_run_is_and_what_it_is_called(tmp_path):
    program = tmp_path / "run.py"
    program.write_text(
        "import sys\n"
        "from conformance.__main__ import main\n"
        "from pyspark import SparkContext\n"
        "from conformance.backends.spark import Spark\n"
        "close = Spark.close\n"
        "def told(self):\n"
        "    context = SparkContext._active_spark_context\n"
        "    print('told', context.master, context.appName, context.getConf().get('spark.x'))\n"
        "    close(self)\n"
        "Spark.close = told\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    settings = ("--master", "local[1]", "--name", "mine", "--conf", "spark.x=y")
    ended = run_in_process(
        *("--backend", "spark", "--out", str(tmp_path / "out")),
        command=(submit, *settings, str(program)),
        PYTHONPATH=str(REPOSITORY),
        PYSPARK_PYTHON=sys.executable,
        PYSPARK_DRIVER_PYTHON=sys.executable,
    )
    assert ended.returncode == 0, ended.stderr
    assert "told local[1] mine y" in ended.stdout
