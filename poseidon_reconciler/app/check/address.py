"""Whether there is anybody at the address: the name means something, and something there takes a connection.

Looking up a name cannot be interrupted, and Python waits at its end for the threads of a pool. So it is done on a
thread that nobody waits for, once: everything after it uses the addresses that answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import threading
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from poseidon_reconciler.app.check.report import Check, fail, ok, warn

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_MAX_ADDRESSES: Final = 8
_LONGEST_LABEL: Final = 63


@dataclass(frozen=True, slots=True)
class Place:
    """Where an address points to."""

    host: str
    port: int
    secure: bool
    port_given: bool

    @staticmethod
    def of(address: str) -> Place:
        """Reads an address as the settings have it."""
        parts = urlsplit(address)
        assert parts.hostname is not None
        port = parts.port or _DEFAULT_PORTS[parts.scheme]
        return Place(parts.hostname, port, parts.scheme == "https", parts.port is not None)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


async def resolve(place: Place, limit_s: float) -> tuple[list[str], Check]:
    """The IP addresses of a place, in the order in which the system would try them."""
    try:
        async with asyncio.timeout(limit_s):
            found = await _looked_up(place)
    except TimeoutError:
        advice = "look at the name servers of this machine, or give an IP address in nomad.address"
        return [], fail("address", f"{place.host} was not looked up within {limit_s:g} s", advice)
    if isinstance(found, str):
        advice = "is the name in nomad.address (NOMAD_ADDR) right, and known to this machine's name servers?"
        return [], fail("address", f"{place.host} cannot be looked up: {found}", advice)
    addresses = list(dict.fromkeys(found))[:_MAX_ADDRESSES]
    if addresses == [place.host]:
        return addresses, ok("address", str(place))
    return addresses, ok("address", f"{place} is {', '.join(addresses)}")


async def _looked_up(place: Place) -> list[str] | str:
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str] | str] = loop.create_future()

    def settle(found: list[str] | str) -> None:
        if not answer.done():
            answer.set_result(found)

    def look_up() -> None:
        found: list[str] | str
        try:
            infos = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
            found = [str(info[4][0]) for info in infos]
        except OSError as error:
            found = error.strerror or str(error)
        except UnicodeError:
            found = f"a part of it is empty or longer than {_LONGEST_LABEL} characters"
        # Nobody is there any more if it took too long.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, found)

    threading.Thread(target=look_up, name="look-up", daemon=True).start()
    return await answer


async def connect(place: Place, addresses: list[str], limit_s: float) -> tuple[list[str], Check]:
    """Those of the addresses that take a connection."""
    reasons = await asyncio.gather(*[_refusal(address, place.port, limit_s) for address in addresses])
    reached = [address for address, reason in zip(addresses, reasons, strict=True) if reason is None]
    refused = {address: reason for address, reason in zip(addresses, reasons, strict=True) if reason}
    told = "; ".join(f"{address}: {reason}" for address, reason in refused.items())
    if not reached:
        return [], fail("connection", f"port {place.port}: {told}", _advice(place, list(refused.values())))
    detail = f"{', '.join(reached)} takes connections"
    if any("no answer" in reason for reason in refused.values()):
        advice = "each attempt waits for it: mend it, or give an address that answers in nomad.address"
        return reached, warn("connection", f"{detail}, but {told}", advice)
    return reached, ok("connection", detail + (f" ({told})" if told else ""))


async def refusal(place: Place, limit_s: float, context: ssl.SSLContext | None = None) -> str | None:
    """Why a place takes no connection at any of its addresses, by TLS if there is a context for it; None if it does."""
    try:
        async with asyncio.timeout(limit_s):
            found = await _looked_up(place)
    except TimeoutError:
        return f"it was not looked up within {limit_s:g} s"
    if isinstance(found, str):
        return f"it cannot be looked up: {found}"
    addresses = list(dict.fromkeys(found))[:_MAX_ADDRESSES]
    name = place.host if context is not None else None
    reasons = await asyncio.gather(*[_refusal(address, place.port, limit_s, context, name) for address in addresses])
    return None if None in reasons else reasons[0]


async def _refusal(
    address: str, port: int, limit_s: float, context: ssl.SSLContext | None = None, name: str | None = None
) -> str | None:
    """Why an address takes no connection; None if it does."""
    try:
        async with asyncio.timeout(limit_s):
            _, writer = await asyncio.open_connection(address, port, ssl=context, server_hostname=name)
    except TimeoutError:
        return f"no answer within {limit_s:g} s"
    except ssl.SSLCertVerificationError as error:
        return f"its certificate is not trusted: {error.verify_message}"
    except ssl.SSLError as error:
        return f"the TLS handshake failed: {error.reason or error}"
    except OSError as error:
        return os.strerror(error.errno).lower() if error.errno else str(error)
    writer.transport.abort()
    return None


def _advice(place: Place, reasons: list[str]) -> str:
    if not place.port_given:
        return f"give the port in nomad.address, as in …://{place.host}:4646: Nomad does not listen on {place.port}"
    if any("refused" in reason for reason in reasons):
        return "nothing listens there: does Nomad run, is the port right, and does it listen on this address?"
    return "is the machine up, and does a firewall let this machine reach the port?"
