"""The settings of a command, or one error that says all that is wrong with them."""

from __future__ import annotations

import os
from pathlib import Path

from poseidon_reconciler.app.errors import UsageError
from poseidon_reconciler.config import ConfigError, Settings, load
from poseidon_reconciler.policy import parse_duration


def load_settings(path: Path | None, *, read_files: bool) -> Settings:
    """Reads the configuration file and the environment; `read_files`: whether the files that it names must be there.

    Raises:
        UsageError: something in them is wrong.
    """
    try:
        return load(path, os.environ, read_files=read_files)
    except ConfigError as error:
        raise UsageError(str(error)) from None


def local_url(path: Path | None) -> str:
    """Where the reconciler of these settings can be asked on this machine, as an URL.

    Raises:
        UsageError: the settings are wrong, or nobody can be asked by them.
    """
    http = load_settings(path, read_files=False).http
    if http.local_url is None:
        raise UsageError(f"http.listen is {http.listen}: nothing can be asked there; give --url")
    return http.local_url


def duration_option(name: str, text: str) -> float:
    """A duration that was given as an option, in seconds.

    Raises:
        UsageError: it is none.
    """
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None
