"""Named replacements: found by name and by meaning, exactly once."""

import ast
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent

import pytest

from proofs.explore.scope import explore_scope
from proofs.lift.patch import Patch, PatchError, apply, apply_to_text, parse_diff
from proofs.lift.source import load_model, patches_by_composition, read_patches

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


DIFF = """
diff --git a/model/idempotent/leader.py b/model/idempotent/leader.py
--- a/model/idempotent/leader.py
+++ b/model/idempotent/leader.py
@@ -1,3 +1,4 @@
 one
-two
+2

 three
@@ -9,1 +10,2 @@
 nine
+ten
\\ No newline at end of file
"""


def test_each_hunk_of_a_diff_is_a_patch_of_a_file() -> None:
    first, second = parse_diff(DIFF)
    name = "model/idempotent/leader.py"
    assert first == Patch(name, "one\ntwo\n\nthree", "one\n2\n\nthree")
    assert second == Patch(name, "nine", "nine\nten")
    text = "zero\none\ntwo\n\nthree\nnine\n"
    assert apply_to_text(first, text) == "zero\none\n2\n\nthree\nnine\n"
    assert apply_to_text(second, text).endswith("\nnine\nten\n")


@pytest.mark.parametrize(
    ("diff", "message"),
    [
        ("+++ b/model/idempotent/leader.py\n one\n", "without a change"),
        ("+++ b/model/idempotent/leader.txt\n-one\n", "Python files"),
        ("+++ b/model/idempotent/leader.py\n-no such line\n", "found 0 times"),
        ("+++ b/model/idempotent/leader.py\n+one\n", "found 0 times"),
        ("+++ b/model/idempotent/leader.py\n     )\n+one\n", "found . times|found .. times"),
        ("+++ b/model/language.py\n-from\n", "cannot be patched"),
        ("+++ b/model/idempotent/leeder.py\n-from\n", "cannot be patched"),
        (
            "+++ b/model/idempotent/leader.py\n-from __future__ import annotations\n+from\n",
            "not Python",
        ),
    ],
)
def test_a_diff_that_does_not_fit_is_refused(diff: str, message: str) -> None:
    with pytest.raises(PatchError, match=message):
        patches_by_composition(parse_diff(diff))


A_FIELD_AND_A_RULE = """
--- a/model/producer_ids/world.py
+++ b/model/producer_ids/world.py
@@ -28,3 +28,4 @@
     repeated: bool
     asked: Annotated[int, Range(0, "asked")]
     faults: Faults
+    paused: bool
@@ -100,1 +101,9 @@
+@event(Thread("pauses", ()))
+def store_pauses(k: Configuration, w: World) -> World:
+    \"\"\"The store stops for ever.\"\"\"
+    require(not w.paused)
+    return replace(w, paused=True)
+
+
 @event(BROKER, Incident("exhausted_blocks", has_last_block))
 def block_is_read(k: Configuration, w: World, broker: Broker) -> World:
--- a/model/producer_ids/scopes.py
+++ b/model/producer_ids/scopes.py
@@ -1,1 +1,2 @@
         repeated=False,
+        paused=False,
"""


def test_a_diff_adds_a_field_and_a_rule() -> None:
    """Each state comes twice: before the new rule, and after it."""
    (patches,) = patches_by_composition(parse_diff(A_FIELD_AND_A_RULE)).values()
    assert "store_pauses" in load_model("producer_ids", patches).rules
    plain, changed = (
        explore_scope("producer-ids", patches=p, engine="source").counts.distinct
        for p in ((), patches)
    )
    assert changed == 2 * plain


def test_a_patch_belongs_to_the_composition_whose_text_it_fits() -> None:
    same = "batch.producer_epoch == entry.producer_epoch"
    named = Patch("client.may_send", "client.producer_id != NO_PRODUCER_ID", "True")
    hunk = Patch("model/transactions/end_txn.py", "import x", "import y")
    assert patches_by_composition([named]) == {"idempotent": (named,)}
    with pytest.raises(PatchError, match="found 0 times"):
        patches_by_composition([named, hunk])
    with pytest.raises(PatchError, match="change no file of transactions"):
        patches_by_composition(parse_diff(A_FIELD_AND_A_RULE), ("transactions",))
    with pytest.raises(PatchError, match="no function"):
        patches_by_composition([named], ("transactions",))
    with pytest.raises(PatchError, match="fit idempotent and transactions; name one"):
        patches_by_composition([Patch("leader.is_duplicate", same, "False")])
    assert patches_by_composition([]) == {}


A_WRONG_NAME = """
--- a/model/idempotent/guarantees.py
+++ b/model/idempotent/guarantees.py
         remembers_the_newest,
-        expires_nobody,
+        # A line more than the file has.
+        expires_nobodyy,
"""


@pytest.mark.parametrize(
    ("patches", "message"),
    [
        (
            parse_diff(A_WRONG_NAME),
            r"model/idempotent/guarantees.py, with .*at `expires_nobodyy`:"
            r" name 'expires_nobodyy' is not defined",
        ),
        (
            [Patch("configuration.FirstSequence", "ANY = 0", "ANY = 1 // 0")],
            "with the patch, at `ANY = 1 // 0`: integer division",
        ),
        (
            [Patch("variants", "DEFAULT_VARIANT = GRAMMAR.default", "return")],
            "model/idempotent/variants.py, with the patch, at `.*`: .return. outside function",
        ),
    ],
    ids=["a name in a diff", "an expression", "a statement"],
)
def test_a_patched_text_that_does_not_run_is_refused_with_its_line(
    patches: Sequence[Patch], message: str
) -> None:
    """It was a traceback, with the line of that number in the file as it stands."""
    with pytest.raises(PatchError, match=message):
        load_model("idempotent", patches)


NO_PATCH_FILES = {
    "nothing": ("", "line 1: not a list"),
    "a number": ("\n-x", "line 2: not a list"),
    "no Python": ("[\n['a' 'b',", "line "),
    "an empty list": ("[]", "line 1: an empty list"),
    "one row": ('["leader.f", "a", "b"]', "line 1: 'leader.f' is not a row of three texts"),
    "a short row": ('[["f", "a", "b"],\n["f"]]', r"line 2: \['f'\] is not a row of three texts"),
    "a number in a row": ('[["f", "a", 1]]', "line 1: .* is not a row of three texts"),
    "a name in a row": ('[["f", "a", b]]', "line 1: .* is not a row of three texts"),
    "an object": ('{"function": "f"}', "line 1: not a list"),
    "a diff of nothing": ("+++ b/model/x.py\n", "a diff without a change"),
}


@pytest.mark.parametrize(("text", "message"), NO_PATCH_FILES.values(), ids=NO_PATCH_FILES)
def test_a_file_that_is_no_patch_file_is_refused_with_what_one_is(
    text: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "change.json"
    file.write_text(text)
    with pytest.raises(PatchError, match=f"change.json: {message}.*; a patch file is a unified"):
        read_patches(file)


def test_bytes_are_no_patch_file(tmp_path: Path) -> None:
    file = tmp_path / "change.json"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(PatchError, match="not a text in UTF-8; a patch file is"):
        read_patches(file)


def test_rows_are_json_or_python(tmp_path: Path) -> None:
    file = tmp_path / "change"
    for text in (' [["f", "a", "b"]]', "(\n('f', 'a', 'b'),)"):
        file.write_text(text)
        assert read_patches(file) == (Patch("f", "a", "b"),)


def test_members_keep_their_numbers() -> None:
    """Formulas of proofs know them by number: with two states exchanged they spoke of the other."""
    exchanged = [
        Patch("coordinator.TransactionState", "EMPTY = 0\nONGOING = 1", "EMPTY = 1\nONGOING = 0")
    ]
    with pytest.raises(PatchError, match=r"coordinator.TransactionState.EMPTY is 1, and was 0"):
        load_model("transactions", exchanged)
    added = [Patch("coordinator.TransactionState", "EMPTY = 0", "EMPTY = 0\nPAUSED = 99")]
    assert load_model("transactions", added).coordinator.TransactionState.PAUSED == 99
