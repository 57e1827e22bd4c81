"""`health` against servers that answer, refuse, hang or are none."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from poseidon_reconciler.app import health as module
from poseidon_reconciler.app.errors import NOBODY_THERE
from poseidon_reconciler.cli import main


@contextmanager
def answering(status: int, body: str = "") -> Iterator[tuple[str, list[str]]]:
    """An address of a server that always answers so, and the paths that it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *args: object) -> None:
            """Says nothing on stderr."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy for everything, which must not be asked."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")


def test_a_good_answer_is_exit_status_0_and_nothing_else(capfd: pytest.CaptureFixture[str]) -> None:
    with answering(200, "ok") as (address, asked):
        assert main(["health", "--url", f"http://{address}/"]) == 0
        assert main(["health", "--ready", "--url", f"http://{address}"]) == 0
    assert asked == ["/healthz", "/readyz"]
    assert capfd.readouterr() == ("", "")


def test_another_answer_is_exit_status_1_with_what_it_says(capfd: pytest.CaptureFixture[str]) -> None:
    with answering(503, "the loop does not turn\nfor 40 s\n") as (address, _):
        assert main(["health", "--url", f"http://{address}"]) == 1
    assert capfd.readouterr().err == f"http://{address}: answers 503: the loop does not turn for 40 s\n"


@pytest.mark.parametrize("everywhere", [False, True])
def test_without_a_url_it_asks_where_the_configuration_says_it_listens(
    everywhere: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with answering(200) as (address, asked):
        listen = address.replace("127.0.0.1", "0.0.0.0") if everywhere else address
        monkeypatch.setenv("RECONCILER_HTTP__LISTEN", listen)
        assert main(["health"]) == 0
        monkeypatch.delenv("RECONCILER_HTTP__LISTEN")
        config = tmp_path / "reconciler.yaml"
        # The files that it names are not for the one who asks.
        config.write_text(f"http: {{listen: '{listen}'}}\nnomad: {{token_file: /run/secrets/none}}\n")
        assert main(["health", "--config", str(config)]) == 0
    assert len(asked) == 2


@pytest.mark.parametrize("listen", ["off", "127.0.0.1:0"])
def test_where_nobody_can_be_asked_it_says_so(
    listen: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RECONCILER_HTTP__LISTEN", listen)
    assert main(["health"]) == 2
    assert capfd.readouterr().err == f"http.listen is {listen}: nothing can be asked there; give --url\n"


@pytest.mark.parametrize("url", ["127.0.0.1:8646", "file:///etc/passwd"])
def test_a_url_must_be_one_of_http(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["health", "--url", url]) == 2
    assert capfd.readouterr().err == "--url: not a URL such as http://127.0.0.1:8646\n"


def test_nobody_there_is_exit_status_1(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        assert main(["health", "--url", url]) == 1
    assert capfd.readouterr().err == f"{url}: {NOBODY_THERE}\n"


@pytest.mark.parametrize("spoken", [b"", b"SSH-2.0-OpenSSH\r\n"])
def test_who_does_not_speak_http_is_not_waited_for_long(
    spoken: bytes, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "_TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"

        def speak() -> None:
            peer, _ = silent.accept()
            with peer:
                peer.sendall(spoken)
                peer.recv(4096)
                if not spoken:
                    threading.Event().wait(1)

        thread = threading.Thread(target=speak)
        thread.start()
        assert main(["health", "--url", url]) == 1
        thread.join()
    assert capfd.readouterr().err.startswith(f"{url}: no answer")
