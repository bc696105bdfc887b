"""Stories in files, and the experiments in each of them.

A story begins with comments, which describe it, and with lines `key: value`:

- `name`: the name of its experiments; by default that of the file.
- `each NAME`: words. There is an experiment for each of them, and `{NAME}` stands for the word.
  `each` without a name has a table below. The experiments are all combinations.
- `requests`: `v1`, `v2` or both, which the broker must serve. Steps use the first one.
- `only`: a condition. If it does not hold, the experiment makes no sense.
- `brokers`: 1 or 3; by default 1.
- `layout`: `seated`: of three brokers one alone votes, and two have the log of transactions.
  `proxied`: besides, the network to the one that votes can be held.
- `property`: `NAME=VALUE`, of the brokers; any number of lines.
- `broker`: `restarted`: the experiment restarts it. `own`: other experiments cannot use it
  afterwards. `upgraded`: it has another level afterwards.
- `client`: `yes`: a Java client, whose release is `{client}`, takes part.
- `times`: how often to play it. A fact with different answers has all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Final

from conformance.adapters.brokers.wire import Requests
from conformance.campaigns.stories.text import (
    Condition,
    NotUnderstood,
    Statement,
    StoryError,
    StoryLine,
    fill,
    parse_condition,
    parse_statements,
    parse_table,
    read_lines,
)

FOLDER: Final = Path(__file__).with_name("stories")
SUFFIX: Final = ".story"

REQUESTS: Final[Mapping[str, Requests]] = {"v1": "v1", "v2": "v2"}
RESTARTED, OWN, UPGRADED = "restarted", "own", "upgraded"
LAYOUTS: Final = ("", "seated", "proxied")


@dataclass(frozen=True, slots=True)
class Brokers:
    """The brokers of an experiment; experiments with equal needs share them."""

    count: int = 1
    layout: str = ""
    properties: tuple[tuple[str, str], ...] = ()


ONE_BROKER: Final = Brokers()
ALWAYS: Final = Condition()


@dataclass(frozen=True, slots=True)
class Experiment:
    """A story with the variables of one of its experiments."""

    name: str
    story: str
    summary: str
    body: tuple[Statement, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    requests: tuple[Requests, ...] = ("v1",)
    brokers: Brokers = ONE_BROKER
    only: Condition = ALWAYS
    broker: str = ""
    has_client: bool = False
    times: int = 1

    @property
    def shares_brokers(self) -> bool:
        """Whether other experiments can use the same brokers afterwards."""
        return self.broker in ("", RESTARTED)

    def fits(self, release: str, level: int, can_use: Callable[[Requests], bool]) -> bool:
        """Whether it makes sense at a broker that can use some kinds of requests."""
        here = {**self.variables, "release": release, "level": str(level)}
        return self.only.holds(here) and all(map(can_use, self.requests))


def stories(folder: Path = FOLDER) -> dict[str, Experiment]:
    """All experiments by name. Raises StoryError."""
    return _stories(folder)


@cache
def _stories(folder: Path) -> dict[str, Experiment]:
    found: dict[str, Experiment] = {}
    for file in sorted(folder.glob(f"*{SUFFIX}")):
        for experiment in read_story(file):
            if experiment.name in found:
                raise StoryError(f"{file.name}: a second experiment {experiment.name!r}")
            found[experiment.name] = experiment
    return found


def read_story(file: Path) -> list[Experiment]:
    """The experiments of one file. Raises StoryError."""
    lines = read_lines(file)
    is_header = [_key(line) in _HEADERS for line in lines]
    end = is_header.index(False) if False in is_header else len(lines)
    body = parse_statements(lines[end:])
    if not body:
        raise StoryError(f"{file.name}: a story without a step")
    headers = lines[:end]
    draft = Experiment(file.stem, file.stem, summary_of(file), body)
    return [
        _with_headers(replace(draft, variables=variables), headers) for variables in _each(headers)
    ]


def summary_of(file: Path) -> str:
    """The first comment of a story."""
    comment = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        comment.append(line.removeprefix("#").strip())
    return " ".join(comment)


def _each(headers: Iterable[StoryLine]) -> Iterator[dict[str, str]]:
    """The variables of each experiment: all combinations of the lines `each`."""
    ways = [_rows(line) for line in headers if _key(line) == "each"]
    for combination in product(*ways):
        yield {name: value for row in combination for name, value in row.items()}


def _rows(line: StoryLine) -> list[dict[str, str]]:
    head, _, words = line.text.partition(":")
    if names := head.split()[1:]:
        return [{names[0]: word} for word in words.split()]
    columns, rows, _ = parse_table(line)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _with_headers(experiment: Experiment, headers: Iterable[StoryLine]) -> Experiment:
    for line in headers:
        value = line.text.partition(":")[2].strip()
        try:
            text = fill(value, experiment.variables)
            experiment = _HEADERS[_key(line)](experiment, text, line)
        except NotUnderstood as problem:
            raise line.error(str(problem)) from problem
    return replace(
        experiment, variables={**experiment.variables, "requests": experiment.requests[0]}
    )


def _key(line: StoryLine) -> str:
    """The key of a header; empty if the line is none."""
    head, colon, _ = line.text.partition(":")
    words = head.split()
    is_each = words[:1] == ["each"] and len(words) <= 2
    return words[0] if colon and (len(words) == 1 or is_each) else ""


def _name(e: Experiment, text: str, line: StoryLine) -> Experiment:
    return replace(e, name=text)


def _requests(e: Experiment, text: str, line: StoryLine) -> Experiment:
    return replace(
        e, requests=tuple(REQUESTS[_one_of(line, word, REQUESTS)] for word in text.split())
    )


def _only(e: Experiment, text: str, line: StoryLine) -> Experiment:
    return replace(e, only=parse_condition(line, text))


def _brokers(e: Experiment, text: str, line: StoryLine) -> Experiment:
    count = int(_one_of(line, text, ("1", "3")))
    return replace(e, brokers=replace(e.brokers, count=count))


def _layout(e: Experiment, text: str, line: StoryLine) -> Experiment:
    return replace(e, brokers=replace(e.brokers, layout=_one_of(line, text, LAYOUTS)))


def _property(e: Experiment, text: str, line: StoryLine) -> Experiment:
    name, equals, value = text.partition("=")
    if not equals:
        raise line.error("expected: property: NAME=VALUE")
    properties = (*e.brokers.properties, (name, value))
    return replace(e, brokers=replace(e.brokers, properties=properties))


def _broker(e: Experiment, text: str, line: StoryLine) -> Experiment:
    return replace(e, broker=_one_of(line, text, (RESTARTED, OWN, UPGRADED)))


def _client(e: Experiment, text: str, line: StoryLine) -> Experiment:
    return replace(e, has_client=_one_of(line, text, ("yes", "no")) == "yes")


def _times(e: Experiment, text: str, line: StoryLine) -> Experiment:
    if not text.isdecimal():
        raise line.error("no number")
    return replace(e, times=int(text))


def _one_of(line: StoryLine, word: str, there_are: Iterable[str]) -> str:
    if word not in there_are:
        raise line.error(f"{word!r} is none of {', '.join(filter(None, there_are))}")
    return word


_HEADERS: Final[dict[str, Callable[[Experiment, str, StoryLine], Experiment]]] = {
    "each": lambda experiment, text, line: experiment,
    "name": _name,
    "requests": _requests,
    "only": _only,
    "brokers": _brokers,
    "layout": _layout,
    "property": _property,
    "broker": _broker,
    "client": _client,
    "times": _times,
}
