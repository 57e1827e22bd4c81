"""A scriptable Nomad, and clients of it that do not wait long."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from poseidon_reconciler.nomad.api import Api
from poseidon_reconciler.nomad.connection import Connection
from poseidon_reconciler.nomad.transport import Transport
from tests.nomad.actions import Acting
from tests.nomad.fake_nomad import FakeNomad


@pytest.fixture
async def nomad() -> AsyncIterator[FakeNomad]:
    async with FakeNomad() as server:
        yield server


@pytest.fixture
def waits() -> list[float]:
    """The waits that `api` has made, in seconds; none of them took any time."""
    return []


@pytest.fixture
async def api(nomad: FakeNomad, waits: list[float]) -> AsyncIterator[Api]:
    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    client = Api(Transport(Connection(nomad.address), threads=4), sleep=sleep)
    yield client
    await client.close()


@pytest.fixture
def act(api: Api, nomad: FakeNomad) -> Acting:
    return Acting(api, nomad)
