"""The order in which placed pods end, kept over changes of nodes and pods, is that of a scan of all pods."""

from __future__ import annotations

from itertools import count
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api import Pod
from pyscheduler.core.pod_groups import ending_pods
from pyscheduler.core.pod_groups.ending_pods import EndingPods
from pyscheduler.core.pod_groups.learnt_run_times import LearntRunTimes
from pyscheduler.core.pod_groups.run_times import RUN_SECONDS, PlacementTimes, ends
from pyscheduler.core.state import ClusterState, PodSignatures
from pyscheduler.testing.builders import node, pod
from tests.properties.profiles import assert_caught, quick

STEPS = 40
EPOCH = 1_000.0
_OWNERS = (None, "nightly-1", "nightly-2", "other-1")
Entry = tuple[str, float, str, int]


class EndingPodsModel:
    """Cluster state under random changes, with the kept order of its pods."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.now = 0.0
        self.state, self.signatures = ClusterState(), PodSignatures()
        self.times = PlacementTimes(EPOCH)
        self.ending = EndingPods(self.times)
        self.names = count()
        for i in range(3):
            self.state.set_node(node(f"n{i}").build())

    def step(self) -> None:
        """Make a random change."""
        self.now += self.rng.choice((0, 0, 1, 5))
        changes = [self.place, self.place, self.remove, self.replace, self.dry_run, self.change_nodes, self.learn]
        self.rng.choice(changes)()

    def place(self) -> None:
        placed = self.new_pod(f"p{next(self.names)}")
        self.state.place(placed, f"n{self.rng.randrange(4)}")
        self.times.add(placed, self.now)

    def remove(self) -> None:
        if (placed := self.any_pod()) is not None:
            self.state.remove(placed.uid)
            self.times.ended(placed, self.now)
            self.times.remove(placed.uid)
            if self.times.learnt is not None:
                self.times.learnt.succeeded(placed)

    def replace(self) -> None:
        """Update a pod as the watch does: it has started, or is being deleted."""
        if (placed := self.any_pod()) is not None:
            updated = placed.on(placed.node_name)
            updated.deleting = placed.deleting or self.rng.random() < 0.3
            updated.started = EPOCH + self.now + self.rng.choice((-1, 2))
            self.state.replace(updated)
            self.times.add_seen(updated, self.now)

    def dry_run(self) -> None:
        with self.state.dry_run():
            if (placed := self.any_pod()) is not None:
                self.state.remove(placed.uid)
            self.check()

    def change_nodes(self) -> None:
        name = f"n{self.rng.randrange(4)}"
        if self.state.info(name) is None:
            self.state.set_node(node(name).build())
        else:
            self.state.remove_node(name)

    def learn(self) -> None:
        self.times.learnt = None if self.times.learnt is not None else LearntRunTimes()

    def new_pod(self, name: str) -> Pod:
        built = pod(name).requests(cpu=str(self.rng.randint(1, 3)))
        if self.rng.random() < 0.4:
            built = built.annotation(RUN_SECONDS, str(self.rng.randint(1, 20)))
        owner = self.rng.choice(_OWNERS)
        if owner is not None:
            kind = self.rng.choice(("Job", "Job", "ReplicaSet"))
            reference = {"apiVersion": "batch/v1", "kind": kind, "name": owner, "uid": owner, "controller": True}
            built = built._with("metadata.ownerReferences", [reference])
        return built.build(self.signatures)

    def any_pod(self) -> Pod | None:
        placed = [each for row in self.state.rows for each in row.pods.values()]
        return self.rng.choice(placed) if placed else None

    def check(self) -> None:
        """Compare the kept order with that of a scan."""
        skipped = self.any_pod()
        without = set() if skipped is None else {skipped.uid}
        order = self.ending.order(self.state, self.now, ("cpu", "nvidia.com/gpu"), without)
        everywhere = self.state.table().allowed_pods > 0
        found = order.pods_on(everywhere, len(order))
        kept: list[Entry] = [
            (each.uid, order.time(i), self.state.rows[order.rows[i]].name, int(order.requests["cpu"][i]))
            for i, each in enumerate(found)
        ]
        assert kept == self.scan(without)
        assert not order.requests["nvidia.com/gpu"].any()

    def scan(self, without: set[str]) -> list[Entry]:
        pods = [
            (self.times.end(each, self.now), each.started, row, each)
            for row in self.state.rows
            for each in row.pods.values()
            if ends(each) and each.uid not in without
        ]
        pods.sort(key=lambda each: each[:2])
        return [(each.uid, end, row.name, each.requests.effective["cpu"]) for end, _, row, each in pods]


@quick(150)
@given(st.integers(0, 1 << 32))
def test_kept_order_is_that_of_a_scan(seed: int) -> None:
    run(seed)


def run(seed: int) -> None:
    model = EndingPodsModel(seed)
    for _ in range(STEPS):
        model.step()
        model.check()


def test_pods_of_nodes_that_are_not_read_again_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "flatnonzero", lambda _: np.empty(0, int))
    assert_caught(run, st.integers(0, 1 << 32), examples=20)


def test_only_changed_nodes_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model, read = EndingPodsModel(0), list[str]()
    for i in range(30):
        model.state.place(model.new_pod(f"r{i}"), f"n{i % 3}")

    def record(each: Pod) -> bool:
        read.append(each.uid)
        return True

    monkeypatch.setattr(ending_pods, "ends", record)
    model.ending.order(model.state, 0.0, ("cpu",))
    assert len(read) == 30
    read.clear()
    model.ending.order(model.state, 1.0, ("cpu",))
    assert read == []
    model.state.place(model.new_pod("new"), "n0")
    model.ending.order(model.state, 2.0, ("cpu",))
    assert len(read) == 11
