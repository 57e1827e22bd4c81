"""One file, some environment variables, and every mistake in them named at once with its place.

An operator should need one attempt to correct a configuration. So values are carried as text together with
the place that gave them, the layers are put on top of each other, and one validation of the whole says all
that is wrong. YAML never constructs a value: `10` in a file and `10` in a variable mean the same.
"""

from __future__ import annotations

from poseidon_reconciler.config.loading import load
from poseidon_reconciler.config.settings import ConfigError, NomadSettings, Settings

__all__ = ["ConfigError", "NomadSettings", "Settings", "load"]
