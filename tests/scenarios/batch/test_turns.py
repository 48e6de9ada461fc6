"""Turns: a job that needs more than the whole share of its queue starts beside an endless backlog of other queues."""

from __future__ import annotations

import pytest

from pyscheduler.core.pod_groups.utc_minutes import utc_minute
from tests.scenarios.batch.cluster import Cluster, with_queue_args
from tests.scenarios.batch.manifests import VOLCANO, Gang, Manifest, annotated, gang, node, pod, queue

WAIT = 60
"""Seconds after which a queue may borrow."""
RUNS = 20
CREATED = 10
"""Time at which the job is created."""
A, B = queue("a"), queue("b")


class BusyCluster(Cluster):
    """Cluster of 6 cpus of which queue b deserves 3, with an endless backlog of pods that run 20 s, and a job of a."""

    def __init__(self, large: Gang, a: Manifest, b: Manifest, *, runs: int = 1000, declared: bool = True) -> None:
        super().__init__(node("n1", 6), a, b, config=with_queue_args(borrowAfterSeconds=WAIT))
        self._declared = declared
        self._count = 0
        self._fill()
        self.advance(CREATED)
        self.submit(large, runs=runs)

    def running_of_b(self) -> int:
        """Return the number of pods of queue b that run."""
        keys = (f"default/b{i}" for i in range(self._count))
        return sum(key in self.bindings and self.phase(key) != "Succeeded" for key in keys)

    def pass_until(self, time: float) -> None:
        """Advance to a time after the creation of the job, with a backlog all along."""
        while self.time < CREATED + time:
            self._fill()
            self.advance_to(min(self.time + 5, CREATED + time))

    def _fill(self) -> None:
        pending = self._count - sum(key.startswith("default/b") for key in self.bindings)
        for _ in range(16 - pending):
            small = pod(f"b{self._count}", runs=RUNS if self._declared else 0)
            self.apply_all(gang(f"b{self._count}", 1, [small], api=VOLCANO, queue="b"), runs=RUNS - self._count % 7)
            self._count += 1
        self.run()


def job(minimum: int, size: int = 0) -> Gang:
    return gang("large", minimum, [pod(f"large{i}") for i in range(size or minimum)], api=VOLCANO, queue="a")


@pytest.mark.parametrize("declared", [True, False], ids=["run times declared", "no run times"])
@pytest.mark.parametrize("a", [A, queue("a", capability={"cpu": 4})], ids=["no quota", "quota"])
def test_job_above_the_share_of_its_queue_starts_beside_an_endless_backlog(a: Manifest, declared: bool) -> None:
    cluster = BusyCluster(large := job(4), a, B, runs=60, declared=declared)
    cluster.pass_until(WAIT - 2)
    assert (cluster.members(large), cluster.running_of_b()) == (0, 6)
    cluster.pass_until(WAIT + RUNS)
    assert (cluster.members(large), cluster.running_of_b()) == (4, 2)
    cluster.pass_until(WAIT + RUNS + 70)
    assert cluster.running_of_b() == 6
    assert cluster.evictions == []


def test_job_is_reclaimed_once_its_queue_has_used_what_it_left_unused() -> None:
    """It is 3 cpus, once its share, above the share, so it runs at least as long as it has waited: half of the time."""
    cluster = BusyCluster(large := job(6), A, B)
    cluster.pass_until(WAIT + RUNS)
    assert (cluster.members(large), cluster.running_of_b()) == (6, 0)
    started = cluster.started["default/large0"] - CREATED
    cluster.pass_until(started + WAIT - 1)
    assert cluster.evictions == []
    assert "pods of a group in its turn are not evicted" in cluster.message(f"b{cluster._count - 1}")
    cluster.pass_until(started + WAIT + 10)
    assert len(cluster.evictions) == 6
    assert cluster.running_of_b() == 6
    cluster.pass_until(started + 2 * WAIT)
    assert cluster.running_of_b() == 6
    cluster.pass_until(started + 2 * WAIT + RUNS + 10)
    assert cluster.members(large) == 6, "its next turn"


def test_pods_above_the_minimum_get_no_turn() -> None:
    cluster = BusyCluster(large := job(4, 6), A, B)
    cluster.pass_until(WAIT + RUNS)
    assert (cluster.members(large), cluster.running_of_b()) == (4, 2)


def test_turn_leaves_other_queues_their_guarantees() -> None:
    cluster = BusyCluster(large := job(4), A, queue("b", guarantee={"cpu": 2}))
    for time in range(5, WAIT + 2 * RUNS, 5):
        cluster.pass_until(time)
        assert cluster.running_of_b() >= 2
    assert cluster.members(large) == 4


def test_message_has_the_time_at_which_the_turn_begins() -> None:
    cluster = BusyCluster(job(4), A, B)
    cluster.pass_until(5)
    begin = utc_minute(cluster.epoch + CREATED + WAIT + cluster.machine.context.settings.epoch)
    assert f"above the share of its queue, begins at {begin} at the earliest." in cluster.message("large0")


def test_message_names_the_guarantees_that_exclude_a_job() -> None:
    cluster = BusyCluster(large := job(5), A, queue("b", guarantee={"cpu": 2}))
    cluster.pass_until(WAIT + 2 * RUNS)
    assert (cluster.members(large), cluster.running_of_b()) == (0, 6)
    text = "other queues have guarantees to all but 4 cpu, fewer than the 5 cpu requested"
    assert text in cluster.message("large0")


def test_queue_that_never_borrows_beyond_the_claims_of_others() -> None:
    cluster = BusyCluster(large := job(4), annotated(A, borrow_after_seconds="never"), B)
    cluster.pass_until(WAIT + 2 * RUNS)
    assert (cluster.members(large), cluster.running_of_b()) == (0, 6)
