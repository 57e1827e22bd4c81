"""The page of a replay: it says what matters, text stays text, nothing else is needed, and it never grows too large."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from poseidon_reconciler.core.evidence import Evidence
from poseidon_reconciler.recording.report import render_report
from poseidon_reconciler.recording.report.findings import MAX_LOSSES
from poseidon_reconciler.recording.story import NodeChange, Story
from tests.recording.stories import START, large_story, loss, pool_story, sample, text_story

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</style></title></svg><b>",
    "]]><!-- &amp; &lt;",
    "a\x00b\x1b[31mc\r\nd\u202ee\udcfff",
    "x" * 5_000,
)
UNPRINTABLE = re.compile("[\x00-\x09\x0b-\x1f\x7f\u202a-\u202e\ud800-\udfff]")


class Page(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.elements: list[tuple[str, dict[str, str]]] = []
        self._texts: list[str] = []
        self.feed(html)
        self.text = " ".join(" ".join(self._texts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self._texts.append(data)

    @property
    def structure(self) -> list[tuple[str, list[str]]]:
        """Elements and the names of their attributes, in order."""
        return [(tag, list(attributes)) for tag, attributes in self.elements]

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for found, attributes in self.elements if found == tag]

    def values(self, name: str) -> list[str]:
        return [attributes[name] for _, attributes in self.elements if name in attributes]

    def references(self) -> list[str]:
        """Whatever the page refers to."""
        return [*self.values("href"), *re.findall(r"url\((.*?)\)", self.html)]


def page(story: Story, name: str = "recording.ndjson") -> Page:
    return Page(render_report(story, [name]))


# --- what it says ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        "Replay of recording.ndjson",
        "2026-11-30 18:00:00 to 18:00:40 UTC (40s), then time alone until 18:01:00.",
        "At the end 1 of 1 environment needs attention:",
        "Environment 10 : 3 of 5 idle, 2 lost",
        "Found lost 2 jobs: 2 stuck-complete",
        "Planned 1 protect-job, 1 create-runner",
        "Held back 1 runner short, enough are starting",
        "At risk 1 job:",
        "Malformed none",
        "Recorded 12 frames, 34 events, 2 heartbeats, 0 snapshots, last index 124",
        "At the end: 3 idle, 2 lost; target 5. 2 jobs found lost, 2 actions planned.",
        "runner of environment 10 18:00:20.000 stuck-complete stuck-complete agent-1",
        "104 Job/EvaluationUpdated the job is dead",
        "agent-1: ready from 18:00:00.000, down from 18:00:10.000",
    ],
)
def test_what_a_person_on_call_must_know_is_said(said: str) -> None:
    assert said in page(pool_story()).text


def test_malformed_lines_are_pointed_out() -> None:
    story = pool_story()
    story.malformed = 3
    assert "<strong>3 lines or events could not be read</strong>" in page(story).html


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"state": "stopped"}, "At the end no environment needs attention."),
        ({"idle": 5, "lost": 0}, "At the end no environment needs attention."),
        ({"idle": 5, "lost": 0, "surplus": 2}, "Surplus 2 runners above the targets"),
        ({"idle": 3, "lost": 0, "starting": 2}, "Environment 10 : 3 of 5 idle (2 starting)"),
        (
            {"idle": 5, "lost": 0, "state": "lost", "cause": "exhausted"},
            "Environment 10 : its own job is lost, exhausted",
        ),
        ({"target": None, "lost": 0}, "Environment 10 : target unknown"),
    ],
)
def test_only_what_needs_attention_is_called_so(fields: dict[str, object], said: str) -> None:
    story = pool_story()
    story.environments["10"] = replace(story.environments["10"], **fields)
    assert said in page(story).text


def test_losses_are_cut_with_the_number_of_those_left_out() -> None:
    story = pool_story()
    story.losses = [loss(job_id=f"10-{number:04}") for number in range(MAX_LOSSES + 12)]
    text = page(story).text
    assert f"10-{MAX_LOSSES - 1:04} runner" in text
    assert f"10-{MAX_LOSSES:04} runner" not in text
    assert "and 12 more, not shown here" in text
    assert f"{MAX_LOSSES + 12} jobs found lost" in text


def test_evidence_is_cut_with_the_number_of_facts_left_out() -> None:
    story = pool_story()
    story.losses = [loss(evidence=13)]
    text = page(story).text
    assert text.count("the job is dead") == 10
    assert "and 3 more" in text


def test_many_actions_at_one_instant_are_one_mark() -> None:
    story = pool_story()
    story.actions = [replace(story.actions[0], job_id=f"10-{number}") for number in range(30)]
    text = page(story).text
    assert "30 at 18:00:10.000 ×30" in text
    assert text.count("×") == 1


def test_actions_far_apart_have_marks_of_their_own() -> None:
    story = pool_story()
    story.actions = [replace(story.actions[0], at=START + after_s) for after_s in (5, 5.1, 40)]
    text = page(story).text
    assert "2 from 18:00:05.000 to 18:00:05.100 ×2" in text
    assert "1 at 18:00:40.000" in text


def test_nodes_of_one_name_are_told_apart_and_those_without_room_are_counted() -> None:
    story = pool_story()
    story.node_changes = [NodeChange(START, str(number), "same-name", "ready", False) for number in range(15)]
    text = page(story).text
    assert text.count("same-name: ready from") == 12
    assert "3 more nodes not shown." in text


# --- little to tell --------------------------------------------------------------------------------------------------


def test_an_empty_story_is_a_page() -> None:
    empty = page(Story())
    assert "No environment was seen." in empty.text
    assert "Found lost nothing Planned nothing" in empty.text
    assert not empty.all("table")


def test_one_sample_is_a_chart() -> None:
    story = pool_story()
    story.samples, story.ended_at = {"10": [sample(0, idle=5)]}, START
    assert "At the end: 5 idle; target 5." in page(story).text


def test_an_environment_without_samples_is_a_chart() -> None:
    story = pool_story()
    story.samples = {}
    assert "Nothing is known of its runners." in page(story).text


def test_an_environment_without_runners_or_target_is_a_chart() -> None:
    story = pool_story()
    story.samples = {"10": [sample(0, target=None)]}
    assert "At the end: no runners; no target known." in page(story).text


def test_without_any_time_seconds_are_counted() -> None:
    story = Story(losses=[replace(loss(), at=10.0)])
    text = page(story).text
    assert "No line of the recording tells a time" in text
    assert "+10.000 s" in text
    assert "1970" not in text


def test_what_happened_before_the_first_time_is_said_to_have() -> None:
    story = pool_story()
    story.samples["10"].insert(0, replace(sample(0, starting=9), at=0.0))
    assert "starting first start under way; counts 0 9 before the first time" in page(story).text


# --- text stays text -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_a_recording_stays_text(text: str) -> None:
    hostile = page(text_story(text), text)
    assert hostile.structure == page(text_story("harmless"), "harmless").structure
    assert not UNPRINTABLE.search(hostile.html)
    assert not hostile.all("script")


@given(st.text(st.characters(), min_size=1, max_size=50))
def test_any_text_stays_text(text: str) -> None:
    assert page(text_story(text), text).structure == page(text_story("harmless"), "harmless").structure


def test_text_is_shown_as_it_is() -> None:
    story = pool_story()
    story.losses = [replace(loss(), evidence=[Evidence(1, "Job", "T", "", "<b>dead</b> & 'gone'")])]
    assert "1 Job/T <b>dead</b> & 'gone'" in page(story).text


# --- nothing else is needed ------------------------------------------------------------------------------------------


def test_nothing_is_loaded_and_nothing_runs() -> None:
    whole = page(pool_story())
    assert not whole.all("script")
    assert not [name for _, names in whole.structure for name in names if name.startswith("on") or name == "src"]
    assert {reference[:1] for reference in whole.references()} == {"#", "d"}
    assert [reference for reference in whole.references() if reference[0] == "d"] == ["data:,"]
    assert "default-src 'none'" in "".join(whole.values("content"))
    assert "@import" not in whole.html


def test_references_lead_to_exactly_one_element() -> None:
    whole = page(pool_story())
    ids = whole.values("id")
    targets = [reference[1:] for reference in whole.references() if reference[0] == "#"]
    targets += " ".join(whole.values("aria-labelledby")).split()
    assert len(ids) == len(set(ids))
    assert targets
    assert set(targets) <= set(ids)


def test_tables_and_drawings_can_be_read_aloud() -> None:
    whole = page(pool_story())
    assert len(whole.all("caption")) == len(whole.all("table")) == 7
    for drawing in whole.all("svg"):
        told = drawing.get("aria-label") or drawing.get("aria-labelledby")
        parts_of_others = {"x", "viewbox"} & set(drawing)
        assert told or drawing.get("aria-hidden") == "true" or parts_of_others


# --- bounds ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("environments", [1, 40])
def test_a_long_recording_makes_a_page_that_can_be_opened(environments: int) -> None:
    story = large_story(samples=100_000, environments=environments)
    began = time.process_time()
    html = render_report(story, ["long.ndjson.gz"])
    assert time.process_time() - began < 2
    assert len(html.encode()) < 2_000_000


def test_the_same_story_gives_the_same_page() -> None:
    assert page(pool_story()).html == page(pool_story()).html


def test_losses_are_told_by_their_node() -> None:
    text = page(pool_story()).text
    assert "Losses by the node to which they are traced" in text
    assert "agent-1 18:00:10.000 went down 2 2 stuck-complete" in text
    assert "Losses by" not in page(Story()).text
