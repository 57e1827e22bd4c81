"""What was asked for is not asked for again, until it is known not to have come about."""

from __future__ import annotations

from poseidon_reconciler.core.ledger import Ledger


def ledger_of(*job_ids: str, environment_id: str = "10") -> Ledger:
    ledger = Ledger()
    for job_id in job_ids:
        ledger.expect(job_id, environment_id)
    return ledger


def test_what_was_asked_for_is_expected_in_its_environment() -> None:
    ledger = ledger_of("10-a", "10-b")
    ledger.expect("11-c", "11")

    assert (ledger.expected_in("10"), ledger.expected_in("11"), ledger.expected_in("1")) == (2, 1, 0)
    assert ledger.expected_total == 3
    assert ledger.is_expected("10-a")
    assert not ledger.is_expected("10-c")


def test_what_was_seen_is_expected_no_more_and_only_once() -> None:
    ledger = ledger_of("10-a", "10-b")

    for _ in range(2):
        ledger.settle("10-a")
    ledger.settle("10-never-asked-for")

    assert (ledger.expected_in("10"), ledger.expected_total) == (1, 1)
    assert not ledger.is_expected("10-a")


def test_a_list_that_is_not_older_than_the_registration_and_lacks_it_ends_it() -> None:
    ledger = ledger_of("10-a", "10-b", "10-c", "10-unanswered")
    ledger.confirm("10-a", 100)
    ledger.confirm("10-b", 101)
    ledger.confirm("10-c", 90)
    ledger.confirm("10-never-asked-for", 1)

    assert ledger.lapse(100, {"10-c"}) == ["10"]

    assert not ledger.is_expected("10-a")
    assert [each for each in ("10-b", "10-c", "10-unanswered") if ledger.is_expected(each)] == [
        "10-b", "10-c", "10-unanswered",
    ]  # fmt: skip
    assert ledger.expected_in("10") == 3


def test_an_action_is_done_once_for_each_version_of_a_job() -> None:
    ledger = Ledger()
    ledger.do_once("protect-job", "10-a", 5)

    assert ledger.is_done("protect-job", "10-a", 5)
    assert not ledger.is_done("protect-job", "10-a", 6)
    assert not ledger.is_done("protect-job", "10-b", 5)
    assert not ledger.is_done("remove-job", "10-a", 5)

    ledger.do_once("protect-job", "10-a", 6)
    assert not ledger.is_done("protect-job", "10-a", 5)


def test_what_did_not_come_about_may_be_done_again_and_nothing_else() -> None:
    ledger = Ledger()
    ledger.do_once("protect-job", "10-a", 5)
    ledger.do_once("remove-job", "10-a", 5)

    ledger.undo("protect-job", "10-a")
    ledger.undo("protect-job", "10-unknown")

    assert not ledger.is_done("protect-job", "10-a", 5)
    assert ledger.is_done("remove-job", "10-a", 5)


def test_what_is_forgotten_was_never_done() -> None:
    ledger = Ledger()
    ledger.do_once("remove-job", "10-a", 5)

    ledger.forget("10-a")
    ledger.forget("10-unknown")

    assert not ledger.is_done("remove-job", "10-a", 5)
