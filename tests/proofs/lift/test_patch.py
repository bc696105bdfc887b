"""Named replacements: found by name and by meaning, exactly once."""

import ast
from textwrap import dedent

import pytest

from proofs.lift.patch import Patch, PatchError, apply

pytestmark = pytest.mark.fast

TEXT = """
LIMITS = {"a": 1, "b": (2, 3), **MORE}

class Leader:
    remembered: int = 5

    def append(self, batch):  # a comment
        if (batch.epoch
                < self.epoch):
            self.refused += 1
            return "older"
        self.log.append(batch)
        return self.log.append(None) or self.epoch

    async def read(self):
        self.read += 1
        self.read += 1

class Follower:
    def append(self, batch):
        self.log.append(batch)

def check(epoch):
    return epoch < 3
"""


def patched(*patch: str) -> str:
    trees = {"partition.leader": ast.parse(TEXT), "log": ast.parse("def check(): return 1")}
    assert apply(Patch(*patch), trees) == "partition.leader"
    return ast.unparse(trees["partition.leader"])


@pytest.mark.parametrize(
    ("function", "before", "after", "then"),
    [
        (
            "Leader.append",
            "batch.epoch < self.epoch",
            "batch.epoch <= self.epoch",
            "if batch.epoch <= self.epoch:",
        ),
        ("partition.leader.Leader.append", "self.log.append(None)", "0", "return 0 or self.epoch"),
        ("leader.check", "3", "4", "return epoch < 4"),
        ("Leader", "remembered: int = 5", "remembered: int = 4", "remembered: int = 4"),
        (
            "Leader.append",
            "self.refused += 1",
            "",
            "if batch.epoch < self.epoch:\n            return 'older'",
        ),
        (
            "Leader.append",
            'self.refused += 1\nreturn "older"',
            "pass",
            "if batch.epoch < self.epoch:\n            pass",
        ),
        (
            "Follower.append",
            "self.log.append(batch)",
            "if batch:\n    self.log.append(batch)",
            "if batch:\n            self.log.append(batch)",
        ),
        ("Leader.read", "self.read += 1\nself.read += 1", "await self", "await self"),
        (
            "partition.leader",
            '{"b": (2, 3)}',
            '{"b": (3, 3), "c": 4}',
            "LIMITS = {'a': 1, 'b': (3, 3), 'c': 4, **MORE}",
        ),
        ("partition.leader", '{"a": 1}', "{}", "LIMITS = {'b': (2, 3), **MORE}"),
    ],
)
def test_what_is_named_is_replaced(function: str, before: str, after: str, then: str) -> None:
    text = patched(function, before, after)
    assert then in text
    if after:
        back = ast.unparse(ast.parse(TEXT))
        assert text != back


def test_nothing_else_changes() -> None:
    was = ast.unparse(ast.parse(dedent(TEXT))).splitlines()
    now = patched("Leader.append", "self.log.append(None)", "self.log.append(1)").splitlines()
    assert [(a, b) for a, b in zip(was, now, strict=True) if a != b] == [
        (
            "        return self.log.append(None) or self.epoch",
            "        return self.log.append(1) or self.epoch",
        )
    ]


@pytest.mark.parametrize(
    ("function", "before", "message"),
    [
        ("Leader.nothing", "1", "no function 'Leader.nothing'"),
        (
            "append",
            "1",
            "it may be partition.leader.Leader.append, partition.leader.Follower.append",
        ),
        ("check", "1", "it may be partition.leader.check, log.check"),
        ("eader.append", "1", "no function"),
        ("Leader.append", "self.epoch > 1", "is found 0 times"),
        ("Leader.append", "self.epoch", "is found 2 times"),
        ("Leader.read", "self.read += 1", "is found 2 times"),
        ("partition.leader", '{"c": 1}', "is found 0 times"),
        ("Leader.append", "if", "not Python"),
        ("Leader.append", "", "nothing to replace"),
    ],
)
def test_what_does_not_fit_is_an_error(function: str, before: str, message: str) -> None:
    with pytest.raises(PatchError, match=message):
        patched(function, before, "0")
