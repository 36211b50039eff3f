"""Writes the pictures of the documentation and the pages of commands and packages: ``python -m docs.programs``."""

from __future__ import annotations

from pathlib import Path

from docs.programs.commands import commands
from docs.programs.packages import packages
from docs.programs.pictures import PICTURES

FOLDER = Path(__file__).parents[1] / "pictures"
REFERENCE = Path(__file__).parents[1] / "reference"


def main() -> None:
    """Write every file, and print its path."""
    FOLDER.mkdir(exist_ok=True)
    files = {REFERENCE / "commands.md": commands(), REFERENCE / "packages.md": packages()}
    files |= {FOLDER / f"{name}.svg": draw().to_text() for name, draw in PICTURES.items()}
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(FOLDER.parents[1]))


if __name__ == "__main__":
    main()
