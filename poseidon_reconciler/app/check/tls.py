"""Whether the server's certificate and ours are such that both sides trust each other, and for how long yet."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from datetime import UTC, datetime
from typing import Final

from poseidon_reconciler.app.check.address import Place
from poseidon_reconciler.app.check.certificate import valid_until
from poseidon_reconciler.app.check.report import Check, fail, ok, warn
from poseidon_reconciler.config import NomadSettings

_DAY_S: Final = 24 * 3600.0
_SOON_S: Final = 30 * _DAY_S
_FIRST_WORD_S: Final = 0.3
_NEW_FOR_SERVERS: Final = "get a new one for the servers (tls block of Nomad's configuration)"
_LOOPBACK: Final = ("127.", "::1")

# Numbers of OpenSSL's X.509 verification.
_EXPIRED: Final = 10
_NOT_YET_VALID: Final = 9
_OTHER_NAME: Final = frozenset({62, 64})
_UNKNOWN_ISSUER: Final = frozenset({2, 18, 19, 20, 21})


def look_at_plain(nomad: NomadSettings, addresses: list[str]) -> list[Check]:
    """What is to be said where nothing is encrypted."""
    secret = nomad.token is not None
    if secret and not all(address.startswith(_LOOPBACK) for address in addresses):
        advice = "use https in nomad.address"
        return [warn("TLS", "not used: the token goes over the network in clear text", advice)]
    files = [name for name in ("ca_file", "cert_file") if getattr(nomad, name) is not None]
    if files:
        advice = "use https in nomad.address, or leave them out"
        return [warn("TLS", f"not used, although {' and '.join(files)} are given", advice)]
    return [ok("TLS", "not used")]


def look_at_client_certificate(nomad: NomadSettings, now: float) -> list[Check]:
    """Our own certificate, if there is one."""
    name = "client certificate"
    if nomad.cert_file is None or nomad.key_file is None:
        return []
    try:
        # Python would ask for a password at the terminal, if it was not given one.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(nomad.cert_file, nomad.key_file, password=lambda: "")
        until = valid_until(nomad.cert_file.read_text("utf-8", "replace"))
    except (OSError, ValueError) as error:
        advice = "nomad.cert_file and key_file must be PEM files of a pair, and the key without a password"
        return [fail(name, f"cannot be used: {error}", advice)]
    return [_lasting(name, until, now, "get a new one, and put it in the place of nomad.cert_file")]


async def look_at_server_certificate(
    nomad: NomadSettings, place: Place, address: str, now: float, limit_s: float
) -> tuple[Check, ssl.SSLContext | None]:
    """The server's certificate, and whether it takes ours; the context to be used from here on, if it is trusted."""
    try:
        context = ssl.create_default_context(cafile=nomad.ca_file)
        if nomad.cert_file is not None:
            context.load_cert_chain(nomad.cert_file, nomad.key_file)
    except OSError as error:
        return fail("TLS", f"nomad.ca_file cannot be used: {error}", "it must hold certificates in PEM form"), None
    try:
        async with asyncio.timeout(limit_s):
            until = await _shake_hands(place, address, context)
    except (OSError, TimeoutError, EOFError) as error:
        return _refused(error, limit_s, has_own=nomad.cert_file is not None), None
    return _lasting("TLS", until, now, _NEW_FOR_SERVERS), context


async def _shake_hands(place: Place, address: str, context: ssl.SSLContext) -> float:
    """Until when the server's certificate is valid, once the server has taken ours as well.

    Since TLS 1.3 it says only after the handshake that it does not, in place of its first word. That is waited for, at
    first without a word of ours: on one that it does not read any more, its own could be lost.
    """
    reader, writer = await asyncio.open_connection(address, place.port, ssl=context, server_hostname=place.host)
    try:
        certificate = writer.get_extra_info("peercert")
        for word in (b"", f"HEAD / HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n\r\n".encode()):
            writer.write(word)
            # Silence is no matter of certificates.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FIRST_WORD_S):
                    if not await reader.read(1):
                        raise EOFError
        return float(ssl.cert_time_to_seconds(certificate["notAfter"]))
    finally:
        writer.transport.abort()


def _refused(error: BaseException, limit_s: float, *, has_own: bool) -> Check:
    if isinstance(error, ssl.SSLCertVerificationError):
        return fail("TLS", f"the certificate is not trusted: {error.verify_message}", _advice(error.verify_code))
    if isinstance(error, TimeoutError):
        detail = f"no handshake within {limit_s:g} s"
        return fail("TLS", detail, "is it TLS that is spoken at this port? If not, use http in nomad.address")
    own = (
        "is nomad.cert_file signed by the authority that the servers trust?"
        if has_own
        else "do the servers want a certificate of ours? Give nomad.cert_file and key_file"
    )
    if isinstance(error, EOFError | ConnectionResetError):
        return fail("TLS", "the server hangs up", f"{own}; and is it HTTPS that is spoken at this port?")
    reason = getattr(error, "reason", None) or str(error)
    if "ALERT" in reason:
        return fail("TLS", f"the server refuses us: {reason}", own)
    advice = "is it TLS that is spoken at this port? If not, use http in nomad.address"
    return fail("TLS", f"the handshake failed: {reason}", advice)


def _advice(verify_code: int) -> str:
    if verify_code == _EXPIRED:
        return _NEW_FOR_SERVERS
    if verify_code == _NOT_YET_VALID:
        return "is the clock of this machine right?"
    if verify_code in _OTHER_NAME:
        return "use a name in nomad.address that the certificate is for, or add this one to it"
    if verify_code in _UNKNOWN_ISSUER:
        return "give the certificate of the authority that signed it in nomad.ca_file (NOMAD_CACERT)"
    return "see the tls block of Nomad's configuration, and nomad.ca_file"


def _lasting(name: str, until: float, now: float, advice: str) -> Check:
    day = datetime.fromtimestamp(until, UTC).date().isoformat()
    if until <= now:
        return fail(name, f"expired on {day}", advice)
    if until - now < _SOON_S:
        return warn(name, f"valid until {day}, for {(until - now) / _DAY_S:.0f} days yet", advice)
    return ok(name, f"trusted, valid until {day}" if name == "TLS" else f"valid until {day}")
