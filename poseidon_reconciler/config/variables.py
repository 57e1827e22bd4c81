"""Settings from environment variables: Nomad's own, and ours."""

from __future__ import annotations

from collections.abc import Mapping

from poseidon_reconciler.config.given import (
    CERT_FILE,
    KEY_FILE,
    KEYS,
    NAMED,
    TOKEN,
    KeyPath,
    Layer,
    did_you_mean,
    in_variable,
    keys_of,
    wrong_key,
)

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


def variable_for(path: KeyPath) -> str:
    return "__".join(path).upper()


def read_nomad_variables(environ: Mapping[str, str]) -> Layer:
    layer = Layer()
    for name, path in NOMAD_VARIABLES.items():
        if environ.get(name, "").strip():  # Nomad's own tools, too, take an empty one as not set
            layer.put(path, environ[name], in_variable(name))
    return layer


def read_own_variables(environ: Mapping[str, str]) -> Layer:
    layer = Layer()
    for name in filter(lambda name: name.startswith(PREFIX), environ):
        origin = in_variable(name)
        path = tuple(name.removeprefix(PREFIX).lower().split("__"))
        if wrong := _wrongvariable_for(name.removeprefix(PREFIX), path):
            layer.problems.append((origin, wrong))
        elif environ[name].strip():
            layer.put(path, environ[name], origin)
    return layer


def _wrongvariable_for(name: str, path: KeyPath) -> str | None:
    member = path[:2] if path[0] in NAMED and len(path) == 3 else ()
    if member and (wrong := wrong_key(member)):
        return wrong
    sections = [section for section in KEYS if section] + ([member] if member else [])
    known = [variable_for((*section, key)) for section in sections for key in keys_of(section)]
    known.append(variable_for(("state_dir",)))
    return None if name in known else "unknown variable" + did_you_mean(name, known, PREFIX)
