"""`tailrace demo`: a generated city, released and reported."""

from __future__ import annotations

from pathlib import Path

from tailrace.cli import say
from tailrace.report import demo as demonstration


def demonstrate(to: Path) -> None:
    """Release the generated city and tell what was made."""
    try:
        to.mkdir(parents=True, exist_ok=True)
        with say.compiling(), say.releasing("days") as bar:
            task = bar.add_task("", total=demonstration.DAYS)
            made = demonstration.run(to, progress=lambda: bar.advance(task))
    except OSError:
        say.refuse(f"The report cannot be written to {to}: choose a folder with --to.")
    measured, stated = made.error
    say.tell(
        "",
        f"A generated city of {made.people:,} people, who came, moved and left over sixty days, "
        f"became {made.synthetic:,} synthetic points that followed them.",
        "",
        f"A count in a rectangle is off by {measured:.0f} points on the last day (mean of 60); the "
        f"release itself states {stated:.0f}.",
        "",
        made.guarantee,
        "",
        f"Stream: {made.folder} (releases/ is public, private/ is not)",
        "",
        f"Report: {made.report}   with the true points beside: {made.private_report}",
    )
