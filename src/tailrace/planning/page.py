"""The page of a plan: errors over time, side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tailrace.mechanisms.base import Takes
from tailrace.planning.course import Course
from tailrace.planning.outcome import (
    NOTHING_SPENT,
    Outcome,
    Plan,
    budget_name,
    budget_of,
    label,
)
from tailrace.privacy.unit import plural
from tailrace.report.chart import COLOURS, Line, line_chart
from tailrace.report.page import figure, heading, html, note, quote, table

_BAND = "The band holds about two thirds of the errors under the declared budget."


def page(plan: Plan) -> str:
    """Write a plan as one HTML file."""
    return html("What this budget will buy", NOTHING_SPENT, sections(plan))


def body(plan: Plan) -> str:
    """The same without a frame, for notebooks."""
    return "\n".join(f"{heading(title)}\n{content}" for title, content in sections(plan))


def sections(plan: Plan) -> list[tuple[str, str]]:
    """Headings, each with a body of HTML."""
    asked = plan.asked
    said = (sentence.replace("+-", "±") for sentence in plan.sentences)
    found = [("In short", "".join(map(note, said)))]
    for course in asked.courses:
        if len(course.error):
            found.append((_capital(course.question), _question(plan, course)))
    found.append(("The promise", quote(str(asked.mechanism.guarantee))))
    found.append(("How this was found", _sources(plan)))
    return found


def _question(plan: Plan, course: Course) -> str:
    """Charts and a table of one question."""
    question, once = course.question, plan.asked.mechanism.takes is Takes.Once
    parts = [] if once else [_over_time(plan.budgets, plan.asked, question, "by budget", _BAND)]
    if len(plan.horizons) > 1:
        told = "Each horizon to its own end: a longer promise divides the budget further."
        parts.append(_over_time(plan.horizons, plan.asked, question, "by horizon", told))
    beside = [one for one in plan.others if one.course(question) is not None]
    if beside and not once:
        told = "Some of these promise less: the table below has what they are, and the text above."
        shown = [plan.asked, *beside]
        parts.append(_over_time(shown, plan.asked, question, "by unit and mechanism", told))
    parts.append(_by_budget(plan, question))
    header, rows = plan.table(question)
    return "\n".join([*parts, table(["", "±", *header[2:]], rows)])


def _over_time(
    outcomes: Sequence[Outcome], asked: Outcome, question: str, title: str, told: str
) -> str:
    """A line for each outcome; those asked for have their spread."""
    lines = []
    for one in outcomes[: len(COLOURS)]:
        course = one.course(question)
        if course is None or not len(course.error):
            continue
        # Two such errors to each side: up to what nine in ten stay below.
        shown = one is asked and title != "by horizon"
        spread = (course.most - course.error) / 2 if shown else None
        lines.append(Line(_short(one, title), course.steps, course.error, error=spread))
    chart = line_chart(lines, title=f"Error {title}", x_label="step", y_label="standard error")
    return figure(chart, told)


def _by_budget(plan: Plan, question: str) -> str:
    """Errors against the budget."""
    courses = [(one, course) for one in plan.budgets if (course := one.course(question))]
    amounts = np.array([float(budget_of(one.mechanism.privacy)) for one, _ in courses])
    errors = np.array([course.overall for _, course in courses])
    most = np.array([course.overall_most for _, course in courses])
    name = budget_name(plan.asked.mechanism.privacy)
    lines = [
        Line("standard error", amounts, errors, dots=errors),
        Line("nine in ten below", amounts, most, dashed=True, dots=most),
    ]
    chart = line_chart(lines, title=f"Error against {name}", x_label=name, y_label="error")
    over = "" if plan.asked.mechanism.takes is Takes.Once else ", over all steps"
    return figure(chart, f"What a larger budget buys{over}.")


def _sources(plan: Plan) -> str:
    """Where the numbers come from."""
    said = ["Exact figures follow from the variance of the noise alone, and need no data."]
    if plan.data:
        said = [
            *said,
            "Figures by trial were measured: the mechanism itself was run on stand-in data, which "
            "nobody lives in. They are right as far as the stated facts are.",
            plan.data,
        ]
    for what, deviation in plan.asked.noise.items():
        said.append(f"The noise of {what} is exact: ± {deviation:.3g}.")
    return "".join(map(note, [*said, NOTHING_SPENT]))


def _short(one: Outcome, title: str) -> str:
    """A name that fits beside a line."""
    if title == "by horizon":
        return plural(one.steps, "step")
    if one.name:
        return one.name
    return "as asked" if title != "by budget" else label(one, one).partition(",")[0]


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
