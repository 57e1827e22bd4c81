"""The description of the API, for programs that want to use it: written by hand once, held to the server by a test."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from poseidon_reconciler import __version__


@cache
def openapi_document() -> dict[str, Any]:
    """The document (OpenAPI 3.1); not to be changed."""
    text = files(__package__).joinpath("openapi.yaml").read_text(encoding="utf-8")
    document: dict[str, Any] = yaml.safe_load(text)
    document["info"]["version"] = __version__
    return document
