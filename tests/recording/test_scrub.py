"""No secret gets into a recording wherever it stands, and what is recorded decides like what was sent."""

from __future__ import annotations

import copy
import gzip
from pathlib import Path
from typing import Any, Final

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poseidon_reconciler.core.lines import Line, MalformedLineError, read_line
from poseidon_reconciler.recording.scrub import scrub_line, scrub_text

FIXTURES: Final = Path(__file__).parent.parent / "fixtures"
RECORDINGS: Final = [*sorted(FIXTURES.glob("event_dumps/*.ndjson.gz")), *sorted(FIXTURES.glob("cases/*.ndjson"))]
SECRET: Final = "c0ffee-5ecre7-c0ffee"
OUR_META: Final = ("used", "timeout", "prewarmingPoolSize")
# Their keys are names of groups, classes and the like, under which harmless things stand.
BY_NAME: Final = frozenset({
    "TaskStates", "FailedTGAllocs", "QueuedAllocations", "ClassEligibility", "NodesAvailable", "ClassFiltered",
    "ConstraintFiltered", "ClassExhausted", "DimensionExhausted", "Indexes",
})  # fmt: skip

_TASK: Final = ("TaskGroups", 0, "Tasks", 0)
_TASK_EVENT: Final = ("TaskStates", "default-task", "Events", 0)
IN_JOB: Final[list[tuple[str | int, ...]]] = [
    ("ConsulToken",), ("VaultToken",), ("NomadTokenID",), ("Payload",), ("Meta",), ("Meta", "key"), ("UI",),
    ("Periodic", "Spec"), ("ParameterizedJob", "Payload"), ("Multiregion",), ("TaskGroups", 1, "Meta", "key"),
    ("TaskGroups", 0, "Services", 0, "Checks", 0, "Header", "Authorization", 0), ("TaskGroups", 0, "Consul", "Token"),
    ("TaskGroups", 0, "Volumes", "data", "MountOptions"), ("TaskGroups", 0, "Networks", 0, "DNS"),
    (*_TASK, "Env"), (*_TASK, "Env", "PASSWORD"), (*_TASK, "Config", "args", 0), (*_TASK, "Config", "command"),
    (*_TASK, "Config", "auth", 0, "password"), (*_TASK, "Config", "environment"), (*_TASK, "Config", "volumes", 0),
    (*_TASK, "Config", "image", 0), (*_TASK, "Templates", 0, "EmbeddedTmpl"), (*_TASK, "Vault", "Policies", 0),
    (*_TASK, "Consul"), (*_TASK, "Identity"), (*_TASK, "Identities", 0), (*_TASK, "Artifacts", 0, "GetterHeaders"),
    (*_TASK, "DispatchPayload", "File"), (*_TASK, "Meta"), (*_TASK, "Services", 0), (*_TASK, "User"),
    (*_TASK, "Secrets", 0), (*_TASK, "Actions", 0, "Args"), (*_TASK, "Resources", "Devices", 0), (*_TASK, "Lifecycle"),
]  # fmt: skip
IN_ALLOCATION: Final[list[tuple[str | int, ...]]] = [
    ("SignedIdentities", "default-task"), ("AllocatedResources",), ("NetworkStatus",), ("Metrics", "ScoreMetaData", 0),
    (*_TASK_EVENT, "DisplayMessage"), (*_TASK_EVENT, "DriverError"), (*_TASK_EVENT, "Message"),
    (*_TASK_EVENT, "Details", "oom"), ("TaskStates", "default-task", "TaskHandle"),
    *(("Job", *path) for path in IN_JOB),
]  # fmt: skip
IN_EVALUATION: Final[list[tuple[str | int, ...]]] = [("LeaderACL",), ("LeaderAcl",), ("PlanAnnotations", "x")]
IN_NODE: Final[list[tuple[str | int, ...]]] = [
    ("SecretID",), ("Attributes", "unique.hostname"), ("Meta", "key"), ("Links",), ("HTTPAddr",), ("Address",),
    ("Drivers", "docker", "Attributes"), ("LastDrain", "Meta"), ("LastDrain", "AccessorID"),
    ("Events", 0, "Details"), ("HostVolumes", "data", "Path"),
]  # fmt: skip
PLACES: Final[dict[str, list[tuple[str | int, ...]]]] = {
    "Job": IN_JOB, "Allocation": IN_ALLOCATION, "Evaluation": IN_EVALUATION, "Node": IN_NODE
}  # fmt: skip


def _lines(path: Path) -> list[bytes]:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()


def _last_events() -> dict[str, dict[str, Any]]:
    """The last event of each topic in a recording of a new server, whose objects have the most fields."""
    events: dict[str, dict[str, Any]] = {}
    for text in _lines(FIXTURES / "event_dumps" / "restart-together-15-2.0.5.ndjson.gz"):
        for event in (orjson.loads(text).get("Frame") or {}).get("Events") or ():
            events[event["Topic"]] = event
    return events


EVENTS: Final = _last_events()


def scrubbed(text: bytes) -> bytes:
    return orjson.dumps(scrub_line(orjson.loads(text)))


def decided_by(line: Line) -> Line:
    """The line without what no decision looks at: the marks of others in jobs, and the words of a reason."""
    line.reason = line.malformed = None
    jobs = list(line.snapshot.jobs or ()) if line.snapshot is not None else []
    for frame in (line, line.frame):
        events = (frame.events if frame is not None else None) or ()
        jobs += [event.payload.job for event in events if event.payload is not None and event.payload.job is not None]
    for group in (group for job in jobs for group in job.task_groups or ()):
        if group.meta is not None:
            ours = (key for key in group.meta if key in OUR_META or key.startswith("poseidon-reconciler."))
            group.meta = {key: group.meta[key] for key in ours}
    return line


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_what_is_scrubbed_decides_like_what_was_sent(path: Path) -> None:
    for text in _lines(path):
        try:
            sent = read_line(text)
        except MalformedLineError:
            continue
        clean = scrubbed(text)
        assert decided_by(read_line(clean)) == decided_by(sent)
        assert scrubbed(clean) == clean


# --- secrets wherever they may stand ----------------------------------------------------------------------------------

_NESTED: Final = st.recursive(
    st.just(SECRET),
    lambda inner: st.lists(inner, min_size=1, max_size=2) | st.dictionaries(st.text(), inner, min_size=1),
)


def plant(document: Any, path: tuple[str | int, ...], secret: Any) -> None:
    """Puts a secret at a path, and builds what is missing on the way."""
    *way, last = path
    for step, following in zip(way, path[1:], strict=True):
        empty: Any = [] if isinstance(following, int) else {}
        if isinstance(step, int):
            while len(document) <= step:
                document.append({})
        if not isinstance(document[step] if isinstance(step, int) else document.get(step), type(empty)):
            document[step] = empty
        document = document[step]
    if isinstance(last, int):
        document.insert(last, secret)
    else:
        document[last] = secret


def objects(value: Any, name: str = "") -> list[dict[str, Any]]:
    """All objects within a document that have keys of their own."""
    if isinstance(value, list):
        return [found for each in value for found in objects(each)]
    if not isinstance(value, dict):
        return []
    below = [found for key, each in value.items() for found in objects(each, key)]
    return below if name in BY_NAME else [value, *below]


@st.composite
def planted(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """An object of a topic as a server sends it, with a secret in a place that no server has yet."""
    topic = draw(st.sampled_from(sorted(PLACES)))
    document = copy.deepcopy(EVENTS[topic]["Payload"][topic])
    place = draw(st.sampled_from(objects(document)))
    place[draw(st.text(min_size=1).filter(lambda key: key not in place))] = draw(_NESTED)
    return topic, document


@pytest.mark.parametrize("secret", [SECRET, [SECRET], {"key": SECRET}, [{"key": [SECRET]}]])
@pytest.mark.parametrize(("topic", "path"), [(topic, path) for topic, paths in PLACES.items() for path in paths])
def test_no_secret_is_left_in_any_known_place(topic: str, path: tuple[str | int, ...], secret: Any) -> None:
    document = copy.deepcopy(EVENTS[topic]["Payload"][topic])
    plant(document, path, secret)
    text = orjson.dumps({"Index": 7, "Events": [{**EVENTS[topic], "Payload": {topic: document}}]})

    clean = scrubbed(text)

    assert SECRET.encode() in text
    if path[-2:] != ("image", 0):
        assert decided_by(read_line(clean)) == decided_by(read_line(text))
    assert SECRET.encode() not in clean


@given(planted(), st.sampled_from(["bare", "Frame", "Snapshot", "Told"]))
def test_no_secret_is_left_and_nothing_else_is_decided(what: tuple[str, dict[str, Any]], envelope: str) -> None:
    topic, document = what
    frame = {"Index": 7, "Events": [{**EVENTS[topic], "Payload": {topic: document, "Other": SECRET}, "More": SECRET}]}
    line: dict[str, Any] = {"ReceivedAt": 1.5, "Frame": frame, "Added": SECRET}
    if envelope == "bare":
        line = {**frame, "Added": SECRET}
    elif envelope == "Snapshot":
        line = {"ReceivedAt": 1.5, "Snapshot": {f"{topic}s": [document], "Indexes": {f"{topic}s": 7}, "More": SECRET}}
    elif envelope == "Told":
        line["Told"] = {"Outcome": {"At": 1.0, "Kind": "k", "EnvironmentID": "10", "JobID": "j", "Result": "done"}}
        line["Told"]["Outcome"]["Detail"] = f"the server said {SECRET}"
    text = orjson.dumps(line)

    clean = scrubbed(text)

    assert SECRET.encode() not in clean
    sent, kept = read_line(text), read_line(clean)
    for told in (sent.told, kept.told):
        if told is not None and told.outcome is not None:
            told.outcome.detail = ""
    assert decided_by(kept) == decided_by(sent)


_JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.sampled_from(sorted(PLACES)), inner),
    max_leaves=8,
)
_KEYS: Final = ["Index", "Events", "Topic", "Type", "Payload", "Job", "TaskGroups", "Tasks", "Meta", "TaskStates", "ID"]
_ODD: Final = st.recursive(
    _JSON, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner), max_leaves=12
)


@given(_ODD)
def test_whatever_comes_is_scrubbed_and_what_cannot_be_read_cannot_be_read_afterwards(value: Any) -> None:
    line = {
        "ReceivedAt": 1.0,
        "Frame": {"Index": 3, "Events": [{"Topic": "Job", "Type": "t", "Payload": {"Job": value}}]},
    }

    clean = scrubbed(orjson.dumps(line))

    assert decided_by(read_line(clean)) == decided_by(read_line(orjson.dumps(line)))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("event dropped from buffer", "event dropped from buffer"),
        ("<html>502 Bad Gateway</html>", "<html>xxx Bad Gateway</html>"),
        ('{"Env":{"PASSWORD":"hunter2"', '{"xxx":{"xxxxxxxx":"xxxxxxx"'),
        (f"no such token: {SECRET}", "no xxxx token: xxxxxx-xxxxxx-xxxxxx"),
    ],
)
def test_of_a_text_only_harmless_words_can_be_read(text: str, kept: str) -> None:
    assert scrub_text(text) == kept


def test_what_makes_a_recording_useful_stays() -> None:
    job = EVENTS["Job"]["Payload"]["Job"]
    line = {"Snapshot": {"Jobs": [{**job, "TaskGroups": [*job["TaskGroups"]]}]}}
    plant(line["Snapshot"]["Jobs"][0], (*_TASK, "Config", "image"), "registry/image:1")

    clean = scrub_line(line)["Snapshot"]["Jobs"][0]

    assert clean["TaskGroups"][0]["Tasks"][0]["Config"] == {"image": "registry/image:1"}
    for key in ("Constraints", "ReschedulePolicy", "RestartPolicy", "Count"):
        assert clean["TaskGroups"][0][key] == job["TaskGroups"][0][key]
    assert msgspec.json.decode(orjson.dumps(clean["SubmitTime"])) == job["SubmitTime"]
