"""Re-checks a sample of obligations with other programs, and with proofs checked step by step.

A seed draws the sample. Z3 and cvc5 run as stand-alone programs that read a file; SMTInterpol is a
third solver, whose jar comes through Maven. cvc5 also writes a proof, whose steps its checker
checks. Steps of two kinds are trusted: rewrites of a theory, and steps without a rule.
"""

from __future__ import annotations

import random
import resource
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from proofs.cache import cache_folder, make_once
from proofs.java import FetchFailed, MissingTool, download_jars, find_java
from proofs.prove.engine.solvers import RESULTS, Said, ask_patiently
from proofs.prove.run.plan import Duty

ARTIFACT: Final = "de.uni-freiburg.informatik.ultimate:smtinterpol:2.5-1388-ga5a4ab0c"
TIMEOUT_S: Final = 5
GRACE_S: Final = 10
"""How much later than its own limit a program is ended, because the machine may be busy."""
TRUSTED: Final = ("TRUST", "TRUST_THEORY_REWRITE")


@dataclass(frozen=True, slots=True)
class ProgramAnswer:
    """A program's answer to an obligation: proved, failed or unknown. For a checked proof also the
    number of its steps, and how many of them are trusted."""

    program: str
    obligation: str
    result: str
    seconds: float
    steps: int = 0
    trusted: int = 0


def draw(duties: Sequence[Duty], count: int, seed: int) -> list[Duty]:
    """Draw `count` obligations that are not trivial; all of them if there are fewer."""
    asked = [duty for duty in duties if not duty.obligation.is_trivial]
    return random.Random(seed).sample(asked, min(count, len(asked)))


# Programs


def smtinterpol_jar() -> Path:
    """Return SMTInterpol's jar, fetched through Maven the first time.

    Raises MissingTool, FetchFailed.
    """
    _, name, version = ARTIFACT.split(":")
    folder = cache_folder() / "smtinterpol" / version
    made = make_once(folder, lambda draft: download_jars([ARTIFACT], draft))
    return made / f"{name}-{version}.jar"


HOW_TO_GET: Mapping[str, str] = {
    "z3": "it comes with the Python package z3-solver",
    "cvc5": "install Debian's package (apt-get install cvc5), or put another build on the path",
}


def program_beside(name: str) -> str:
    """Return a solver's program: beside this Python, else on the path. Raises MissingTool, which
    says how to get it."""
    own = Path(sys.executable).parent / name
    found = str(own) if own.exists() else shutil.which(name)
    if found is None:
        raise MissingTool(f"there is no program {name} on the path: {HOW_TO_GET[name]}")
    return found


def z3_command(limit_s: float) -> list[str]:
    """Return the command of Z3's program, which comes with its package."""
    return [program_beside("z3"), f"-t:{int(limit_s * 1000)}"]


def cvc5_command(limit_s: float) -> list[str]:
    """Return the command of cvc5's program, which does not come with its package."""
    return [program_beside("cvc5"), f"--tlimit={int(limit_s * 1000)}"]


def smtinterpol_command(limit_s: float) -> list[str]:
    """Return the command of SMTInterpol, which prints no answer to commands other than queries."""
    jar, java = str(smtinterpol_jar()), str(find_java())
    return [java, "-jar", jar, "-no-success", "-q", "-t", str(int(limit_s * 1000))]


COMMANDS: Mapping[str, Callable[[float], list[str]]] = {
    "z3": z3_command,
    "cvc5": cvc5_command,
    "smtinterpol": smtinterpol_command,
}
"""Functions from a time limit in seconds to the command that runs a program. Each raises
MissingTool or FetchFailed."""
PROOFS: Final = "proofs"
PROGRAMS: Final = (*COMMANDS, PROOFS)


def ask_program(program: str, file: Path, obligation: str) -> ProgramAnswer:
    """Return a program's answer to the text of a file. Raises MissingTool, FetchFailed."""

    def attempt(limit_s: float) -> Said:
        command = [*COMMANDS[program](limit_s), str(file)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=limit_s + GRACE_S, check=False
            )
        except subprocess.TimeoutExpired:
            return "", ()
        return (done.stdout.split() or [""])[0], ()

    (said, _), used = ask_patiently(attempt, TIMEOUT_S, time_of_children)
    return ProgramAnswer(program, obligation, RESULTS.get(said, "unknown"), round(used, 3))


def time_of_children() -> float:
    """Return the processor time of programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# Proofs


def check_proof(text: str, obligation: str) -> ProgramAnswer:
    """Have cvc5 prove an obligation and check each step of the proof as it is made."""
    import cvc5

    solver = cvc5.Solver(cvc5.TermManager())
    for option, value in (
        ("check-proofs", "true"),
        ("proof-check", "eager"),
        ("proof-granularity", "theory-rewrite"),
        ("tlimit-per", str(TIMEOUT_S * 1000)),
    ):
        solver.setOption(option, value)
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, obligation)
    began, said = time.process_time(), ""
    while not (command := parser.nextCommand()).isNull():
        said += command.invoke(solver, parser.getSymbolManager())
    result = RESULTS.get(said.strip(), "unknown")
    rules = Counter(rules_in(solver.getProof())) if result == "proved" else Counter[str]()
    seconds = round(time.process_time() - began, 3)
    trusted = sum(rules[name] for name in TRUSTED)
    return ProgramAnswer(PROOFS, obligation, result, seconds, rules.total(), trusted)


def rules_in(proofs: Sequence[Any]) -> Iterator[str]:
    """Yield the rule of each step, each step once."""
    seen: set[int] = set()
    left = list(proofs)
    while left:
        step = left.pop()
        if hash(step) not in seen:
            seen.add(hash(step))
            left += step.getChildren()
            yield str(step.getRule()).rpartition(".")[2]


# The whole sample


def ask_sample(
    duties: Sequence[Duty], programs: Sequence[str], folder: Path
) -> Iterator[ProgramAnswer]:
    """Yield each program's answer to each obligation; files are written to a folder. Raises
    MissingTool, FetchFailed."""
    for number, duty in enumerate(duties):
        file = folder / f"{number:03d}.smt2"
        file.write_text(duty.obligation.text, encoding="utf-8")
        for program in programs:
            if program == PROOFS:
                yield check_proof(duty.obligation.text, duty.obligation.name)
            else:
                yield ask_program(program, file, duty.obligation.name)


def missing_among(programs: Sequence[str]) -> dict[str, str]:
    """Return the programs that cannot be run, each with the reason."""
    missing: dict[str, str] = {}
    for program in programs:
        try:
            if program in COMMANDS:
                COMMANDS[program](TIMEOUT_S)
        except (MissingTool, FetchFailed) as error:
            missing[program] = str(error)
    return missing
