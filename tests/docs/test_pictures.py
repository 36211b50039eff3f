"""The pictures of the documentation are what their programs draw; each is shown on a page."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs.programs.pictures import PICTURES

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "pictures"
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_current(name: str, request: pytest.FixtureRequest) -> None:
    drawn = PICTURES[name]().to_text()
    path = FOLDER / f"{name}.svg"
    if request.config.getoption("--update-plans"):
        path.write_text(drawn, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == drawn, "`python -m docs.programs` draws the pictures again"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_lies_within_its_page(name: str) -> None:
    root = ElementTree.fromstring(PICTURES[name]().to_text())
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for box in root.iter(f"{SVG}rect"):
        assert float(box.attrib["x"]) + float(box.attrib["width"]) <= width
        assert float(box.attrib["y"]) + float(box.attrib["height"]) <= height
    for text in root.iter(f"{SVG}text"):
        assert 0 <= float(text.attrib["y"]) <= height
        wide = 7.3 * len(text.text or "")  # about the width of a letter of 14 px
        x = float(text.attrib["x"]) - {"start": 0, "middle": 0.5, "end": 1}[text.attrib["text-anchor"]] * wide
        assert x >= 0
        assert x + wide <= width + 45


def test_every_picture_is_on_a_page_and_has_words_for_those_who_do_not_see_it() -> None:
    shown = {}
    for page in PAGES:
        for words, path in re.findall(r"!\[([^]]*)\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            assert len(words) > 20, f"{page.name}: {path}"
            shown[(page.parent / path).resolve()] = words
    assert {path.resolve() for path in FOLDER.glob("*.svg")} == set(shown)
    assert {path.stem for path in FOLDER.glob("*.svg")} == set(PICTURES)
