"""Experiments with brokers and clients, told as text: what is sent, when, to whom, and the expected
answers by release.

A file in `stories/` holds one story; `text` has its language, `story` what stands above its steps.
`requests`, `setup`, `observations`, `brokers` and `client` are the vocabulary; `session` performs a
step, `player` goes through a story. To add an experiment is to add a file.
"""
