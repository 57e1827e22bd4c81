"""Tokens and what they allow."""

from __future__ import annotations

from poseidon_reconciler.twin.acl import MANAGEMENT, READ_JOB, READ_NODE, Acl


def test_a_token_allows_what_it_holds_and_management_allows_all() -> None:
    acl = Acl({"jobs": [READ_JOB], "root": [MANAGEMENT]}, anonymous=[READ_NODE])
    assert acl.may("jobs", READ_JOB)
    assert not acl.may("jobs", READ_NODE)
    assert acl.may("root", READ_NODE)
    assert acl.may("", READ_NODE)
    assert not acl.may("", READ_JOB)
    assert acl.may("", "")


def test_tokens_come_and_go() -> None:
    acl, changes = Acl({}), []
    acl.on_change = lambda: changes.append(acl.may("new", READ_JOB))
    acl.set("new", [READ_JOB])
    assert acl.may("new", READ_JOB)
    acl.revoke("new")
    acl.revoke("new")
    assert not acl.may("new", READ_JOB)
    assert changes == [True, False, False]
