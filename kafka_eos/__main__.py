"""`python -m kafka_eos`: the command line without its console script."""

import sys

from kafka_eos.command_line import main

if __name__ == "__main__":
    sys.exit(main())
