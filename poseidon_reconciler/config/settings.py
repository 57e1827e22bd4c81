"""The settings as the program uses them: checked, complete, and with the token where nothing prints it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, ValidationInfo, field_validator

from poseidon_reconciler.policy import PacePolicy, Policy, PoolPolicy, PositiveDuration, Section, quoted

_MAX_TOKEN_BYTES = 4097  # one more than a token may have
_HOST = re.compile(r"\[[0-9a-f:.%\w]{2,64}\]|[\w.-]{1,253}")


class ConfigError(ValueError):
    """The configuration is wrong; `problems` has one line for each mistake, in the order of the file."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(self.problems)


def _checked_address(address: str) -> str:
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


def _checked_namespace(name: str) -> str:
    if not re.fullmatch(r"[a-zA-Z0-9-]{1,128}", name):
        raise ValueError(f"{quoted(name)} is not the name of one namespace (letters, digits and hyphens)")
    return name


def _checked_region(name: str) -> str:
    if not re.fullmatch(r"[\w.-]{1,128}", name):
        raise ValueError(f"{quoted(name)} is not the name of a region")
    return name


def _checked_token(token: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[!-~]{1,4096}", token.get_secret_value()):
        raise ValueError("not a token, which is one word without special characters")
    return token


def read_token_file(path: Path) -> SecretStr:
    content = read_start(path, _MAX_TOKEN_BYTES)
    return _checked_token(SecretStr(content.decode("ascii", "replace").strip()))


class NomadSettings(Section):
    """Where Nomad is and who we are to it.

    Attributes:
        address: `http(s)://host[:port]` of a server or client agent.
        namespace: the one namespace to look after.
        resync_interval_s: how often everything is listed again although the stream is healthy.
        region: None is the agent's own.
        token_file: read again at each reconnect; None where the token came from the environment.
        ca_file: trusted certificates; None trusts those of the system.
        cert_file: our certificate, for mutual TLS.
        key_file: its private key.
        token: the ACL token as it was when the settings were loaded.
    """

    address: Annotated[str, AfterValidator(_checked_address)] = "http://127.0.0.1:4646"
    namespace: Annotated[str, AfterValidator(_checked_namespace)] = "default"
    resync_interval_s: PositiveDuration = 300.0
    region: Annotated[str, AfterValidator(_checked_region)] | None = None
    token_file: Path | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    token: Annotated[SecretStr, AfterValidator(_checked_token)] | None = None

    def read_token(self) -> SecretStr | None:
        """The token as of now: that in `token_file` where one is set, otherwise that of the environment.

        Raises:
            ConfigError: the file cannot be read or holds no token.
        """
        if self.token_file is None:
            return self.token
        try:
            return read_token_file(self.token_file)
        except ValueError as error:
            raise ConfigError([f"nomad.token_file: {quoted(self.token_file)}: {error}"]) from None


class Settings(Section):
    """The whole configuration, checked and complete.

    Attributes:
        nomad: the connection.
        pool: the policy of every environment that has none of its own.
        pace: the limits of the whole cluster.
        environments: complete policies by environment id: `pool`, overridden by what the entry sets.
        state_dir: where the last known templates are kept over a restart; None keeps them in memory.
    """

    nomad: NomadSettings = NomadSettings()
    pool: PoolPolicy = PoolPolicy()
    pace: PacePolicy = PacePolicy()
    environments: dict[str, PoolPolicy] = Field(default_factory=dict)
    state_dir: Path | None = None

    @field_validator("environments")
    @classmethod
    def _complete(cls, environments: dict[str, PoolPolicy], info: ValidationInfo) -> dict[str, PoolPolicy]:
        pool: PoolPolicy = info.data.get("pool", PoolPolicy())  # absent when it is wrong itself
        return {
            environment_id: pool.model_copy(update=own.model_dump(exclude_unset=True))
            for environment_id, own in environments.items()
        }

    def policy(self) -> Policy:
        """The part of the settings that the core decides by."""
        return Policy(
            namespace=self.nomad.namespace,
            pool=self.pool,
            pace=self.pace,
            environments=dict(self.environments),
        )


def read_start(path: Path, max_bytes: int) -> bytes:
    """The first bytes of a file. Raises ValueError with the reason where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(max_bytes)
    except OSError as error:
        raise ValueError((error.strerror or str(error)).lower()) from None
