"""Puts the parts of a page together; the page needs nothing but itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Final

from poseidon_reconciler import __version__
from poseidon_reconciler.markup.elements import Element, element, style, to_html
from poseidon_reconciler.markup.look import look
from poseidon_reconciler.recording.report.environments import EnvironmentSections
from poseidon_reconciler.recording.report.findings import (
    actions_list,
    blame_table,
    holds_table,
    losses_list,
    plan_table,
)
from poseidon_reconciler.recording.report.pools import pools_table
from poseidon_reconciler.recording.report.states import patterns
from poseidon_reconciler.recording.report.summary import summary_header
from poseidon_reconciler.recording.report.timescale import TimeScale
from poseidon_reconciler.recording.story import Story

# Nothing may be loaded from anywhere and nothing may run. `data:` is for the empty icon, without which a browser would
# ask a server for one.
_CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
)


def render_report(story: Story, names: Sequence[str]) -> str:
    """The page of a replay as HTML.

    `names` are those of the files that were replayed. The same story gives the same page.
    """
    return to_html(
        element(
            "html",
            element(
                "head",
                element("meta", charset="utf-8"),
                element("meta", http_equiv="Content-Security-Policy", content=_CONTENT_SECURITY_POLICY),
                element("meta", name="viewport", content="width=device-width, initial-scale=1"),
                element("meta", name="color-scheme", content="light dark"),
                element("link", rel="icon", href="data:,"),
                element("title", f"Replay of {', '.join(names)}"),
                style(look() + files(__package__).joinpath("report.css").read_text(encoding="utf-8")),
            ),
            element("body", *_body(story, names)),
            lang="en",
        )
    )


def _body(story: Story, names: Sequence[str]) -> Iterator[Element]:
    scale = TimeScale.of(story)
    environments = EnvironmentSections(story, scale)
    yield _definitions(*patterns(), *environments.drawings)
    yield summary_header(story, names, scale)
    yield element(
        "main",
        _section("Pools at the end", pools_table(story, environments.anchors)),
        *environments.sections(),
        _section("Losses", blame_table(story.blame, scale), losses_list(story.losses, scale)),
        _section("Plan", plan_table(story.actions, scale), actions_list(story.actions, scale)),
        _section("Held back", holds_table(story.holds, scale)),
    )
    yield element("footer", f"Written by poseidon-reconciler {__version__}. All times are UTC.")


def _definitions(*drawings: Element) -> Element:
    """Drawings that others show; by itself it shows nothing."""
    return element("svg", element("defs", *drawings), class_="definitions", aria_hidden="true", width=0, height=0)


def _section(heading: str, *content: Element | None) -> Element | None:
    """A section; None if it would be empty."""
    if not any(part is not None for part in content):
        return None
    anchor = heading.lower().replace(" ", "-")
    title = element("h2", heading, id=f"{anchor}-heading")
    return element("section", title, *content, id=anchor, aria_labelledby=f"{anchor}-heading")
