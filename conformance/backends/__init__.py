"""Backends that judge traces and run jobs: Spark, or processes of this machine."""
