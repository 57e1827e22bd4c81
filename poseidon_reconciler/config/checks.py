"""What a single value may be; each check says in one line what is wrong, and never shows a secret."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import SecretStr

from poseidon_reconciler.policy import os_reason, quoted

_MAX_TOKEN_BYTES = 4097  # one more than a token may have
_HOST = re.compile(r"\[[0-9a-f:.%\w]{2,64}\]|[\w.-]{1,253}")


def checked_address(address: str) -> str:
    """The address as `http(s)://host[:port]`; what may carry a password is never quoted."""
    shown = "the address" if re.search(r"[@?#]", address) else quoted(address)
    if address.lower().startswith("unix:"):
        raise ValueError(f"{shown} is a Unix socket, which is not supported: give http://host:port")
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        raise ValueError(f"{shown} is not an address such as http://127.0.0.1:4646") from None
    host = f"[{parts.hostname}]" if "[" in parts.netloc else parts.hostname or ""
    if parts.scheme not in {"http", "https"} or not _HOST.fullmatch(host) or port == 0:
        raise ValueError(f"{shown} is not an address such as http://127.0.0.1:4646")
    if parts.username is not None or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError(f"{shown} must end after the port and hold no user: http(s)://host:port")
    return f"{parts.scheme}://{host}" + (f":{port}" if port else "")


def checked_namespace(name: str) -> str:
    if not re.fullmatch(r"[a-zA-Z0-9-]{1,128}", name):
        raise ValueError(f"{quoted(name)} is not the name of one namespace (letters, digits and hyphens)")
    return name


def checked_region(name: str) -> str:
    if not re.fullmatch(r"[\w.-]{1,128}", name):
        raise ValueError(f"{quoted(name)} is not the name of a region")
    return name


def checked_token(token: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[!-~]{1,4096}", token.get_secret_value()):
        raise ValueError("not a token, which is one word without special characters")
    return token


def read_token_file(path: Path) -> SecretStr:
    """The token in a file. Raises ValueError where there is none."""
    content = read_kept_file(path, _MAX_TOKEN_BYTES)
    return checked_token(SecretStr(content.decode("ascii", "replace").strip()))


def checked_listen(listen: str) -> str:
    """Where to listen, as `host:port`; port 0 is any that is free."""
    host, _, port = listen.rpartition(":")
    if not _HOST.fullmatch(host) or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535:
        raise ValueError(f"{quoted(listen)} is not host:port, such as 127.0.0.1:8646")
    return listen


def checked_url(url: str) -> str:
    """An `http(s)://` URL with a path; what may carry a password is never quoted."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ValueError("not a URL such as https://host/path") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or not url.isascii():
        raise ValueError("not a URL such as https://host/path")
    if parts.username is not None or parts.fragment:
        raise ValueError("must hold no user and no fragment: https://host/path")
    return url


def read_kept_file(path: Path, max_bytes: int) -> bytes:
    """The first bytes of a file that is read again and again. Raises ValueError where it cannot be."""
    if path.is_fifo():
        # Nobody may ever write to it, and whoever opens it waits for that.
        raise ValueError("is a pipe, and must be a file that can be read again")
    return read_start(path, max_bytes)


def read_start(path: Path, max_bytes: int) -> bytes:
    """The first bytes of a file. Raises ValueError with the reason where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(max_bytes)
    except OSError as error:
        raise ValueError(os_reason(error)) from None
