"""Until when a certificate of ours is valid, which nothing in Python's library tells of a file.

A certificate is nested DER: every value is a tag, a length and that many bytes. The end of the validity is at a fixed
place in it, so that a few steps into it are enough.
"""

from __future__ import annotations

import re
import ssl
from datetime import UTC, datetime
from typing import Final

_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_VERSION_TAG: Final = 0xA0
_UTC_TIME: Final = 0x17
# In the part that is signed, after the optional version: serial number, algorithm, issuer, validity.
_VALIDITY: Final = 3


def valid_until(pem: str) -> float:
    """When the first certificate of a PEM file ends, in seconds since the epoch.

    Raises:
        ValueError: there is no certificate in it.
    """
    found = _PEM.search(pem)
    if found is None:
        raise ValueError("there is no certificate in it")
    der = ssl.PEM_cert_to_DER_cert(found[0])
    try:
        signed = _values(_values(_values(der)[0][1])[0][1])
        validity = signed[_VALIDITY + (signed[0][0] == _VERSION_TAG)][1]
        tag, text = _values(validity)[1]
    except IndexError:
        raise ValueError("it is no certificate") from None
    return _seconds(tag, text.decode("ascii", "replace"))


def _values(der: bytes) -> list[tuple[int, bytes]]:
    """The values that stand one after the other, each with its tag."""
    values, at = [], 0
    while at < len(der):
        tag, length = der[at], der[at + 1]
        at += 2
        if length & 0x80:  # the length itself takes so many bytes
            size = length & 0x7F
            length = int.from_bytes(der[at : at + size], "big")
            at += size
        values.append((tag, der[at : at + length]))
        at += length
    return values


def _seconds(tag: int, text: str) -> float:
    # With two digits, 50 to 99 are of the last century.
    if tag == _UTC_TIME:
        text = ("19" if text >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()
