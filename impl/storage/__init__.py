"""Logs on a disk: what a broker writes before it answers, and reads when it starts.

`partition_files` are the files of one partition, `metadata_log` the topics of a cluster in a log of
their own, `log_directory` holds them all.
"""
