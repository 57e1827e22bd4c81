"""Each environment's story: its chart, lanes below it on the same time axis, and its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from poseidon_reconciler.core.ledger import Action
from poseidon_reconciler.core.wording import counted
from poseidon_reconciler.markup.elements import Element, element
from poseidon_reconciler.recording.report.bands import NodeLanes
from poseidon_reconciler.recording.report.chart import Chart, in_words
from poseidon_reconciler.recording.report.lanes import Lane
from poseidon_reconciler.recording.report.marks import action_lanes
from poseidon_reconciler.recording.report.paths import percent
from poseidon_reconciler.recording.report.pools import numbers_table, standing
from poseidon_reconciler.recording.report.steps import steps
from poseidon_reconciler.recording.report.timescale import TimeScale
from poseidon_reconciler.recording.story import Story

MAX_CHARTS: Final = 32
# Moments that can be told apart: in all charts together, and in one.
_ALL_COLUMNS: Final = 300
_MOST_COLUMNS: Final = 150
# A label further to the right would leave the page.
_LAST_LABEL_X: Final = 0.95
_MIDDLE_X: Final = 0.5
_CAPTION: Final = (
    "Runners over time against the target; below, planned actions and nodes. Pointing at a place tells its numbers."
)


class EnvironmentSections:
    """A section for each environment; where there are too many, for those to which most happened.

    Attributes:
        anchors: the id of each environment's section, by environment id.
        drawings: what the sections show in common; to be put into the page's definitions.
    """

    def __init__(self, story: Story, scale: TimeScale) -> None:
        self._story = story
        self._scale = scale
        self._nodes = NodeLanes(story.node_changes, scale)
        self._lost = Counter(loss.environment_id for loss in story.losses)
        self._actions: dict[str, list[Action]] = {}
        for action in story.actions:
            self._actions.setdefault(action.environment_id, []).append(action)
        ids = list(story.environments)
        busiest = set(sorted(ids, key=lambda id_: len(story.samples.get(id_, ())), reverse=True)[:MAX_CHARTS])
        shown = [environment_id for environment_id in ids if environment_id in busiest]
        self.anchors = {environment_id: f"environment-{number}" for number, environment_id in enumerate(shown, 1)}
        self.drawings = self._nodes.drawings
        self._columns = min(_MOST_COLUMNS, _ALL_COLUMNS // max(1, len(shown)))

    def sections(self) -> Iterator[Element]:
        """The sections, and how many environments have none."""
        for environment_id, anchor in self.anchors.items():
            yield self._section(environment_id, anchor)
        if left_out := len(self._story.environments) - len(self.anchors):
            yield element("p", f"{counted(left_out, 'more environment')} without a chart: see the pools at the end.")

    def _section(self, environment_id: str, anchor: str) -> Element:
        samples = self._story.samples.get(environment_id, [])
        drawn = steps(samples, self._scale.x, self._columns)
        actions, lost = self._actions.get(environment_id, []), self._lost[environment_id]
        summary = f"At the end: {in_words(drawn[-1])}. " if drawn else "Nothing is known of its runners. "
        summary += f"{counted(lost, 'job') if lost else 'Nothing'} found lost, "
        summary += f"{counted(len(actions), 'action') if actions else 'nothing'} planned."
        lanes = action_lanes(actions, self._scale) + self._nodes.lanes()
        state = element("span", standing(self._story.environments[environment_id]))
        return element(
            "section",
            element("h2", f"Environment {environment_id}: ", state, id=f"{anchor}-heading"),
            element("p", summary),
            self._figure(Chart(drawn, self._scale, self._columns, anchor), summary, lanes),
            numbers_table(environment_id, samples, self._scale),
            id=anchor,
            aria_labelledby=f"{anchor}-heading",
        )

    def _figure(self, chart: Chart, summary: str, lanes: list[Lane]) -> Element:
        numbers = [element("span", number, style=f"top:{percent(y)}") for number, y in chart.rules]
        rows = [part for lane in lanes for part in (_lane_name(lane), lane.drawing)]
        plot = element(
            "div",
            _moments(self._scale),
            element("div", *numbers, class_="numbers", aria_hidden="true"),
            chart.draw(summary),
            *rows,
            class_="plot",
        )
        nodes_left_out = f" {counted(self._nodes.left_out, 'more node')} not shown." if self._nodes.left_out else None
        return element("figure", element("figcaption", _CAPTION, nodes_left_out), plot)


def _lane_name(lane: Lane) -> Element:
    return element("span", lane.name, class_="lane-name", aria_hidden="true")


def _moments(scale: TimeScale) -> Element:
    """Round moments from top to bottom, and what lies after the last line of the recording."""
    marks = []
    if scale.recorded_until < scale.last:
        end_x = scale.x(scale.recorded_until)
        side = "before" if end_x > _MIDDLE_X else None
        ends = element("span", "recording ends", class_=side)
        marks.append(element("div", ends, style=f"left:{percent(end_x)}", class_="after"))
    for tick in scale.ticks():
        label = element("span", tick.label) if tick.x <= _LAST_LABEL_X else None
        marks.append(element("div", label, style=f"left:{percent(tick.x)}", class_="tick"))
    return element("div", *marks, class_="moments", aria_hidden="true")
