"""Experiments with brokers and clients, told as text: the messages, their senders and receivers,
and the expected answers by release.

A file in `stories/` has one story; `text` defines its language, `story` the headers above its
steps. `requests`, `setup`, `observations`, `brokers` and `client` are the vocabulary; `session`
performs a step, `player` plays a story. To add an experiment, add a file.
"""
