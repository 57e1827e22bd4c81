"""A seed decides everything, and nothing else does."""

from __future__ import annotations

from random import Random

from poseidon_reconciler.app.simulation.course import VERSIONS, course_of
from poseidon_reconciler.app.simulation.mishaps import MISHAPS
from poseidon_reconciler.app.simulation.wishes import SIZES, reloaded

COURSES = [course_of(seed) for seed in range(300)]


def test_a_seed_always_stands_for_the_same_course() -> None:
    assert [course_of(seed) for seed in range(20)] == COURSES[:20]


def test_seeds_are_different_courses() -> None:
    assert len({course.mishaps for course in COURSES}) == len(COURSES)


def test_mishaps_come_in_order_and_end_before_it_is_calm() -> None:
    for course in COURSES:
        times = [mishap.at for mishap in course.mishaps]
        assert times == sorted(times)
        assert all(mishap.at + mishap.for_s <= course.calm_at + 1e-6 for mishap in course.mishaps)


def test_every_kind_of_mishap_cluster_and_policy_is_drawn() -> None:
    assert {mishap.kind for course in COURSES for mishap in course.mishaps} == set(MISHAPS)
    assert {course.cluster.version for course in COURSES} == set(VERSIONS)
    policies = {pool.disconnect_policy for course in COURSES for pool in course.settings.environments.values()}
    assert policies == {"at-least", "exactly", "leave-alone"}
    pools = [pool for course in COURSES for pool in course.settings.environments.values()]
    assert {pool.surge for pool in pools} == {0, 1, 2}
    assert {pool.surplus for pool in pools} == {"report", "trim"}
    assert {pool.work.volume for course in COURSES for pool in course.pools} == {"", "csi", "host"}
    assert {len(course.places) for course in COURSES} == {1, 2}
    assert {course.agents for course in COURSES} == set(range(1, 7))


def test_every_job_has_room() -> None:
    for course in COURSES:
        jobs = sum(pool.target + 1 for pool in course.pools)
        assert jobs * 20 <= course.agents * course.cpu_mhz


def test_no_ceiling_is_too_low_for_its_pool() -> None:
    for course in COURSES:
        for pool in course.pools:
            wishes = course.settings.environments[str(pool.number)]
            assert wishes.most_jobs(pool.target) > max(pool.target, *SIZES)


def test_somebody_who_changes_his_mind_wants_the_same_of_the_cluster() -> None:
    course = COURSES[0]
    other = reloaded(course.settings, course.pools, Random(1))
    assert other.environments != course.settings.environments
    assert other.environments.keys() == course.settings.environments.keys()
    assert other.nomad == course.settings.nomad
