"""The hot modules of `impl` as extension modules: mypyc compiles the text that Python runs.

KAFKA_EOS_COMPILED=1 asks for them, and fails where they cannot be had; with 0 all is Python.
Without the variable an installation from a checkout is Python, since compiling takes minutes, and
wheels
that `python -m build` makes are compiled if there is a C compiler: they are built from a source
distribution. An editable install is always Python: a compiled module beside a text that somebody
changes would hide the change. `scripts/compiled.py` makes a compiled copy of `impl` for tests and
benchmarks of a checkout.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError

COMPILED = (
    "impl/form.py",
    "impl/protocol/native_primitives.py",
    "impl/protocol/primitives.py",
    "impl/protocol/messages.py",
    "impl/protocol/records.py",
    "impl/protocol/record_runs.py",
    "impl/protocol/record_batch.py",
    "impl/partition/consuming.py",
    "impl/partition/stored_batch.py",
    "impl/partition/log_storage.py",
    "impl/partition/producer_state.py",
    "impl/partition/producer_states.py",
    "impl/partition/transactions.py",
    "impl/partition/validation.py",
    "impl/partition/replica_log.py",
    "impl/partition/log_loader.py",
    "impl/partition/reading.py",
    "impl/partition/leader.py",
    "impl/broker/fetch_sessions.py",
    "impl/broker/handler.py",
    "impl/broker/services.py",
    "impl/broker/produce_requests.py",
    "impl/broker/reads.py",
    "impl/broker/node.py",
    "impl/broker/topics.py",
    "impl/broker/coordinators.py",
    "impl/broker/producer_ids.py",
    "impl/broker/outputs.py",
    "impl/broker/served_connection.py",
    "impl/broker/server.py",
    "impl/coordinator/timers.py",
    "impl/consumer/fetched.py",
    "impl/client/connection.py",
    "impl/client/transport.py",
    "impl/producer/answers.py",
    "impl/producer/accumulator.py",
    "impl/producer/batch.py",
    "impl/producer/in_flight_requests.py",
    "impl/producer/sequence_manager.py",
    "impl/producer/core.py",
    "impl/producer/sender.py",
    "impl/producer/transaction_manager.py",
    "impl/producer/transactional_core.py",
    "impl/producer/transactional_requests.py",
    "impl/producer/transactional_responses.py",
    "impl/producer/record_metadata.py",
)
"""What Produce and Fetch pass through: from a producer to its socket, from a broker's socket to the
log, and where a consumer reads an answer."""

GENERATED = "impl/protocol/native_codecs.py"
"""The codecs of hot messages, compiled with them; the text is there while it is compiled."""

BUILDING = {"bdist_wheel", "build", "build_ext", "install"}
"""The commands that compile; others only ask what there is, and mypyc takes a minute."""

IS_RELEASED = Path(__file__).with_name("PKG-INFO").exists()
"""This is a source distribution, not a checkout."""
ASKED = os.environ.get("KAFKA_EOS_COMPILED", "")
IS_MUST = ASKED not in ("", "0")
COMPILES = IS_MUST or (IS_RELEASED and ASKED != "0")
COMPILER = "mypy>=2,<3"


class AllOrNone(build_ext):
    """A build that fails leaves Python alone: half of the modules could not be imported."""

    def run(self) -> None:
        """Compile, or say why not."""
        try:
            super().run()
        except (BaseError, OSError) as error:
            if IS_MUST:
                raise
            self.warn(f"impl is not compiled, and runs as Python: {error}")
            for built in self.get_outputs():
                Path(built).unlink(missing_ok=True)


def native_codecs() -> str:
    """Their text, from the table of schemas."""
    sys.path.insert(0, str(Path(__file__).parent))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checksum is Python's here, and nobody asks for one
        from impl.protocol.native_codegen import module_text
    return module_text()


def extensions() -> list[Extension]:
    """The modules to compile, none where that is not wanted, or mypy is not there."""
    if not COMPILES or not BUILDING & set(sys.argv):
        return []
    print(f"compiling {len(COMPILED)} modules of impl: this takes minutes", file=sys.stderr)
    try:
        from mypyc.build import mypycify
    except ImportError as error:
        if IS_MUST:
            raise
        print(f"impl is not compiled, and runs as Python: {error}", file=sys.stderr)
        return []
    generated = Path(GENERATED)
    try:
        generated.write_text(native_codecs(), encoding="utf-8")
        modules = ["--strict", *COMPILED, GENERATED]
        return mypycify(modules, group_name="impl", opt_level="1", debug_level="0")
    except SystemExit:  # how it ends after it has printed what it does not take
        if IS_MUST:
            raise
        print("impl is not compiled, and runs as Python: see above", file=sys.stderr)
        return []
    finally:
        generated.unlink(missing_ok=True)


setup(
    ext_modules=extensions(),
    cmdclass={"build_ext": AllOrNone},
    setup_requires=[COMPILER] if COMPILES else [],  # what PEP 517 gets for the build, no more
)
