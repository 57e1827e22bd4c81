"""The layers put on top of each other, and one validation of the whole that says all that is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import SecretStr, ValidationError
from pydantic_core import ErrorDetails

from poseidon_reconciler.config.checks import read_kept_file, read_token_file
from poseidon_reconciler.config.given import CERT_FILE, KEY_FILE, TOKEN, TOKEN_FILE, Given, KeyPath, Layer, Origin
from poseidon_reconciler.config.settings import ConfigError, Settings
from poseidon_reconciler.config.variables import PREFIX, read_nomad_variables, read_own_variables, variable_for
from poseidon_reconciler.config.yaml_file import read_file
from poseidon_reconciler.policy import quoted


def load(path: Path | None, environ: Mapping[str, str], *, read_files: bool = True) -> Settings:
    """The settings: defaults, overridden by the file, then by Nomad's variables, then by `RECONCILER_…`.

    A value that a higher layer replaces is not looked at. An empty variable is one that is not set.

    Args:
        path: the YAML file; None is no file.
        environ: the environment's variables.
        read_files: whether the token is read, and certificates must be there. A replay needs neither.

    Raises:
        ConfigError: with everything that is wrong.
    """
    fatal: tuple[str, ...] = ()
    layers = [Layer(), read_nomad_variables(environ), read_own_variables(environ)]
    try:
        layers[0] = read_file(path) if path else Layer()
    except ConfigError as error:
        fatal = error.problems
    given: dict[KeyPath, Given] = {}
    for layer in layers:
        if TOKEN in layer.given or TOKEN_FILE in layer.given:  # both say who we are: the higher layer decides
            given.pop(TOKEN, None)
            given.pop(TOKEN_FILE, None)
        given |= layer.given
    settings, invalid = _validated(given)
    problems = [problem for layer in layers for problem in layer.problems] + invalid
    if not fatal:  # what seems to be missing may stand in the file that could not be read
        problems += _conflicts(given)
    token = None
    if read_files:
        token, unreadable = _read_named_files(given)
        problems += unreadable
    if fatal or problems or settings is None:
        raise ConfigError([*fatal, *_in_order(problems)])
    if token is None:
        return settings
    return settings.model_copy(update={"nomad": settings.nomad.model_copy(update={"token": token})})


def _in_order(problems: Iterable[tuple[Origin, str]]) -> Iterator[str]:
    told = set()
    for origin, what in sorted(problems, key=lambda problem: problem[0].rank):
        if (origin.rank, what) not in told:  # through aliases and merges one value stands for several keys
            told.add((origin.rank, what))
            yield f"{origin.label}: {what}"


def _validated(given: Mapping[KeyPath, Given]) -> tuple[Settings | None, list[tuple[Origin, str]]]:
    tree: dict[str, Any] = {}
    for path, value in given.items():
        section = tree
        for key in path[:-1]:
            section = section.setdefault(key, {})
        section[path[-1]] = value.text
    try:
        return Settings.model_validate(tree), []
    except ValidationError as error:
        details = [(tuple(map(str, detail["loc"])), detail) for detail in error.errors()]
        return None, [(_origin_of(path, given), _what_is_wrong(detail)) for path, detail in details]


def _origin_of(path: KeyPath, given: Mapping[KeyPath, Given]) -> Origin:
    """Where a value was given; for one that is missing, where the first of its section was."""
    section = path[:-1]
    return given[path].origin if path in given else next(given[key].origin for key in given if key[:-1] == section)


_WRONG = {
    "int_parsing": "{value} is not a whole number",
    "int_parsing_size": "{value} is too large a number",
    "float_parsing": "{value} is not a number",
    "finite_number": "{value} is not a finite number",
    "bool_parsing": "{value} is neither true nor false",
    "literal_error": "{value} is not one of {expected}",
    "greater_than": "{value} must be more than {gt:g}",
    "greater_than_equal": "{value} must be at least {ge:g}",
    "less_than_equal": "{value} must be at most {le:g}",
}


def _what_is_wrong(detail: ErrorDetails) -> str:
    if detail["type"] == "missing":
        return f"needs {detail['loc'][-1]} beside it"
    if detail["input"] is None:
        return "has no value"
    context = detail.get("ctx", {})
    if detail["type"] == "value_error":
        return str(context["error"])
    if detail["type"] not in _WRONG:
        return detail["msg"]
    return _WRONG[detail["type"]].format(value=quoted(detail["input"]), **context)


def _conflicts(given: Mapping[KeyPath, Given]) -> Iterator[tuple[Origin, str]]:
    if _is_set(given, TOKEN) and _is_set(given, TOKEN_FILE):
        yield given[TOKEN].origin, f"set together with {PREFIX}{variable_for(TOKEN_FILE)}: only one can be meant"
    for path, other in ((CERT_FILE, KEY_FILE), (KEY_FILE, CERT_FILE)):
        if _is_set(given, path) and not _is_set(given, other):
            yield given[path].origin, f"needs {other[-1]} beside it"


def _is_set(given: Mapping[KeyPath, Given], path: KeyPath) -> bool:
    return path in given and given[path].text is not None


def _read_named_files(given: Mapping[KeyPath, Given]) -> tuple[SecretStr | None, list[tuple[Origin, str]]]:
    """The token of the token file, and what is wrong with the files that the settings name."""
    token = None
    problems = []
    for path, (text, origin) in given.items():
        if text is None or not path[-1].endswith("_file"):
            continue
        try:
            if path == TOKEN_FILE:
                token = read_token_file(Path(text))
            elif path[-1] in ("token_file", "secret_file"):
                read_token_file(Path(text))
            else:
                read_kept_file(Path(text), 1)
        except ValueError as error:
            problems.append((origin, f"{quoted(text)}: {error}"))
    return token, problems
