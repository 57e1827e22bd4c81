"""Whether it is a Nomad that answers, in which version, with a leader, and whether it takes our token."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec

from poseidon_reconciler.app.check.report import Check, fail, ok, warn
from poseidon_reconciler.app.check.version import look_at_version
from poseidon_reconciler.core.events import parse_time
from poseidon_reconciler.nomad.outcomes import Answer, Denied, Failure, Ok, Outcome, Rejected
from poseidon_reconciler.nomad.probe import Probe, decoded
from poseidon_reconciler.policy import Policy

_DAY_S: Final = 24 * 3600.0
_SOON_S: Final = 7 * _DAY_S
# How servers say that ACLs are disabled: in an error, and since about 1.5 as the name of a token that stands for that.
_ACLS_DISABLED: Final = "ACL support disabled"
_NO_ACLS: Final = "acls-disabled"
_NO_LEADER: Final = "No cluster leader"
# What servers say, in their versions, of a token that is not known, not valid any more, or none at all.
_NOT_TAKEN: Final = (
    "ACL token not found",
    "ACL token expired",
    "ACL token is invalid",
    "UUID must be 36 characters",
    "failed to parse signed token",
)
_GET_ONE: Final = "make one (nomad acl token create) and put it in nomad.token_file, or in NOMAD_TOKEN"


class _Build(msgspec.Struct):
    version: str = msgspec.field(name="Version")
    metadata: str = msgspec.field(name="VersionMetadata", default="")
    prerelease: str = msgspec.field(name="VersionPrerelease", default="")


class _Enabled(msgspec.Struct):
    enabled: bool = msgspec.field(name="Enabled", default=False)


class _Config(msgspec.Struct):
    build: _Build = msgspec.field(name="Version")
    server: _Enabled = msgspec.field(name="Server", default_factory=_Enabled)
    acl: _Enabled = msgspec.field(name="ACL", default_factory=_Enabled)
    region: str = msgspec.field(name="Region", default="")


class _AgentSelf(msgspec.Struct):
    config: _Config


class _TokenSelf(msgspec.Struct, rename="pascal"):
    accessor: str = msgspec.field(name="AccessorID", default="")
    name: str = ""
    type: str = ""
    expiration_time: str | None = None


@dataclass(frozen=True, slots=True)
class Server:
    """What answers. `usable`: whether anything more can be asked of it; `version`: None if it does not tell."""

    checks: list[Check]
    usable: bool
    version: str | None = None


async def look_at_server(probe: Probe, token: str | None, policy: Policy, *, now: float, limit_s: float) -> Server:
    """Asks the agent who it is, who leads the servers, and who we are; `policy` tells what its version must be good
    for.
    """
    agent, leader, own = await asyncio.gather(
        probe.read("/v1/agent/self", _AgentSelf, limit_s=limit_s),
        probe.read("/v1/status/leader", str, limit_s=limit_s),
        probe.ask("/v1/acl/token/self", limit_s=limit_s),
    )
    if not isinstance(agent, Ok) and not isinstance(leader, Ok) and _NO_LEADER not in leader.detail:
        return Server([_no_nomad(agent)], usable=False)
    identity, version = _identity(agent)
    taken = _token(own, agent, token, now)
    if taken.result == "FAIL" and version is None:
        identity = ok("Nomad", "it answers")
    checks = [identity, _leader(leader), taken]
    if version is not None:
        policies = {each.disconnect_policy for each in (policy.pool, *policy.environments.values())}
        checks.insert(1, look_at_version(version, policies))
    return Server(checks, all(check.result != "FAIL" for check in checks), version)


def _no_nomad(agent: Failure) -> Check:
    detail = agent.detail
    if "HTTPS" in detail:
        return fail("Nomad", f"TLS is spoken here: {detail}", "use https in nomad.address")
    if isinstance(agent, Rejected) and "redirected" in detail:
        advice = "give the address of Nomad itself in nomad.address: redirects are not followed, the token stays here"
        return fail("Nomad", detail, advice)
    advice = "is it Nomad's HTTP port (4646 unless configured otherwise), and http or https as Nomad is configured?"
    return fail("Nomad", f"this is no Nomad, or it does not answer: {detail}", advice)


def _identity(agent: Outcome[_AgentSelf]) -> tuple[Check, str | None]:
    if isinstance(agent, Ok):
        config = agent.value.config
        build = config.build
        version = build.version
        version += f"-{build.prerelease}" if build.prerelease and "-" not in version else ""
        version += f"+{build.metadata}" if build.metadata and "+" not in version else ""
        region = f", region {config.region}" if config.region else ""
        return ok("Nomad", f"{'a server' if config.server.enabled else 'a client agent'}{region}"), version
    if isinstance(agent, Denied):
        advice = 'add agent { policy = "read" } to the token\'s policy, and look again'
        return warn("Nomad", f"its version is not known: {agent.detail}", advice), None
    return warn("Nomad", f"its version is not known: {agent.detail}", "see that it is 1.0 or later"), None


def _leader(leader: Outcome[str]) -> Check:
    if isinstance(leader, Ok) and leader.value:
        return ok("leader", leader.value)
    detail = "the servers have none" if isinstance(leader, Ok) else leader.detail
    advice = "nothing can be read or written before they have one: see `nomad server members` and the servers' logs"
    return fail("leader", detail, f"{advice}; a region that does not exist (nomad.region) looks like this, too")


def _token(answer: Answer | Failure, agent: Outcome[_AgentSelf], token: str | None, now: float) -> Check:
    said = answer.text if isinstance(answer, Answer) else answer.detail
    own = decoded(answer, _TokenSelf)
    if isinstance(own, Ok):
        off = own.value.accessor == _NO_ACLS
    else:
        off = _ACLS_DISABLED in said or (isinstance(agent, Ok) and not agent.value.config.acl.enabled)
    if off:
        return ok("token", "none is needed: ACLs are disabled")
    if token is None:
        return warn("token", "none is given: only what everybody may do is allowed", _GET_ONE)
    if isinstance(own, Ok):
        return _lasting(own.value, now)
    if isinstance(agent, Denied) and agent.detail.endswith(_NOT_TAKEN):
        return fail("token", f"not accepted: {agent.detail}", _GET_ONE)
    # Every token may be asked for itself, except those that Nomad gives to tasks.
    refused = isinstance(own, Denied) or any(phrase in said for phrase in _NOT_TAKEN)
    if refused and not _is_workload_identity(token):
        return fail("token", f"not accepted: {own.detail}", _GET_ONE)
    return warn("token", f"the server does not tell about it: {own.detail}", "nothing, if what follows is allowed")


def _is_workload_identity(token: str) -> bool:
    """Whether a token is one that Nomad gives to tasks, in three parts."""
    return token.count(".") == 2


def _lasting(token: _TokenSelf, now: float) -> Check:
    who = f"{token.name or 'without a name'}, {token.type or 'of no type'}"
    until = parse_time(token.expiration_time)
    if until is None:
        return ok("token", f"{who}, does not expire")
    at = datetime.fromtimestamp(until, UTC).isoformat(timespec="minutes")
    if until <= now:
        return fail("token", f"{who}, expired at {at}", _GET_ONE)
    if until - now < _SOON_S:
        advice = "put a new one in nomad.token_file in time: it is read again; one of NOMAD_TOKEN needs a restart"
        return warn("token", f"{who}, expires at {at}", advice)
    return ok("token", f"{who}, expires at {at}")
