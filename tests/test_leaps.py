"""Time that leaps: nobody waits for it, and whoever works in a thread or over a socket is waited for."""

from __future__ import annotations

import asyncio
import threading
import time

from tests.leaps import LeapingClock, in_leaps, on_the_wall


@in_leaps
async def test_hours_take_no_time() -> None:
    clock, began = LeapingClock(), time.monotonic()
    before = clock.now()
    await asyncio.gather(clock.sleep(3600), asyncio.sleep(7200))
    assert 7200 <= clock.now() - before < 7210
    assert time.monotonic() - began < 5


@in_leaps
async def test_a_thread_is_given_its_time() -> None:
    async with asyncio.timeout(20):
        await asyncio.to_thread(time.sleep, 0.2)


@in_leaps
async def test_a_thread_that_the_loop_does_not_know_is_given_its_time_where_that_is_asked_for() -> None:
    loop, over = asyncio.get_running_loop(), asyncio.Event()

    def work() -> None:
        time.sleep(0.2)
        loop.call_soon_threadsafe(over.set)

    threading.Thread(target=work).start()
    with on_the_wall():
        async with asyncio.timeout(20):
            await over.wait()


@in_leaps
async def test_a_neighbour_is_heard_before_time_passes() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    loop = asyncio.get_running_loop()
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        before = loop.time()
        for _ in range(100):
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"hello\n")
            async with asyncio.timeout(20):
                assert await reader.readline() == b"hello\n"
            writer.close()
        assert loop.time() - before < 40
