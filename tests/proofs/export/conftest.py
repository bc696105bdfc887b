"""TLC, where it can be had."""

import pytest

from proofs.export.tlc_jar import tlc_jar
from proofs.java import MissingTool, find_java


@pytest.fixture
def with_tlc():
    try:
        find_java()
        tlc_jar()
    except MissingTool as missing:
        pytest.skip(str(missing))
