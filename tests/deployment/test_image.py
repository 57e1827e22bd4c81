"""The image: what its Dockerfile says, and that what it says works where there is no engine to build it."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from poseidon_reconciler import __version__
from poseidon_reconciler.config import load
from tests.app.test_twin_command import serving
from tests.deployment.dockerfile import ROOT, read_dockerfile
from tests.deployment.fresh_root import bootstrap, build, compilers_and_caches, is_sent, read_only
from tests.deployment.processes import TIMEOUT_S, started

STAGES = read_dockerfile()
BUILD, IMAGE = STAGES
# The status page's server answers `health`; until it is there, nobody does.
HAS_SERVER = importlib.util.find_spec("poseidon_reconciler.observe.web") is not None


def free_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


# --- what the Dockerfile says -----------------------------------------------------------------------------------------


def test_everything_that_is_installed_has_its_hash_or_is_our_own() -> None:
    installs = [
        part.split()
        for step in BUILD.steps
        if step.word == "RUN"
        for part in step.rest.split("&&")
        if " install" in part
    ]
    assert len(installs) == 3
    for words in installs:
        assert "--require-hashes" in words or ("--no-deps" in words and words[-1].endswith(".whl"))
    assert not [step for step in IMAGE.steps if step.word == "RUN" and "pip" in step.rest]


def test_both_stages_stand_on_one_python_and_the_last_has_only_what_runs() -> None:
    assert BUILD.image == IMAGE.image
    assert BUILD.name == "build"
    copies = [step for step in IMAGE.steps if step.word == "COPY"]
    assert [(step.option("from"), *step.words()) for step in copies] == [
        ("build", "/opt/poseidon-reconciler", "/opt/poseidon-reconciler")
    ]


def test_it_runs_as_a_user_by_number_who_owns_the_volume() -> None:
    user, group = IMAGE.last("USER").rest.split(":")
    assert user.isdecimal()
    assert int(user) > 0
    volume = IMAGE.last("VOLUME").rest
    (made,) = [step.rest for step in IMAGE.steps if step.word == "RUN"]
    assert f"-o {user} -g {group} {volume}" in made
    # A volume takes over what is in the image before it is declared, and only that.
    words = [step.word for step in IMAGE.steps]
    assert words.index("RUN") < words.index("VOLUME")


def test_it_starts_stops_and_is_looked_after_by_our_own_commands() -> None:
    assert (IMAGE.last("ENTRYPOINT").words(), IMAGE.last("CMD").words()) == (["poseidon-reconciler"], ["run"])
    assert IMAGE.last("STOPSIGNAL").rest == "SIGTERM"
    options, _, command = IMAGE.last("HEALTHCHECK").rest.partition(" CMD ")
    assert command == '["poseidon-reconciler", "health"]'
    assert "--timeout=5s" in options


def test_its_variables_are_settings() -> None:
    variables = IMAGE.environment({})
    settings = load(None, {name: value for name, value in variables.items() if name.startswith("RECONCILER_")})
    assert str(settings.state_dir) == IMAGE.last("VOLUME").rest
    # Whoever starts it decides who else may look.
    assert settings.http.listen.startswith("127.0.0.1:")


def test_what_it_copies_is_sent_to_the_build_and_nothing_else() -> None:
    copied = {word for step in BUILD.steps if step.word == "COPY" for word in step.words()[:-1]}
    assert {path.name for path in ROOT.iterdir() if is_sent(path.name)} - {".git"} == copied


def test_the_lock_of_the_build_is_part_of_that_of_development() -> None:
    """So that what builds the image is what builds the package here."""
    pins = [
        {line.split()[0] for line in (ROOT / name).read_text().splitlines() if "==" in line}
        for name in ("requirements-build.txt", "requirements-dev.txt")
    ]
    assert pins[0] <= pins[1]


@pytest.mark.parametrize(
    ("engine", "said"),
    [(None, "neither docker nor podman is on the PATH"), ("exit 1", "is there, but does not answer")],
)
def test_make_image_says_what_is_missing(engine: str | None, said: str, tmp_path: Path) -> None:
    make, shell = shutil.which("make"), shutil.which("sh")
    if make is None or shell is None:
        pytest.skip("no make here")
    (tmp_path / "sh").symlink_to(shell)
    if engine is not None:
        (tmp_path / "docker").write_text(f"#!{shell}\n{engine}\n")
        (tmp_path / "docker").chmod(0o755)
    run = subprocess.run(
        [make, "-C", ROOT, "image", f"SHELL={shell}", "PYTHON=none", "READY="],
        env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode != 0
    assert said in run.stderr


# --- the package ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, built as the Dockerfile builds it, from nothing but what it copies."""
    directory = tmp_path_factory.mktemp("wheel")
    (directory / "src").mkdir()
    for source in {word for step in BUILD.steps if step.word == "COPY" for word in step.words()[:-1]}:
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, directory / "src" / source)
        else:
            shutil.copy(ROOT / source, directory / "src")
    (command,) = [step.rest for step in BUILD.steps if "pip wheel" in step.rest]
    words = command.split("&&")[0].split()[1:]
    words[words.index("--wheel-dir") + 1] = str(directory)
    pip = [sys.executable, "-m", "pip"]
    subprocess.run([*pip, *words], cwd=directory / "src", check=True, capture_output=True)
    (built,) = directory.glob("*.whl")
    return built


def test_the_wheel_has_the_package_with_its_data_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {
        "poseidon_reconciler", f"poseidon_reconciler-{__version__}.dist-info"
    }  # fmt: skip
    ours = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "poseidon_reconciler").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert ours <= set(names)


def test_the_wheel_runs_where_only_its_dependencies_are(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    python = home / "bin" / "python"
    # The dependencies are those of the locks that are installed here; the package itself comes before them.
    site = Path(sysconfig.get_path("purelib", vars={"base": str(home)}))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    subprocess.run([*pip, "install", "-q", "--no-deps", "--no-index", wheel], check=True, capture_output=True)
    command = home / "bin" / "poseidon-reconciler"
    where = subprocess.run(
        [python, "-P", "-c", "import poseidon_reconciler; print(poseidon_reconciler.__file__)"],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert where.stdout.startswith(str(site))

    listen = free_address()
    with serving("--port", "0") as (_, address, _):
        variables = {"NOMAD_ADDR": address, "RECONCILER_HTTP__LISTEN": listen, "PATH": str(home / "bin")}
        with started([command, "run"], variables, tmp_path / "log") as running:
            running.until_ready()
            if HAS_SERVER:
                subprocess.run([command, "health"], env=variables, check=True)
            running.child.terminate()
            assert running.child.wait(TIMEOUT_S) == 0


# --- the whole of it --------------------------------------------------------------------------------------------------


@pytest.mark.fresh_root
def test_the_dockerfiles_steps_make_an_image_that_runs_as_its_user_on_a_read_only_root(tmp_path: Path) -> None:
    if not os.environ.get("FRESH_ROOT"):
        pytest.skip("takes minutes and the network: set FRESH_ROOT, as .ci/run does")
    assert os.geteuid() == 0, "chroot and mounts need root"
    assert shutil.which("debootstrap"), "debootstrap is not installed"
    base = tmp_path / "base"
    bootstrap(IMAGE.image, base)
    root = build(STAGES, base, tmp_path)
    assert compilers_and_caches(root) == []

    volume, user = IMAGE.last("VOLUME").rest, IMAGE.last("USER").rest
    state = tmp_path / "volume"
    subprocess.run(["cp", "-a", root / volume[1:], state], check=True)  # as an engine fills a new volume
    listen = free_address()
    _, _, health = IMAGE.last("HEALTHCHECK").rest.partition(" CMD ")
    with serving("--port", "0") as (_, address, _):
        variables = IMAGE.environment({}) | {"NOMAD_ADDR": address, "RECONCILER_HTTP__LISTEN": listen}
        command = IMAGE.last("ENTRYPOINT").words() + IMAGE.last("CMD").words()
        inside = read_only(root, state, volume, user, command)
        with started(inside, variables, tmp_path / "log") as running:
            running.until_ready()
            assert [path.name for path in state.iterdir()] == ["templates.json"]
            assert str(state.stat().st_uid) == str((state / "templates.json").stat().st_uid) == user.partition(":")[0]
            checked = subprocess.run(
                read_only(root, state, volume, user, ["/bin/sh", "-c", f"touch /here; {_shell(health)}"]),
                env=variables, capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert "Read-only file system" in checked.stderr
            assert checked.returncode == (0 if HAS_SERVER else 1), checked.stderr
            running.child.terminate()
            assert running.child.wait(TIMEOUT_S) == 0, running.log.read_text()


def _shell(exec_form: str) -> str:
    return shlex.join(json.loads(exec_form))
