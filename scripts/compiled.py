"""A copy of `impl` with its hot modules compiled, for tests and benchmarks: prints its folder.

    python scripts/compiled.py

The folder holds one package, `impl`, as it is now: put it first on the path. `build/compiled` leads
to it. Each text of `impl` is compiled once, and kept in the cache. Exit code 2 where mypy or a C
compiler is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from proofs.cache import cache_folder, make_once  # noqa: E402

BUILD_FILES = ("setup.py", "pyproject.toml", "README.md", "LICENSE")
LINK = ROOT / "build" / "compiled"
MISSING = 2


def digest() -> str:
    """Of all that the compiled form follows from. Raises `PackageNotFoundError`."""
    seen = sha256(f"{sys.version} mypy {version('mypy')}".encode())
    for path in sorted([*ROOT.glob("impl/**/*.py"), ROOT / "setup.py", Path(__file__)]):
        seen.update(f"\0{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return seen.hexdigest()[:16]


def build(out: Path) -> None:
    """Compile a copy, so that no extension module ever lies beside a text that somebody edits.

    Raises `CalledProcessError`.
    """
    draft = out / "draft"
    draft.mkdir(parents=True)
    for file in BUILD_FILES:
        shutil.copy(ROOT / file, draft)
    shutil.copytree(ROOT / "impl", draft / "impl", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    settings = {**os.environ, "KAFKA_EOS_COMPILED": "1"}
    subprocess.run(command, cwd=draft, env=settings, stdout=sys.stderr, check=True)
    for made in (draft / "impl", *draft.glob("*.so")):
        made.rename(out / made.name)
    shutil.rmtree(draft)


def point_to(folder: Path) -> None:
    """`build/compiled` is this; others may do the same at the same time."""
    LINK.parent.mkdir(exist_ok=True)
    draft = LINK.with_name(f".compiled-{os.getpid()}")
    draft.symlink_to(folder)
    draft.replace(LINK)


def main() -> int:
    """Build unless it is there; the exit code."""
    try:
        folder = make_once(cache_folder() / "compiled-impl" / digest(), build)
    except (PackageNotFoundError, subprocess.CalledProcessError) as error:
        print(f"impl cannot be compiled: {error}", file=sys.stderr)
        return MISSING
    point_to(folder)
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
