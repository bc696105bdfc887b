"""Freeze what a refactoring must not change, and compare two freezes.

    python scripts/nets.py freeze --out DIR [--only PART ...] [--whole] [--mutants]
    python scripts/nets.py compare BEFORE AFTER [--only PART ...]

`freeze` looks at the tree of the working directory and writes one JSON file a part. `compare`
prints the differences; exit code 0 if there is none, 1 if there is one, 2 for bad use.

| part        | what is frozen                                                                   |
|-------------|----------------------------------------------------------------------------------|
| counts      | states, transitions, depth, levels and broken properties of each scope, C engine |
| obligations | each proof obligation's terms, as a hash that no name of a variable enters       |
| reports     | report.json of small conformance runs, byte for byte                             |
| recordings  | recordings of brokers and clients, and the outcomes of the tests that read them  |
| mutants     | the planted bugs that are found (only with --mutants: it takes many minutes)     |

What is new is noted and is no difference, but for obligations: a new one is a changed one.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

RENAMED: dict[str, str] = {
    "promises": "guarantees",
    "not_promised": "not_guaranteed",
}
"""Names as they were -> as they are: whole JSON strings and keys in reports, properties, tests."""

PLACE = re.compile(r"\bmodel/[\w/]+\.py:\d+(:\d+)?")
"""A place in the model's text, which moves with every line above it."""

LARGE = 2_000_000
"""Scopes with more states are explored with --whole only."""

REPORTS: dict[str, str] = {
    "restart": "--scope idempotent-restart --traces-from cover,pct,hunts --traces 300",
    "wrap": "--scope idempotent-wrap --traces 300 --seed 3",
    "failover-leader": "--scope idempotent-failover --traces 600 --actors leader",
    "crash-2.4.1": "--scope idempotent-crash --traces 600 --kafka 2.4.1",
    "transactions": "--scope transactions-tiny --traces-from cover,pct,hunts --traces 300",
    "transactions-v1": "--scope transactions-tiny --variant v1 --traces 300",
    "writes": "--scope transactions-writes --traces 900 --seed 3",
    "promises": "--scope transactions-offsets-log --traces 900 --judge guarantees",
}
"""The runs whose reports are frozen."""

RECORDINGS = ("*.jsonl", "*.json")
READS_RECORDINGS = re.compile(r"fixtures|recorded", re.IGNORECASE)


def python(*arguments: str, ok: Sequence[int] = (0, 1)) -> str:
    """Run Python on the tree of the working directory; its output. Exits where that fails."""
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    if done.returncode not in ok:
        said = "\n".join((done.stdout[-2000:], done.stderr[-4000:]))
        sys.exit(f"{' '.join(arguments)[:200]}: exit code {done.returncode}\n{said}")
    return done.stdout


def answer(*arguments: str, ok: Sequence[int] = (0, 1)) -> Any:
    """What a verb writes as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "answer.json"
        python("-m", *arguments, "--json", str(file), ok=ok)
        return json.loads(file.read_text())


# Counts


def counts(options: argparse.Namespace) -> dict[str, Any]:
    """Each scope's counts, under the default variant and under v1."""
    scopes = [
        row["name"]
        for row in answer("proofs", "list")["scopes"]
        if options.whole or row["distinct"] <= LARGE
    ]
    families: dict[str, list[str]] = defaultdict(list)
    for scope in scopes:
        families[re.split(r"-(?!ids)", scope)[0]].append(scope)
    work = [
        (variant, part)
        for family in families.values()
        for variant in ("", "v1")
        if not variant or takes(family[0], variant)
        for part in (family[::2], family[1::2])
        if part
    ]
    found: dict[str, Any] = {}
    with ThreadPoolExecutor(2) as pool:
        for rows in pool.map(lambda job: explored(*job), work):
            found |= rows
    return dict(sorted(found.items()))


def takes(scope: str, variant: str) -> bool:
    """Whether a scope's composition knows a variant."""
    asked = [sys.executable, "-m", "proofs", "explore", scope, "--variant", variant]
    return subprocess.run(asked, capture_output=True, check=False).returncode != 2


def explored(variant: str, scopes: Sequence[str]) -> dict[str, Any]:
    """The counts of some scopes, by scope and variant."""
    under = ("--variant", variant) if variant else ()
    report = answer(
        *("proofs", "explore", *scopes, "--engine", "c", "--workers", "1", *under), ok=(0, 1, 3)
    )
    return {
        f"{row['scope']} {variant}".strip(): {
            "distinct": row["distinct"],
            "transitions": row["transitions"],
            "depth": row["depth"],
            "levels": row["levels"],
            "firings": sorted(row["firings"].values()),
            "violations": sorted([v["property"], v["steps"]] for v in row["violations"]),
            "witnesses": sorted(row["witnesses"]),
            "verdict": row["verdict"],
        }
        for row in report["explorations"]
    }


# Obligations

PLAN = """
import json
from proofs.prove.run.plan import plan
from proofs.prove.run.all_theorems import THEOREMS
planned = plan(THEOREMS, lambda theorem: theorem.variant)
print(json.dumps(list(planned.unchanged)))
for duty in planned.duties:
    print(json.dumps([duty.obligation.name, duty.needed_by, duty.obligation.text]))
"""
"""The one place that knows the prover's modules: the names of clauses that a step leaves unchanged,
then (name, theorems, SMT-LIB 2 text) of each obligation."""

TOKEN = re.compile(r"\|[^|]*\||[()]|[^\s()]+")
DECLARED = re.compile(r"\(declare-(?:const|fun) (\|[^|]*\|) (.*)\)$")
UNORDERED = frozenset({"and", "or", "=", "+"})
FLAT = frozenset({"and", "or"})
DUAL = {"and": "or", "or": "and"}
ROUNDS = 3


def obligations(_: argparse.Namespace) -> dict[str, Any]:
    """Each obligation's name, theorems and hash of terms."""
    unchanged, *rows = python("-c", PLAN).splitlines()
    found = [
        {"name": name, "theorems": theorems, "hash": hash_of_terms(text)}
        for name, theorems, text in map(json.loads, rows)
    ]
    return {"unchanged": json.loads(unchanged), "obligations": found}


def hash_of_terms(text: str) -> str:
    """A hash of an SMT-LIB text that is equal for texts that differ in the names of symbols, in the
    order of assertions, in the order and nesting of `and` and `or`, in where `not` stands, or in
    whether what follows from a premise stands together.

    Symbols are told apart by where they occur (colour refinement): first within each formula,
    which is done once a formula, then between the formulas of the obligation.
    """
    lines = text.splitlines()
    sorts = {m[1]: mark(m[2]) for line in lines if (m := DECLARED.match(line))}
    asserted = [line for line in lines if line.startswith("(assert")]
    formulas = [Formula.parse(line) for line in asserted]
    colours = dict(sorts)
    prints = [f.print for f in formulas]
    prints[-1] = hash((prints[-1], mark("goal")))
    for _ in range(ROUNDS):
        seen: dict[str, int] = defaultdict(int)
        for print_, formula in zip(prints, formulas, strict=True):
            for name, local in formula.symbols.items():
                seen[name] += hash((print_, local))
        colours = {name: hash((colours[name], seen[name])) for name in colours}
        prints = [
            hash((p, sum(hash((local, colours[n])) for n, local in f.symbols.items())))
            for p, f in zip(prints, formulas, strict=True)
        ]
    return f"{sum(prints[:-1]) % 2**64:016x}{prints[-1] % 2**64:016x}"


@cache
def mark(word: str) -> int:
    """A word as a number, the same in every process."""
    return int.from_bytes(blake2b(word.encode(), digest_size=8).digest())


class Formula:
    """One assertion as a graph. `print` is its hash without names, `symbols` the colour of each
    free symbol in it."""

    def __init__(self, line: str) -> None:
        self.keys: dict[tuple[Any, ...], int] = {}
        self.nodes: list[tuple[str, tuple[int, ...]]] = []
        self.bound: dict[str, str] = {}
        sys.setrecursionlimit(100_000)
        root = self.node(tree(line)[1], {})
        self.print, self.symbols = self.coloured(root)

    @staticmethod
    @cache
    def parse(line: str) -> Formula:
        """The graph of a line, which many obligations share."""
        return Formula(line)

    def node(self, text: Any, known: Mapping[str, int]) -> int:
        """The number of a term's node; equal terms are one node."""
        if isinstance(text, str):
            return known[text] if text in known else self.made(text, ())
        operator, *arguments = text
        if operator == "let":
            bindings, body = arguments
            return self.node(body, {**known, **{n: self.node(t, known) for n, t in bindings}})
        if operator == "forall":
            variables, body = arguments
            names = {n: f"{n}#{len(self.bound) + i}" for i, (n, _) in enumerate(variables)}
            self.bound |= {names[n]: sort for n, sort in variables}
            inner = {n: self.made(names[n], ()) for n, _ in variables}
            return self.made("forall", (self.node(body, {**known, **inner}),))
        return self.made(operator, tuple(self.node(each, known) for each in arguments))

    def made(self, operator: str, arguments: tuple[int, ...]) -> int:
        """The node of an operator over nodes: `not` stands innermost, and what follows from a
        premise each by itself."""
        if operator == "not" and self.nodes[arguments[0]][0] in DUAL:
            own, inner = self.nodes[arguments[0]]
            return self.made(DUAL[own], tuple(self.made("not", (each,)) for each in inner))
        if operator == "not" and self.nodes[arguments[0]][0] == "not":
            return self.nodes[arguments[0]][1][0]
        if operator == "-" and len(arguments) == 2:
            return self.made("+", (arguments[0], self.made("-", arguments[1:])))
        if operator in FLAT:
            arguments = tuple(flat for each in arguments for flat in self.inside(operator, each))
        joint = [each for each in arguments if self.nodes[each][0] == "and"]
        if operator == "or" and len(joint) == 1:
            rest = tuple(each for each in arguments if each != joint[0])
            parts = self.nodes[joint[0]][1]
            return self.made("and", tuple(self.made("or", (*rest, part)) for part in parts))
        ordered = tuple(sorted(arguments)) if operator in UNORDERED else arguments
        key = (operator, ordered)
        if key not in self.keys:
            self.keys[key] = len(self.nodes)
            self.nodes.append(key)
        return self.keys[key]

    def inside(self, operator: str, number: int) -> tuple[int, ...]:
        """The arguments of a node of this operator; the node itself if it is of another."""
        own, arguments = self.nodes[number]
        return arguments if own == operator else (number,)

    def coloured(self, root: int) -> tuple[int, dict[str, int]]:
        """The hash of the root, and the free symbols' colours."""
        names = {op for op, _ in self.nodes if op.startswith("|")}
        colours = {name: mark(self.bound.get(name, "free")) for name in names}
        for _ in range(ROUNDS):
            up = self.upwards(colours)
            seen = self.contexts(root, up)
            colours = {name: hash((colours[name], seen[name])) for name in names}
        free = {name: colour for name, colour in colours.items() if name not in self.bound}
        return self.upwards(colours)[root], free

    def upwards(self, colours: Mapping[str, int]) -> list[int]:
        """Each node's hash from what is below it."""
        up: list[int] = []
        for operator, arguments in self.nodes:
            own = colours[operator] if operator in colours else mark(operator)
            below = [up[each] for each in arguments]
            if operator in UNORDERED:
                below.sort()
            up.append(hash((own, *below)))
        return up

    def contexts(self, root: int, up: Sequence[int]) -> dict[str, int]:
        """For each symbol a hash of all places where it occurs."""
        down = [0] * len(self.nodes)
        down[root] = 1
        seen: dict[str, int] = defaultdict(int)
        for number in range(root, -1, -1):
            operator, arguments = self.nodes[number]
            if not down[number]:  # a form on the way to this one
                continue
            place = hash((down[number], up[number]))
            for position, each in enumerate(arguments):
                down[each] += hash((place, 0 if operator in UNORDERED else position))
            if operator.startswith("|"):
                seen[operator] += place
        return seen


def tree(line: str) -> Any:
    """An s-expression as nested lists."""
    stack: list[list[Any]] = [[]]
    for token in TOKEN.findall(line):
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    return stack[0][0]


# Reports, recordings, mutants


def reports(_: argparse.Namespace) -> dict[str, Any]:
    """report.json of each run, with its hash."""
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(REPORTS, pool.map(report, REPORTS.values()), strict=True))


def report(arguments: str) -> dict[str, str]:
    """The report of one run."""
    with tempfile.TemporaryDirectory() as folder:
        where = ("--backend", "processes", "--partitions", "2", "--out", folder)
        python("-m", "conformance", "run", *arguments.split(), *where)
        text = (Path(folder) / "report.json").read_bytes()
    return {"sha256": sha256(text).hexdigest(), "text": text.decode()}


def recordings(_: argparse.Namespace) -> dict[str, Any]:
    """The hash of each recording, and the outcome of each test that reads recordings."""
    files = sorted(
        file
        for pattern in RECORDINGS
        for file in Path("tests").rglob(pattern)
        if READS_RECORDINGS.search(str(file.parent))
    )
    tests = [
        str(test)
        for test in Path("tests").rglob("test_*.py")
        if READS_RECORDINGS.search(test.read_text()) and any(near(test, file) for file in files)
    ]
    with tempfile.TemporaryDirectory() as folder:
        junit = Path(folder) / "junit.xml"
        options = ("-q", "-p", "no:cacheprovider", "-m", "not kafka", f"--junitxml={junit}")
        python("-m", "pytest", *options, *sorted(tests))
        cases = list(ElementTree.parse(junit).iter("testcase"))
    return {
        "files": {f.name: sha256(f.read_bytes()).hexdigest() for f in files},
        "tests": dict(sorted((case.get("name", ""), outcome(case)) for case in cases)),
    }


def near(test: Path, file: Path) -> bool:
    """Whether a recording lies beside a test, or in a folder beside its folder."""
    return file.parent.parent in (test.parent, test.parent.parent)


def outcome(case: ElementTree.Element) -> str:
    """passed, skipped, failure or error."""
    bad = (child.tag for child in case if child.tag in ("skipped", "failure", "error"))
    return next(bad, "passed")


def mutants(_: argparse.Namespace) -> dict[str, Any]:
    """Which planted bugs are found, and which are not."""
    return {
        room: {row["name"]: row["found"] for row in answer(room, "mutants")["mutants"]}
        for room in ("proofs", "conformance")
    }


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "counts": counts,
    "obligations": obligations,
    "reports": reports,
    "recordings": recordings,
    "mutants": mutants,
}


# Comparison


def renamed(text: str) -> str:
    """A text with the names of before, as far as RENAMED says what is called otherwise now."""
    for old, new in RENAMED.items():
        text = text.replace(json.dumps(new), json.dumps(old))
    return text


def entries(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Where two tables differ, entry by entry."""
    for name in sorted(before.keys() | after.keys()):
        if name not in after:
            yield f"{name}: lost"
        elif name not in before:
            print(f"note: {name} is new")
        elif before[name] != after[name]:
            yield from within(name, before[name], after[name])


def within(name: str, before: Any, after: Any) -> Iterator[str]:
    """Where two values differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        yield from (f"{name}, {line}" for line in entries(before, after))
    else:
        yield f"{name}: {shortened(before)}, now {shortened(after)}"


def shortened(value: Any) -> str:
    """A value that fits a line."""
    text = json.dumps(value)
    return text if len(text) <= 160 else f"{text[:160]}..."


def compare_obligations(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Terms that are lost or new, whatever they are called, and whose theorem they are."""
    was, now = (Counter(row["hash"] for row in rows["obligations"]) for rows in (before, after))
    for what, rows, extra in (("lost", before, was - now), ("new", after, now - was)):
        for row in rows["obligations"]:
            if extra[row["hash"]] > 0:
                extra[row["hash"]] -= 1
                yield f"{what}: {row['name']} of {row['theorems'][0]}"
    needs, needed = needs_of(before), needs_of(after)
    for theorem in sorted(needs.keys() & needed.keys()):
        if needs[theorem] != needed[theorem]:
            yield f"theorem {theorem} needs other obligations than before"
    yield from (f"theorem {name}: lost" for name in sorted(needs.keys() - needed.keys()))
    yield from (f"theorem {name}: new" for name in sorted(needed.keys() - needs.keys()))
    counted = len(before["unchanged"]), len(after["unchanged"])
    if counted[0] != counted[1]:
        yield f"clauses that steps leave unchanged: {counted[0]}, now {counted[1]}"


def needs_of(rows: Mapping[str, Any]) -> dict[str, Counter[str]]:
    """The hashes that each theorem needs."""
    needs: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows["obligations"]:
        for theorem in row["theorems"]:
            needs[theorem][row["hash"]] += 1
    return needs


def compare_reports(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Reports that differ in more than the places of the model's text."""
    for name in before:
        if name not in after:
            yield f"{name}: lost"
        elif before[name]["sha256"] != after[name]["sha256"]:
            was, now = (sorted_lines(side[name]["text"]) for side in (before, after))
            lines = list(difflib.unified_diff(was, now, n=0, lineterm=""))[2:]
            if not lines:
                print(f"note: {name} differs in renamed keys or in places of the text only")
            yield from (f"{name}: {line.strip()}" for line in lines[:20] if line[:2] != "@@")


def sorted_lines(text: str) -> list[str]:
    """A report under the names of before, without places of the model's text, a value a line."""
    value = json.loads(PLACE.sub("PLACE", renamed(text)))
    return json.dumps(ordered(value), indent=0, sort_keys=True).splitlines()


def ordered(value: Any) -> Any:
    """Lists of texts sorted: they are sorted by place."""
    if isinstance(value, dict):
        return {key: ordered(each) for key, each in value.items()}
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return sorted(value)
    return [ordered(each) for each in value] if isinstance(value, list) else value


COMPARED = {"obligations": compare_obligations, "reports": compare_reports}


def compare(before: Path, after: Path, parts: Sequence[str]) -> int:
    """Print the differences of two freezes, part by part; 1 if there is one."""
    bad = False
    for part in parts:
        files = [folder / f"{part}.json" for folder in (before, after)]
        missing = [str(file) for file in files if not file.exists()]
        if missing:
            print(f"{part}: not compared, there is no {' and no '.join(missing)}")
            continue
        was = json.loads(files[0].read_text())
        now = json.loads(renamed(files[1].read_text()))
        differences = list(COMPARED.get(part, entries)(was, now))
        bad = bad or bool(differences)
        print(f"{part}: {f'{len(differences)} differences' if differences else 'equal'}")
        for line in differences[:100]:
            print(f"  {line}")
    return int(bad)


def freeze(options: argparse.Namespace, parts: Sequence[str]) -> int:
    """Write each part."""
    options.out.mkdir(parents=True, exist_ok=True)
    for part in parts:
        print(f"{part} ...", flush=True)
        frozen = PARTS[part](options)
        (options.out / f"{part}.json").write_text(json.dumps(frozen, indent=1, sort_keys=True))
    return 0


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    freezing, comparing = verbs.add_parser("freeze"), verbs.add_parser("compare")
    for verb in (freezing, comparing):
        verb.add_argument("--only", nargs="+", choices=tuple(PARTS), metavar="PART", default=[])
    freezing.add_argument("--out", type=Path, required=True, metavar="DIR")
    freezing.add_argument("--whole", action="store_true", help="the large scopes too")
    freezing.add_argument("--mutants", action="store_true", help="mutants too")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.verb == "compare":
        return compare(options.before, options.after, options.only or tuple(PARTS))
    default = [part for part in PARTS if part != "mutants" or options.mutants]
    return freeze(options, options.only or default)


if __name__ == "__main__":
    sys.exit(main())
