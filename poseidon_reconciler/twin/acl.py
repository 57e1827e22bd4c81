"""Who may do what: tokens and their capabilities, as far as a client of jobs and nodes meets them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

MANAGEMENT = "management"
READ_JOB = "read-job"
SUBMIT_JOB = "submit-job"
LIFECYCLE = "alloc-lifecycle"
READ_NODE = "node:read"
WRITE_NODE = "node:write"
READ_AGENT = "agent:read"


class Acl:
    """Tokens and what each may do. A request without a token has the capabilities of `anonymous`.

    `on_change` is called after each change, so that whoever reads by a token is looked at again.
    """

    def __init__(self, tokens: Mapping[str, Iterable[str]], anonymous: Iterable[str] = ()) -> None:
        self._tokens = {secret: frozenset(capabilities) for secret, capabilities in tokens.items()}
        self._anonymous = frozenset(anonymous)
        self.on_change: Callable[[], None] = lambda: None

    def set(self, secret: str, capabilities: Iterable[str]) -> None:
        """Adds a token, or changes what it may do."""
        self._tokens[secret] = frozenset(capabilities)
        self.on_change()

    def revoke(self, secret: str) -> None:
        """Takes a token away."""
        self._tokens.pop(secret, None)
        self.on_change()

    def may(self, secret: str, capability: str) -> bool:
        """Whether a token allows something; one that is not known allows nothing."""
        held = self._tokens.get(secret, frozenset()) if secret else self._anonymous
        return not capability or capability in held or MANAGEMENT in held
