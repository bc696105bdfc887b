"""`python -m conformance VERB`: the verbs that judge systems."""

import sys
from functools import partial

from kafka_eos.command_line import main as command_line

main = partial(command_line, room="conformance")

if __name__ == "__main__":
    sys.exit(main())
