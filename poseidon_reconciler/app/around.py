"""What goes on around the reconciling and is told to others: notices, webhooks, and Poseidon beside us."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from poseidon_reconciler.app.observers import Observers
from poseidon_reconciler.app.running import Running
from poseidon_reconciler.config import Settings
from poseidon_reconciler.core.ledger import Action, ActionOutcome
from poseidon_reconciler.core.reconciler import Step
from poseidon_reconciler.core.status import EnvironmentRow, environment_rows
from poseidon_reconciler.observe.notices import Notice, NoticeWatch
from poseidon_reconciler.observe.poseidon import PoseidonWatch
from poseidon_reconciler.observe.webhooks import Webhook

_LOOK_S: Final = 2.0


def add_notices(running: Running, observers: Observers, settings: Settings) -> None:
    """Has a reconciler that was not started yet watched for what is worth a notice, and the receivers told."""
    source = f"{settings.nomad.address}/{settings.nomad.namespace}"
    webhooks = [Webhook(name, each, source, observers.noted) for name, each in settings.webhooks.items()]
    notifier = Notifier(running, webhooks, observers.noted)
    observers.add(notifier)
    running.accompany("notices", notifier.run)
    for webhook in webhooks:
        running.accompany("a webhook", webhook.run)


def add_poseidon(
    running: Running,
    observers: Observers,
    settings: Settings,
    *,
    clock: Callable[[], float] = time.time,
    speed: float = 1.0,
    begin: Callable[[], Awaitable[object]] | None = None,
) -> None:
    """Has the Poseidon of the settings, if there is one, compared with what a reconciler knows (`running.poseidon`).
    It is not asked before `begin` is over.
    """
    if settings.poseidon.address is None:
        return

    def truth() -> dict[str, EnvironmentRow] | None:
        return environment_rows(running.core) if running.controller.synced else None

    watch = PoseidonWatch(settings.poseidon, truth, observers.noted, clock=clock, speed=speed)
    observers.add(watch)
    running.poseidon = lambda: watch.view

    async def run() -> None:
        if begin is not None:
            await begin()
        await watch.run()

    running.accompany("Poseidon's statistics", run)


class Notifier:
    """Looks at a reconciler every now and then, and listens to it; what is worth a notice goes to log and webhooks."""

    def __init__(self, running: Running, webhooks: list[Webhook], note: Callable[[str, str], None]) -> None:
        self._running = running
        self._webhooks = webhooks
        self._note = note
        self._watch = NoticeWatch()

    def stepped(self, step: Step) -> None:
        # The log tells of losses already.
        self._send(self._watch.stepped(step))

    def acted(self, action: Action, outcome: ActionOutcome) -> None:
        """What is done is no notice; what comes of it is."""

    def noted(self, event: str, detail: str) -> None:
        """Notes are for those who read logs."""

    async def run(self) -> None:
        """Looks until it is cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            if self._running.controller.synced:
                self.look()

    def look(self) -> None:
        """Tells what is to be told of how everything stands now."""
        core, now = self._running.core, time.time()
        notices = self._watch.look(environment_rows(core), core.holds(now), now)
        for notice in notices:
            self._note(notice.kind, notice.text)
        self._send(notices)

    def _send(self, notices: list[Notice]) -> None:
        for webhook in self._webhooks:
            for notice in notices:
                webhook.offer(notice)
