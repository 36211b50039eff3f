"""What Dovetail can do, and whether this machine can: the commands that need no Spark."""

from __future__ import annotations

import textwrap

from rich.text import Text

from optimizer.commands import say
from optimizer.doctor import diagnose
from rules.batches import BATCHES


def show_rules(*, json: bool) -> None:
    """Print every rule, batch by batch."""
    if json:
        say.print_json(
            [
                {"name": rule.name, "batch": batch.name, "why": rule.why, "doc": rule.doc}
                for batch in BATCHES
                for rule in batch.rules
            ]
        )
        return
    console = say.out()
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
    """Print what was found; returns whether all is well."""
    checks = diagnose()
    well = all(check.ok for check in checks)
    if json:
        say.print_json([{"name": c.name, "ok": c.ok, "found": c.found, "remedy": c.remedy or None} for c in checks])
        return well
    console = say.out()
    wide = max(len(check.name) for check in checks)
    for check in checks:
        if check.ok and quiet:
            continue
        mark = ("✓", "green") if check.ok else ("✗", "bold red")
        console.print(Text.assemble(mark, f" {check.name:<{wide}}  {check.found}"), soft_wrap=True)
        if not check.ok:
            console.print(Text(f"  {'':<{wide}}  {check.remedy}", style="yellow"), soft_wrap=True)
    return well
