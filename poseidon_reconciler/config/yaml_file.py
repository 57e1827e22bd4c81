"""Settings from a YAML file, each with its line, without ever letting YAML construct a value."""

from __future__ import annotations

from pathlib import Path

import yaml
from yaml.composer import ComposerError
from yaml.reader import ReaderError

from poseidon_reconciler.config.checks import read_start
from poseidon_reconciler.config.given import MAX_NAME_CHARS, TOKEN, KeyPath, Layer, Origin, is_value, shown, wrong_key
from poseidon_reconciler.config.settings import ConfigError
from poseidon_reconciler.policy import quoted

_MAX_FILE_BYTES = 1_000_000
_MAX_DEPTH = 32
_MAX_NODES = 20_000

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
        if self.depth > _MAX_DEPTH or self.nodes > _MAX_NODES:
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
        self.layer = Layer()
        self.visited = 0

    def walk(self, node: yaml.Node, path: KeyPath = ()) -> None:
        for key, (key_node, value) in self.pairs(node, path).items():
            below = (*path, key)
            origin = self.origin(key_node, below)
            if below == TOKEN:
                self.blame(key_node, below, "a token does not belong in this file: use token_file or NOMAD_TOKEN")
            elif wrong := wrong_key(below):
                self.blame(key_node, below, wrong)
            elif not is_value(below):
                if below[0] == "webhooks" and len(below) == 2 and _is_empty(value):
                    self.blame(key_node, below, "needs a url")
                elif not _is_null(value):
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
        if self.visited > _MAX_NODES or merges > _MAX_DEPTH:  # a few lines of aliases can stand for billions of values
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
        key = ".".join(map(shown, path))
        return Origin((mark.line, mark.column, ""), f"{place}: {key}" if key else place)

    def blame(self, node: yaml.Node, path: KeyPath, what: str) -> None:
        self.layer.problems.append((self.origin(node, path), what))


_KINDS = {yaml.ScalarNode: "single value", yaml.SequenceNode: "list", yaml.MappingNode: "mapping"}


def _is_null(node: yaml.Node) -> bool:
    return node.tag == _YAML_TAG + "null"


def _is_empty(node: yaml.Node) -> bool:
    return _is_null(node) or (isinstance(node, yaml.MappingNode) and not node.value)


def read_file(path: Path) -> Layer:
    name = shown(str(path))
    try:
        content = read_start(path, _MAX_FILE_BYTES + 1)
        if len(content) > _MAX_FILE_BYTES:
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
