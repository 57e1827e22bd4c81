"""A promise that was not kept."""

from __future__ import annotations


class BrokenError(Exception):
    """A promise is broken; `number` is that of the contract."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.number = number
