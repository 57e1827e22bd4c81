"""`check`: everything that `run` needs, looked at one after the other, before anything depends on it.

It changes nothing, and it ends: each step has its time, and all of them together, whatever the server does. What needs
a step that failed is not tried.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

from poseidon_reconciler.app.check.address import Place, connect, resolve
from poseidon_reconciler.app.check.around import look_around
from poseidon_reconciler.app.check.environments import look_at_environment
from poseidon_reconciler.app.check.pools import Ours, look_at_configured, look_at_orphans, look_at_risks, suspects
from poseidon_reconciler.app.check.report import Check, Report, fail, line_of, ok
from poseidon_reconciler.app.check.rights import (
    Tables,
    complete,
    list_everything,
    look_at_planning,
    look_at_reading,
    read_jobs,
)
from poseidon_reconciler.app.check.server import look_at_server
from poseidon_reconciler.app.check.state import look_at_state_dir
from poseidon_reconciler.app.check.stream import listen
from poseidon_reconciler.app.check.tls import (
    look_at_client_certificate,
    look_at_plain,
    look_at_server_certificate,
)
from poseidon_reconciler.app.edges import connection_of
from poseidon_reconciler.app.settings import load_settings
from poseidon_reconciler.config import Settings
from poseidon_reconciler.nomad.api import JobRead
from poseidon_reconciler.nomad.outcomes import Denied, Ok, Outcome
from poseidon_reconciler.nomad.probe import Probe


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a step may take, reading the lists, looking around, and everything together, in seconds."""

    step_s: float = 5.0
    lists_s: float = 10.0
    around_s: float = 3.0
    total_s: float = 25.0


DEFAULT_LIMITS: Final = Limits()
# What a step has at least, when the time is up.
_LEAST_S: Final = 0.1


def check(options: argparse.Namespace) -> int:
    """Runs the command.

    Raises:
        UsageError: the configuration is wrong.
    """
    settings = load_settings(options.config, read_files=True)
    report = Report() if options.json else Report(lambda found: print(line_of(found), flush=True))
    report.add(_configuration(settings, options.config))
    whole = asyncio.run(look(settings, report))
    if options.json:
        sys.stdout.buffer.write(orjson.dumps(report.document(), option=orjson.OPT_INDENT_2) + b"\n")
    else:
        print(report.summary() + ("" if whole else "; what needs the one that failed was not looked at"))
    return 0 if report.ok else 1


def _configuration(settings: Settings, path: Path | None) -> Check:
    nomad = settings.nomad
    region = f", region {nomad.region}" if nomad.region else ""
    return ok("configuration", f"{path or 'no file'}; {nomad.address}, namespace {nomad.namespace}{region}")


async def look(settings: Settings, report: Report, limits: Limits = DEFAULT_LIMITS) -> bool:
    """Looks at everything but the configuration; returns whether it came to the end."""
    return await _Look(settings, report, limits).run()


class _Look:
    """One run of the command."""

    def __init__(self, settings: Settings, report: Report, limits: Limits) -> None:
        self._settings = settings
        self._policy = settings.policy()
        self._report = report
        self._limits = limits
        self._ends_at = time.monotonic() + limits.total_s
        self._place = Place.of(settings.nomad.address)

    async def run(self) -> bool:
        self._report.add(look_at_state_dir(self._settings.state_dir))
        self._report.add(*await look_around(self._settings, self._within(self._limits.around_s)))
        addresses = await self._reach()
        if not addresses:
            return False
        trusted, context = await self._trust(addresses)
        if not trusted:
            return False
        secret = self._settings.nomad.token
        token = secret.get_secret_value() if secret is not None else None
        async with Probe(connection_of(self._settings), addresses, token, context) as probe:
            limit_s = self._within(self._limits.step_s)
            server = await look_at_server(probe, token, self._policy, now=time.time(), limit_s=limit_s)
            self._report.add(*server.checks)
            if not server.usable:
                return False
            await self._try_everything(probe, server.version)
        return True

    def _within(self, limit_s: float) -> float:
        """How much of a step's time is left."""
        return max(_LEAST_S, min(limit_s, self._ends_at - time.monotonic()))

    async def _reach(self) -> list[str]:
        """The addresses that take connections."""
        addresses, resolved = await resolve(self._place, self._within(self._limits.step_s))
        self._report.add(resolved)
        if not addresses:
            return []
        reached, connected = await connect(self._place, addresses, self._within(self._limits.step_s))
        self._report.add(connected)
        return reached

    async def _trust(self, addresses: list[str]) -> tuple[bool, ssl.SSLContext | None]:
        """Whether it can be talked to, and the TLS context for it (None for plain HTTP)."""
        nomad = self._settings.nomad
        if not self._place.secure:
            return self._report.add(*look_at_plain(nomad, addresses)), None
        if not self._report.add(*look_at_client_certificate(nomad, time.time())):
            return False, None
        found, context = await look_at_server_certificate(
            nomad, self._place, addresses[0], time.time(), self._within(self._limits.step_s)
        )
        self._report.add(found)
        return context is not None, context

    async def _try_everything(self, probe: Probe, version: str | None) -> None:
        """The rights, the stream, and what is in the cluster."""
        tables, topics = await asyncio.gather(
            list_everything(probe, self._within(self._limits.lists_s)),
            listen(probe, version, self._within(self._limits.step_s)),
        )
        ours = Ours.of(tables.jobs.members if tables.jobs is not None else ())
        example = ours.example()
        suspected = suspects(tables)
        wanted = [job.id for job in ours.templates.values()] + [allocation.job_id for allocation in suspected]
        wanted += [example] if example is not None else []
        limit_s = self._within(self._limits.step_s)
        whole, _ = await asyncio.gather(
            read_jobs(probe, dict.fromkeys(wanted), limit_s), complete(probe, suspected, limit_s)
        )
        self._report.add(*tables.checks)
        if tables.jobs is not None:
            await self._try_job(probe, example, whole, version)
        self._report.add(*topics)
        if tables.jobs is not None:
            self._look_at_pools(ours, whole)
            self._look_at_risks(tables, whole, version)

    async def _try_job(
        self, probe: Probe, example: str | None, whole: dict[str, Outcome[JobRead]], version: str | None
    ) -> None:
        self._report.add(look_at_reading(probe, example, whole))
        outcome = whole.get(example or "")
        job = outcome.value if isinstance(outcome, Ok) else None
        self._report.add(await look_at_planning(probe, job, version, self._within(self._limits.step_s)))

    def _look_at_pools(self, ours: Ours, whole: dict[str, Outcome[JobRead]]) -> None:
        for environment_id, stub in ours.templates.items():
            outcome = whole.get(stub.id)
            if isinstance(outcome, Ok):
                policy = self._policy.for_environment(environment_id)
                self._report.add(*look_at_environment(environment_id, outcome.value, policy))
            elif outcome is not None and not isinstance(outcome, Denied):  # that is said above, once for all
                self._report.add(fail(f"environment {environment_id}", f"{stub.id}: {outcome.detail}", "look again"))
        unread = [stub.id for stub in ours.templates.values() if stub.id not in whole]
        if unread:
            detail = f"{len(unread)} of {len(ours.templates)} were not read in time, {unread[0]} first"
            self._report.add(fail("environments", detail, "look again"))
        self._report.add(*look_at_configured(ours, self._policy), look_at_orphans(ours))

    def _look_at_risks(self, tables: Tables, whole: dict[str, Outcome[JobRead]], version: str | None) -> None:
        if tables.jobs is None or tables.allocations is None:
            return
        tables.jobs.members = [
            outcome.value.payload if isinstance(outcome := whole.get(stub.id), Ok) else stub
            for stub in tables.jobs.members
        ]
        self._report.add(look_at_risks(tables.snapshot(), self._policy, version, time.time()))
