"""Prints the machine as flat C: one function for each rule instance, guarantee and witness.

1. A function reads the packed words `s` and the budgets `in`; a rule instance returns 0 when its
   guard fails, else writes the successor's words to `t` and returns 1. It returns 2 if a written
   value is out of range; this is tested where the graph's intervals do not rule it out.
2. Every node is a local. The conjuncts of a guard are tested one by one, each as soon as its
   operands are computed. Decisions that most of the successor depends on come first. Only
   changed fields are rewritten, with constant shifts.
3. One unit holds the instances of one rule (more units when there are many nodes), so that an
   edited rule recompiles alone. A unit's text depends on the rule and on the places of its leaves,
   not on the scope's name, on budgets, or on what was lifted before, so units are cached by text.
4. Each rule instance has tables of what it reads and writes, as `model.h` says: part by part (the
   conjuncts that read one part alone, constants, and the factors of all else) and bit by bit.
5. The unit `machine` ties them together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from proofs.lift import dag
from proofs.lift.dag import Node
from proofs.lift.layout import WORD_BITS, BitField, Layout, always_fits
from proofs.lift.machine import Leaf, Machine, RuleInstance
from proofs.lift.partition import Factor, split_check, split_rule
from proofs.lift.simplifications import Branch, Written, branched, conjuncts
from proofs.lift.specialise import rule_groups

NODES_A_UNIT = 3000
MAX_RULES = 1 << 16
MODEL_HEADER = Path(__file__).with_name("model.h")


def _unit_head() -> str:
    return f"{MODEL_HEADER.read_text()}\n{_TYPES}"


_INT64 = 1 << 63
_INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "lt": "<",
    "le": "<=",
    "eq": "==",
    "and": "&",
    "or": "|",
}
_TYPES = "typedef uint64_t u64;\ntypedef int64_t i64;\n\n"
_RULE_ARGUMENTS = "const u64 *restrict s, u64 *restrict t, const i64 *restrict in"
_TEST_ARGUMENTS = "const u64 *restrict s, const i64 *restrict in"


Blocks = Sequence[Sequence[str]]
"""The leaves of each of several interchangeable elements, in the same order for each element."""


class Unprintable(ValueError):
    """The machine does not fit the C form; the message says which part and why."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One compilation unit: its text, the functions it defines, its size in graph nodes."""

    name: str
    text: str
    functions: tuple[str, ...]
    nodes: int


class _Digests:
    """A number for each node that depends on what the node computes, not on what was built before.

    `eq` keeps its operands in the order of their creation, which differs from run to run. Text that
    is cached by its hash must not depend on this order.
    """

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def operands(self, node: Node) -> Sequence[Node]:
        """Return the operands in an order that depends on the graph alone."""
        if node.op != "eq":
            return node.args
        return sorted(node.args, key=lambda a: self._known[a.serial])

    def learn(self, roots: Iterable[Node]) -> None:
        """Compute the digests of all nodes below the roots."""
        for node in dag.reachable(roots):
            if node.serial not in self._known:
                below = [self._known[a.serial] for a in node.args]
                if node.op == "eq":
                    below.sort()
                says = (node.op, node.is_bool, node.value, node.name, node.lo, node.hi, below)
                self._known[node.serial] = crc32(repr(says).encode())


class _Printer:
    """State that all functions of one machine share: the layout and the numbers of the budgets."""

    def __init__(self, layout: Layout, inputs: Iterable[str]) -> None:
        self.layout = layout
        self.leaves = {leaf.name: leaf for leaf in layout.leaves}
        self.inputs = {name: number for number, name in enumerate(inputs)}
        self.digests = _Digests()


class _Body:
    """The statements of one function."""

    def __init__(self, printer: _Printer) -> None:
        self.printer = printer
        self.lines: list[str] = []
        self.nodes = 0
        self._known: dict[int, str] = {}

    def value(self, root: Node) -> str:
        """Return a C expression without operators for the node; first emit statements for what it
        needs."""
        self.printer.digests.learn([root])
        for node in self._missing(root):
            self._known[node.serial] = self._atom(node)
        return self._known[root.serial]

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Open a block whose locals are unknown after it."""
        outside = self._known
        self._known = dict(outside)
        yield
        self._known = outside

    def _missing(self, root: Node) -> Iterator[Node]:
        """Yield the nodes below the root that have no name yet, operands first."""
        stack = [(root, False)]
        met: set[int] = set()
        while stack:
            node, ready = stack.pop()
            if ready:
                yield node
            elif node.serial not in met and node.serial not in self._known:
                met.add(node.serial)
                stack.append((node, True))
                stack.extend((a, False) for a in reversed(self.printer.digests.operands(node)))

    def _atom(self, node: Node) -> str:
        self.nodes += 1
        if node.lo < -_INT64 or node.hi >= _INT64:
            raise Unprintable(f"{node!r} may be {node.lo} .. {node.hi}: more than 64 bits")
        if node.op == "const":
            return _literal(node.value)
        if node.op == "input":
            return f"in[{self.printer.inputs[node.name]}]"
        if node.op == "leaf" and node.name not in self.printer.layout.places:
            return _literal(self.printer.layout.constants[node.name])
        name = f"n{len(self._known)}"
        kind = "int" if node.is_bool else "i64"
        self.lines.append(f"    const {kind} {name} = {self._operation(node)};")
        return name

    def _operation(self, node: Node) -> str:
        if node.op == "leaf":
            return self._leaf(node)
        texts = [self._known[a.serial] for a in self.printer.digests.operands(node)]
        if node.op == "not":
            return f"!{texts[0]}"
        if node.op == "ite":
            return f"{texts[0]} ? {texts[1]} : {texts[2]}"
        if node.op == "mod":
            return _modulo(node.args[0], texts[0], node.args[1].value)
        return f"{texts[0]} {_INFIX[node.op]} {texts[1]}"

    def _leaf(self, node: Node) -> str:
        place = self.printer.layout.places[node.name]
        word = f"s[{place.word}] >> {place.shift}" if place.shift else f"s[{place.word}]"
        kind = "int" if node.is_bool else "i64"
        text = (
            f"({kind})({word} & {place.mask:#x}u)"
            if place.mask < 1 << 32
            else (f"({kind})({word} & {place.mask:#x}ull)")
        )
        return f"{text} + {_literal(place.lo)}" if place.lo else text


def _literal(value: int) -> str:
    """Return an integer literal that keeps its value in C."""
    if value == -_INT64:
        return "INT64_MIN"
    text = str(abs(value)) if abs(value) < 1 << 31 else f"INT64_C({abs(value)})"
    return f"(-{text})" if value < 0 else text


def _modulo(node: Node, text: str, divisor: int) -> str:
    """Return Python's modulo in C: a comparison where the range allows one, because division is
    slow."""
    d = _literal(divisor)
    if node.lo >= 0:
        return (
            f"{text} >= {d} ? {text} - {d} : {text}" if node.hi < 2 * divisor else f"{text} % {d}"
        )
    if node.lo >= -divisor and node.hi < divisor:
        return f"{text} < 0 ? {text} + {d} : {text}"
    return f"({text} % {d} + {d}) % {d}"


def _stores(body: _Body, updates: Mapping[str, Node]) -> list[str]:
    """Return statements that write the successor's words."""
    layout = body.printer.layout
    kept = [(1 << 64) - 1] * layout.words
    fields: list[list[str]] = [[] for _ in range(layout.words)]
    for name, value in updates.items():
        leaf = body.printer.leaves[name]
        if not always_fits(leaf, value):
            body.lines.append(f"    {_test_of_range(body.value(value), leaf)}")
        place = layout.places.get(name)
        if place is None:
            continue
        kept[place.word] &= ~(place.mask << place.shift)
        stored = body.value(value)
        if place.lo:
            stored = f"({stored} - {_literal(place.lo)})"
        shift = f" << {place.shift}" if place.shift else ""
        fields[place.word].append(f"(u64){stored}{shift}")
    return [_store(word, kept[word], fields[word]) for word in range(layout.words)]


def _test_of_range(text: str, leaf: Leaf) -> str:
    return f"if ({text} < {_literal(leaf.lo)} || {text} > {_literal(leaf.hi)}) return 2;"


def _store(word: int, kept: int, fields: Sequence[str]) -> str:
    if not fields:
        return f"    t[{word}] = s[{word}];"
    parts = [f"(s[{word}] & {kept:#x}ull)"] if kept else []
    return f"    t[{word}] = {' | '.join([*parts, *fields])};"


def _write(body: _Body, written: Written) -> None:
    """Emit statements that write the successor and return; each branch computes only what it
    needs."""
    if not isinstance(written, Branch):
        body.lines += [*_stores(body, written), "    return 1;"]
        return
    body.lines.append(f"    if ({body.value(written.condition)}) {{")
    with body.scope():
        _write(body, written.then)
    body.lines.append("    } else {")
    with body.scope():
        _write(body, written.otherwise)
    body.lines.append("    }")


def _step_function(name: str, rule: RuleInstance, printer: _Printer) -> tuple[str, int]:
    """Return the function that makes the successor, and its number of nodes."""
    body = _Body(printer)
    for conjunct in conjuncts(rule.guard):
        condition = body.value(conjunct)
        body.lines.append(f"    if (!{condition}) return 0;")
    _write(body, branched(rule.updates))
    return "\n".join(
        [f"static int {name}({_RULE_ARGUMENTS})", "{", *body.lines, "}", ""]
    ), body.nodes


def _test_function(name: str, conditions: Iterable[Node], printer: _Printer) -> tuple[str, int]:
    """Return a function that tells whether all the conditions hold, and its number of nodes."""
    body = _Body(printer)
    for condition in conditions:
        result = body.value(condition)
        body.lines.append(f"    if (!{result}) return 0;")
    lines = [f"static int {name}({_TEST_ARGUMENTS})", "{", *body.lines, "    return 1;", "}", ""]
    return "\n".join(lines), body.nodes


def _words(packed: int, layout: Layout) -> list[str]:
    """Return a packed state as literals, one for each word."""
    ones = (1 << WORD_BITS) - 1
    return [f"{packed >> WORD_BITS * n & ones:#x}ull" for n in range(layout.words)]


class _Tables:
    """Collects the functions and tables of one rule instance or check as text."""

    def __init__(self, name: str, printer: _Printer) -> None:
        self.name = name
        self.printer = printer
        self.texts: list[str] = []
        self.nodes = 0

    def step(self, rule: RuleInstance) -> None:
        """Add the rule instance's own function, under its own name."""
        self._add(_step_function(self.name, rule, self.printer))

    def test(self, suffix: str, conditions: Sequence[Node]) -> str:
        """Add a function for the conditions and return its name, or 0 (NULL) if there are no
        conditions."""
        if not conditions:
            return "0"
        self._add(_test_function(f"{self.name}_{suffix}", conditions, self.printer))
        return f"{self.name}_{suffix}"

    def array(self, kind: str, items: Sequence[str]) -> str:
        """Add a constant array and return its name, or 0 (NULL) if it has no items."""
        if not items:
            return "0"
        self.texts.append(
            f"static const struct kx_{kind} {self.name}_{kind}[] = {{{', '.join(items)}}};\n"
        )
        return f"{self.name}_{kind}"

    def locals(self, local: Mapping[int, Sequence[Node]]) -> str:
        """Add the conditions that read one part each."""
        items = [f"{{{part}, {self.test(f'p{part}', local[part])}}}" for part in sorted(local)]
        return self.array("local", items)

    def factors(self, factors: Sequence[Factor]) -> str:
        """Add the factors, which read several parts."""
        items = [
            f"{{{f.reads:#x}ull, {f.writes:#x}ull, {self.test(f'f{n}', f.guard)}}}"
            for n, f in enumerate(factors)
        ]
        return self.array("factor", items)

    def bits(self, name: str, packed: int) -> str:
        """Add an array with the bits of the packed state as words, and return its name."""
        words = _words(packed, self.printer.layout)
        self.texts.append(f"static const u64 {self.name}_{name}[] = {{{', '.join(words)}}};\n")
        return f"{self.name}_{name}"

    def struct(self, kind: str, fields: Sequence[str]) -> None:
        """Add the struct that the machine refers to."""
        declared = f"const struct kx_{kind} {self.name}_{kind}"
        self.texts.append(f"extern {declared};\n{declared} = {{{', '.join(fields)}}};\n")

    def _add(self, function: tuple[str, int]) -> None:
        self.texts.append(function[0])
        self.nodes += function[1]

    @property
    def text(self) -> tuple[str, int]:
        """Return all of the text, and the number of nodes."""
        return "\n".join(self.texts), self.nodes


def _rule_tables(name: str, rule: RuleInstance, printer: _Printer) -> tuple[str, int]:
    """Return a rule instance as text: its function, its conditions by part, and what it writes."""
    tables = _Tables(name, printer)
    tables.step(rule)
    split = split_rule(rule, printer.layout)
    local = tables.locals(split.local)
    constant = tables.array(
        "constant",
        [f"{{{c.part}, {c.clear:#x}ull, {c.set:#x}ull}}" for c in split.constants],
    )
    factor = tables.factors(split.factors)
    counts = (len(split.local), len(split.constants), len(split.factors))
    bits = tables.bits("reads", split.reads), tables.bits("writes", split.writes)
    tables.struct("rule", [name, *map(str, counts), local, constant, factor, *bits])
    return tables.text


def _check_tables(name: str, condition: Node, printer: _Printer) -> tuple[str, int]:
    """Return a guarantee or a witness as text, by part."""
    tables = _Tables(name, printer)
    split = split_check(condition, printer.layout)
    local, factor = tables.locals(split.local), tables.factors(split.factors)
    counts, reads = (len(split.local), len(split.factors)), tables.bits("reads", split.reads)
    tables.struct("check", [*map(str, counts), local, factor, reads])
    return tables.text


def _identifier(text: str) -> str:
    """Return a C identifier that resembles the text."""
    return re.sub(r"\W+", "_", text.replace("-", "m")).strip("_")


def _units(name: str, functions: Iterable[tuple[str, tuple[str, int]]]) -> Iterator[Unit]:
    """Yield units of at most NODES_A_UNIT nodes each, unless one function alone is larger."""
    names: list[str] = []
    texts: list[str] = []
    nodes = part = 0
    for function, (text, size) in functions:
        if names and nodes + size > NODES_A_UNIT:
            yield Unit(f"{name}_{part}", _unit_head() + "\n".join(texts), tuple(names), nodes)
            names, texts, nodes, part = [], [], 0, part + 1
        names.append(function)
        texts.append(text)
        nodes += size
    if names:
        yield Unit(f"{name}_{part}", _unit_head() + "\n".join(texts), tuple(names), nodes)


def _rule_units(machine: Machine, printer: _Printer) -> Iterator[tuple[Unit, list[int]]]:
    """Yield each rule's units, with the machine's index of each function's instance."""
    for rule, instances in rule_groups(machine).items():
        names = [f"r_{_identifier(instance.label)}" for _, instance in instances]
        if len(set(names)) < len(names):
            names = [f"{name}__{n}" for n, name in enumerate(names)]
        functions = (
            (name, _rule_tables(name, instance, printer))
            for name, (_, instance) in zip(names, instances, strict=True)
        )
        numbers = iter([index for index, _ in instances])
        for unit in _units(f"rule_{_identifier(rule)}", functions):
            yield unit, [next(numbers) for _ in unit.functions]


def _array(declaration: str, items: Sequence[str]) -> str:
    """Return a constant array; C has no empty arrays, so an empty one gets one element."""
    return f"{declaration}[] = {{{', '.join(items) if items else '0'}}};"


_CANONICAL = """
{{
    u64 block[{count}][{words}] = {{
{blocks}
    }};
    u64 size = 1, same = 1;
    for (int n = 1; n < {count}; n++) {{
        u64 held[{words}];
        int at = n;
        for (int w = 0; w < {words}; w++) held[w] = block[n][w];
        for (; at > 0 && follows(block[at - 1], held); at--)
            for (int w = 0; w < {words}; w++) block[at][w] = block[at - 1][w];
        for (int w = 0; w < {words}; w++) block[at][w] = held[w];
    }}
    for (int n = 1; n < {count}; n++) {{
        same = follows(block[n], block[n - 1]) ? 1 : same + 1;
        size = size * (u64)(n + 1) / same;
    }}
{stores}
    return size;
}}
"""
_FOLLOWS = """
static int follows(const u64 *a, const u64 *b)
{{
    for (int w = 0; w < {words}; w++)
        if (a[w] != b[w]) return a[w] > b[w];
    return 0;
}}
"""


def _block_fields(leaves: Iterable[str], layout: Layout) -> list[list[BitField]]:
    """Return the places of a block's leaves, with as many in a word as fit."""
    words: list[list[BitField]] = []
    used = WORD_BITS
    for place in (layout.places[name] for name in leaves if name in layout.places):
        if used + place.bits > WORD_BITS:
            words.append([])
            used = 0
        words[-1].append(place)
        used += place.bits
    return words


def _block_word(fields: Sequence[BitField]) -> str:
    """Return the fields of a word, the first one highest, so that words compare as their fields
    do."""
    text = "0"
    for place in fields:
        text = f"({text} << {place.bits} | (s[{place.word}] >> {place.shift} & {place.mask:#x}ull))"
    return text


def _block_stores(number: int, words: Sequence[Sequence[BitField]]) -> Iterator[str]:
    for w, fields in enumerate(words):
        shift = 0
        for place in reversed(fields):
            mask = place.mask << place.shift
            value = f"(block[{number}][{w}] >> {shift} & {place.mask:#x}ull) << {place.shift}"
            yield f"    s[{place.word}] = (s[{place.word}] & ~{mask:#x}ull) | {value};"
            shift += place.bits


def _canonical_unit(layout: Layout, blocks: Blocks) -> Unit:
    """Return the unit with the function that makes a state the least of its orbit by sorting
    elements."""
    words = [_block_fields(leaves, layout) for leaves in blocks]
    sizes = {"count": len(blocks), "words": max(1, len(words[0]))}
    head = "u64 canonical(u64 *s);\nu64 canonical(u64 *s)"
    rows = [f"        {{{', '.join(map(_block_word, w)) or '0'}}}," for w in words]
    stores = [line for n, w in enumerate(words) for line in _block_stores(n, w)]
    body = _CANONICAL.format(blocks="\n".join(rows), stores="\n".join(stores), **sizes)
    text = _unit_head() + _FOLLOWS.format(**sizes) + head + body
    return Unit("canonical", text, ("canonical",), 0)


def _machine_unit(
    layout: Layout,
    inputs: int,
    rules: Mapping[int, str],
    checks: Sequence[tuple[str, int]],
    canonical: bool,
) -> Unit:
    """Return the unit with the table of all rules and checks. `rules` are by index in the machine;
    `checks` come with their `wanted`."""
    numbers = sorted(rules)
    parts = [f"{{{p.word}, {p.words}, {p.shift}, {p.bits}}}" for p in layout.parts]
    lines = [MODEL_HEADER.read_text()]
    lines += [f"extern const struct kx_rule {rules[n]}_rule;" for n in numbers]
    lines += [f"extern const struct kx_check {name}_check;" for name, _ in checks]
    lines += ["extern kx_canonical canonical;"] if canonical else []
    lines += [
        _array("static const struct kx_part parts", parts),
        _array("static const struct kx_rule *const rules", [f"&{rules[n]}_rule" for n in numbers]),
        _array("static const uint16_t numbers", [str(n) for n in numbers]),
        _array("static const struct kx_check *const checks", [f"&{n}_check" for n, _ in checks]),
        _array("static const uint8_t wanted", [str(value) for _, value in checks]),
        "const struct kx_model kx_model = {",
        f"    {layout.words}, {len(parts)}, parts, {inputs},",
        f"    {len(numbers)}, rules, numbers, {len(checks)}, checks, wanted,",
        f"    {'canonical' if canonical else '0'},",
        "};",
        "",
    ]
    return Unit("machine", "\n".join(lines), ("kx_model",), 0)


def _check_units(
    kind: str, prefix: str, nodes: Mapping[str, Node], printer: _Printer
) -> tuple[list[Unit], list[str]]:
    """Return the units of guarantees or witnesses, and the checks' names."""
    names = [f"{prefix}{n}_{_identifier(name)}" for n, name in enumerate(nodes)]
    functions = (
        (name, _check_tables(name, node, printer))
        for name, node in zip(names, nodes.values(), strict=True)
    )
    return list(_units(kind, functions)), names


def print_c(machine: Machine, layout: Layout, blocks: Blocks = ()) -> tuple[Unit, ...]:
    """Return the units of a specialised machine, `machine` last; `blocks` make states canonical.

    Raises Unprintable.
    """
    if len(machine.rules) > MAX_RULES:
        raise Unprintable(f"{len(machine.rules)} rule instances; the limit is {MAX_RULES}")
    printer = _Printer(layout, machine.inputs)
    units: list[Unit] = []
    rules: dict[int, str] = {}
    for unit, numbers in _rule_units(machine, printer):
        units.append(unit)
        rules.update(zip(numbers, unit.functions, strict=True))
    guarantees, guaranteed = _check_units("guarantees", "p", machine.guarantees, printer)
    witnesses, witnessed = _check_units("witnesses", "w", machine.witnesses, printer)
    checks = [*((name, 0) for name in guaranteed), *((name, 1) for name in witnessed)]
    canonical = [_canonical_unit(layout, blocks)] if blocks else []
    machine_unit = _machine_unit(layout, len(machine.inputs), rules, checks, bool(blocks))
    return (*units, *guarantees, *witnesses, *canonical, machine_unit)
