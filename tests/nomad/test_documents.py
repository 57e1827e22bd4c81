"""What we register is what was read, but for the keys of ours in the group `config`."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from poseidon_reconciler.nomad.documents import (
    Document,
    DocumentError,
    Stamp,
    mark_of,
    protected,
    restored,
    revived,
    runner_from_template,
    with_stop_after,
)
from tests.nomad.jobs import OTHER, RUNNER, TEMPLATE, config_meta, document, runner, template

STAMP = Stamp("d7", "4bf92f3577b34da6a3ce929d0e0e4736")
SET_BY_SERVER = {
    "Status": "running",
    "StatusDescription": "",
    "Version": 3,
    "CreateIndex": 10,
    "ModifyIndex": 20,
    "JobModifyIndex": 15,
    "SubmitTime": 1796061984000000000,
    "Stable": False,
    "Dispatched": False,
    "DispatchIdempotencyToken": "",
    "NomadTokenID": "t",
    "VersionTag": None,
    "Stop": False,
}


def differences(before: Any, after: Any, path: str = "") -> dict[str, tuple[Any, Any]]:
    """Where two documents differ, by path."""
    if isinstance(before, dict) and isinstance(after, dict):
        pairs = [(key, before.get(key, "absent"), after.get(key, "absent")) for key in {*before, *after}]
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = [(str(n), a, b) for n, (a, b) in enumerate(zip(before, after, strict=True))]
    else:
        return {} if before == after else {path: (before, after)}
    return {at: pair for key, a, b in pairs for at, pair in differences(a, b, f"{path}/{key}").items()}


def test_a_runner_is_a_copy_of_its_template() -> None:
    source = {**template(), **SET_BY_SERVER}
    untouched = copy.deepcopy(source)

    made = runner_from_template(source, RUNNER, STAMP, replaces=OTHER)

    assert source == untouched
    assert differences(template(), made) == {
        "/ID": (TEMPLATE, RUNNER),
        "/Name": (TEMPLATE, RUNNER),
        "/TaskGroups/0/Tasks/0/Config/force_pull": (True, False),
        "/TaskGroups/1/Meta/prewarmingPoolSize": ("5", "absent"),
        "/TaskGroups/1/Meta/poseidon-reconciler.created-by": ("absent", "poseidon-reconciler"),
        "/TaskGroups/1/Meta/poseidon-reconciler.decision": ("absent", "d7"),
        "/TaskGroups/1/Meta/poseidon-reconciler.replaces": ("absent", OTHER),
        "/TaskGroups/1/Meta/poseidon-reconciler.trace-id": ("absent", STAMP.trace_id),
    }


def test_a_refill_replaces_nothing() -> None:
    meta = config_meta(runner_from_template(template(), RUNNER, Stamp("d7")))

    assert meta == {
        "used": "false",
        "poseidon-reconciler.created-by": "poseidon-reconciler",
        "poseidon-reconciler.decision": "d7",
    }


def test_a_runner_never_inherits_the_marks_of_a_used_template() -> None:
    source = document(TEMPLATE, {"used": "true", "timeout": "60", "prewarmingPoolSize": "5"})

    assert config_meta(runner_from_template(source, RUNNER, STAMP))["used"] == "false"
    assert "timeout" not in config_meta(runner_from_template(source, RUNNER, STAMP))


def test_protection_changes_one_key_and_nothing_else() -> None:
    source = {**runner(used="true"), **SET_BY_SERVER}

    assert differences(source, protected(source, STAMP)) == {
        "/TaskGroups/1/Meta/poseidon-reconciler.protected": ("absent", "d7 of version 3"),
    }


def test_protecting_again_in_the_same_decision_is_a_change_all_the_same() -> None:
    first = protected({**runner(), "Version": 3}, STAMP)

    second = protected({**first, "Version": 4}, STAMP)

    assert config_meta(first) != config_meta(second)


@pytest.mark.parametrize("meta", [None, {}])
def test_a_group_without_meta_gets_one(meta: dict[str, str] | None) -> None:
    assert config_meta(protected(document(RUNNER, meta), STAMP)) == {"poseidon-reconciler.protected": "d7 of version 0"}


def test_a_revived_job_is_changed_and_not_stopped() -> None:
    source = {**template(), **SET_BY_SERVER, "Stop": True}

    assert differences(source, revived(source, STAMP)) == {
        "/Stop": (True, False),
        "/TaskGroups/1/Meta/poseidon-reconciler.revived": ("absent", "d7 of version 3"),
    }


def test_a_restored_environment_keeps_its_pool_size() -> None:
    made = restored({**protected(template(7), Stamp("d1")), **SET_BY_SERVER}, STAMP)

    assert config_meta(made) == {
        "used": "false",
        "prewarmingPoolSize": "7",
        "poseidon-reconciler.created-by": "poseidon-reconciler",
        "poseidon-reconciler.decision": "d7",
        "poseidon-reconciler.trace-id": STAMP.trace_id,
    }
    assert not set(SET_BY_SERVER) & set(made)


@pytest.mark.parametrize("build", [protected, revived, restored, lambda d, s: runner_from_template(d, RUNNER, s)])
@pytest.mark.parametrize("groups", [None, [], [{"Name": "default-group"}]])
def test_a_job_without_a_config_group_is_an_error(build: Any, groups: list[Document] | None) -> None:
    with pytest.raises(DocumentError, match="'template-10' has no group 'config'"):
        build({**template(), "TaskGroups": groups}, STAMP)


@pytest.mark.parametrize(
    ("group", "changed"),
    [
        ({}, {"StopAfterClientDisconnect": 60_000_000_000}),
        ({"Disconnect": None}, {"Disconnect": {"StopOnClientAfter": 60_000_000_000}}),
        (
            {"Disconnect": {"Replace": True, "LostAfter": 0, "StopOnClientAfter": None}},
            {"Disconnect": {"Replace": True, "LostAfter": 0, "StopOnClientAfter": 60_000_000_000}},
        ),
        ({"StopAfterClientDisconnect": 5}, {}),
        ({"Disconnect": {"StopOnClientAfter": 5}}, {}),
        ({"Disconnect": {"LostAfter": 5}}, {}),
        ({"MaxClientDisconnect": 5}, {}),
    ],
)
def test_stop_after_is_stamped_in_the_servers_spelling_where_it_is_missing(
    group: dict[str, Any], changed: dict[str, Any]
) -> None:
    source = template(**group)
    untouched = copy.deepcopy(source)

    made = with_stop_after(source, 60.0)

    assert source == untouched
    assert made["TaskGroups"][0] == {**source["TaskGroups"][0], **changed}
    assert made["TaskGroups"][1] == source["TaskGroups"][1]


def test_only_keys_of_ours_are_our_mark() -> None:
    assert mark_of(runner()) == {}
    assert mark_of({**runner(), "TaskGroups": None}) == {}
    assert mark_of(protected(runner(), STAMP)) == {"poseidon-reconciler.protected": "d7 of version 0"}
