"""The page beside `run` and `demo`, and `explain` of a reconciler that runs: the wiring, with the real parts."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import aiohttp
import pytest
import trustme

from poseidon_reconciler.app.demo.scenarios import DEMO_SCENARIOS
from poseidon_reconciler.app.demo.stage import Setting, Stage
from poseidon_reconciler.app.errors import NOBODY_THERE
from poseidon_reconciler.app.observers import Observers
from poseidon_reconciler.app.running import Running, StartError
from poseidon_reconciler.app.web import KeptPauses, add_page
from poseidon_reconciler.cli import main
from poseidon_reconciler.config import Settings
from poseidon_reconciler.config.observing import HttpSettings
from poseidon_reconciler.core.pauses import Pause
from tests.controllers import Notes
from tests.core.builders import bench_with_pool, runner
from tests.observe.web.serving import Background, Served


def run(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    out, err = capfd.readouterr()
    return status, out, err


def settings(listen: str, state_dir: Path | None = None) -> Settings:
    return Settings(http=HttpSettings(listen=listen), state_dir=state_dir)


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody else listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


# --- run and demo ----------------------------------------------------------------------------------------------------


def test_run_says_that_the_port_is_in_use(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    monkeypatch.setenv("RECONCILER_HTTP__LISTEN", f"127.0.0.1:{taken}")
    status, _, err = run(capfd, "run")
    assert status == 2
    assert err.splitlines()[-1] == f"http.listen: 127.0.0.1:{taken}: the port is in use; choose another one, or off"


async def test_off_serves_nothing() -> None:
    running = Running(settings("off"), Notes())
    assert await add_page(running, Observers(), settings("off")) is None
    assert running.companions == []


async def test_the_page_says_that_nothing_is_known_until_the_lists_are_read() -> None:
    running, notes = Running(settings("127.0.0.1:0"), Notes()), Notes()
    address = await add_page(running, Observers(notes), settings("127.0.0.1:0"))
    assert notes.notes == [("page", address)]
    companion = asyncio.create_task(running.companions[0].run())
    async with aiohttp.ClientSession(address) as client:
        assert (await client.get("/healthz")).status == 200
        assert (await client.get("/readyz")).status == 503
        answer = await (await client.get("/v1/status")).json()
        assert (answer["synced"], answer["index"], answer["environments"]) == (False, None, {})
    companion.cancel()
    await asyncio.gather(companion, return_exceptions=True)


async def test_a_demo_shows_its_page_where_there_is_room(taken: int) -> None:
    scenario = DEMO_SCENARIOS["restart-together-2s"]
    setting = Setting(scenario, settings(f"127.0.0.1:{taken}"), poseidon=False, runners=2, speed=10.0, page=True)
    stage = Stage(setting)
    demo = asyncio.create_task(stage.run(lambda: None))
    seen: dict[str, Any] = {}
    async with asyncio.timeout(60), aiohttp.ClientSession() as client:
        while not (seen.get("synced") and seen["environments"]):
            assert not demo.done()
            await asyncio.sleep(0.1)
            if stage.page is not None:
                async with client.get(f"{stage.page}/v1/status") as answer:
                    seen = await answer.json()
        assert stage.page is not None
        assert not stage.page.endswith(f":{taken}")
        assert set(seen["environments"]) <= {"10", "11"}
        assert (await demo).is_good
        with pytest.raises(aiohttp.ClientConnectionError):
            await client.get(f"{stage.page}/v1/status")


@pytest.mark.parametrize("page", ["x", "-1", "65536", "127.0.0.1:80"])
def test_a_page_of_a_demo_has_a_port(capfd: pytest.CaptureFixture[str], page: str) -> None:
    status, _, err = run(capfd, "demo", f"--page={page}")
    assert (status, err) == (2, f"--page: {page!r} is neither a port nor off\n")


# --- pauses over a restart -------------------------------------------------------------------------------------------


async def test_a_pause_is_in_force_before_the_first_decision_after_a_restart(tmp_path: Path) -> None:
    kept = settings("off", tmp_path)
    before = Running(kept, Notes())
    now = before.clock()
    pauses = KeptPauses(before, kept)
    assert pauses.pause(Pause(None, "upgrade", now, now + 600))
    assert pauses.pause(Pause("10", "exam", now, None))
    assert pauses.resume("10")

    after = Running(kept, Notes())
    KeptPauses(after, kept)
    after.controller._take_all()
    assert after.core.planner.pauses.current(now) == [Pause(None, "upgrade", now, now + 600)]


async def test_without_a_state_directory_a_pause_lasts_until_a_restart() -> None:
    pauses = KeptPauses(Running(settings("off"), Notes()), settings("off"))
    assert not pauses.pause(Pause(None, "upgrade", 0.0, None))


async def test_a_file_of_something_else_is_not_taken_for_pauses(tmp_path: Path) -> None:
    (tmp_path / "pauses.json").write_text('{"paused": true}')
    kept = settings("off", tmp_path)
    running = Running(kept, Notes())
    with pytest.raises(StartError, match=r"pauses\.json: not a file of pauses"):
        KeptPauses(running, kept)


# --- explain of a reconciler that runs -------------------------------------------------------------------------------


@pytest.fixture
def background() -> Iterator[Background]:
    with Served(bench_with_pool(3)).in_background() as background:
        background.call(background.served.lose, 0, index=500)
        yield background


def test_explain_asks_and_prints_as_of_a_recording(capfd: pytest.CaptureFixture[str], background: Background) -> None:
    status, out, err = run(capfd, "explain", runner(0), "--url", background.served.address)
    assert (status, err) == (0, "")
    for text in (
        f"{runner(0)} (runner of environment 10) is lost, stuck-complete",
        "Evidence, in order:",
        "looks-dead",
    ):
        assert text in out
    status, out, err = run(capfd, "explain", "10", "--url", f"{background.served.address}/")
    assert (status, err) == (0, "")
    assert out.startswith("Environment 10 is active (running)")


def test_explain_asks_of_a_runner_that_was_only_ordered(
    capfd: pytest.CaptureFixture[str], background: Background
) -> None:
    (ordered,) = [each.job_id for each in background.served.bench.actions if each.kind == "create-runner"]
    status, out, err = run(capfd, "explain", ordered, "--url", background.served.address)
    assert (status, err) == (0, "")
    assert f"It is to replace {runner(0)}." in out
    assert "create-runner (replaces a runner that is lost: stuck-complete): under way" in out


def test_explain_asks_the_one_of_the_configuration(
    capfd: pytest.CaptureFixture[str], background: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    listen = background.served.address.removeprefix("http://")
    monkeypatch.setenv("RECONCILER_HTTP__LISTEN", listen)
    assert run(capfd, "explain", "10")[0] == 0
    monkeypatch.setenv("RECONCILER_HTTP__LISTEN", listen.replace("127.0.0.1", "0.0.0.0"))
    assert run(capfd, "explain", "10")[0] == 0
    monkeypatch.setenv("RECONCILER_HTTP__LISTEN", "off")
    status, _, err = run(capfd, "explain", "10")
    assert (status, err) == (2, "http.listen is off: nothing can be asked there; give --url\n")


def test_explain_says_in_one_line_why_it_cannot(capfd: pytest.CaptureFixture[str], background: Background) -> None:
    address = background.served.address
    for subject, url, said in (
        (runner(1)[:-1] + "7", address, f"did you mean {runner(1)}?"),
        ("10-", address, "jobs begin with '10-'"),
        ("../status", address, "'../status' is neither a job nor an environment"),
        (
            "10",
            "http://127.0.0.1:1",
            NOBODY_THERE,
        ),
        ("10", "127.0.0.1:8646", "--url"),
        ("10", f"{address}/elsewhere", "answers 404"),
        ("10", f"{address}/page.css?", "is no reconciler"),
    ):
        status, out, err = run(capfd, "explain", subject, "--url", url)
        assert (status, out, err.count("\n")) == (2, "", 1), url
        assert said in err


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (200, b"<html>", "is no reconciler"),
        (200, b"[]", "is no reconciler"),
        (200, b'{"kind": "job", "explanation": {}}', "of another version"),
        (500, b'{"error": "\x1b[31mred"}', "is no reconciler"),
        (500, b'{"error": "\\u001b[31mred"}', "answers 500: \\x1b[31mred"),
        (404, b'{"error": "unknown", "near": ["10-\\u001b"]}', "unknown; did you mean 10-\\x1b?"),
        (302, b'{"error": "moved"}', "answers 302: moved"),
    ],
)
def test_explain_believes_nothing_that_is_no_answer(
    capfd: pytest.CaptureFixture[str], status: int, body: bytes, said: str
) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Location", "http://127.0.0.1:1/")
            self.end_headers()
            self.wfile.write(body)

        def log_request(self, *args: object) -> None:
            """Says nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        exit_status, out, err = run(capfd, "explain", "10", "--url", f"http://127.0.0.1:{server.server_port}")
        thread.join()
    assert (exit_status, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_explain_trusts_no_certificate_of_a_stranger(capfd: pytest.CaptureFixture[str]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            peer, _ = listener.accept()
            with suppress(ssl.SSLError), context.wrap_socket(peer, server_side=True):
                """The other side ends it."""

        thread = Thread(target=refuse)
        thread.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        status, out, err = run(capfd, "explain", "10", "--url", url)
        thread.join()
    assert (status, out, err) == (2, "", f"{url}: its certificate is not trusted, or it does not speak TLS\n")
