"""Backends that judge traces and do jobs: Spark, or processes of this machine."""
