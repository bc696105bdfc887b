"""The page of all risks, by release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from model.releases import RELEASES, numbers
from proofs.risks import Risk, risks

HEAD = """# Risks by release

What released Kafka does not promise. A number leads to what happens, how it comes about, how likely
it is by Kafka's own rules, and what cures it. The releases are read from `model/releases.py`, the
rest from `proofs/risks/risks.toml`.

`kafka-eos guarantees` answers for one release and its configuration, with a trace of what it finds.
"""

AT_DEFAULTS, BY_V1, BY_SETTING, ABSENT, NOT_MODELLED = "**yes**", "V1", "set", "-", ""

LEGEND = (
    "**yes**: with the defaults of the release. V1: only if clients send requests of V1. set: only "
    "where somebody chose a setting that allows it. -: not in this release. Empty: not modelled."
)


def columns() -> tuple[str, ...]:
    """Return all releases, the newest first."""
    found = {release for name in SECTIONS for release in RELEASES[name]}
    return tuple(sorted(found, key=numbers, reverse=True))


SECTIONS: Mapping[str, str] = {
    "idempotent": "Idempotent producers",
    "transactions": "Transactions",
    "processing": "Consume, transform, produce",
}
"""The compositions that have risks."""


def cell(risk: Risk, release: str) -> str:
    """Return whether a release has a risk, as a cell."""
    if release not in RELEASES[risk.composition]:
        return NOT_MODELLED
    if risk.by_setting:
        return BY_SETTING
    if risk.is_of(release):
        return AT_DEFAULTS
    speaks_both = risk.composition == "transactions"
    return BY_V1 if speaks_both and risk.is_of(f"{release}/requests=v1") else ABSENT


def risk_page() -> str:
    """Return the page of all risks, as Markdown."""
    named = columns()
    lines = [HEAD, f"| | risk | {' | '.join(named)} |", f"|---|---|{'---|' * len(named)}"]
    for number, risk in enumerate(risks().values(), start=1):
        cells = " | ".join(cell(risk, release) for release in named)
        lines.append(f"| [{number}](#{risk.name}) | {risk.happens} | {cells} |")
    lines += ["", LEGEND, ""]
    for composition, title in SECTIONS.items():
        lines += [f"## {title}", ""]
        for risk in risks().values():
            if risk.composition == composition:
                lines += section(risk)
    return "\n".join(lines)


def section(risk: Risk) -> Iterator[str]:
    """Yield the section about one risk."""
    yield from (f"### {risk.name}", "", f"**What happens.** {risk.happens}", "")
    yield from (f"**How.** {risk.how}", "", f"**How likely.** {risk.likely}", "")
    yield from ("**What cures it.**", "", *(f"- {remedy}" for remedy in risk.remedies()), "")
    names = ", ".join(f"`{name}`" for name in risk.breaks)
    yield from (f"**Known as** {risk.reference}. It breaks {names}.", "", "```")
    if risk.scope:
        yield f"kafka-eos explore {risk.scope} --variant {risk.variant}"
    if risk.experiment:
        yield f"kafka-eos experiments {risk.experiment}  # on a real broker"
    yield from ("```", "")
