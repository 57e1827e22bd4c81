"""The settings as the program uses them: checked, complete, and with the token where nothing prints it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr, ValidationInfo, field_validator

from poseidon_reconciler.config.checks import (
    checked_address,
    checked_namespace,
    checked_region,
    checked_token,
    read_token_file,
)
from poseidon_reconciler.config.observing import (
    FlightRecorderSettings,
    HttpSettings,
    LogSettings,
    PoseidonSettings,
    TelemetrySettings,
    WebhookSettings,
)
from poseidon_reconciler.policy import PacePolicy, Policy, PoolPolicy, PositiveDuration, Section, quoted


class ConfigError(ValueError):
    """The configuration is wrong; `problems` has one line for each mistake, in the order of the file."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(self.problems)


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

    address: Annotated[str, AfterValidator(checked_address)] = "http://127.0.0.1:4646"
    namespace: Annotated[str, AfterValidator(checked_namespace)] = "default"
    resync_interval_s: PositiveDuration = 300.0
    region: Annotated[str, AfterValidator(checked_region)] | None = None
    token_file: Path | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    token: Annotated[SecretStr, AfterValidator(checked_token)] | None = None

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
        http, telemetry, poseidon, webhooks, log, flight_recorder: see each; `webhooks` by a name of one's choice.
        state_dir: where the last known templates, pauses and recordings of anomalies are kept; None keeps them in
            memory, or not at all.
    """

    nomad: NomadSettings = NomadSettings()
    pool: PoolPolicy = PoolPolicy()
    pace: PacePolicy = PacePolicy()
    environments: dict[str, PoolPolicy] = Field(default_factory=dict)
    http: HttpSettings = HttpSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    poseidon: PoseidonSettings = PoseidonSettings()
    webhooks: dict[str, WebhookSettings] = Field(default_factory=dict)
    log: LogSettings = LogSettings()
    flight_recorder: FlightRecorderSettings = FlightRecorderSettings()
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
