"""`python -m proofs VERB`: the verbs that check the model."""

import sys
from functools import partial

from kafka_eos.command_line import main as command_line

main = partial(command_line, room="proofs")

if __name__ == "__main__":
    sys.exit(main())
