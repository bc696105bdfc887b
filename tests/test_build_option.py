"""What an installation compiles: nothing from a checkout, unless it is asked for."""

from __future__ import annotations

import runpy
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import setuptools

pytestmark = pytest.mark.fast

REPOSITORY = Path(__file__).parent.parent


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of setup.py that builds a wheel where mypyc is not."""
    shutil.copy(REPOSITORY / "setup.py", tmp_path)
    monkeypatch.setattr(sys, "argv", ["setup.py", "bdist_wheel"])
    monkeypatch.setitem(sys.modules, "mypyc.build", None)
    monkeypatch.delenv("KAFKA_EOS_COMPILED", raising=False)
    return tmp_path


def built(tree: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What setup.py asks setuptools for."""
    asked: dict[str, Any] = {}
    monkeypatch.setattr(setuptools, "setup", lambda **more: asked.update(more))
    runpy.run_path(str(tree / "setup.py"))
    return asked


def test_an_installation_from_a_checkout_is_python_and_needs_no_compiler(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = built(tree, monkeypatch)
    assert (asked["ext_modules"], asked["setup_requires"]) == ([], [])
    assert capsys.readouterr().err == ""


def test_who_asks_for_the_compiled_form_gets_it_or_an_error(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KAFKA_EOS_COMPILED", "1")
    with pytest.raises(ImportError):
        built(tree, monkeypatch)
    assert "this takes minutes" in capsys.readouterr().err


def test_a_source_distribution_is_compiled_where_that_is_possible(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "PKG-INFO").touch()
    asked = built(tree, monkeypatch)
    assert asked["ext_modules"] == []
    assert asked["setup_requires"] == ["mypy>=2,<3"]
    assert "not compiled, and runs as Python" in capsys.readouterr().err
    monkeypatch.setenv("KAFKA_EOS_COMPILED", "0")
    assert built(tree, monkeypatch)["setup_requires"] == []
