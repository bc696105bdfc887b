"""The verbs of `python -m proofs`, one module each: `add_arguments(parser)` and `run(arguments)`.

Exit codes: 0 holds, 1 violated, 2 bad use or bad input, 3 not decided.
"""

from __future__ import annotations

from typing import Final

HOLDS: Final = 0
VIOLATED: Final = 1
BAD_USE: Final = 2
NOT_DECIDED: Final = 3

EXIT_CODES: Final = {"holds": HOLDS, "violated": VIOLATED, "undecided": NOT_DECIDED}
"""By a report's verdict."""

VERBS: Final = {
    "explore": ("proofs.verbs.explore", "every reachable state of a scope; shortest traces"),
    "prove": ("proofs.prove.verb", "the theorems, obligation by obligation"),
    "mutants": ("proofs.verbs.mutants", "each planted defect of the model is found"),
    "coverage": ("proofs.verbs.coverage", "what of the text happens, and which events meet"),
    "live": ("proofs.verbs.live", "what happens in the end, and fair lassos where it does not"),
    "refine": (
        "proofs.verbs.refine",
        "each step is one that a user believes in, or a trace to one",
    ),
    "guarantees": (
        "proofs.verbs.guarantees",
        "which guarantees hold for a release and its configurations",
    ),
    "pages": (
        "proofs.verbs.pages",
        "a page for each guarantee and non-guarantee, with what shows it",
    ),
    "witness": ("proofs.verbs.witness", "the shortest trace to a point of the text, or to a pair"),
    "export": ("proofs.verbs.export", "TLA+ and graphs"),
    "list": ("proofs.verbs.listing", "scopes, variants, engines, guarantees, mutants, theorems"),
}
"""Each verb's module, imported when it is called, and what it answers."""
