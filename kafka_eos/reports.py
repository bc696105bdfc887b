"""`prove` and `run` as functions: the report that the verb of this name writes with `--json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kafka_eos.command_line import main


class VerbFailed(RuntimeError):
    """A verb ended without a report; standard error says why."""


def prove(
    *, only: str | None = None, variant: str | None = None, seeds: int = 1
) -> Mapping[str, Any]:
    """Prove the theorems, or `only` one of them; `verdict` in the report is the answer.

    `variant` replaces the variant under which each theorem is stated. Needs the extra `proofs`.

    Raises VerbFailed.
    """
    return report_of("prove", {"--only": only, "--variant": variant, "--seeds": seeds})


def run(
    system: str = "impl",
    *,
    scope: str = "idempotent-default",
    variant: str | None = None,
    kafka: str | None = None,
    client: str | None = None,
    traces: int | None = None,
    seed: int = 0,
    backend: str = "processes",
    out: Path | None = None,
) -> Mapping[str, Any]:
    """Judge `system` (impl, kafka, wire://HOST:PORT or client) against the model of its release.

    `conforms`, `divergences` and `verdict` in the report are the answer; conformance/
    report.schema.json describes all keys. `out` keeps the report, its traces and pages; a second
    call with the same arguments goes on there. Needs the extra `conformance`.

    Raises VerbFailed.
    """
    given = {
        "--system": system,
        "--scope": scope,
        "--variant": variant,
        "--kafka": kafka,
        "--client": client,
        "--traces": traces,
        "--seed": seed,
        "--backend": backend,
        "--out": out,
    }
    return report_of("run", given)


def report_of(verb: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The report of a verb; options that are None stay at their defaults. Raises VerbFailed."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        given = {name: value for name, value in options.items() if value is not None}
        given.setdefault("--out", Path(folder) / "out")
        words = [str(word) for option in given.items() for word in option]
        code = main([verb, *words, "--json", str(file)])
        if not file.exists():
            raise VerbFailed(f"kafka-eos {verb} ended with exit code {code}")
        report: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return report
