"""What `check` finds, one thing at a time: shown as soon as it is known, and at the end as one verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from poseidon_reconciler.core.printable import printable

Result = Literal["ok", "warn", "FAIL"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        result: `FAIL` where `run` could not do its work, for the cluster or for an environment of it.
        advice: what to do about it; None where there is nothing to do.
    """

    name: str
    result: Result
    detail: str
    advice: str | None = None


def ok(name: str, detail: str) -> Check:
    return Check(name, "ok", detail)


def warn(name: str, detail: str, advice: str) -> Check:
    return Check(name, "warn", detail, advice)


def fail(name: str, detail: str, advice: str) -> Check:
    return Check(name, "FAIL", detail, advice)


class Report:
    """All checks so far; `tell` is called with each."""

    def __init__(self, tell: Callable[[Check], None] = lambda _: None) -> None:
        self.checks: list[Check] = []
        self._tell = tell

    def add(self, *checks: Check) -> bool:
        """Takes in checks; returns whether none of them failed."""
        for check in checks:
            self.checks.append(check)
            self._tell(check)
        return not any(check.result == "FAIL" for check in checks)

    @property
    def ok(self) -> bool:
        return all(check.result != "FAIL" for check in self.checks)

    def document(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {"ok": self.ok, "checks": [asdict(check) for check in self.checks]}

    def summary(self) -> str:
        """How many of each result, in one line."""
        results = [check.result for check in self.checks]
        counts = ", ".join(f"{results.count(result)} {result}" for result in ("ok", "warn", "FAIL"))
        return f"{len(results)} things looked at: {counts}"


def line_of(check: Check) -> str:
    """A check as one line. Servers' and people's texts in it cannot steer a terminal."""
    advice = f" → {check.advice}" if check.advice else ""
    return printable(f"{check.result:<4}  {check.name}: {check.detail}{advice}")
