"""One file, some environment variables, and every mistake in them named at once with its place.

An operator should need one attempt to correct a configuration. So values are carried as text together with
the place that gave them, the layers are put on top of each other, and one validation of the whole says all
that is wrong. YAML never constructs a value: `10` in a file and `10` in a variable mean the same.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

import yaml
from pydantic import AfterValidator, Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_core import ErrorDetails
from yaml.composer import ComposerError
from yaml.reader import ReaderError

from poseidon_reconciler.policy import (
    MAX_QUOTED_CHARS,
    PacePolicy,
    Policy,
    PoolPolicy,
    PositiveDuration,
    Section,
    quoted,
)

MAX_FILE_BYTES = 1_000_000
MAX_DEPTH = 32
MAX_NODES = 20_000
MAX_TOKEN_BYTES = 4097  # one more than a token may have
MAX_NAME_CHARS = 250

KeyPath = tuple[str, ...]
TOKEN, TOKEN_FILE = ("nomad", "token"), ("nomad", "token_file")
CERT_FILE, KEY_FILE = ("nomad", "cert_file"), ("nomad", "key_file")
FILES = (TOKEN_FILE, ("nomad", "ca_file"), CERT_FILE, KEY_FILE)

_HOST = re.compile(r"\[[0-9a-f:.%\w]{2,64}\]|[\w.-]{1,253}")
PREFIX = "RECONCILER_"
NOMAD_VARIABLES: dict[str, KeyPath] = {
    "NOMAD_ADDR": ("nomad", "address"),
    "NOMAD_TOKEN": TOKEN,
    "NOMAD_NAMESPACE": ("nomad", "namespace"),
    "NOMAD_REGION": ("nomad", "region"),
    "NOMAD_CACERT": ("nomad", "ca_file"),
    "NOMAD_CLIENT_CERT": CERT_FILE,
    "NOMAD_CLIENT_KEY": KEY_FILE,
}


class ConfigError(Exception):
    """The configuration is wrong; `problems` has one line for each mistake, in the order of the file."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(self.problems)


# --- the settings ---


def _checked_address(address: str) -> str:
    """The address as `http(s)://host[:port]`; what may carry a password is never quoted."""
    shown = "the address" if re.search(r"[@?#]", address) else quoted(address)
    if address.lower().startswith("unix:"):
        raise ValueError(f"{shown} is a Unix socket, which is not supported: give http://host:port")
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        raise ValueError(f"{shown} is not an address such as http://127.0.0.1:4646") from None
    host = f"[{parts.hostname}]" if "[" in parts.netloc else parts.hostname or ""
    if parts.scheme not in {"http", "https"} or not _HOST.fullmatch(host) or port == 0:
        raise ValueError(f"{shown} is not an address such as http://127.0.0.1:4646")
    if parts.username is not None or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError(f"{shown} must end after the port and hold no user: http(s)://host:port")
    return f"{parts.scheme}://{host}" + (f":{port}" if port else "")


def _checked_namespace(name: str) -> str:
    if not re.fullmatch(r"[a-zA-Z0-9-]{1,128}", name):
        raise ValueError(f"{quoted(name)} is not the name of one namespace (letters, digits and hyphens)")
    return name


def _checked_region(name: str) -> str:
    if not re.fullmatch(r"[\w.-]{1,128}", name):
        raise ValueError(f"{quoted(name)} is not the name of a region")
    return name


def _checked_token(token: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[!-~]{1,4096}", token.get_secret_value()):
        raise ValueError("not a token, which is one word without special characters")
    return token


def _read_token_file(path: Path) -> SecretStr:
    content = _read_start(path, MAX_TOKEN_BYTES)
    return _checked_token(SecretStr(content.decode("ascii", "replace").strip()))


class NomadSettings(Section):
    """Where Nomad is and who we are to it.

    Attributes:
        address: `http(s)://host[:port]` of a server or client agent.
        namespace: the one namespace to look after.
        resync_interval_s: how often everything is listed again although the stream is healthy.
        region: None is the agent's own.
        token_file: read again at each reconnect; None where the token came from the environment.
        ca_file: trusted certificates; None trusts those of the system.
        cert_file: our certificate, for mutual TLS.
        key_file: its private key.
        token: the ACL token as it was when the settings were loaded.
    """

    address: Annotated[str, AfterValidator(_checked_address)] = "http://127.0.0.1:4646"
    namespace: Annotated[str, AfterValidator(_checked_namespace)] = "default"
    resync_interval_s: PositiveDuration = 300.0
    region: Annotated[str, AfterValidator(_checked_region)] | None = None
    token_file: Path | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    token: Annotated[SecretStr, AfterValidator(_checked_token)] | None = None

    def read_token(self) -> SecretStr | None:
        """The token as of now: that in `token_file` where one is set, otherwise that of the environment.

        Raises:
            ConfigError: the file cannot be read or holds no token.
        """
        if self.token_file is None:
            return self.token
        try:
            return _read_token_file(self.token_file)
        except ValueError as error:
            raise ConfigError([f"nomad.token_file: {quoted(self.token_file)}: {error}"]) from None


class Settings(Section):
    """The whole configuration, checked and complete.

    Attributes:
        nomad: the connection.
        pool: the policy of every environment that has none of its own.
        pace: the limits of the whole cluster.
        environments: complete policies by environment id: `pool`, overridden by what the entry sets.
        state_dir: where the last known templates are kept over a restart; None keeps them in memory.
    """

    nomad: NomadSettings = NomadSettings()
    pool: PoolPolicy = PoolPolicy()
    pace: PacePolicy = PacePolicy()
    environments: dict[str, PoolPolicy] = Field(default_factory=dict)
    state_dir: Path | None = None

    @field_validator("environments")
    @classmethod
    def _complete(cls, environments: dict[str, PoolPolicy], info: ValidationInfo) -> dict[str, PoolPolicy]:
        pool: PoolPolicy = info.data.get("pool", PoolPolicy())  # absent when it is wrong itself
        return {
            environment_id: pool.model_copy(update=own.model_dump(exclude_unset=True))
            for environment_id, own in environments.items()
        }

    def policy(self) -> Policy:
        """The part of the settings that the core decides by."""
        return Policy(
            namespace=self.nomad.namespace,
            pool=self.pool,
            pace=self.pace,
            environments=dict(self.environments),
        )


# --- what was given, and where ---


class Origin(NamedTuple):
    """The place that gave a value, and its rank among all: down the file, then the variables by name."""

    rank: tuple[float, int, str]
    label: str


def _in_variable(name: str) -> Origin:
    return Origin((math.inf, 0, name), _shown(name))


class Given(NamedTuple):
    """A value as text, None if it was left empty."""

    text: str | None
    origin: Origin


class _Layer:
    """What one source of settings gives, and what is wrong with it."""

    def __init__(self) -> None:
        self.given: dict[KeyPath, Given] = {}
        self.problems: list[tuple[Origin, str]] = []

    def put(self, path: KeyPath, text: str | None, origin: Origin) -> None:
        text = (text or "").strip()
        if not text.isprintable():
            self.problems.append((origin, "has a line break or another character that cannot be printed"))
        else:
            self.given[path] = Given(text or None, origin)


def _aliases(section: type[Section]) -> list[str]:
    return [field.alias or name for name, field in section.model_fields.items()]


_KEYS: dict[KeyPath, list[str]] = {
    (): _aliases(Settings),
    ("nomad",): _aliases(NomadSettings),
    ("pool",): _aliases(PoolPolicy),
    ("pace",): _aliases(PacePolicy),
}


def _keys_of(section: KeyPath) -> list[str]:
    is_environment = len(section) == 2 and section[0] == "environments"
    return _KEYS[("pool",) if is_environment else section]


def _is_value(path: KeyPath) -> bool:
    """Whether a known path holds a value; otherwise it is a section."""
    return path == ("state_dir",) or len(path) == (3 if path[0] == "environments" else 2)


def _wrong_key(path: KeyPath) -> str | None:
    """What is wrong with the last key of `path`, whose section is known."""
    section, key = path[:-1], path[-1]
    if section == ("environments",):
        is_id = re.fullmatch(r"0|[1-9][0-9]{0,18}", key)
        return None if is_id else f"{quoted(key)} is not an environment's id, a decimal number such as 10"
    known = [other for other in _keys_of(section) if (*section, other) != TOKEN]
    return None if key in known else "unknown key" + _did_you_mean(key, known)


def _did_you_mean(word: str, known: Iterable[str], prefix: str = "") -> str:
    close = difflib.get_close_matches(word[:MAX_QUOTED_CHARS], known, n=1)
    return f" (did you mean {prefix}{close[0]}?)" if close else ""


# --- environment variables ---


def _variable(path: KeyPath) -> str:
    return "__".join(path).upper()


def _read_nomad_variables(environ: Mapping[str, str]) -> _Layer:
    layer = _Layer()
    for name, path in NOMAD_VARIABLES.items():
        if environ.get(name, "").strip():  # Nomad's own tools, too, take an empty one as not set
            layer.put(path, environ[name], _in_variable(name))
    return layer


def _read_own_variables(environ: Mapping[str, str]) -> _Layer:
    layer = _Layer()
    for name in filter(lambda name: name.startswith(PREFIX), environ):
        origin = _in_variable(name)
        path = tuple(name.removeprefix(PREFIX).lower().split("__"))
        if wrong := _wrong_variable(name.removeprefix(PREFIX), path):
            layer.problems.append((origin, wrong))
        elif environ[name].strip():
            layer.put(path, environ[name], origin)
    return layer


def _wrong_variable(name: str, path: KeyPath) -> str | None:
    environment_id = path[1:2] if path[0] == "environments" and len(path) == 3 else ()
    if environment_id and (wrong := _wrong_key(path[:2])):
        return wrong
    environment = ("environments", *environment_id)
    sections = [section for section in _KEYS if section] + ([environment] if environment_id else [])
    known = [_variable((*section, key)) for section in sections for key in _keys_of(section)]
    known.append(_variable(("state_dir",)))
    return None if name in known else "unknown variable" + _did_you_mean(name, known, PREFIX)


# --- the file ---


_YAML_TAG = "tag:yaml.org,2002:"
_TAGS = {f"!!{kind}" for kind in ("str", "int", "float", "bool", "null", "map", "seq", "merge", "timestamp", "value")}


class _Composer(yaml.SafeLoader):
    """Reads YAML into nodes with their lines, within bounds that no configuration reaches."""

    depth = 0
    nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self.depth += 1
        self.nodes += 1
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        if self.depth > MAX_DEPTH or self.nodes > MAX_NODES:
            raise ComposerError(None, None, "nested too deeply or too many values", mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        tag = node.tag.replace(_YAML_TAG, "!!") if node else "!!null"
        if tag not in _TAGS:
            raise ComposerError(None, None, f"the tag {quoted(tag)} is not allowed", mark)
        return node


def _compose(text: str, name: str) -> yaml.Node | None:
    composer = None
    try:
        composer = _Composer(text)
        return composer.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = ", ".join(filter(None, (error.context, error.problem)))
    except ReaderError as error:
        before = text[: error.position]
        raise ConfigError(
            [f"{name}:{before.count(chr(10)) + 1}: U+{ord(text[error.position]):04X} is not allowed in YAML"]
        ) from None
    except (ValueError, OverflowError):  # an escape or a directive with a number beyond all bounds
        mark = composer.get_mark() if composer else None
        what = "a number is too large"
    place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
    raise ConfigError([f"{place}: {' '.join(what.split())[:MAX_NAME_CHARS]}"])


class _File:
    """Walks the sections that may stand in a file; what else is there is a problem, not looked into."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.layer = _Layer()
        self.visited = 0

    def walk(self, node: yaml.Node, path: KeyPath = ()) -> None:
        for key, (key_node, value) in self.pairs(node, path).items():
            below = (*path, key)
            origin = self.origin(key_node, below)
            if below == TOKEN:
                self.blame(key_node, below, "a token does not belong in this file: use token_file or NOMAD_TOKEN")
            elif wrong := _wrong_key(below):
                self.blame(key_node, below, wrong)
            elif not _is_value(below):
                if not _is_null(value):
                    self.walk(value, below)
            elif not isinstance(value, yaml.ScalarNode):
                self.blame(value, below, f"must be a single value, not a {_KINDS[type(value)]}")
            else:
                self.layer.put(below, None if _is_null(value) else value.value, origin)

    def pairs(self, node: yaml.Node, path: KeyPath, merges: int = 0) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """A mapping's keys with what they stand for; its own keys win over those it merges."""
        if not isinstance(node, yaml.MappingNode):
            self.blame(node, path, f"must be a mapping of keys to values, not a {_KINDS[type(node)]}")
            return {}
        self.visited += 1 + len(node.value)
        if self.visited > MAX_NODES or merges > MAX_DEPTH:  # a few lines of aliases can stand for billions of values
            raise ConfigError([f"{self.name}: too large when its aliases and merges are followed"])
        own: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        merged: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key_node, value in node.value:
            if key_node.tag == _YAML_TAG + "merge":
                for source in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    merged = self.pairs(source, path, merges + 1) | merged
            elif not isinstance(key_node, yaml.ScalarNode):
                self.blame(key_node, path, f"a key must be a single word, not a {_KINDS[type(key_node)]}")
            elif first := own.get(key_node.value):
                line = first[0].start_mark.line + 1
                self.blame(key_node, (*path, key_node.value), f"set twice, first on line {line}")
            else:
                own[key_node.value] = (key_node, value)
        return merged | own

    def origin(self, node: yaml.Node, path: KeyPath) -> Origin:
        mark = node.start_mark
        place = f"{self.name}:{mark.line + 1}"
        key = ".".join(map(_shown, path))
        return Origin((mark.line, mark.column, ""), f"{place}: {key}" if key else place)

    def blame(self, node: yaml.Node, path: KeyPath, what: str) -> None:
        self.layer.problems.append((self.origin(node, path), what))


_KINDS = {yaml.ScalarNode: "single value", yaml.SequenceNode: "list", yaml.MappingNode: "mapping"}


def _is_null(node: yaml.Node) -> bool:
    return node.tag == _YAML_TAG + "null"


def _read_file(path: Path) -> _Layer:
    name = _shown(str(path))
    try:
        content = _read_start(path, MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise ValueError("is larger than 1 MB")
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError([f"{name}:{line}: is not UTF-8 text"]) from None
    except ValueError as error:
        raise ConfigError([f"{name}: {error}"]) from None
    file = _File(name)
    root = _compose(text, name)
    if root is not None and not _is_null(root):
        file.walk(root)
    return file.layer


def _read_start(path: Path, max_bytes: int) -> bytes:
    """The first bytes of a file. Raises ValueError with the reason where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(max_bytes)
    except OSError as error:
        raise ValueError((error.strerror or str(error)).lower()) from None


def _shown(name: str) -> str:
    """A key, a variable or a file as a part of one line, whatever it has in it."""
    return name if name and name.isprintable() and len(name) <= MAX_NAME_CHARS else quoted(name)


# --- together ---


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
    layers = [_Layer(), _read_nomad_variables(environ), _read_own_variables(environ)]
    try:
        layers[0] = _read_file(path) if path else _Layer()
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
        return None, [(given[path].origin, _what_is_wrong(detail)) for path, detail in details]


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
        yield given[TOKEN].origin, f"set together with {PREFIX}{_variable(TOKEN_FILE)}: only one can be meant"
    for path, other in ((CERT_FILE, KEY_FILE), (KEY_FILE, CERT_FILE)):
        if _is_set(given, path) and not _is_set(given, other):
            yield given[path].origin, f"needs {other[-1]} beside it"


def _is_set(given: Mapping[KeyPath, Given], path: KeyPath) -> bool:
    return path in given and given[path].text is not None


def _read_named_files(given: Mapping[KeyPath, Given]) -> tuple[SecretStr | None, list[tuple[Origin, str]]]:
    """The token of the token file, and what is wrong with the files that the settings name."""
    token = None
    problems = []
    for path in FILES:
        text, origin = given.get(path, (None, None))
        if text is None or origin is None:
            continue
        try:
            if path == TOKEN_FILE:
                token = _read_token_file(Path(text))
            else:
                _read_start(Path(text), 1)
        except ValueError as error:
            problems.append((origin, f"{quoted(text)}: {error}"))
    return token, problems
