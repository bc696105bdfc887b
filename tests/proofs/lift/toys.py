"""Machines built by hand: each small enough to know its numbers, together every operation."""

import itertools

from proofs.lift.dag import (
    TRUE,
    Node,
    add,
    both,
    conjunction,
    const,
    disjunction,
    either,
    eq,
    ite,
    le,
    leaf,
    lt,
    mod,
    mul,
    negate,
    run_time_input,
    sub,
)
from proofs.lift.machine import Leaf, Machine, RuleInstance

Entry = tuple[Leaf, Leaf]


def node(place: Leaf) -> Node:
    return leaf(place.name, place.lo, place.hi, is_bool=place.is_bool)


def flag(name: str) -> Leaf:
    return Leaf(name, 0, 1, True)


WORKING, PREPARED, COMMITTED, ABORTED = range(4)


def two_phase_commit(n: int) -> Machine:
    """Gray and Lamport's two-phase commit. 3, 5, 7 managers: 288, 8,832, 296,448 states."""
    manager = [Leaf(f"manager[{i}]", 0, 3, False) for i in range(n)]
    heard = [flag(f"heard[{i}]") for i in range(n)]
    said = [flag(f"said[{i}]") for i in range(n)]
    commit, abort, decided = flag("commit"), flag("abort"), flag("decided")
    undecided = negate(node(decided))
    everyone = conjunction(node(h) for h in heard)
    rules = [
        RuleInstance("decide_commit", (), both(undecided, everyone),
                     {"decided": TRUE, "commit": TRUE}),
        RuleInstance("decide_abort", (), undecided, {"decided": TRUE, "abort": TRUE}),
    ]  # fmt: skip
    for i in range(n):
        choice = (("manager", i),)
        state, place = node(manager[i]), manager[i].name
        works = eq(state, const(WORKING))
        rules += [
            RuleInstance("prepare", choice, works,
                         {place: const(PREPARED), said[i].name: TRUE}),
            RuleInstance("give_up", choice, works, {place: const(ABORTED)}),
            RuleInstance("hear", choice, both(undecided, node(said[i])), {heard[i].name: TRUE}),
            RuleInstance("obey_commit", choice, node(commit), {place: const(COMMITTED)}),
            RuleInstance("obey_abort", choice, node(abort), {place: const(ABORTED)}),
        ]  # fmt: skip
    some = {s: disjunction(eq(node(m), const(s)) for m in manager) for s in (COMMITTED, ABORTED)}
    leaves = (*manager, *heard, *said, commit, abort, decided)
    return Machine(
        name=f"two-phase-commit-{n}",
        leaves=leaves,
        initial=(0,) * len(leaves),
        inputs={},
        rules=tuple(rules),
        guarantees={"consistent": negate(both(some[COMMITTED], some[ABORTED]))},
        witnesses={"committed": some[COMMITTED], "aborted": some[ABORTED]},
    )


def counters(budget: int = 6, guard_at: int = 4) -> Machine:
    """A counter that wraps, one that goes below zero, a constant, a rule that never fires.

    `up` raises `down` while it is below `guard_at`; 5 lets it leave its range.
    """
    ring, down = Leaf("ring", 3, 9, False), Leaf("down", -4, 4, False)
    fixed, spent, odd = Leaf("fixed", 0, 7, False), Leaf("spent", 0, 15, False), flag("odd")
    most = run_time_input("steps", 0, 15)
    left = lt(node(spent), most)
    spend = add(node(spent), const(1))
    turned = add(mod(add(sub(node(ring), const(3)), mul(const(2), node(fixed))), 7), const(3))
    is_odd = eq(mod(sub(node(ring), node(down)), 2), const(1))
    step = {"spent": spend, "odd": is_odd}
    return Machine(
        name="counters",
        leaves=(ring, down, fixed, spent, odd),
        initial=(3, 0, 2, 0, 0),
        inputs={"steps": budget},
        rules=(
            RuleInstance("turn", (), left, {**step, "ring": turned}),
            RuleInstance("never", (), eq(node(fixed), const(3)), {"fixed": const(0)}),
            RuleInstance("sink", (("by", -1),), both(left, lt(const(-4), node(down))),
                         {**step, "down": sub(node(down), const(1))}),
            RuleInstance("sink", (("by", 1),), both(left, lt(node(down), const(guard_at))),
                         {**step, "down": add(node(down), const(1))}),
            RuleInstance("forget", (), node(odd), {"odd": negate(node(odd))}),
        ),
        guarantees={"fixed_is_two": eq(node(fixed), const(2)),
                  "small": either(lt(node(ring), const(9)), le(const(0), node(down)))},
        witnesses={"deep": eq(node(down), const(-4)), "five": eq(node(ring), const(5))},
    )  # fmt: skip


class Lane:
    """One sender of the window: its counters, its slots in the channel, its rules."""

    def __init__(self, number: int, slots: int, space: int, length: Leaf, log: list[Entry]):
        here = f"lane[{number}]"
        self.number, self.length, self.log, self.space = number, length, log, space
        self.sent = Leaf(f"{here}.sent", 0, space, False)
        self.got = Leaf(f"{here}.got", 0, space, False)
        self.lost = Leaf(f"{here}.lost", 0, 3, False)
        self.again = Leaf(f"{here}.again", 0, 3, False)
        self.full = [flag(f"{here}.slot[{i}].full") for i in range(slots)]
        self.item = [Leaf(f"{here}.slot[{i}].item", 0, space, False) for i in range(slots)]
        self.tries = [Leaf(f"{here}.slot[{i}].tries", 0, 3, False) for i in range(slots)]
        self.counts = [self.sent, self.got, self.lost, self.again]
        self.leaves = [*self.counts, *self.full, *self.item, *self.tries]

    def choice(self, slot: int) -> tuple[tuple[str, int], ...]:
        return (("lane", self.number), ("slot", slot))

    def emptied(self, slots: range) -> dict[str, Node]:
        cleared: dict[str, Node] = {self.full[i].name: const(False) for i in slots}
        cleared.update((self.item[i].name, const(0)) for i in slots)
        cleared.update((self.tries[i].name, const(0)) for i in slots)
        return cleared

    def send(self, i: int) -> RuleInstance:
        fresh = add(node(self.sent), const(1))
        first_free = both(
            negate(node(self.full[i])), conjunction(node(self.full[j]) for j in range(i))
        )
        guard = both(lt(node(self.sent), run_time_input("items", 0, self.space)), first_free)
        after = {self.full[i].name: TRUE, self.item[i].name: fresh, self.sent.name: fresh}
        return RuleInstance("send", self.choice(i), guard, after)

    def arrive(self, i: int) -> RuleInstance:
        wanted = eq(node(self.item[i]), add(node(self.got), const(1)))
        append = both(wanted, lt(node(self.length), const(len(self.log))))
        after = self.emptied(range(i, i + 1))
        after[self.got.name] = ite(append, node(self.item[i]), node(self.got))
        after[self.length.name] = ite(append, add(node(self.length), const(1)), node(self.length))
        for at, (owner, what) in enumerate(self.log):
            hit = both(append, eq(node(self.length), const(at)))
            after[owner.name] = ite(hit, const(self.number + 1), node(owner))
            after[what.name] = ite(hit, node(self.item[i]), node(what))
        return RuleInstance("arrive", self.choice(i), node(self.full[i]), after)

    def repeat(self, i: int) -> RuleInstance:
        """Sends again what the log misses, in a slot that was in use."""
        behind = lt(node(self.got), node(self.sent))
        missing = add(node(self.got), const(1))
        guard = conjunction(
            (
                node(self.full[i]),
                lt(node(self.again), run_time_input("repeats", 0, 3)),
                lt(node(self.tries[i]), const(2)),
            )
        )
        after = {
            self.tries[i].name: add(node(self.tries[i]), const(1)),
            self.item[i].name: ite(behind, missing, node(self.item[i])),
            self.again.name: add(node(self.again), const(1)),
        }
        return RuleInstance("repeat", self.choice(i), guard, after)

    def lose(self) -> RuleInstance:
        waiting = disjunction(node(f) for f in self.full)
        guard = both(waiting, lt(node(self.lost), run_time_input("losses", 0, 3)))
        after = self.emptied(range(len(self.full)))
        after[self.lost.name] = add(node(self.lost), const(1))
        return RuleInstance("lose", (("lane", self.number),), guard, after)

    def in_order(self) -> Node:
        mine = [eq(node(owner), const(self.number + 1)) for owner, _ in self.log]
        return conjunction(
            either(negate(both(mine[a], mine[b])), lt(node(self.log[a][1]), node(self.log[b][1])))
            for a, b in itertools.combinations(range(len(self.log)), 2)
        )


def window(items: int = 3, slots: int = 4, log: int = 6, lanes: int = 2) -> Machine:
    """Senders with a channel that loses and repeats, into one log that keeps each one's order."""
    space = 2 * items + 1
    length = Leaf("length", 0, log, False)
    entries = [
        (Leaf(f"log[{i}].lane", 0, lanes, False), Leaf(f"log[{i}].item", 0, space, False))
        for i in range(log)
    ]
    made = [Lane(number, slots, space, length, entries) for number in range(lanes)]
    rules: list[RuleInstance] = []
    for lane in made:
        rules += [rule(i) for rule in (lane.send, lane.arrive, lane.repeat) for i in range(slots)]
        rules.append(lane.lose())
    leaves = [length, *itertools.chain(*entries), *itertools.chain(*(m.leaves for m in made))]
    return Machine(
        name="window",
        leaves=tuple(leaves),
        initial=(0,) * len(leaves),
        inputs={"items": items, "losses": 1, "repeats": 1},
        rules=tuple(rules),
        guarantees={f"in_order_{lane.number}": lane.in_order() for lane in made},
        witnesses={"full": eq(node(length), const(log))},
    )


def crowd(actors: int, steps: int) -> Machine:
    """Many actors of many values: one of them is chosen and walks, the others stay."""
    x = [Leaf(f"actor[{i}].x", 0, 255, False) for i in range(actors)]
    y = [Leaf(f"actor[{i}].y", 0, 250, False) for i in range(actors)]
    busy = [flag(f"actor[{i}].busy") for i in range(actors)]
    nobody = negate(disjunction(node(b) for b in busy))
    rules: list[RuleInstance] = []
    for i in range(actors):
        choice = (("actor", i),)
        walked = mod(add(mul(node(x[i]), const(5)), const(7)), 256)
        after = {x[i].name: walked, y[i].name: add(node(y[i]), const(1))}
        left = lt(node(y[i]), run_time_input("steps", 0, 250))
        rules += [
            RuleInstance("choose", choice, nobody, {busy[i].name: TRUE}),
            RuleInstance("walk", choice, both(node(busy[i]), left), after),
        ]
    far = disjunction(eq(node(place), const(steps)) for place in y)
    return Machine(
        name=f"crowd-{actors}",
        leaves=tuple(itertools.chain(*zip(x, y, busy, strict=True))),
        initial=(0,) * (3 * actors),
        inputs={"steps": steps},
        rules=tuple(rules),
        guarantees={"nobody_walks_far": negate(far)},
        witnesses={"somebody_walks": disjunction(lt(const(0), node(place)) for place in y)},
    )
