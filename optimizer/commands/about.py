"""``dovetail rules`` and ``dovetail doctor``, which need no Spark."""

from __future__ import annotations

import textwrap

from rich.text import Text

from dovetail.optimizer import terminal
from dovetail.optimizer.doctor import diagnose
from dovetail.rules.batches import BATCHES


def show_rules(*, json: bool) -> None:
    """Print every rule by batch."""
    if json:
        terminal.print_json(
            [
                {"name": rule.name, "batch": batch.name, "why": rule.why, "doc": rule.doc}
                for batch in BATCHES
                for rule in batch.rules
            ]
        )
        return
    console = terminal.page_console()
    width = min(console.width, 100) - 4
    for batch in BATCHES:
        console.print(Text.assemble((batch.name, "bold"), f"  {batch.why}"))
        for rule in batch.rules:
            console.print(Text(f"  {rule.name}", style="cyan"))
            for paragraph in rule.doc.split("\n\n"):
                for line in textwrap.wrap(" ".join(paragraph.split()), width):
                    console.print(Text(f"    {line}"))
        console.print()


def show_doctor(*, quiet: bool, json: bool) -> bool:
    """Print the checks of this machine; returns whether all of them passed."""
    checks = diagnose()
    passed = all(check.ok for check in checks)
    if json:
        terminal.print_json(
            [{"name": c.name, "ok": c.ok, "found": c.found, "remedy": c.remedy or None} for c in checks]
        )
        return passed
    console = terminal.stdout_console()
    width = max(len(check.name) for check in checks)
    for check in checks:
        if check.ok and quiet:
            continue
        mark = ("✓", "green") if check.ok else ("✗", "bold red")
        console.print(Text.assemble(mark, f" {check.name:<{width}}  {check.found}"), soft_wrap=True)
        if not check.ok:
            console.print(Text(f"  {'':<{width}}  {check.remedy}", style="yellow"), soft_wrap=True)
    return passed
