"""Large groups that are placed in steps, with events between them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from pyscheduler.core.commands import Bind
from pyscheduler.core.invariants import validate
from pyscheduler.core.pod_groups import steps
from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import ANNOTATIONS, NATIVE, Manifest, gang, node, pod, slots

SIZE = 5 * steps.MEMBERS_PER_STEP


def of_sizes(*sizes: int | str, name: str = "g") -> list[Manifest]:
    return [pod(f"{name}{i}", cpu) for i, cpu in enumerate(sizes)]


def begin(cluster: Cluster, calls: int = 2) -> None:
    """Make this many steps of the first attempt."""
    for _ in range(calls):
        assert cluster.machine.cycle(cluster.now) == []
        assert cluster.machine.is_attempt_paused
        validate(cluster.machine.context)


def half_placed(count: int = SIZE, minimum: int = SIZE) -> Cluster:
    """Return a cluster with a group of 80 pods that differ, of which 32 are assumed."""
    cluster = Cluster(*slots(count))
    cluster.apply_all(gang("g", minimum, of_sizes(*(f"{900 + i}m" for i in range(SIZE)))))
    begin(cluster)
    assert len(cluster.machine.context.assumed) == 2 * steps.MEMBERS_PER_STEP
    return cluster


def test_group_is_placed_in_steps_and_bound_at_their_end() -> None:
    cluster = half_placed()
    calls = 2
    while cluster.machine.is_attempt_paused:
        commands = cluster.machine.cycle(cluster.now) or []
        calls += 1
        assert bool(commands) != cluster.machine.is_attempt_paused
    assert (calls, sum(isinstance(command, Bind) for command in commands)) == (5, SIZE)


def test_other_pod_waits_until_the_placement_of_a_group_has_ended() -> None:
    cluster = half_placed()
    cluster.apply_all(pod("other", priority=100))
    assert not cluster.machine.context.assumed
    cluster.run()
    assert "default/other" in cluster.bindings
    assert cluster.members("g") == 0


def test_member_that_is_deleted_between_two_steps_is_not_bound() -> None:
    cluster = half_placed(minimum=SIZE - 1)
    cluster.delete("Pod", "g79")
    assert not cluster.machine.context.assumed
    cluster.run()
    assert sorted(cluster.bindings) == sorted(f"default/g{i}" for i in range(SIZE - 1))


def test_group_that_lacks_a_member_after_a_deletion_between_two_steps_holds_no_nodes() -> None:
    cluster = half_placed()
    cluster.delete("Pod", "g0")
    cluster.run()
    assert (cluster.members("g"), [*cluster.machine.context.assumed]) == (0, [])
    cluster.submit(pod("single"))
    assert "default/single" in cluster.bindings


def test_group_is_placed_on_other_nodes_if_one_is_deleted_between_two_steps() -> None:
    cluster = half_placed(SIZE + 1)
    taken = next(iter(cluster.machine.context.assumed.values())).node_name
    cluster.delete("Node", taken)
    cluster.run()
    assert cluster.members("g") == SIZE
    assert taken not in cluster.bindings.values()


def test_group_is_forgotten_if_its_profile_is_removed_between_two_steps() -> None:
    cluster = half_placed()
    cluster.reconfigure(
        "{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, "
        "profiles: [{schedulerName: another}]}"
    )
    cluster.run()
    assert (cluster.members("g"), [*cluster.machine.context.assumed]) == (0, [])
    assert cluster.machine.context.queue.in_flight_count == 0


def add_node(cluster: Cluster, rng: random.Random) -> None:
    cluster.apply(node(f"new{rng.randrange(1000)}", 1))


def delete_node(cluster: Cluster, rng: random.Random) -> None:
    name = f"n{rng.randrange(6)}"
    if any(each.name == name for each in cluster.machine.context.state.rows) and name not in cluster.bindings.values():
        cluster.delete("Node", name)


def add_pod(cluster: Cluster, rng: random.Random) -> None:
    cluster.apply(pod(f"single{rng.randrange(1000)}", rng.randint(1, 3), priority=rng.choice([0, 10])))


EVENTS: Sequence[Callable[[Cluster, random.Random], None]] = (add_node, delete_node, add_pod)


def random_groups(rng: random.Random) -> list[Manifest]:
    """Return nodes and the pods of two groups, which fit or do not."""
    cluster = [node(f"n{i}", rng.randint(2, 8)) for i in range(6)]
    groups = [
        gang(name, size, of_sizes(*(rng.randint(1, 5) for _ in range(size)), name=name), api=api)
        for name, size, api in (("a", rng.randint(2, 6), NATIVE), ("b", rng.randint(2, 6), ANNOTATIONS))
    ]
    return [*cluster, *(manifest for group in groups for manifest in group.manifests)]


@pytest.mark.parametrize("seed", range(25))
def test_placement_in_steps_has_the_outcome_of_one_call(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = []
    for size in (1, 2, 1 << 30):
        monkeypatch.setattr(steps, "MEMBERS_PER_STEP", size)
        cluster = Cluster()
        cluster.submit(*random_groups(random.Random(seed)))
        cluster.advance(60)
        outcomes.append((cluster.bindings, [cluster.message(f"{name}0") for name in "ab"]))
    assert outcomes[0] == outcomes[1] == outcomes[2]


@pytest.mark.parametrize("seed", range(25))
def test_events_between_steps_leave_groups_whole_and_no_pod_assumed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "MEMBERS_PER_STEP", 2)
    rng = random.Random(seed)
    cluster = Cluster()
    cluster.apply_all(*random_groups(rng))
    for _ in range(12):
        cluster._execute(cluster.machine.cycle(cluster.now) or [])
        validate(cluster.machine.context)
        if rng.random() < 0.4:
            rng.choice(EVENTS)(cluster, rng)
            validate(cluster.machine.context)
    cluster.advance(60)
    assert not any(assumed.stage.name == "ASSUMED" for assumed in cluster.machine.context.assumed.values())
    assert cluster.machine.context.queue.in_flight_count == 0


def test_attempts_that_start_over_do_not_lengthen_the_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "MEMBERS_PER_STEP", 1)
    cluster = Cluster(node("n", 2))
    cluster.apply_all(gang("g", 3))
    for i in range(5):
        begin(cluster)
        cluster.apply(node(f"small{i}", "1m"))
    cluster.run()
    assert {entry.attempts for entry in cluster.machine.context.queue.dump()} == {1}
