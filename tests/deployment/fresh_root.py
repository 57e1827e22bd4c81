"""The Dockerfile's steps performed in directories that hold a whole Debian, by chroot.

A container engine does more; what is shown here is that the steps work as they are written, on the Debian and the
Python that the base image names, and that what comes out runs as its user on a file system that is read-only.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.deployment.dockerfile import ROOT, Instruction, Stage

_BASE_IMAGE: Final = re.compile(r"python:(?P<python>3\.\d+)-slim-(?P<debian>\w+)")
_PATH: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
# Where this machine's pip and TLS find what they need; a build by an engine gets these from its own host.
_OF_THE_HOST: Final = ("PIP_", "SSL_", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "no_proxy", "NO_PROXY")
_HOST_FILES: Final = ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
_DOES_NOTHING: Final = frozenset(
    {"LABEL", "ENV", "VOLUME", "USER", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
)


def bootstrap(image: str, root: Path) -> None:
    """Makes what the base image is: a minimal Debian with its Python."""
    base = _BASE_IMAGE.fullmatch(image)
    assert base is not None, image
    packages = "--include=python3,python3-venv,ca-certificates"
    command = ["debootstrap", "--variant=minbase", packages, base["debian"], str(root)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.fail(f"debootstrap made no {base['debian']} here: {_last_line(made)}", pytrace=False)
    version = _in(root, _PATH, "/", ["python3", "--version"]).stdout
    assert version.startswith(f"Python {base['python']}."), f"{image} is not {version}"
    for name in filter(os.path.exists, _HOST_FILES):
        (root / name[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(name, root / name[1:])


def build(stages: list[Stage], base: Path, directory: Path) -> Path:
    """Performs all stages, each in a copy of `base`; returns the root of the last one."""
    roots: dict[str, Path] = {}
    root = base
    for number, stage in enumerate(stages):
        root = directory / f"stage-{number}"
        subprocess.run(["cp", "-a", "--reflink=auto", base, root], check=True)
        roots[stage.name] = root
        _perform(stage, root, roots)
    return root


def _perform(stage: Stage, root: Path, roots: Mapping[str, Path]) -> None:
    host = {name: value for name, value in os.environ.items() if name.startswith(_OF_THE_HOST)}
    # Of this machine, and nothing that a build anywhere else would find there.
    host.pop("PIP_FIND_LINKS", None)
    variables = stage.environment({**_PATH, **host})
    directory = "/"
    for step in stage.steps:
        if step.word == "WORKDIR":
            directory = step.rest
            (root / directory[1:]).mkdir(parents=True, exist_ok=True)
        elif step.word == "COPY":
            _copy(step, root, directory, roots)
        elif step.word == "RUN":
            _in(root, variables, directory, ["/bin/sh", "-c", step.rest])
        else:
            assert step.word in _DOES_NOTHING, f"{step.word} is not known here"


def _copy(step: Instruction, root: Path, directory: str, roots: Mapping[str, Path]) -> None:
    stage = step.option("from")
    *sources, target = step.words()
    into = root / os.path.join(directory, target).lstrip("/")  # noqa: PTH118 - an absolute target stands alone
    for source in sources:
        found = roots[stage] / source.lstrip("/") if stage is not None else ROOT / source
        assert stage is not None or is_sent(source), f"{source} is kept from the build by .dockerignore"
        if found.is_dir():
            shutil.copytree(
                found, into, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            into.mkdir(parents=True, exist_ok=True)
            shutil.copy(found, into)


def is_sent(source: str) -> bool:
    """Whether .dockerignore lets a file or directory of ours through; its last line that matches decides."""
    sent = True
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.removeprefix("!")
        if line and not line.startswith("#") and fnmatch.fnmatch(source, pattern):
            sent = line.startswith("!")
    return sent


def _in(
    root: Path, variables: Mapping[str, str], directory: str, command: list[str]
) -> subprocess.CompletedProcess[str]:
    # By its path: the variables are those of the image, which have no /usr/sbin.
    entered = [_command("chroot"), str(root), "/usr/bin/env", "-C", directory, *command]
    run = subprocess.run(entered, env=dict(variables), capture_output=True, text=True, check=False)
    if run.returncode != 0:
        said = f"{run.stdout}{run.stderr}"
        pytest.fail(f"failed in the new Debian: {_last_line(run)}\n{shlex.join(command)}\n{said}", pytrace=False)
    return run


def _last_line(run: subprocess.CompletedProcess[str]) -> str:
    lines = f"{run.stdout}{run.stderr}".splitlines()
    return lines[-1] if lines else f"exit status {run.returncode}, and not a word"


def read_only(root: Path, writable: Path, mounted_at: str, user: str, command: list[str]) -> list[str]:
    """The command that runs another one in a root as it is in a container: read-only but for a volume, as its user."""
    mount = (
        'mount --bind "$1" "$1" && mount --bind "$2" "$1$3" && mount -o remount,ro,bind "$1"'
        ' && root=$1 && user=$4 && chroot=$5 && shift 5 && exec "$chroot" --userspec="$user" "$root" "$@"'
    )
    given = [str(root), str(writable), mounted_at, user, _command("chroot")]
    return [_command("unshare"), "--mount", "/bin/sh", "-c", mount, "sh", *given, *command]


def _command(name: str) -> str:
    """Where a command of this machine is."""
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    assert found is not None, f"{name} is not installed"
    return found


def compilers_and_caches(root: Path) -> list[str]:
    """What an image that is only to run has no use for."""
    found = [name for name in ("gcc", "cc", "g++", "make", "ld") for _ in glob.glob(f"{root}/usr/bin/{name}")]  # noqa: PTH207
    return found + glob.glob(f"{root}/root/.cache/*")  # noqa: PTH207 - one way for both
