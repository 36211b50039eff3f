"""SVG drawings that are readable on light and dark pages, since each has a background of its own."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree import ElementTree

_STYLE = """
text { font: 14px system-ui, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; fill: #1b1f24; }
.page { fill: #ffffff; stroke: #d0d7de; }
.title { font-size: 16px; font-weight: 600; }
.strong { font-weight: 600; }
.note { font-size: 13px; fill: #57606a; }
.code { font: 12.5px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.axis { stroke: #8c959f; fill: none; }
.grid { stroke: #e4e8ec; fill: none; }
.box { fill: #f6f8fa; stroke: #8c959f; }
.bin { fill: #ddf4ff; stroke: #54aeff; }
.a { stroke: #0550ae; fill: #0550ae; }
.b { stroke: #bc4c00; fill: #bc4c00; }
.c { stroke: #116329; fill: #116329; }
.d { stroke: #8250df; fill: #8250df; }
.line { fill: none; stroke-width: 2.5; }
.thin { fill: none; stroke-width: 1.5; }
.dashed { stroke-dasharray: 6 5; }
.word { stroke: none; }
.faded { opacity: .35; }
.removed { fill: #ffebe9; stroke: #a40e26; }
.added { fill: #dafbe1; stroke: #116329; }
"""
_DARK = """
text { fill: #e6edf3; }
.page { fill: #0d1117; stroke: #3d444d; }
.note { fill: #9aa4af; }
.axis { stroke: #6e7681; }
.grid { stroke: #21262d; }
.box { fill: #161b22; stroke: #6e7681; }
.bin { fill: #10273d; stroke: #388bfd; }
.a { stroke: #79c0ff; fill: #79c0ff; }
.b { stroke: #ffa657; fill: #ffa657; }
.c { stroke: #7ee787; fill: #7ee787; }
.d { stroke: #d2a8ff; fill: #d2a8ff; }
.line, .thin, .axis, .grid { fill: none; }
.word { stroke: none; }
.removed { fill: #2d1618; stroke: #ffa198; }
.added { fill: #12261e; stroke: #7ee787; }
"""

Point = tuple[float, float]


class Drawing:
    """A picture of a fixed size; later parts lie over earlier ones.

    ``title`` and ``description`` are what a screen reader says.  Styles are the classes of the sheet above.
    """

    def __init__(self, width: int, height: int, title: str, description: str) -> None:
        size = {"viewBox": f"0 0 {width} {height}", "width": str(width), "height": str(height)}
        self.width, self.height = width, height
        self.root = ElementTree.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", **size, "role": "img"})
        ElementTree.SubElement(self.root, "title").text = title
        ElementTree.SubElement(self.root, "desc").text = description
        dark = f"@media (prefers-color-scheme: dark) {{{_DARK}}}\n"
        ElementTree.SubElement(self.root, "style").text = _STYLE + dark
        self.box(0.5, 0.5, width - 1, height - 1, "page", radius=8)

    def box(self, x: float, y: float, width: float, height: float, style: str, radius: float = 4) -> None:
        """A rectangle by its upper left corner and its size."""
        sizes = {"x": x, "y": y, "width": width, "height": height, "rx": radius}
        self._add("rect", style, {name: _number(value) for name, value in sizes.items()})

    def line(self, points: Iterable[Point], style: str) -> None:
        """A line through points."""
        self._add("polyline", style, {"points": " ".join(f"{_number(x)},{_number(y)}" for x, y in points)})

    def dot(self, x: float, y: float, style: str, radius: float = 4) -> None:
        """A filled circle."""
        self._add("circle", style, {"cx": _number(x), "cy": _number(y), "r": _number(radius)})

    def text(self, x: float, y: float, text: str, style: str = "", anchor: str = "start") -> None:
        """A line of text; ``y`` is its baseline, ``anchor`` ``start``, ``middle`` or ``end``."""
        self._add("text", style, {"x": _number(x), "y": _number(y), "text-anchor": anchor}).text = text

    def arrow(self, start: Point, end: Point, style: str = "axis") -> None:
        """A vertical line, or one almost so, with a head at ``end``."""
        (x, y), sign = end, 1 if end[1] > start[1] else -1
        self.line([start, end], style)
        self.line([(x - 4, y - 7 * sign), (x, y), (x + 4, y - 7 * sign)], style)

    def to_text(self) -> str:
        """The drawing as a file."""
        ElementTree.indent(self.root)
        return ElementTree.tostring(self.root, encoding="unicode") + "\n"

    def _add(self, tag: str, style: str, attributes: dict[str, str]) -> ElementTree.Element:
        return ElementTree.SubElement(self.root, tag, {"class": style, **attributes} if style else attributes)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
