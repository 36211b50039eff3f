"""Writes the pictures of the documentation into ``docs/pictures``: ``python -m docs.programs``."""

from __future__ import annotations

from pathlib import Path

from docs.programs.pictures import PICTURES

FOLDER = Path(__file__).parents[1] / "pictures"


def main() -> None:
    """Write every picture, and print its path."""
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        path = FOLDER / f"{name}.svg"
        path.write_text(draw().to_text(), encoding="utf-8")
        print(path.relative_to(FOLDER.parents[1]))


if __name__ == "__main__":
    main()
