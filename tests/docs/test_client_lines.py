"""The page about the lines of a client: its lines are those of the code, and its example runs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from conformance.adapters.clients.processes import SHIPPED, ClientReport, format_plan
from conformance.adapters.clients.run_plan import draw_plan
from conformance.adapters.clients.transactional_plan import draw_transactional
from kafka_eos.command_line import main
from tests.docs.pages import REPOSITORY, missing, page

PATH = REPOSITORY / "docs" / "reference" / "client_lines.md"
PAGE = page(PATH)
IN, OUT = (
    block.splitlines() for block in re.findall(r"```text\n(.*?)```", PAGE.text, flags=re.DOTALL)
)
WORDS = re.findall(r"^\| `(\S+)` \| ", PAGE.text, flags=re.MULTILINE)


def shape(word: str) -> str:
    """A word of WORDS without its numbers."""
    return re.sub(r"\d+", "9", word)


@pytest.mark.fast
def test_the_lines_in_are_those_that_a_client_reads() -> None:
    plans = [draw_plan(0, 3), *(draw_transactional(0, number, 2) for number in range(4))]
    names = {name for plan in plans for name in plan.configs}
    for line in IN[1:]:
        number, _, topic, configs, _ = line.split()
        assert (topic, number.isdigit()) == (format_plan(plans[0], "-").split()[2], True)
        assert {pair.split("=")[0] for pair in configs.split(",")} <= names
    assert {shape(word) for plan in plans for word in plan.words} == set(map(shape, WORDS))
    assert all(f"`{name}`" in PAGE.text for name in SHIPPED)


@pytest.mark.fast
def test_the_lines_out_are_understood() -> None:
    report = ClientReport(lambda ns: ns)
    for line in OUT[:-1]:
        report.add_line(line.split()[1:])
    assert OUT[-1].split()[1:] == ["closed"]
    assert {outcome.error for outcome in report.outcomes.values()} == {"", "TimeoutException"}
    assert report.ends.keys() == {0, 1}
    assert report.problem
    with pytest.raises(ValueError, match="finished"):
        report.add_line(["finished"])


@pytest.mark.slow
def test_the_example_is_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    (run,) = PAGE.runs
    file = REPOSITORY / "docs" / "examples" / "own_client.py"
    client = f"{sys.executable} {file}"
    words = ["run", "--system", "client", "--client", client, "--traces", "4"]
    assert main([*words, "--partitions", "2", "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out.replace(client, f"python {file.relative_to(REPOSITORY)}")
    assert missing(run[1:], printed.splitlines()) == []
