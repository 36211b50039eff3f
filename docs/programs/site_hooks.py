"""Hooks of MkDocs: files of the repository outside of ``docs`` that pages link to become part of the site.

Markdown becomes a page below ``project/``; another file is copied there.  Links in both directions are rewritten.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?\)")
_DOCS, _PROJECT = "docs", "project"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the project, and all files outside of ``docs`` that any page links to."""
    waiting = [ROOT / name for name in PAGES]
    waiting += [target for file in files.documentation_pages() for target in _outside(ROOT / _DOCS / file.src_uri)]
    found: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in found or not path.is_file():
            continue
        found.add(path)
        uri = f"{_PROJECT}/{path.relative_to(ROOT)}"
        files.append(File.generated(config, uri, abs_src_path=str(path)))
        if path.suffix == ".md":
            waiting += _outside(path)
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links that cross the border between ``docs`` and the rest of the repository."""
    uri = page.file.src_uri
    here = _in_repository(uri)

    def rewrite(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(here), found[1]))
        if (ROOT / target).is_dir():
            raise ValueError(f"{here} links to the folder {target}, which the site has no page for; link to a file")
        to = posixpath.relpath(_in_site(target), posixpath.dirname(uri) or ".")
        return f"]({to}{found[2] or ''})"

    return _LINK.sub(rewrite, markdown)


def _outside(page: Path) -> list[Path]:
    """The files outside of ``docs`` that a page links to."""
    targets = [(page.parent / path).resolve() for path, _ in _LINK.findall(page.read_text(encoding="utf-8"))]
    return [path for path in targets if path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / _DOCS)]


def _in_repository(uri: str) -> str:
    return uri.removeprefix(f"{_PROJECT}/") if uri.startswith(f"{_PROJECT}/") else f"{_DOCS}/{uri}"


def _in_site(path: str) -> str:
    return path.removeprefix(f"{_DOCS}/") if path.startswith(f"{_DOCS}/") else f"{_PROJECT}/{path}"
