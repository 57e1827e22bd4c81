"""What a demo serves beside itself: metrics for each alert and panel, the whole status, and answers to `explain`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from poseidon_reconciler.app.errors import NOBODY_THERE
from poseidon_reconciler.cli import main
from tests.observe.telemetry.queries import metrics_in, queries

DEMO = (sys.executable, "-m", "poseidon_reconciler", "demo", "--page", "0", "--runners", "6", "--speed", "6")
PATIENCE_S = 90.0


@pytest.fixture(scope="module")
def page() -> Iterator[str]:
    """Where a demo with everything shows its page, once it knows its pools."""
    with subprocess.Popen(DEMO, stdout=subprocess.PIPE, text=True) as demo:
        try:
            assert demo.stdout is not None
            url = next(found[0] for line in demo.stdout if (found := re.findall(r"page: (http://\S+)", line)))
            until(lambda: status_of(url)["environments"].get("10", {}).get("idle"))
            yield url
        finally:
            demo.kill()


def until(condition: Any) -> Any:
    give_up_at = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < give_up_at, "it did not come to that"
        time.sleep(0.1)
    return found


def status_of(url: str) -> dict[str, Any]:
    answer: dict[str, Any] = requests.get(f"{url}/v1/status", timeout=10).json()
    return answer


def run(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    out, err = capfd.readouterr()
    return status, out, err


def test_explain_asks_a_demo_from_end_to_end(page: str, capfd: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capfd, "explain", "10", "--url", page)
    assert (status, err) == (0, "")
    assert out.startswith("Environment 10 is ")
    status, out, err = run(capfd, "explain", "template-10", "--url", page, "--json")
    assert (status, err) == (0, "")
    assert (json.loads(out)["kind"], json.loads(out)["environment_id"]) == ("environment", "10")

    for subject, url, said in (
        ("99", page, f"{page}: '99' is neither a job nor an environment that is known"),
        ("template-1", page, "did you mean template-1"),
        ("10", page.replace("http:", "https:"), "its certificate is not trusted, or it does not speak TLS"),
        (
            "10",
            "http://127.0.0.1:1",
            NOBODY_THERE,
        ),
    ):
        status, out, err = run(capfd, "explain", subject, "--url", url)
        assert (status, out, err.count("\n")) == (2, "", 1), url
        assert said in err


def test_poseidon_stands_beside_the_truth(page: str) -> None:
    view = until(lambda: (status_of(page)["poseidon"] or {}).get("at") and status_of(page)["poseidon"])
    assert {row["environment_id"]: row["target"] for row in view["environments"]} == {"10": 6, "11": 3}


def test_a_scrape_has_every_series_that_alerts_and_dashboard_name(page: str) -> None:
    named = {name for query in queries() for name in metrics_in(query)}
    assert len(named) > 20

    def missing() -> set[str]:
        answer = requests.get(f"{page}/metrics", timeout=10)
        assert answer.headers["Content-Type"].startswith("text/plain")
        families = list(text_string_to_metric_families(answer.text))
        return named - {sample.name for family in families for sample in family.samples}

    # How long pools took to be full again is known once one was not.
    until(lambda: not missing())
