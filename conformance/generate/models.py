"""The models, loaded once a process: the states of a configuration are instances of its model's
classes."""

from __future__ import annotations

import functools
from typing import Any

from proofs.lift.source import Model, load_model


@functools.cache
def model_named(composition: str) -> Model:
    """The model of a composition."""
    return load_model(composition)


def model_of_configuration(k: Any) -> Model:
    """The model whose configuration `k` is."""
    return model_named(composition_of_configuration(k))


def composition_of_configuration(k: Any) -> str:
    """The name of the composition whose configuration `k` is."""
    return type(k.bounds).__module__.split(".")[1]
