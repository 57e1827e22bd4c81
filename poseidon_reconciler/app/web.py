"""Puts the status page beside a reconciler that runs, and lets it pause that."""

from __future__ import annotations

from poseidon_reconciler.app.observers import Observers
from poseidon_reconciler.app.pauses import PauseStore
from poseidon_reconciler.app.pulse import Pulse
from poseidon_reconciler.app.running import Running, StartError
from poseidon_reconciler.config import Settings
from poseidon_reconciler.config.observing import OFF
from poseidon_reconciler.controller import Resumed
from poseidon_reconciler.core.pauses import Pause
from poseidon_reconciler.observe.drift import PoseidonView
from poseidon_reconciler.observe.web import ListenError, Source, WebServer
from poseidon_reconciler.observe.web.history import SAMPLE_S
from poseidon_reconciler.observe.web.reads import Metrics
from poseidon_reconciler.policy import os_reason


class KeptPauses:
    """Pauses a reconciler, over its restarts too where there is a state directory."""

    def __init__(self, running: Running, settings: Settings) -> None:
        """Has left alone from the first decision on what was left alone before a restart.

        Raises:
            StartError: what was kept cannot be read.
        """
        try:
            self._store = PauseStore(settings.state_dir)
        except OSError as error:
            raise StartError(f"state_dir: {settings.state_dir}: {os_reason(error)}") from None
        except ValueError as error:
            raise StartError(f"state_dir: {error}") from None
        self._running = running
        for pause in self._store.lasting(running.clock()):
            running.controller.put(pause)

    def pause(self, pause: Pause) -> bool:
        self._running.controller.put(pause)
        return self._store.set(pause, self._running.clock())

    def resume(self, environment_id: str | None) -> bool:
        self._running.controller.put(Resumed(environment_id))
        return self._store.lift(environment_id, self._running.clock())


async def add_page(
    running: Running,
    observers: Observers,
    settings: Settings,
    *,
    metrics: Metrics | None = None,
    sample_s: float = SAMPLE_S,
    or_elsewhere: bool = False,
) -> str | None:
    """Begins to serve the page, which goes on as long as `running` runs; returns where it is, as an URL; None where the
    settings want none. To be called before it runs.

    `metrics` gives what `/metrics` answers; `sample_s` is the time between two samples of the charts; `or_elsewhere`:
    any free port will do where the one of the settings is taken.

    Raises:
        StartError: it cannot listen there, or pauses that were kept cannot be read.
    """
    pauses = KeptPauses(running, settings)
    listen = settings.http.listen
    if listen == OFF:
        return None
    pulse = Pulse(running.controller)

    def poseidon() -> PoseidonView | None:
        # Asked anew each time: who knows it may be added later.
        return running.poseidon()

    source = Source(
        core=running.core,
        clock=running.clock,
        is_synced=lambda: running.controller.synced,
        trouble=pulse.trouble,
        shadow=running.shadow,
        poseidon=poseidon,
    )
    server = WebServer(
        source, pauses, token_file=settings.http.token_file, metrics=metrics, sample_s=sample_s, speed=running.speed
    )
    try:
        address = await server.start(listen)
    except ListenError as error:
        if not or_elsewhere:
            raise StartError(f"http.listen: {error}; choose another one, or off") from None
        address = await server.start(f"{listen.rpartition(':')[0]}:0")
    observers.add(server.recent)
    observers.noted("page", address)
    running.accompany("the page", server.run)
    running.accompany("the pulse", pulse.run)
    return address
