"""The cluster's level is changed while transactions are open."""

from __future__ import annotations

import time
from typing import Final

from conformance.kafka.admin import api_versions
from conformance.kafka.errors import RequestRefused
from conformance.kafka.features import set_level
from conformance.transactions.facts.lab import Lab, eventually, experiment

COMMIT, ABORT = True, False
FEATURE: Final = "transaction.version"
TIMEOUT_MS: Final = 2_000
LEVEL_TIMEOUT_S: Final = 5.0
NOT_LOGGED: Final = "UNSUPPORTED_VERSION"
BUSY: Final = "CONCURRENT_TRANSACTIONS"


@experiment("v1", alone=True)
def upgrade(lab: Lab) -> None:
    """From level 0 to level 2: what was begun by V1 requests goes on, by either kind."""
    if not lab.ground.speaks("v2") or lab.ground.level != 0:
        return
    v1, v2 = lab.v1, lab.v2
    first, second, third = (lab.in_state("Ongoing", v1) for _ in range(3))
    late = lab.in_state("Ongoing", v1, timeout_ms=TIMEOUT_MS)
    change_level(lab, 2)
    lab.fact("EndTxn v1", "NONE", lab.ask(v1.end_txn(first, COMMIT)))
    lab.rename()
    lab.fact("EndTxn v1, in the end", "CompleteCommit P:1", lab.settled(first))
    lab.rename()
    lab.fact("EndTxn v2", "NONE P:2", lab.ask(v2.end_txn(second, COMMIT)))
    lab.fact("EndTxn v2, in the end", "CompleteCommit P:2", lab.settled(second))
    [elsewhere] = lab.ground.topic()
    observed = lab.ask_leader(elsewhere, v2.produce(third, elsewhere, 0, "value"))
    lab.fact("Produce v2 in the open transaction", "NONE", observed)
    lab.await_state(late, "CompleteAbort")
    lab.rename()
    lab.fact("timed out", "CompleteAbort P:2", lab.state(late))
    believed = (late.producer_id, late.producer_epoch)
    observed = lab.ask(v2.init_producer_id(late.transactional_id, believed))
    lab.fact("timed out, InitProducerId, its epoch", "NONE P:2", observed)


@experiment("v2", alone=True)
def downgrade(lab: Lab) -> None:
    """From level 2 to level 0: V1 requests and time-outs end what V2 requests began."""
    if lab.ground.level != 2:
        return
    v1, v2 = lab.v1, lab.v2
    first, second = lab.in_state("Ongoing", v2), lab.in_state("Ongoing", v2)
    timed = lab.in_state("Ongoing", v2, timeout_ms=TIMEOUT_MS)
    plain, done = lab.in_state("Ongoing", v1), lab.in_state("CompleteCommit", v2)
    change_level(lab, 0)
    lab.fact("begun v1, EndTxn v1", "NONE", lab.ask(v1.end_txn(plain, COMMIT)))
    lab.rename()
    lab.fact("begun v2, EndTxn v1", "NONE", lab.ask(v1.end_txn(first, COMMIT)))
    lab.fact("begun v2, EndTxn v1, in the end", "CompleteCommit P:1", lab.settled(first))
    lab.rename()
    lab.fact("begun v2, EndTxn v2", NOT_LOGGED, lab.ask(v2.end_txn(second, COMMIT)))
    lab.fact("begun v2, EndTxn v2, the state", "Ongoing P:1", lab.state(second))
    # The change that could not be written is pending for ever.
    lab.fact("begun v2, EndTxn v2, then EndTxn v1", BUSY, lab.ask(v1.end_txn(second, COMMIT)))
    lab.rename()
    observed = eventually(lambda: lab.state(timed), lambda told: told.startswith("Complete"))
    lab.fact("begun v2, timed out", "CompleteAbort P:2", observed)
    lab.rename()
    observed = lab.ask(v1.add_partitions(done, lab.ground.topic()))
    lab.fact("ended v2, AddPartitionsToTxn", "NONE", observed)
    lab.fact("ended v2, EndTxn v1", "NONE", lab.ask(v1.end_txn(done, COMMIT)))
    lab.fact("ended v2, in the end", "CompleteCommit P:2", lab.settled(done))


def change_level(lab: Lab, level: int) -> None:
    """Change the cluster's level and wait until its broker goes by it. Raises RequestRefused."""
    connection = lab.ground.wire(1).connection
    set_level(connection, FEATURE, level, is_upgrade=level > lab.ground.level)
    deadline = time.monotonic() + LEVEL_TIMEOUT_S
    while api_versions(connection).levels.get(FEATURE, 0) != level:
        if time.monotonic() > deadline:
            raise RequestRefused(f"the broker does not go by level {level}")
        time.sleep(0.02)
