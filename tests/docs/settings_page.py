"""The page of settings, from the tables that the broker follows.

`python -m tests.docs.settings_page > docs/reference/settings.md` writes it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from impl.broker.embedded import EMBEDDED
from impl.broker.group_settings import GROUP_SETTINGS
from impl.broker.kafka_settings import KAFKA_SETTINGS
from impl.broker.node_effects import ELSEWHERE, find_reason
from impl.broker.node_settings import (
    AUTHORIZER_SETTINGS,
    can_change,
    explain_node_setting,
    format_setting,
    has_effect,
    path_of,
)
from impl.broker.topic_settings import ABOUT, TOPIC_SETTINGS

INTRODUCTION = """\
# Settings of the embedded broker

All settings of Kafka 4.3.1 have a place here: those of brokers, of topics and of groups. Each has an effect, or is accepted without one. DescribeConfigs tells the same, with Kafka's types, defaults, sources and synonyms, and with the sentences of this page as documentation. A test holds this page to the tables that the broker follows, and each setting with an effect is read by the broker's own work in a test.

A setting of brokers is given

- at the start: `Broker(settings={"num.partitions": "4"})`, the argument `settings` of the marker `kafka_broker`, or `kafka-eos serve --config num.partitions=4`. One that has no effect is named in a line of the log.
- while they run, where a table says so: IncrementalAlterConfigs or AlterConfigs of one broker, or of all (`kafka-configs --entity-type brokers --entity-default`). `directory=` keeps it. A setting that Kafka cannot change while it runs is refused in Kafka's words; one that Kafka can change, and that does nothing here, is refused with the reason. Defaults of topics can all be changed, as topics take all settings. Kafka keeps names that it does not know; here they are refused.

A topic's setting is given by CreateTopics, `create_topic(...)`, AlterConfigs or IncrementalAlterConfigs; every value that Kafka takes is accepted. A topic without its own has the broker's. `retention.ms=-1` is unlimited, whatever brokers have.

From 4.1 on all brokers have a `min.insync.replicas` as if it had been changed while they ran, as a Kafka that is formatted with its defaults: it comes from the settings of the first start, a directory keeps it, it can be changed and cannot be removed, and no broker has one of its own.
"""  # noqa: E501 - a page has a paragraph a line


def row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def table(*heads: str, rows: Iterable[tuple[str, ...]]) -> str:
    lines = [row(*heads), "|" + "---|" * len(heads), *(row(*cells) for cells in rows)]
    return "\n".join(lines) + "\n"


def default_here(name: str) -> str:
    """Kafka's, and the one of `Broker` where it is another."""
    kafkas = KAFKA_SETTINGS[name].default
    shown = "none" if kafkas is None else kafkas or "empty"
    own = format_setting(EMBEDDED, name) if path_of(name) not in ("", "node_id") else kafkas
    is_in_larger_units = kafkas is None or name in ("log.retention.hours", "log.roll.hours")
    if own == kafkas or (is_in_larger_units and name != "log.retention.ms"):
        return shown
    return f"{shown}; here {own}"


def effective() -> Iterator[tuple[str, ...]]:
    for name in KAFKA_SETTINGS:
        if path_of(name):
            changes = "yes" if can_change(name) else "no"
            yield f"`{name}`", default_here(name), changes, explain_node_setting(name)


def inert() -> Iterator[tuple[str, ...]]:
    by_reason = defaultdict(list)
    for name in KAFKA_SETTINGS:
        if not has_effect(name):
            by_reason[find_reason(name)].append(f"`{name}`")
    for reason, names in sorted(by_reason.items()):
        yield reason, ", ".join(names)


def topics(*, with_effect: bool) -> Iterator[tuple[str, ...]]:
    for name, setting in TOPIC_SETTINGS.items():
        if bool(setting.field) == with_effect:
            yield f"`{name}`", setting.default or "empty", ABOUT[name]


def groups() -> Iterator[tuple[str, ...]]:
    for name, setting in sorted(GROUP_SETTINGS.items()):
        does = "followed" if setting.field else "kept and described, without effect"
        yield f"`{name}`", setting.default, does


def page() -> str:
    parts = [
        INTRODUCTION,
        "## Brokers: with an effect\n",
        table("setting", "default", "changed while it runs", "meaning", rows=effective()),
        f"{' and '.join(f'`{name}`' for name in AUTHORIZER_SETTINGS)} are those of Kafka's"
        " authorizer: either brings an authorizer with it, and `super.users` has `;` between its"
        " principals. They are described without values where they are given, as by Kafka.\n",
        "## Brokers: given by other means\n",
        "They are described as they are; their names are refused with the means.\n",
        table("setting", "given by", rows=((f"`{name}`", how) for name, how in ELSEWHERE.items())),
        "## Brokers: accepted without effect\n",
        table("why", "settings", rows=inert()),
        "## Topics: with an effect\n",
        table("setting", "default", "meaning", rows=topics(with_effect=True)),
        "## Topics: accepted without effect\n",
        table("setting", "default", "why", rows=topics(with_effect=False)),
        "## Groups\n",
        table("setting", "default", "here", rows=groups()),
    ]
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")
