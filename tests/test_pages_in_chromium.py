"""Pages in headless Chromium, wide and narrow, light and dark: nothing overflows, and all text has enough contrast."""

from __future__ import annotations

import html
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from test_pages import HOSTILE, hostile_plan, planned, planned_stream, verification

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars --window-size=1500,900 --dump-dom"
).split()
WIDTHS = (400, 1400)
# Measures each page inside a frame of its width, with all details open; the script is of the test, not of the page.
MEASURE = """
const channel = (value) => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const parts = (color) => color.match(/[\\d.]+/g).map(Number);
function behind(element, view) {
  for (let e = element; e; e = e.parentElement) {
    const found = parts(view.getComputedStyle(e).backgroundColor);
    if (found.length === 3 || found[3] === 1) return found;
  }
  return [255, 255, 255];
}
function contrast(one, other) {
  const [high, low] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
}
function measure(frame) {
  const page = frame.contentDocument, view = frame.contentWindow, width = page.documentElement.clientWidth;
  page.querySelectorAll("details").forEach((one) => { one.open = true; });
  const name = (e) => `${e.tagName}.${e.className.baseVal ?? e.className}: ${e.textContent.trim().slice(0, 40)}`;
  const clipped = (e) => e && (view.getComputedStyle(e).clipPath !== "none" || clipped(e.parentElement));
  const all = [...page.body.querySelectorAll("*:not(style)")];
  const seen = all.filter((e) => e.getClientRects().length && !clipped(e));
  const clips = (e) => view.getComputedStyle(e).overflowX !== "visible";
  const own = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  const color = (e) => parts(view.getComputedStyle(e)[e.tagName === "text" ? "fill" : "color"]);
  return {
    width, scroll: page.documentElement.scrollWidth, seen: seen.length,
    text: parseFloat(view.getComputedStyle(page.querySelector("main")).fontSize),
    background: view.getComputedStyle(page.querySelector("main")).backgroundColor,
    wide: seen.filter((e) => e.getBoundingClientRect().right > width + 0.5).map(name),
    cut: seen.filter((e) => e.scrollWidth > e.clientWidth + 1 && clips(e)).map(name),
    faint: seen.filter((e) => own(e) && contrast(color(e), behind(e, view)) < 4.5).map(name),
    unreachable: [...page.querySelectorAll("a, summary")].filter((e) => e.tabIndex < 0).map(name),
  };
}
addEventListener("load", () => {
  document.body.textContent = JSON.stringify([...document.querySelectorAll("iframe")].map(measure));
});
"""


@pytest.fixture(scope="module")
def pages() -> list[str]:
    """Plans with every part that a page can have, one of them with names that are long, or look like markup."""
    names = ["measured/overlap_of_several_lengths", "measured/distance_with_equal_keys", "self/inner"]
    names += ["measured/no_window_for_few_rows", "refused/ambiguous_column", "measured/kept_intervals_of_two_lengths"]
    plans = [*map(planned, names), hostile_plan(HOSTILE + "long" * 60)]
    streams = [planned_stream(name) for name in ("orders_that_follow", "changes_of_three")]
    verified = plans[0].explain("html", verified=verification(HOSTILE + "long" * 60))
    return [verified, *(plan.explain("html") for plan in plans), *(plan.explain("html") for plan in streams)]


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_overflows_and_all_text_can_be_read(pages: list[str], dark: bool, tmp_path: Path) -> None:
    frames = [
        f'<iframe style="width:{width}px;height:900px;border:0" srcdoc="{html.escape(page)}"></iframe>'
        for page in pages
        for width in WIDTHS
    ]
    outer = tmp_path / "pages.html"
    outer.write_text(
        f"<!doctype html><meta charset=utf-8><script>{MEASURE}</script>{''.join(frames)}", encoding="utf-8"
    )
    assert CHROMIUM
    scheme = [f"--blink-settings=preferredColorScheme={int(not dark)}"]
    command = [CHROMIUM, *FLAGS, *scheme, f"--user-data-dir={tmp_path}/profile", outer.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    measured: list[dict[str, Any]] = json.loads(
        html.unescape(done.stdout.partition("<body>")[2].partition("</body>")[0])
    )
    assert [one["width"] for one in measured] == [width for _ in pages for width in WIDTHS]
    assert all(one["seen"] > 30 for one in measured)
    assert {one["background"] for one in measured} == {"rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)"}
    for one in measured:
        assert one["scroll"] <= one["width"]
        assert {key: one[key] for key in ("wide", "cut", "faint", "unreachable")} == {
            "wide": [], "cut": [], "faint": [], "unreachable": []
        }  # fmt: skip
