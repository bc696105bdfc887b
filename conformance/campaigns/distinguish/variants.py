"""The variants of a composition among which rules are told apart.

Each release at each level, with each kind of requests for which it has transactions. Compositions
without transactions have neither levels nor kinds of requests.
"""

from __future__ import annotations

from conformance.adapters.brokers.kafka.releases import find_release
from conformance.judging.compositions import JudgedComposition
from conformance.judging.distinguish.alternatives import WITH_LEVELS
from model.releases import RELEASES


def variants_of(composition: JudgedComposition) -> list[str]:
    """The variants of a composition, the newest first."""
    parse = composition.model.variants.parse
    releases = RELEASES[composition.name]
    if composition.name not in WITH_LEVELS:
        return [parse(release).name for release in releases]
    return [
        parse(f"{release}/level={level}/requests={requests}").name
        for release in releases
        for level in reversed(find_release(release).stable_levels)
        for requests in (("v2", "v1") if level else ("v1",))
    ]
