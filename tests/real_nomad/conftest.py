"""A lab for each test, or a visible reason why there is none."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.real_nomad.lab import Lab, find_nomad


@pytest.fixture
def lab() -> Iterator[Lab]:
    """A running server with three ready agents; everything it started is gone afterwards."""
    if sys.platform != "linux":
        pytest.skip("finds the processes to clean up in Linux's /proc")
    nomad = find_nomad()
    if nomad is None:
        pytest.skip("no nomad binary: neither NOMAD_BIN nor PATH names one")
    with Lab(nomad) as running:
        yield running
