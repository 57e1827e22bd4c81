"""What holds for every answer, and by which names it may be asked for."""

from __future__ import annotations

import pytest
from aiohttp.test_utils import TestClient, TestServer

from tests.observe.web.serving import pool

PATHS = ["/", "/v1/status", "/page.js", "/page.css", "/nothing", "/v1/explain/nobody", "/openapi.json", "/explain/10"]


@pytest.mark.parametrize("path", PATHS)
async def test_every_answer_says_what_a_browser_may_do_with_it(path: str) -> None:
    async with pool().serving() as client:
        answer = await client.get(path)
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'")
    assert "unsafe" not in policy
    assert "http" not in policy
    assert (answer.headers["X-Content-Type-Options"], answer.headers["Referrer-Policy"]) == ("nosniff", "no-referrer")
    assert answer.headers["Cache-Control"] == ("no-cache" if path.startswith("/page") else "no-store")
    assert "Server" not in answer.headers


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("127.0.0.1:9999", 200),
        ("[::1]:8646", 200),
        ("LOCALHOST:1", 200),
        ("127.9.9.9", 200),
        ("pools.attacker.example", 421),
        ("localhost.attacker.example:80", 421),
        ("10.0.0.1", 421),
        ("[::ffff", 421),
        ("", 200),
    ],
)
async def test_on_loopback_it_is_asked_by_a_name_of_loopback(host: str, status: int) -> None:
    async with pool().serving() as client:
        answer = await client.get("/v1/status", headers={"Host": host})
    assert answer.status == status


async def test_elsewhere_it_may_have_any_name() -> None:
    application = pool().server.application("0.0.0.0")
    async with TestClient(TestServer(application)) as client:
        assert (await client.get("/v1/status", headers={"Host": "pools.example"})).status == 200
