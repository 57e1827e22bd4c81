"""What the documentation shows is what the program does: pages that are generated are current, examples are run."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
import yaml

from poseidon_reconciler.config.given import KEYS
from poseidon_reconciler.core.holds import HoldRule

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# A block of a terminal session: `$ poseidon-reconciler …` and what it prints.
_SESSION = re.compile(r"```console\n\$ poseidon-reconciler (.*)\n((?:.*\n)*?)```")


def sessions() -> list[tuple[str, str, str]]:
    return [(page.name, *match) for page in PAGES for match in _SESSION.findall(page.read_text())]


@pytest.mark.parametrize("name", ["verdicts.md", "states.md", "settings.md", "metrics.md"])
def test_a_generated_page_is_current(name: str) -> None:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    assert (ROOT / "docs" / name).read_text() == module.PAGES[name](), "run `make docs`"


def test_there_are_examples_to_run() -> None:
    assert sessions()


@pytest.mark.parametrize(("page", "arguments", "printed"), sessions())
def test_an_example_prints_what_is_shown(page: str, arguments: str, printed: str) -> None:
    """A line `…` stands for any number of lines."""
    run = subprocess.run(
        [sys.executable, "-m", "poseidon_reconciler", *shlex.split(arguments)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    actual = "\n".join(line.rstrip() for line in (run.stderr + run.stdout).splitlines())
    expected = "\n".join(line.rstrip() for line in printed.splitlines())
    pattern = r"(?:.*\n)*?".join(re.escape(part) for part in re.split(r"^…\n", expected, flags=re.MULTILINE))
    assert re.fullmatch(pattern, actual), f"{page}: now prints\n{actual}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


# --- operations -------------------------------------------------------------------------------------------------------

OPERATIONS = (ROOT / "docs" / "operations.md").read_text()


def test_each_alert_has_its_section_and_no_other_has_one() -> None:
    path = ROOT / "config" / "prometheus" / "alerts.yml"
    if not path.exists():
        pytest.skip("there are no alerts yet")
    groups = yaml.safe_load(path.read_text())["groups"]
    alerts = {rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule}
    assert set(re.findall(r"^### (Poseidon\w+)$", OPERATIONS, re.MULTILINE)) == alerts


def test_the_scrape_job_that_alerts_go_by_is_named_beside_them() -> None:
    rules = (ROOT / "config" / "prometheus" / "alerts.yml").read_text()
    (name,) = set(re.findall(r'job="([^"]+)"', rules))
    scraped = yaml.safe_load((ROOT / "config" / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    assert [each["job_name"] for each in scraped] == [name]
    alerts = OPERATIONS.partition("\n## Alerts")[2].partition("\n### ")[0]
    assert f"must be `{name}`" in alerts


def test_each_right_of_the_policy_is_explained() -> None:
    policy = (ROOT / "config" / "acl-policy.hcl").read_text()
    for right in re.findall(r'"([a-z]+-[a-z]+)",', policy):
        assert f"`{right}`" in OPERATIONS


def test_each_setting_is_on_the_page_of_settings() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    for section, keys in KEYS.items():
        for key in keys:
            assert (f"\n## {key}\n" if section == () else f"\n| `{key}` |") in page or key == "token", key


@pytest.mark.parametrize("rule", get_args(HoldRule))
def test_each_rule_that_holds_is_on_the_page_of_troubleshooting(rule: str) -> None:
    assert f"\n| `{rule}` | `" in (ROOT / "docs" / "troubleshooting.md").read_text()
