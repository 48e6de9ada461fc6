"""No call of the machine handles more than one slice of the pending pods, whatever happens to many of them.

Counted are the pods that one call evaluates or moves, which is its cost; `pyscheduler bench longest` measures the
milliseconds, with 50,000 nodes and 100,000 pending pods.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyscheduler.config.build import build_profiles
from pyscheduler.config.load import loads
from pyscheduler.core.events import PodGone, Reconfigured, Tick
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.machine import CycleStep
from pyscheduler.core.queue import SLICE
from pyscheduler.testing import Harness, node, pod

WAITING = 4 * SLICE
OTHERS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: default-scheduler}, {schedulerName: others}]
"""


class Work(Instrument):
    """Counter of the pods evaluated by hints and moved between queues."""

    def __init__(self) -> None:
        self.weighed = 0
        self.moved = 0

    def hint_entered(self) -> None:
        self.weighed += 1

    def queue_incoming(self, queue: str, event: str) -> None:
        self.moved += 1


class BackloggedCluster:
    """A cluster with thousands of unschedulable pods, some of them gated."""

    def __init__(self, templates: int = WAITING) -> None:
        self.work = Work()
        self.harness = Harness(instrument=self.work)
        self.harness.add(node("n1", cpu="1"), pod("old").requests(cpu="1").on("n1"))
        for i in range(WAITING):
            waits = pod(f"p{i}").requests(cpu="1", memory=f"{i % templates}Mi").spec(preemptionPolicy="Never")
            self.harness.add(waits.gate("example.com/hold") if i % 10 == 9 else waits)
        self.fail({"NodeResourcesFit", "NodeAffinity"})

    def fail(self, rejectors: set[str]) -> None:
        """Fail an attempt of every pod in the queue, with these plugins as rejectors."""
        queue = self.harness.machine.context.queue
        while (queued := queue.pop(self.harness.now)) is not None:
            queue.add_unschedulable(queued, queued.pod, rejectors, set(), self.harness.now)
        self.harness.now += 20.0

    def calls_until_idle(self, trigger: Callable[[Harness], None]) -> int:
        """Trigger an event; return the number of calls until attempts run again. No call may be long."""
        harness, calls = self.harness, 0
        while calls == 0 or harness.machine.next_step is CycleStep.BACKLOG:
            self.work.weighed = self.work.moved = 0
            if calls == 0:
                trigger(harness)
            else:
                assert harness.machine.cycle(harness.now) == [], "no attempt is made meanwhile"
            assert self.work.weighed <= 2 * SLICE, "a pod is weighed for each of its two rejectors"
            assert self.work.moved <= SLICE
            calls += 1
        return calls


def _tick(harness: Harness) -> None:
    harness.handle_event(Tick(harness.now))


def _node_added(harness: Harness) -> None:
    harness.add(node("n2", cpu="64"))


def _pod_gone(harness: Harness) -> None:
    harness.handle_event(PodGone(harness.now, "default", "old", ""))


def _unhelpful_pod_gone(harness: Harness) -> None:
    harness.add(node("n1", cpu="1").label("turn", "1"))


def _flushed(harness: Harness) -> None:
    harness.now += 400.0
    _tick(harness)


@pytest.mark.parametrize("trigger", [_node_added, _pod_gone, _unhelpful_pod_gone, _flushed])
def test_event_for_thousands_of_pods_is_handled_in_slices(
    trigger: Callable[[Harness], None],
) -> None:
    cluster = BackloggedCluster()
    assert cluster.calls_until_idle(trigger) >= 0.9 * WAITING / SLICE
    assert len(cluster.harness.machine.context.queue) == WAITING


def test_event_that_helps_no_pod_of_a_few_templates_takes_one_call() -> None:
    assert BackloggedCluster(templates=SLICE // 2).calls_until_idle(_unhelpful_pod_gone) == 1


def test_simultaneous_backoff_expiry_is_handled_in_slices() -> None:
    cluster = BackloggedCluster()
    queue = cluster.harness.machine.context.queue
    queue.activate([queued.pod for queued in queue.pending()], cluster.harness.now)
    cluster.fail(set())
    assert queue.pending_counts()["backoff"] == 0.9 * WAITING
    assert cluster.calls_until_idle(_tick) >= 0.9 * WAITING / SLICE
    assert len(queue.active) == 0.9 * WAITING


def test_reconfiguration_readmits_pods_in_slices() -> None:
    cluster = BackloggedCluster()
    for i in range(WAITING):
        cluster.harness.add(pod(f"o{i}").scheduler("others"))
    profiles = tuple(build_profiles(loads(OTHERS), cluster.harness.handle))
    changed = Reconfigured(cluster.harness.now, profiles, 1.0, 10.0)
    assert cluster.calls_until_idle(lambda harness: harness.handle_event(changed)) >= WAITING / SLICE
    assert cluster.harness.machine.context.queue.pending_counts()["active"] == 1.9 * WAITING


def test_too_many_events_are_merged_into_one_for_every_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyscheduler.core.queue.backlog.MAX_EVALUATIONS", WAITING)
    cluster = BackloggedCluster()
    for i in range(100):
        cluster.harness.add(node(f"small{i}", cpu="10m"))
    cluster.calls_until_idle(_tick)
    queue = cluster.harness.machine.context.queue
    assert len(queue.active) == 0.9 * WAITING, "they are tried again, though no event helped"
