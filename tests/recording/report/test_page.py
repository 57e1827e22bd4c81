"""The page in a real browser: it asks for nothing, complains about nothing, and shows something."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest

from poseidon_reconciler.policy import Policy
from poseidon_reconciler.recording.reader import RecordingReader
from poseidon_reconciler.recording.replay import Replay
from poseidon_reconciler.recording.report import render_report
from tests.recording.stories import text_story

pytestmark = pytest.mark.browser

RECORDING = Path(__file__).parents[2] / "fixtures" / "event_dumps" / "restart-together-20s.ndjson.gz"
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"
PNG_HEADER_BYTES = 8


class Rendered(NamedTuple):
    """What became of a page: its document, what the browser complained of, its picture, and the paths asked for."""

    dom: str
    complaints: list[str]
    picture: bytes
    requests: list[str]


@pytest.fixture(scope="module")
def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None and os.environ.get("CI"):
        pytest.fail("no Chromium: CI must render the page")
    return found or pytest.skip("no Chromium on this machine")


def render(chromium: str, html: str, scratch: Path, *options: str) -> Rendered:
    picture = scratch / "page.png"
    with served(html) as (port, requests):
        done = subprocess.run(
            [
                chromium,
                "--headless",
                "--no-sandbox",  # does not start as root otherwise; the page is our own
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--enable-logging=stderr",
                # Whatever the page might ask for elsewhere would be asked for here, and counted.
                f"--host-resolver-rules=MAP * 127.0.0.1:{port}",
                f"--user-data-dir={scratch / 'profile'}",
                f"--screenshot={picture}",
                "--window-size=1200,1600",
                "--dump-dom",
                *options,
                f"http://127.0.0.1:{port}/report.html",
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    complaints = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    return Rendered(done.stdout, complaints, picture.read_bytes(), requests)


@contextmanager
def served(html: str) -> Iterator[tuple[int, list[str]]]:
    """Serves a page whatever is asked for; tells the port, and what was asked for."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            # What the browser asks for by itself (the time, updates) comes from no page.
            if self.headers["Host"].startswith("127.0.0.1") or self.headers["Referer"]:
                requests.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_request(self, *args: object) -> None:
            """Says nothing."""

    # A browser opens connections that it does not use.
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port, requests
        finally:
            server.shutdown()
            thread.join()


def distinct_rows(png: bytes) -> int:
    """How many rows of pixels of a picture differ from each other: a handful if it is blank."""
    data, place = b"", PNG_HEADER_BYTES
    width = int.from_bytes(png[16:20], "big")
    while place < len(png):
        length, kind = int.from_bytes(png[place : place + 4], "big"), png[place + 4 : place + 8]
        data += png[place + 8 : place + 8 + length] if kind == b"IDAT" else b""
        place += length + 12
    pixels = zlib.decompress(data)
    row_bytes = len(pixels) // int.from_bytes(png[20:24], "big")
    assert row_bytes > width
    return len({pixels[start : start + row_bytes] for start in range(0, len(pixels), row_bytes)})


@pytest.fixture(scope="module")
def replayed() -> str:
    story = Replay(Policy()).run(RecordingReader([RECORDING]))
    return render_report(story, [RECORDING.name])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_replay_is_shown_without_a_request_or_a_complaint(
    chromium: str, replayed: str, tmp_path: Path, scheme: str
) -> None:
    rendered = render(chromium, replayed, tmp_path, f"--blink-settings=preferredColorScheme={int(scheme == 'light')}")
    assert rendered.complaints == []
    assert rendered.requests == ["/report.html"]
    assert distinct_rows(rendered.picture) > 300
    assert rendered.dom.count("<table") == 6
    assert 'class="chart"' in rendered.dom
    assert 'id="environment-1-blocked"' in rendered.dom
    assert "3 jobs found lost: 3 stuck-complete" in rendered.dom


def test_text_of_a_recording_does_nothing(chromium: str, tmp_path: Path) -> None:
    rendered = render(chromium, render_report(text_story(HOSTILE), [HOSTILE]), tmp_path)
    assert rendered.complaints == []
    assert rendered.requests == ["/report.html"]
    assert "&lt;img src=x onerror=alert(1)&gt;&lt;script&gt;alert(2)&lt;/script&gt;" in rendered.dom


def test_a_page_that_asks_complains_or_shows_nothing_would_be_noticed(chromium: str, tmp_path: Path) -> None:
    page = "<!doctype html><body><script>console.error('no')</script><img src=http://elsewhere.invalid/x.png>"
    rendered = render(chromium, page, tmp_path)
    assert len(rendered.complaints) == 1
    assert {"/report.html", "/x.png"} <= set(rendered.requests)
    assert distinct_rows(rendered.picture) < 50
