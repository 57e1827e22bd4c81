"""Requests of a simulated reconciler: what `Transport` does with threads and sockets, done in the cluster's own time.

A request that has left cannot be called back: it arrives although the asker has given it up, or has died since.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

from poseidon_reconciler.app.simulation.weather import Fate, Weather
from poseidon_reconciler.nomad.outcomes import Answer, Outcome, Unavailable, Unknown, failure_of
from poseidon_reconciler.nomad.transport import Request, Transport

T = TypeVar("T")

_THREADS = 8


class Servers(Protocol):
    """Who carries requests out."""

    def carry_out(self, entry: str, request: Request, fate: Fate) -> Answer | None:
        """What is answered now; None if nobody is there."""


class SimulatedTransport(Transport):
    """Sends requests through the weather. Once `dead`, nothing leaves any more."""

    def __init__(self, servers: Servers, weather: Weather, sends: Callable[[Request], None] = lambda _: None) -> None:
        """`sends` is told of each request at the moment at which it leaves."""
        self.threads = _THREADS
        self.dead = False
        self._servers = servers
        self._weather = weather
        self._sends = sends
        self._slots = asyncio.Semaphore(_THREADS)

    async def send(self, request: Request, read: Callable[[Answer], Outcome[T]]) -> Outcome[T]:
        async with self._slots:
            answer = await self._exchange(request)
        if not isinstance(answer, Answer):
            return answer
        return failure_of(answer) or read(answer)

    async def close(self) -> None:
        self.dead = True

    async def _exchange(self, request: Request) -> Answer | Unavailable | Unknown:
        loop = asyncio.get_running_loop()
        fate = self._weather.fate_of(request)
        if fate.refused or self.dead:
            await asyncio.sleep(fate.out_s)
            return Unavailable("connection refused")
        self._sends(request)
        answered: asyncio.Future[Answer | Unavailable | Unknown] = loop.create_future()
        loop.call_later(fate.out_s, self._arrive, request, fate, answered)
        if not fate.answered or fate.out_s + fate.back_s >= fate.given_up_s:
            loop.call_later(fate.given_up_s, _tell, answered, Unknown("the connection broke before an answer came"))
        return await answered

    def _arrive(self, request: Request, fate: Fate, answered: asyncio.Future[Answer | Unavailable | Unknown]) -> None:
        if self.dead and not fate.survives:
            return
        loop = asyncio.get_running_loop()
        answer: Answer | Unavailable | None = None
        if fate.reaches:
            answer = self._servers.carry_out(self._weather.entry, request, fate)
            if answer is None:
                loop.call_later(fate.back_s, _tell, answered, Unavailable("connection refused"))
                return
        if fate.status:
            answer = Answer(fate.status, {}, fate.text)
        if fate.answered and answer is not None:
            loop.call_later(fate.back_s, _tell, answered, answer)


def _tell(answered: asyncio.Future[Answer | Unavailable | Unknown], answer: Answer | Unavailable | Unknown) -> None:
    if not answered.done():
        answered.set_result(answer)
