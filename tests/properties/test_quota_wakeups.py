"""Random queues and jobs: no group waits for its queue once that may allocate what the group needs."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api.pod_group import PodGroup
from pyscheduler.core.pod_groups.manager import PodGroupManager
from pyscheduler.core.pod_groups.quota_waits import QuotaWaits
from pyscheduler_plugins.queues import claims
from tests.properties.profiles import assert_caught, quick
from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import ANNOTATIONS, Gang, gang, node, pod, queue

_QUIET: Final = 25
"""Seconds after which nothing is in backoff."""
_QUEUES: Final = ("a", "b", "c", "d")
_KINDS: Final = ("submit", "submit", "submit", "submit", "delete", "delete", "end", "queue", "node")


class Step(NamedTuple):
    """One change of the cluster; the numbers choose among what there is."""

    kind: str
    queue: str
    size: int
    cpu: int
    number: int


class Limits(NamedTuple):
    """Fields of a queue; 0 for an amount that is not set."""

    parent: str
    weight: int
    deserved: int
    capability: int


LIMITS: Final = st.builds(
    Limits, st.sampled_from(["", "", "p"]), st.integers(0, 3), st.integers(0, 4), st.sampled_from([0, 0, 5, 8])
)
QUEUES: Final = st.tuples(*[LIMITS] * len(_QUEUES))
STEPS: Final = st.lists(
    st.builds(
        Step,
        st.sampled_from(_KINDS),
        st.sampled_from(_QUEUES),
        st.integers(1, 3),
        st.integers(1, 4),
        st.integers(0, 1000),
    ),
    min_size=6,
    max_size=16,
)


class QueuedJobs:
    """A cluster of queues, and the jobs that exist."""

    def __init__(self, limits: tuple[Limits, ...]) -> None:
        self.cluster = Cluster(*(node(f"n{i}", 3) for i in range(3)), queue("p"))
        self.jobs: list[Gang] = []
        for name, each in zip(_QUEUES, limits, strict=True):
            self._apply_queue(name, each)

    def _apply_queue(self, name: str, limits: Limits) -> None:
        amounts = {"deserved": limits.deserved, "capability": limits.capability}
        if limits.capability and limits.deserved:
            amounts["deserved"] = min(limits.deserved, limits.capability)
        fields: dict[str, Any] = {key: {"cpu": amount} for key, amount in amounts.items() if amount}
        self.cluster.apply(queue(name, parent=limits.parent, weight=limits.weight, **fields))

    def take(self, step: Step) -> None:
        """Make a change, and wait until nothing happens any more."""
        cluster = self.cluster
        if step.kind == "submit":
            name = f"j{len(self.jobs)}"
            pods = [pod(f"{name}-{i}", step.cpu) for i in range(step.size)]
            self.jobs.append(gang(name, step.size, pods, api=ANNOTATIONS, queue=step.queue))
            cluster.submit(self.jobs[-1])
        elif step.kind == "queue":
            parent = "" if step.queue in ("a", "b") else "p"
            self._apply_queue(step.queue, Limits(parent, step.number % 4, step.size, 0))
        elif step.kind == "node":
            cluster.apply(node("n0", 1 + step.number % 5))
        elif found := [key for job in self.jobs for key in job.keys if key in cluster.pods]:
            self._remove(step, found)
        cluster.run()
        cluster.advance(_QUIET)

    def _remove(self, step: Step, found: list[str]) -> None:
        """Delete a pending job, or end a pod that runs."""
        cluster = self.cluster
        is_end = step.kind == "end"
        chosen = [key for key in found if (key in cluster.bindings) is is_end and not cluster.phase(key)]
        if not chosen:
            return
        name = chosen[step.number % len(chosen)].partition("/")[2]
        job = next(job for job in self.jobs if f"default/{name}" in job.keys)
        cluster.exempt(job)
        if is_end:
            cluster.end(name)
            return
        for key in job.keys:
            if key in cluster.pods:
                cluster.delete("Pod", key.partition("/")[2])

    def held(self) -> list[str]:
        """Return the groups that wait for their queue although it may allocate what they need."""
        context = self.cluster.machine.context
        held = []
        for entry in context.queue.pod_groups:
            group = context.groups.requirements(entry.key)
            reasons = {self.cluster.reason(each.name) for each in entry.pods}
            if not isinstance(group, PodGroup) or reasons != {"QuotaExceeded"} or not context.queue.is_queued(entry):
                continue
            if not context.groups.exceeded(group, context.groups.needed(group, entry.pods)):
                held.append(str(entry.key))
        return held

    def is_stuck(self) -> bool:
        """Return True if all pending groups wait for their queues, and some only for the claims of others."""
        pods = [key.partition("/")[2] for key in self.cluster.pods if key not in self.cluster.bindings]
        pending = [name for name in pods if not self.cluster.phase(f"default/{name}")]
        reasons = {self.cluster.reason(name) for name in pending}
        return reasons == {"QuotaExceeded"} and any("have a claim" in self.cluster.message(name) for name in pending)


def check(drawn: tuple[tuple[Limits, ...], list[Step]]) -> None:
    limits, steps = drawn
    jobs = QueuedJobs(limits)
    for step in steps:
        jobs.take(step)
        assert jobs.held() == [], step
        assert not jobs.is_stuck(), step


CASES: Final = st.tuples(QUEUES, STEPS)


@quick(40)
@given(CASES)
def test_no_group_waits_for_a_queue_that_may_allocate(drawn: tuple[tuple[Limits, ...], list[Step]]) -> None:
    check(drawn)


def _changes_of_limits(groups: PodGroupManager) -> bool:
    groups.report_usage()
    changed, groups._limits_changed = groups._limits_changed, False
    return changed


PLANTED: Final[dict[str, tuple[Any, str, Any]]] = {
    "no group is woken": (QuotaWaits, "retry", lambda *_, **__: None),
    "queues hold back each other": (claims, "is_held_back", lambda *_: False),
    "only changes of queues and nodes wake groups": (PodGroupManager, "take_quota_changes", _changes_of_limits),
}


@pytest.mark.parametrize("bug_name", PLANTED)
def test_planted_bug_is_found(bug_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, bug = PLANTED[bug_name]
    monkeypatch.setattr(owner, name, bug)
    assert_caught(check, CASES, AssertionError, match="Step")
