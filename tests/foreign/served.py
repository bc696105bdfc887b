"""Tests of franz-go's fake cluster, rewritten so that each is given a broker of ours instead.

A test that only asks the cluster where it listens is sent to `kafka-eos serve` (go/served.go.txt).
A test that commands the cluster itself, or sets it up as only the fake one can be, is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

HELPER: Final = Path(__file__).parent / "go" / "served.go.txt"
ALLOWED_METHODS: Final = frozenset({"ListenAddrs", "Close"})
ALLOWED_OPTIONS: Final = frozenset({"NumBrokers", "SeedTopics", "BrokerConfigs"})

TEST: Final = re.compile(r"^func (Test\w+)\(t \*testing\.T\) \{\n(.*?)^\}\n", re.M | re.S)
HELPER_FUNCTION: Final = re.compile(
    r"^func ([a-z]\w*)\([^\n]*?\b(\w+) \*(?:kfake\.)?Cluster\b[^\n]*\{\n(.*?)^\}\n", re.M | re.S
)
CLUSTER: Final = re.compile(r"\b(\w+)(?:, \w+)? :?= (?:kfake\.)?[nN]ewCluster\(")


def serve_instead(folder: Path, row: Mapping[str, Any]) -> None:
    """Rewrite the suite in place, once."""
    methods, options = commands_of(folder)
    for name in row["folders"]:
        package = folder / name
        helper = package / "served_instead_test.go"
        if helper.exists():
            continue
        tests = {path: path.read_text(encoding="utf-8") for path in package.glob(row["files"])}
        helpers = helpers_that_command(tests.values(), methods)
        for path, text in tests.items():
            path.write_text(rewritten(text, methods, options | helpers), "utf-8")
        said = "kfake" if name == "." else Path(name).name
        helper.write_text(HELPER.read_text(encoding="utf-8").replace("PACKAGE", said), "utf-8")


def helpers_that_command(texts: Iterable[str], methods: Iterable[str]) -> set[str]:
    """Functions beside the tests that are given a fake cluster and command it, or have a function
    do so that is already found."""
    helpers = [helper.groups() for text in texts for helper in HELPER_FUNCTION.finditer(text)]
    any_method = "|".join(methods)
    found: set[str] = set()
    while True:
        calls = "".join(rf"|\b{name}\(" for name in found)
        more = {
            name
            for name, cluster, body in helpers
            if re.search(rf"\b{cluster}\.(?:{any_method})\({calls}", body)
        }
        if more <= found:
            return found
        found |= more


def commands_of(folder: Path) -> tuple[set[str], set[str]]:
    """The methods that command the fake cluster, and the options that only it understands."""
    text = "\n".join(
        path.read_text(encoding="utf-8")
        for path in folder.glob("*.go")
        if not path.name.endswith("_test.go")
    )
    methods = set(re.findall(r"^func \(\w+ \*Cluster\) ([A-Z]\w*)\(", text, re.M))
    options = set(re.findall(r"^func (\w+)\([^\n]*\) Opt \{", text, re.M))
    return methods - ALLOWED_METHODS, options - ALLOWED_OPTIONS


def rewritten(text: str, methods: Iterable[str], options: Iterable[str]) -> str:
    """The text of a file of tests, sent to a served broker."""
    skipped = set(needs_the_fake(text, methods, options))

    def skip(found: re.Match[str]) -> str:
        head, body = found.group(0).split("\n", 1)
        return f"{head}\n\tskipWithoutFake(t)\n{body}" if found.group(1) in skipped else found[0]

    text = TEST.sub(skip, text)
    text = re.sub(r"\b([\w.]+)\.ListenAddrs\(\)", r"servedInstead(\1.ListenAddrs())", text)
    return text.replace(
        "t.Cleanup(c.Close)", "t.Cleanup(func() { stopServed(c.ListenAddrs()); c.Close() })"
    )


def needs_the_fake(text: str, methods: Iterable[str], options: Iterable[str]) -> Iterator[str]:
    """The tests that command a fake cluster, or need an option that ours does not have."""
    any_method, any_option = "|".join(methods), "|".join(options)
    for test in TEST.finditer(text):
        body = test.group(2)
        clusters = "|".join(set(CLUSTER.findall(body))) or "$^"
        if re.search(rf"\b(?:{clusters})\.(?:{any_method})\(", body) or re.search(
            rf"\b(?:kfake\.)?(?:{any_option})\(", body
        ):
            yield test.group(1)
