"""Writes the pictures of the documentation, and the pages and tables from the code: ``python -m docs.programs``."""

from __future__ import annotations

from pathlib import Path

from docs.programs.commands import commands
from docs.programs.join_shapes import coverage
from docs.programs.packages import packages
from docs.programs.pictures import PICTURES

DOCS = Path(__file__).parents[1]
FOLDER = DOCS / "pictures"
PAGES = {"reference/commands.md": commands, "reference/packages.md": packages, "coverage.md": coverage}


def main() -> None:
    """Write every file, and print its path."""
    FOLDER.mkdir(exist_ok=True)
    files = {DOCS / name: write() for name, write in PAGES.items()}
    files |= {FOLDER / f"{name}.svg": draw().to_text() for name, draw in PICTURES.items()}
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(FOLDER.parents[1]))


if __name__ == "__main__":
    main()
