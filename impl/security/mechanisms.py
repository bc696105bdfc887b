"""The mechanisms of SASL, by name."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

PLAIN: Final = "PLAIN"


class ScramMechanism(IntEnum):
    """The mechanisms, with their numbers in AlterUserScramCredentials. `ScramMechanism`."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def title(self) -> str:
        """The name of SASL: SCRAM-SHA-256."""
        return self.name.replace("_", "-")

    @property
    def digest(self) -> str:
        """The name of its hash function for `hashlib`."""
        return "sha" + self.name.rpartition("_")[2]


SCRAM_MECHANISMS: Final[Mapping[str, ScramMechanism]] = MappingProxyType(
    {mechanism.title: mechanism for mechanism in ScramMechanism}
)

MECHANISMS: Final = (PLAIN, *SCRAM_MECHANISMS)
