"""Shapes of a drawing, for SVG inside the page; the style sheet gives them their colors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True)
class Box:
    """A rectangle of a class of the style sheet."""

    x: float
    y: float
    width: float
    height: float
    style: str


@dataclass(frozen=True)
class Line:
    """A line of a class of the style sheet."""

    x1: float
    y1: float
    x2: float
    y2: float
    style: str


@dataclass(frozen=True)
class Label:
    """A text at a point."""

    x: float
    y: float
    text: str
    anchor: Anchor = "start"


@dataclass
class Drawing:
    """Shapes on an area of a width and a height, with a title for those who do not see it, and a caption."""

    title: str
    width: int
    height: int = 0
    caption: str = ""
    boxes: list[Box] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
