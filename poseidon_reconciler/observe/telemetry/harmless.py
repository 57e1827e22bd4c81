"""A mistake of ours in here must not end what is looked at: it is told once in a while, and the work goes on."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Final, ParamSpec

P = ParamSpec("P")

# Under the SDK's own name, so that it is told as the SDK's troubles are.
_LOGGER: Final = logging.getLogger("opentelemetry.poseidon_reconciler")


def harmless(method: Callable[P, None]) -> Callable[P, None]:
    """A method that has nothing to return, and raises nothing."""

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - whatever it is, the reconciler does not depend on it
            complain(error)

    return call


def complain(error: Exception) -> None:
    """Says that something of ours went wrong."""
    _LOGGER.error("telemetry: %s: %s", type(error).__name__, error)
