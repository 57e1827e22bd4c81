"""A Dockerfile read into its stages, as far as ours goes: what it says is performed elsewhere, never written twice."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction, its continuation lines joined."""

    word: str
    rest: str

    def words(self) -> list[str]:
        """Its arguments: those of the exec form, or split as a shell does; options that begin with -- left out."""
        if self.rest.startswith("["):
            return [str(word) for word in json.loads(self.rest)]
        return [word for word in shlex.split(self.rest) if not word.startswith("--")]

    def option(self, name: str) -> str | None:
        found = re.search(rf"--{name}=(\S+)", self.rest)
        return found[1] if found else None


@dataclass(slots=True)
class Stage:
    """A stage from its FROM to the next."""

    image: str
    name: str
    steps: list[Instruction] = field(default_factory=list)

    def last(self, word: str) -> Instruction:
        """The instruction that counts where one overrules those before it."""
        return next(step for step in reversed(self.steps) if step.word == word)

    def environment(self, inherited: dict[str, str]) -> dict[str, str]:
        """The variables after its ENV instructions."""
        pairs = [word.partition("=") for step in self.steps if step.word == "ENV" for word in step.words()]
        return inherited | {name: value for name, _, value in pairs}


def read_dockerfile(path: Path = ROOT / "Dockerfile") -> list[Stage]:
    """Its stages in order."""
    lines = [line for line in path.read_text().splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    stages: list[Stage] = []
    for line in joined.splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            image, _, name = rest.partition(" AS ")
            stages.append(Stage(image, name))
        else:
            stages[-1].steps.append(Instruction(word, rest.strip()))
    return stages
