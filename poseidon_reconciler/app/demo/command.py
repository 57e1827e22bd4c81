"""`demo`: an embedded cluster, its failure and the recovery, on one screen, as lines, or as one JSON document."""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import orjson

from poseidon_reconciler.app.demo.outcome import Outcome
from poseidon_reconciler.app.demo.scenarios import DEMO_SCENARIOS, MAX_RUNNERS, scenario_named
from poseidon_reconciler.app.demo.stage import Setting, Stage
from poseidon_reconciler.app.errors import UsageError
from poseidon_reconciler.config import ConfigError, Settings, load
from poseidon_reconciler.config.observing import OFF
from poseidon_reconciler.config.variables import PREFIX
from poseidon_reconciler.policy import quoted

MAX_SPEED: Final = 10.0
_MAX_PORT: Final = 65535
# Nobody watches: as fast as the way over the network allows without making a difference.
_SPEED_OF_JSON: Final = 5.0
_NOMAD_PREFIX: Final = f"{PREFIX}NOMAD__"


def demo(options: argparse.Namespace) -> int:
    """Runs the command; returns 1 if a pool is not back at its target or a promise was broken.

    Raises:
        UsageError: an option or the configuration cannot be used.
    """
    if options.list:
        _print_list(json=options.json)
        return 0
    outcome = asyncio.run(_run(_setting(options), json=options.json))
    if options.json:
        _print_document(outcome.document())
    return 0 if outcome.is_good else 1


def _print_document(document: object) -> None:
    sys.stdout.buffer.write(orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")


def _print_list(*, json: bool) -> None:
    if json:
        _print_document({"scenarios": {name: scenario.about for name, scenario in DEMO_SCENARIOS.items()}})
        return
    width = max(map(len, DEMO_SCENARIOS))
    for scenario in DEMO_SCENARIOS.values():
        print(f"{scenario.name:<{width}}  {scenario.about}")
    print("\nTo see one: poseidon-reconciler demo --scenario NAME")


def _setting(options: argparse.Namespace) -> Setting:
    if options.runners is not None and not 1 <= options.runners <= MAX_RUNNERS:
        raise UsageError(f"--runners: {options.runners} is not between 1 and {MAX_RUNNERS}")
    speed = options.speed if options.speed is not None else _SPEED_OF_JSON if options.json else 1.0
    if not (math.isfinite(speed) and 0 < speed <= MAX_SPEED):
        raise UsageError(f"--speed: {speed:g} is not above 0 and up to {MAX_SPEED:g}")
    settings = settings_of_demo(options.config, os.environ)
    if options.page is not None:
        settings = settings.model_copy(
            update={"http": settings.http.model_copy(update={"listen": _page(options.page)})}
        )
    return Setting(
        scenario=scenario_named(options.scenario),
        settings=settings,
        poseidon=options.poseidon == "on",
        reconciler=not options.without_reconciler,
        runners=options.runners,
        seed=options.seed,
        speed=speed,
        # Whoever reads the outcome as JSON looks at no page, unless he asks for one.
        page=options.page is not None or not options.json,
    )


def _page(text: str) -> str:
    """Where the page is to be: a port on loopback, or `off`."""
    if text == OFF:
        return OFF
    if not text.isascii() or not text.isdigit() or not 0 <= int(text[:6]) <= _MAX_PORT:
        raise UsageError(f"--page: {quoted(text)} is neither a port nor off")
    return f"127.0.0.1:{text}"


def settings_of_demo(path: Path | None, environ: Mapping[str, str]) -> Settings:
    """The configuration without what it says of a real Nomad: the demo brings its own."""
    own = {
        name: value for name, value in environ.items() if name.startswith(PREFIX) and not name.startswith(_NOMAD_PREFIX)
    }
    try:
        return load(path, own, read_files=False)
    except ConfigError as error:
        raise UsageError(str(error)) from None


async def _run(setting: Setting, *, json: bool) -> Outcome:
    stage = Stage(setting)
    if json:
        return await stage.run(lambda: None)
    from poseidon_reconciler.app.demo.view import viewing

    with viewing(stage) as view:
        outcome = await stage.run(view.show)
    view.conclude(outcome)
    return outcome
