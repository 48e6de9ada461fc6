"""Each pod of a Job counts exactly once and the Job finishes, whatever happens to pods and controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pyscheduler.embedded.objects import timestamp, without_nulls
from pyscheduler.embedded.workloads import jobs
from pyscheduler.embedded.workloads.actions import Action, Create, Delete, Patch
from pyscheduler.embedded.workloads.jobs.finish_reason import is_finished
from pyscheduler.embedded.workloads.jobs.indexes import expand
from pyscheduler.embedded.workloads.jobs.pods import FINALIZER, index_of, is_final, is_tracked
from pyscheduler.embedded.workloads.objects import is_active, is_deleting
from tests.unit.workloads.builders import Json, workload

COMPLETIONS, PARALLELISM = 4, 2


class JobFixture:
    """API server, kubelet and Job controller, one step at a time; `ok` and `bad` are the expected counts."""

    def __init__(self, **spec: Any) -> None:
        self.now, self.version, self.created = 0.0, 1, 0
        sizes: Json = {"completions": COMPLETIONS, "parallelism": PARALLELISM, "backoffLimit": 10**6}
        self.job = workload("Job", "j", **sizes, **spec)
        self.pods: dict[str, Json] = {}
        self.failures = jobs.Failures()
        self.ok: list[int] = []
        self.bad = 0

    def sync(self, cut: int | None = None) -> None:
        """Sync the Job; with `cut` the controller crashes between two of its writes."""
        self.now += 3600
        outcome = jobs.reconcile(self.job, list(self.pods.values()), self.now, self.failures)
        writes = [a for a in outcome.plan.actions if isinstance(a, Create | Delete | Patch)]
        writes.sort(key=lambda action: isinstance(action, Patch))
        done = len(writes) if cut is None else cut % (len(writes) + 1)
        for action in writes[:done]:
            self._write(action)
        self.failures = outcome.failures if done == len(writes) else jobs.Failures()

    def start(self, pick: int) -> None:
        self._set(pick, lambda pod: pod["status"]["phase"] == "Pending" and not is_deleting(pod), "Running")

    def succeed(self, pick: int) -> None:
        pod = self._set(pick, lambda pod: is_active(pod), "Succeeded")
        if pod is not None and is_tracked(pod):
            self.ok.append(index_of(pod))

    def fail(self, pick: int) -> None:
        pod = self._set(pick, lambda pod: is_active(pod), "Failed")
        self.bad += pod is not None and is_tracked(pod)

    def delete(self, pick: int) -> None:
        """Delete a pod as a client does, whatever its state."""
        pod = self._pick(pick, lambda pod: not is_deleting(pod))
        if pod is not None:
            self.bad += is_tracked(pod) and is_active(pod)
            self._mark_deleted(pod)

    def finish_termination(self, pick: int) -> None:
        """Let the kubelet finish the termination of a pod."""
        self._set(pick, lambda pod: is_deleting(pod) and not is_final(pod), "Failed")

    def _pick(self, pick: int, matches: Callable[[Json], bool]) -> Json | None:
        found = [pod for pod in self.pods.values() if matches(pod)]
        return found[pick % len(found)] if found else None

    def _set(self, pick: int, matches: Callable[[Json], bool], phase: str) -> Json | None:
        pod = self._pick(pick, matches)
        if pod is None:
            return None
        pod["status"] = {"phase": phase}
        self._remove_if_terminated(pod)
        return pod

    def _mark_deleted(self, pod: Json) -> None:
        pod["metadata"]["deletionTimestamp"] = timestamp(self.now)
        self._remove_if_terminated(pod)

    def _remove_if_terminated(self, pod: Json) -> None:
        """Remove a deleted pod once its containers have stopped and it has no finalizers."""
        if is_deleting(pod) and is_final(pod) and not pod["metadata"].get("finalizers"):
            del self.pods[pod["metadata"]["name"]]

    def _write(self, action: Action) -> None:
        if isinstance(action, Create):
            self.created += 1
            name = f"p{self.created}"
            meta = {**action.obj["metadata"], "name": name, "uid": name, "creationTimestamp": timestamp(self.now)}
            self.pods[name] = {**action.obj, "metadata": meta, "status": {"phase": "Pending"}}
        elif isinstance(action, Delete) and (pod := self.pods.get(action.key[1])) is not None:
            if action.pre_patch is not None:
                self._write(action.pre_patch)
            if action.key[1] in self.pods:
                self._mark_deleted(pod)
        elif isinstance(action, Patch) and action.subresource:
            assert action.patch["metadata"]["resourceVersion"] == self.job["metadata"]["resourceVersion"]
            self.version += 1
            self.job["metadata"]["resourceVersion"] = str(self.version)
            self.job["status"] = without_nulls({**self.job["status"], **action.patch["status"]})
        elif isinstance(action, Patch) and (pod := self.pods.get(action.key[1])) is not None:
            pod["metadata"]["finalizers"] = [f for f in pod["metadata"]["finalizers"] if f != FINALIZER]
            self._remove_if_terminated(pod)

    def finish(self) -> None:
        """Sync without further disturbances until the Job is finished."""
        for _ in range(12):
            self.sync()
            for pick in range(len(self.pods)):
                self.finish_termination(pick)
                self.start(0)
                self.succeed(0)


STEPS = st.one_of(
    st.tuples(st.sampled_from(["start", "succeed", "fail", "delete", "finish_termination"]), st.integers(0, 5)),
    st.tuples(st.just("sync"), st.one_of(st.none(), st.integers(0, 11))),
)
POLICIES = st.sampled_from(["TerminatingOrFailed", "Failed"])
MODES = st.sampled_from(["NonIndexed", "Indexed"])


@settings(max_examples=100, deadline=None)
@given(st.lists(STEPS, min_size=10, max_size=50), POLICIES, MODES)
def test_each_pod_counts_once(steps: list[tuple[str, int | None]], policy: str, mode: str) -> None:
    fixture = JobFixture(podReplacementPolicy=policy, completionMode=mode)
    for step, number in steps:
        getattr(fixture, step)(number)
        if not is_deleting(fixture.job):
            running = [pod for pod in fixture.pods.values() if is_active(pod)]
            assert len(running) <= PARALLELISM
    fixture.finish()
    status = fixture.job["status"]
    assert is_finished(fixture.job)
    assert status.get("failed", 0) == fixture.bad
    assert not any(map(is_tracked, fixture.pods.values()))
    assert status["uncountedTerminatedPods"] == {}
    if mode == "Indexed":
        assert expand(status["completedIndexes"], COMPLETIONS) == set(fixture.ok) == set(range(COMPLETIONS))
    else:
        assert status["succeeded"] == len(fixture.ok) >= COMPLETIONS
