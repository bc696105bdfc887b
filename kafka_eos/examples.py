"""Examples of each verb, which its `--help` ends with: the words behind `kafka-eos`, and a remark.

A test parses each of them, so that none names an option that is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from model.releases import NEWEST

EXAMPLES: Final[Mapping[tuple[str, str], tuple[tuple[str, str], ...]]] = {
    ("conformance", "run"): (
        ("run --scope idempotent-tiny --traces 50", "the implementation of this project"),
        (
            f"run --system kafka --kafka {NEWEST} --traces 200",
            "a Kafka release, fetched and started",
        ),
        ("run --system wire://localhost:9092 --out run", "your broker; pages of what differs"),
        (f"run --system client --client java:{NEWEST}", "a client, behind a proxy"),
    ),
    ("conformance", "replay"): (
        ("replay trace.jsonl", "on the model, with the trace's patches"),
        ("replay trace.jsonl --system wire://localhost:9092", "up to the first difference"),
    ),
    ("conformance", "explain"): (("explain trace.jsonl --html page.html", "one offline page"),),
    ("conformance", "releases"): (("releases --out releases", "all releases and levels"),),
    ("conformance", "matrix"): (
        ("matrix --keep evidence/matrix.json", "all brokers that can be had here"),
        (f"matrix --brokers {NEWEST},kfake --scopes transactions-tiny", "two brokers, in minutes"),
    ),
    ("conformance", "client-table"): (
        ("client-table --keep evidence/client_table.json", "all clients and features, resumable"),
        ("client-table --clients kafka-python --features admin,idempotent", "two cells each"),
    ),
    ("conformance", "known-defects"): (
        ("known-defects --list", "issues, and the releases on both sides of the mend"),
        ("known-defects late_produce_hangs", "Kafka 3.5.2 has it, 3.6.0 does not"),
        ("known-defects late_produce_hangs --swap", "exits with 1: the control"),
    ),
    ("conformance", "distinguish"): (
        ("distinguish", f"each rule of {NEWEST}: the trace that tells it from another release's"),
        (f"distinguish --system kafka --kafka {NEWEST}", "play these traces on a real broker"),
        ("distinguish --system kafka --missing --keep", "all that no broker has followed yet"),
    ),
    ("conformance", "delayed-end-txn"): (
        (f"delayed-end-txn --kafka {NEWEST} --requests v1", "exits with 1: a write is lost"),
    ),
    ("conformance", "stale-coordinator"): (
        (f"stale-coordinator --kafka {NEWEST} --requests v2", "holds"),
    ),
    ("conformance", "consume-transform-produce"): (
        (f"consume-transform-produce --kafka {NEWEST}", "a crash at every step"),
    ),
    ("conformance", "experiments"): (
        (f"experiments late_abort_stored --kafka {NEWEST}", "one story on a real broker"),
        ("experiments --system impl", "all of them on the implementation"),
    ),
    ("conformance", "audit"): (
        ("audit --log-dir /var/lib/kafka/data", "the logs of a broker"),
        ("audit --bootstrap-servers localhost:9092 --topics orders", "topics of a cluster"),
    ),
    ("conformance", "jobs"): (
        ("jobs 'mutants --only {name}' --each name=@mutants", "each planted bug, two at a time"),
        (
            "jobs 'explore {s} --variant {v}' --each s=@scopes:idempotent-t.*"
            f" --each v={NEWEST},3.9.2",
            "scopes x releases; --list prints them",
        ),
        ("jobs 'prove --only {name}' --each name=@theorems --backend spark", "on a cluster"),
    ),
    ("impl", "serve"): (
        ("serve", "a broker at 127.0.0.1:9092"),
        ("serve --listen 127.0.0.1:0 --nodes 3 --topic orders:4", "a cluster; the port is printed"),
    ),
    ("conformance", "explore"): (
        ("explore idempotent-tiny", "every state, every guarantee"),
        ("explore transactions-small --variant v1", "requests of V1"),
        ("explore transactions-tiny --patch idea.diff", "the model with a change"),
        (
            "explore transactions-medium --backend spark --master spark://HOST:7077 --out out/m",
            "the same counts from many machines",
        ),
    ),
    ("proofs", "explore"): (("proofs explore idempotent-tiny", "on this machine"),),
    ("proofs", "try"): (
        (f"try --variant {NEWEST}/marker_epoch=not_older", "a rule of an older release"),
        ("try --patch idea.json --stop --budget-s 100", "up to the first broken promise"),
    ),
    ("proofs", "patch"): (
        ("patch --out idea.json", "from `git diff` of the model"),
        ("patch idea.diff --out idea.json", "from a diff"),
    ),
    ("proofs", "prove"): (
        ("prove --only at_most_once", "one theorem"),
        (f"prove --only no_gap --variant {NEWEST}", "a trace, before any solver is asked"),
        ("prove --patch idea.diff", "only what the change reaches is asked again"),
    ),
    ("proofs", "mutants"): (
        ("mutants --only any_first_sequence", "one defect, and its clean twin"),
        ("mutants --systematic --sample 100 --seed 1", "small changes of the rules"),
    ),
    ("conformance", "mutants"): (("conformance mutants", "each planted bug is found"),),
    ("conformance", "coverage"): (
        ("conformance coverage --scope idempotent-restart", "what one scope executes of impl"),
    ),
    ("proofs", "coverage"): (
        ("coverage idempotent-tiny", "rules, branches, pairs of events"),
        (f"coverage idempotent-tiny --compare {NEWEST} --patch idea.diff", "what a change loses"),
    ),
    ("proofs", "liveness"): (
        ("liveness live-retries --drop answers", "without one fairness assumption"),
    ),
    ("proofs", "refine"): (("refine transactions-tiny", "against the abstract specification"),),
    ("proofs", "guarantees"): (
        ("guarantees --release 2.4.1 --failover none", "what is promised, what is not, the cures"),
        ("guarantees --transactions --release 4.2 --verbose", "with the steps of each trace"),
    ),
    ("proofs", "docs"): (("docs --out pages", "a page for each guarantee"),),
    ("proofs", "witness"): (
        ("witness OUT_OF_ORDER_SEQUENCE_NUMBER", "the shortest way to an error code"),
    ),
    ("proofs", "export"): (("export idempotent-tiny --tla out", "the model for TLC"),),
    ("conformance", "list"): (
        ("list", "what there is to list, and how many of each"),
        ("list scopes", "one kind of names"),
        ("list risks", "what released Kafka does not promise"),
    ),
    ("proofs", "list"): (("proofs list theorems", "one kind of names"),),
}
