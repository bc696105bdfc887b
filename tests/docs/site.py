"""The built site: made by `docs/build.py` in a process of its own, and its links."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.docs.pages import REPOSITORY

PAGE_LINK = re.compile(r"\]\(([^)\s#]+)[^)\s]*\)")


def assemble(guarantees: Path, source: Path) -> None:
    """Put all pages of the site into a folder, as the build does, and build nothing."""
    runpy.run_path(str(REPOSITORY / "docs" / "build.py"))["assemble"](source, guarantees)


def broken_page_links(source: Path) -> list[str]:
    """Links between assembled pages to files that are not there."""
    return [
        f"{page.relative_to(source)}: {link}"
        for page in sorted(source.rglob("*.md"))
        for link in PAGE_LINK.findall(page.read_text(encoding="utf-8"))
        if not urlsplit(link).scheme and not (page.parent / unquote(link)).exists()
    ]


def build(guarantees: Path, out: Path) -> None:
    """Build the site with these pages of guarantees; a warning is an error."""
    source = out.with_name("docs-source")
    folders = ["--guarantees", guarantees, "--source", source, "--out", out]
    command = [sys.executable, REPOSITORY / "docs" / "build.py", *folders]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class Links(HTMLParser):
    """Collects where a page's links and pictures lead."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take the address of a link, a picture, a script or a style."""
        self.found += [value for name, value in attrs if name in ("href", "src") and value]


def broken_links(site: Path) -> list[str]:
    """Links within the site to files that are not there."""
    return [
        f"{page.relative_to(site)}: {link}"
        for page in sorted(site.rglob("*.html"))
        for link in links_in(page)
        if not (page.parent / link).exists()
    ]


def links_in(page: Path) -> list[str]:
    """The relative addresses in a page, without their fragments."""
    links = Links()
    links.feed(page.read_text(encoding="utf-8"))
    parts = map(urlsplit, links.found)
    return [unquote(part.path) for part in parts if not part.scheme and part.path]
