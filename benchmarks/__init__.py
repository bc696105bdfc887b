"""Claims of speed, each measured against its peer in one run: `python -m benchmarks.<claim>`."""
