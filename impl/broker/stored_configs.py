"""Settings of topics as a real broker has stored them: of any release, and with a remote storage.

Two rules:

1. A setting that 4.3 does not have any more, as `message.format.version`, has no effect. It is left
   out, and logged: with it the topic's settings could not be changed.
2. A topic whose settings cannot be served is refused. One with a remote storage is such a topic:
   records before its first segment are not here. Kafka does not start either if the remote storage
   is switched off.

Sources: `LogConfig.validateNames`, `LogManager.updateTopicConfig`; KIP-405, KIP-724.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from impl.broker.topic_refused import TopicRefused
from impl.broker.topic_settings import TOPIC_SETTINGS, log_config
from impl.partition.log_config import LogConfig

_log = logging.getLogger(__name__)


class UnsupportedTopic(ValueError):
    """A topic with settings that cannot be served: change them with the broker that it is of."""


def served_configs(topic: str, configs: Mapping[str, str]) -> dict[str, str]:
    """The settings of a topic that a broker of 4.3 has."""
    for name in configs.keys() - TOPIC_SETTINGS.keys():
        text = configs[name]
        _log.warning(
            "the setting %s=%s of the topic %s is left out: 4.3 has none", name, text, topic
        )
    return {name: text for name, text in configs.items() if name in TOPIC_SETTINGS}


def stored_config(topic: str, base: LogConfig, configs: Mapping[str, str]) -> LogConfig:
    """`base` with a topic's settings. Raises `UnsupportedTopic`."""
    try:
        return log_config(base, configs)
    except TopicRefused as refusal:
        problem = f"the topic {topic} cannot be served with its settings: {refusal}"
        raise UnsupportedTopic(problem) from refusal
