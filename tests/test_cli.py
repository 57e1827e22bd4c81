"""The command as a user meets it: exit status, what stands on which stream, and no traceback whatever happens."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from poseidon_reconciler import __version__
from poseidon_reconciler.cli import main
from tests.core.builders import RUNNER, START, TEMPLATE, Wire, allocation, event, job, runner

RECORDING = Path(__file__).parent / "fixtures" / "event_dumps" / "restart-together-20s.ndjson.gz"
COMMAND = [sys.executable, "-m", "poseidon_reconciler"]


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files are named as they were given, so they are given without a directory; nothing comes from the environment."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("NOMAD_", "RECONCILER_"))]:
        monkeypatch.delenv(name)
    return tmp_path


def run(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit status, and what stands on stdout and on stderr."""
    try:
        status = main(arguments)
    except SystemExit as end:
        status = int(str(end.code))
    out, err = capfd.readouterr()
    return status, out, err


def line(index: int, *objects: Wire) -> bytes:
    """A line of a recording, a second after the one of the index before."""
    told = {"Index": index, "Events": [event(each) for each in objects]}
    return orjson.dumps({"ReceivedAt": START + index, "Frame": told})


def recording(*lines: bytes) -> str:
    Path("lines.ndjson").write_bytes(b"".join(each + b"\n" for each in lines))
    return "lines.ndjson"


def small() -> str:
    """A pool of two, one of which ends with 0."""
    jobs = [job(TEMPLATE, index=1, target=2), job(runner(0), index=2), job(runner(1), index=3)]
    placed = [allocation(f"a{number}", job_id["ID"], index=10 + number) for number, job_id in enumerate(jobs)]
    ended = allocation("a1", runner(0), "complete", index=20, created=11)
    return recording(line(12, *jobs, *placed), line(20, ended, job(runner(0), "dead", index=20, created=2)))


# --- what cannot be used ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["replay"], ["explain", "10", "--recording"]])
@pytest.mark.parametrize(
    "content",
    [
        None,
        "directory",
        b"",
        b"\x7fELF" + bytes(range(256)),
        b'{"jobs": []}\n',
        b'{\n"Index": 1,\n"Events": []\n}\n',
        gzip.compress(b"hello", mtime=0),
    ],
)
def test_what_is_no_recording_is_one_line_that_names_the_file(
    capfd: pytest.CaptureFixture[str], command: list[str], content: bytes | str | None
) -> None:
    if content == "directory":
        Path("given").mkdir()
    elif isinstance(content, bytes):
        Path("given").write_bytes(content)

    status, out, err = run(capfd, *command, "given")

    assert (status, out) == (2, "")
    assert err.startswith("given: ")
    assert err.count("\n") == 1
    assert isinstance(content, str | None) or not content or "line 1" in err


@pytest.mark.parametrize("arguments", [["."], ["x", "--config", "."], ["x", "--journal", "."]])
def test_why_a_file_cannot_be_used_is_said_in_the_same_words_wherever_it_is_named(
    capfd: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert run(capfd, "replay", *arguments)[2] == ".: is a directory\n"


def test_all_that_is_wrong_with_a_configuration_is_said_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    Path("c.yaml").write_text("pool: {lost_grace: soon, surge: -1, wat: 1}\npace: {storm_share: 2}\nnomads: {}\n")

    status, out, err = run(capfd, "replay", small(), "--config", "c.yaml")

    assert (status, out) == (2, "")
    lines = err.splitlines()
    for key in ("pool.lost_grace", "pool.surge", "pool.wat", "pace.storm_share", "nomads"):
        assert [each for each in lines if each.startswith("c.yaml") and key in each], key
    assert len(lines) == 5


@pytest.mark.parametrize("content", [None, b"pool: [", b"\xff\xfe\x00", b"- a list\n", b"pool: 5\n"])
def test_a_configuration_that_is_none_is_one_line_that_names_the_file(
    capfd: pytest.CaptureFixture[str], content: bytes | None
) -> None:
    if content is not None:
        Path("c.yaml").write_bytes(content)

    status, out, err = run(capfd, "replay", small(), "--config", "c.yaml")

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("c.yaml")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "COMMAND"),
        (["frob"], "frob"),
        (["replay"], "FILE"),
        (["replay", "given", "--frob"], "--frob"),
        (["replay", "given", "--settle", "soon"], "--settle"),
        (["replay", "given", "--settle", "-5s"], "--settle"),
        (["explain", "10", "--url", "http://127.0.0.1:1", "--recording", "given"], "--recording"),
    ],
)
def test_bad_usage_is_one_line_that_names_what_is_wrong(
    capfd: pytest.CaptureFixture[str], arguments: list[str], named: str
) -> None:
    Path("given").write_bytes(b"{}\n")

    status, out, err = run(capfd, *arguments)

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert named in err


@pytest.mark.parametrize("option", ["--journal", "--report"])
def test_a_file_that_cannot_be_written_is_one_line_that_names_it(
    capfd: pytest.CaptureFixture[str], option: str
) -> None:
    status, _, err = run(capfd, "replay", small(), option, "missing/out")

    assert status in (1, 2)
    assert err == "missing/out: no such file or directory\n"


# --- what is printed --------------------------------------------------------------------------------------------------


def test_json_is_one_document_and_nothing_else(capfd: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capfd, "replay", small(), "--json")

    document = json.loads(out)
    assert (status, err) == (0, "")
    assert document["frames"] == 2
    assert document["environments"]["10"]["state"] == "active"
    assert sorted(action["kind"] for action in document["actions"]) == ["create-runner", "remove-job"]


def test_damaged_lines_are_counted_and_the_rest_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    wrong = [b"{", b"EOF", b'{"Index": -1, "Events": []}', b'{"Index": 18446744073709551616, "Events": []}', deep]
    good = Path(small()).read_bytes().splitlines()
    given = recording(good[0], *wrong, good[1], b'{"Index": 21, "Ev')

    status, out, err = run(capfd, "replay", given, "--json")

    document = json.loads(out)
    assert (status, err) == (0, f"{given}: breaks off in line 8; what followed is missing\n")
    assert (document["malformed"], document["frames"]) == (len(wrong) + 1, 2)
    assert document["jobs"][runner(0)]["state"] == "lost"


def test_the_story_for_people_says_what_was_damaged_and_what_would_be_done(capfd: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capfd, "replay", recording(*Path(small()).read_bytes().splitlines(), b"EOF"))

    assert status == 0
    assert "breaks off in line 3; what followed is missing" in err
    assert "stuck-complete" in out
    assert "create-runner" in out
    assert "1 malformed" in out


def test_the_journal_is_the_same_to_the_byte_each_time(capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        assert run(capfd, "replay", str(RECORDING), "--journal", name, "--json")[0] == 0

    assert Path("one").read_bytes() == Path("two").read_bytes()
    lines = [orjson.loads(each) for each in Path("one").read_bytes().splitlines()]
    assert [each["at"] for each in lines] == sorted(each["at"] for each in lines)
    assert all(each["findings"] or each["plan"] for each in lines)


def test_how_long_time_goes_on_can_be_said(capfd: pytest.CaptureFixture[str]) -> None:
    def state(settle: str) -> str:
        document: Any = json.loads(run(capfd, "replay", small(), "--json", "--settle", settle)[1])
        return str(document["jobs"][runner(0)]["state"])

    assert [state(settle) for settle in ("0", "9s", "11s")] == ["recovering", "recovering", "lost"]


def test_the_configuration_decides_with(capfd: pytest.CaptureFixture[str]) -> None:
    Path("c.yaml").write_text("pool: {lost_grace: 1m}\n")

    _, out, _ = run(capfd, "replay", small(), "--json", "--settle", "59s", "--config", "c.yaml")

    assert json.loads(out)["jobs"][runner(0)]["state"] == "recovering"


def test_explain_tells_of_a_job_why_and_why_nothing_else(capfd: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capfd, "explain", runner(0), "--recording", small())

    assert (status, err) == (0, "")
    for text in (runner(0), "lost", "stuck-complete", "the newest allocation is complete", "looks-dead"):
        assert text in out


def test_explain_tells_of_a_runner_that_was_only_planned(capfd: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capfd, "replay", small(), "--json")
    (planned,) = [each["job_id"] for each in json.loads(out)["actions"] if each["kind"] == "create-runner"]
    status, out, err = run(capfd, "explain", planned, "--recording", small())

    assert (status, err) == (0, "")
    for text in (planned, f"It is to replace {runner(0)}.", "stuck-complete", "only planned"):
        assert text in out


def test_explain_tells_of_a_job_what_comes_next_and_when(capfd: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capfd, "explain", runner(0), "--recording", small(), "--settle", "0", "--json")

    document = json.loads(out)
    assert (document["verdict"]["state"], document["verdict"]["rule"]) == ("recovering", "looks-dead")
    assert (document["next_state"], document["next_rule"]) == ("lost", "stuck-complete")
    assert document["verdict"]["due_at"] == START + 30


def test_explain_tells_of_an_environment(capfd: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capfd, "explain", "10", "--recording", small(), "--json")

    document = json.loads(out)
    assert (status, err) == (0, "")
    assert (document["environment_id"], document["state"], document["target"]) == ("10", "active", 2)
    assert document["causes"] == {"stuck-complete": 1}
    assert document["expected"] == 1


def test_explain_takes_the_beginning_of_an_id_that_only_one_job_has(capfd: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capfd, "explain", runner(1)[:11], "--recording", small(), "--json")

    assert status == 0
    assert json.loads(out)["job_id"] == runner(1)


@pytest.mark.parametrize(
    ("subject", "hint"), [("99", ""), ("nonsense", ""), (RUNNER[:-1] + "7", "did you mean 10-"), ("10-", "")]
)
def test_explain_says_that_it_does_not_know_a_subject(
    capfd: pytest.CaptureFixture[str], subject: str, hint: str
) -> None:
    status, out, err = run(capfd, "explain", subject, "--recording", small())

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("lines.ndjson: ")
    assert repr(subject) in err
    assert hint in err


# --- the process ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"), [(["--version"], __version__), (["--help"], "usage: poseidon-reconciler")]
)
def test_what_needs_nothing_takes_no_time(arguments: list[str], said: str) -> None:
    """Half a second of the processor; the best of a few, because others are at work on it too."""
    taken = []
    for _ in range(6):
        with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert said in child.stdout.read().decode()
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0
        taken.append(usage.ru_utime + usage.ru_stime)
        if taken[-1] < 0.5:
            break

    assert min(taken) < 0.5


@pytest.mark.parametrize("command", [["replay", str(RECORDING)], ["explain", "--recording", str(RECORDING), "10"]])
def test_a_reader_that_has_seen_enough_is_no_error(command: list[str]) -> None:
    with subprocess.Popen([*COMMAND, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        errors = child.stderr.read()

    assert (child.returncode, errors) == (0, b"")


@pytest.mark.parametrize("text", ["x", "-1"])
def test_a_variable_that_opentelemetry_does_not_accept_is_one_line_that_names_it(text: str) -> None:
    name = "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"
    environ = os.environ | {name: text, "RECONCILER_HTTP__LISTEN": "off", "NOMAD_ADDR": "http://127.0.0.1:1"}
    ended = subprocess.run([*COMMAND, "run"], env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (2, f"{name} must be a non-negative integer but got {text}\n")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_were_closed_at_the_start_are_no_error(closed: str) -> None:
    script = f'exec "$0" -m poseidon_reconciler replay --json "$1" {closed}'
    ended = subprocess.run(["/bin/sh", "-c", script, sys.executable, str(RECORDING)], capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_full_disk_is_said_in_one_line(options: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        run = subprocess.run(
            [*COMMAND, "replay", str(RECORDING), *options], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )

    assert run.returncode in (1, 2)
    assert len(run.stderr.splitlines()) == 1


@pytest.mark.parametrize("outputs", [["--report", "small.ndjson"], ["--journal", "x", "--report", "x"]])
def test_nothing_is_written_over_a_recording_or_over_another_output(
    capfd: pytest.CaptureFixture[str], outputs: list[str]
) -> None:
    before = Path(small()).read_bytes()
    given = recording(*before.splitlines())
    outputs = [given if each == "small.ndjson" else each for each in outputs]

    status, out, err = run(capfd, "replay", given, *outputs)

    assert (status, out) == (2, "")
    assert err.endswith("is read or written already: name another file\n")
    assert Path(given).read_bytes().splitlines() == before.splitlines()


def test_a_beginning_that_several_jobs_share_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capfd, "explain", "10-", "--recording", str(RECORDING))

    assert status == 2
    assert "jobs begin with '10-': give more of the id" in err
