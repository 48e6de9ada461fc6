"""The run of a scenario: arrivals, ends of pods, evictions, changes of nodes, and the scheduler's core in between."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, Final

from pyscheduler.api.pod import Pod
from pyscheduler.api.resources import amounts
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.core.commands import Evict, PatchStatus
from pyscheduler.kube.paths import NODES
from pyscheduler.simulator import report
from pyscheduler.simulator.jobs import SimulatedJob, SimulatedPod, group_of, minimum_of, queue_of
from pyscheduler.simulator.report import SimulationResult
from pyscheduler.simulator.scenario import (
    Arrival,
    Manifest,
    NodeAction,
    NodeChange,
    PlacedManifest,
    Scenario,
    SimulationProblem,
)
from pyscheduler.simulator.usage import NodeUsage
from pyscheduler.simulator.workload import SimulatedWorkload
from pyscheduler.simulator.workloads import identity, is_workload, owners_of, pod_run_seconds, workload_of
from pyscheduler.testing import Harness
from pyscheduler.testing.builders import PodBuilder
from pyscheduler.testing.objects import condition_of

LONGEST: Final = 30 * 86400.0
"""Seconds after which a simulation without `until` stops."""
QUIET: Final = 3600.0
"""Seconds without any change after which pods are regarded as pending for ever."""
RECREATION: Final = 1.0
"""Seconds until a workload creates an evicted or lost pod anew."""
_FIRST: Final = ("CustomResourceDefinition", "Namespace", "PriorityClass", "Node")
_ENDED: Final = ("Succeeded", "Failed")
Progress = Callable[[float, int], None]
"""Callback with the time and the number of arrivals until then."""


class Simulation(Harness):
    """Harness that plays a scenario. Its time begins at 0."""

    def __init__(self, config: LoadedConfig, scenario: Scenario, progress: Progress | None = None) -> None:
        super().__init__(config, seed=scenario.seed)
        self.now = 0.0
        self._scenario, self._progress = scenario, progress or (lambda _at, _ended: None)
        self._agenda: list[tuple[float, int, int, Callable[[], None]]] = []
        self._numbers = count()
        self._usage = NodeUsage()
        self._members: dict[str, SimulatedPod] = {}
        self._unbound: dict[str, SimulatedPod] = {}
        self._jobs: list[SimulatedJob] = []
        self._current: dict[object, SimulatedJob] = {}
        """Jobs that have not ended, by group or namespace/name of the pod."""
        self._arrival = ""
        self._idle = self._lost = 0.0
        self._bindings = self._ended_pods = self._arrived = self._waiting = 0
        self._last_change = self._last_end = 0.0
        self._is_removing_node = False
        self._removed_nodes: dict[str, Manifest] = {}
        self._notes: dict[str, None] = {}

    def play(self, name: str) -> SimulationResult:
        """Play the scenario to its end. SimulationProblem if an object is invalid."""
        self._create_all(self._scenario.objects, None, owners_of(self._scenario.objects))
        for arrival in self._scenario.arrivals:
            self._at(arrival.at, 2, partial(self._arrive, arrival))
        for change in self._scenario.changes:
            self._at(change.at, 1, partial(self._change_node, change))
        self._wake()
        end, steps = self._scenario.until, 0
        limit = LONGEST if end is None else end
        wake = self._next_wake()
        while wake is not None and wake <= limit and not self._is_over(wake):
            # A wake-up that is due already must not stop the clock.
            self.now = max(wake, self.now)
            self._wake()
            wake = self._next_wake()
            if wake is not None and wake <= self.now:
                self.now += 1.0
            steps += 1
            if steps % 64 == 0:
                self._progress(self.now, self._arrived)
        if end is None and self._agenda and not self._is_over(limit):
            self._notes[f"stopped after {LONGEST / 86400:g} days; set `until` in the scenario"] = None
        self.close()
        return self._result(name, self._end() if end is None else end)

    def _end(self) -> float:
        """Return the time of the last change; later if groups hold nodes for ever, since that costs time."""
        if not any(job.bound and job.is_waiting for job in self._jobs):
            return self._last_change
        self._notes["groups hold nodes and wait for the rest of their minimum, without any change for 1h"] = None
        return self._last_change + QUIET

    # -- objects -------------------------------------------------------------------------------------------------

    def _arrive(self, arrival: Arrival) -> None:
        self._arrival = arrival.name
        self._arrived += 1
        self._create_all(arrival.manifests(), arrival.run_seconds, frozenset())

    def _create_all(self, objects: Any, run_seconds: float | None, owners: frozenset[tuple[str, str, str]]) -> None:
        """Create objects, those that others depend on first. Workloads with pods among the objects create none."""
        for placed in sorted(objects, key=_order):
            obj = placed.manifest
            workload = None if identity(obj) in owners else workload_of(placed, run_seconds)
            if workload is None:
                self._apply_object(placed)
                continue
            for each in workload.objects:
                self._apply_object(PlacedManifest(placed.place, each))
            if obj["kind"] != "Pod":
                self._apply_object(placed)
            for pod in workload.new_pods(workload.parallelism):
                self._create_pod(pod, workload)

    def _apply_object(self, placed: PlacedManifest) -> None:
        try:
            self.apply(placed.manifest)
        except ValueError as error:
            raise SimulationProblem(f"{placed.place}: {error}") from None
        if placed.manifest["kind"] == "Node":
            self._usage.add_node(self._allocatable(placed.manifest["metadata"]["name"]), self.now)

    def _allocatable(self, node: str) -> dict[str, int]:
        return amounts(self.nodes[node]["status"]["allocatable"])

    def _create_pod(self, manifest: Manifest, workload: SimulatedWorkload) -> None:
        """Create a pod for the first time."""
        meta = manifest["metadata"]
        key = f"{meta.get('namespace') or 'default'}/{meta['name']}"
        if key in self._pods:
            raise SimulationProblem(f"{workload.place}: Pod {key} exists already")
        pod = self._apply_pod(manifest, workload, key)
        if (manifest.get("status") or {}).get("phase") in _ENDED:
            return
        job = self._job_of(pod)
        member = SimulatedPod(key, manifest, workload, job, pod_run_seconds(manifest, workload), pod.requests.effective)
        job.pods[key] = self._members[key] = self._unbound[key] = member
        job.created += 1
        self._last_change = self.now
        if pod.node_name:
            self._bound(member, pod.node_name)

    def _apply_pod(self, manifest: Manifest, workload: SimulatedWorkload, key: str) -> Pod:
        spec = manifest.get("spec")
        if isinstance(spec, dict) and spec.get("schedulerName") not in self.machine.context.profiles:
            manifest = {**manifest, "spec": {k: v for k, v in spec.items() if k != "schedulerName"}}
        self._apply_object(PlacedManifest(workload.place, manifest))
        uid = self._pods[key].manifest["metadata"]["uid"]
        return self.machine.context.pods.get(uid) or self._pods[key].build()

    def _job_of(self, pod: Pod) -> SimulatedJob:
        key = group_of(pod)
        found = self._current.get(key or pod.key)
        if found is not None and found.ended is None:
            return found
        pod_group = None
        if key is not None and key.api:
            kinds = (kind for kind in self._kinds.named("PodGroup") if kind.group == key.api)
            objects = (self._objects.get(kind, key.name, key.namespace) for kind in kinds)
            pod_group = next((each for each in objects if each is not None), None)
        quotas = self._listed("ElasticQuota")
        job = SimulatedJob(
            f"{key.namespace}/{key.name}" if key else pod.key,
            key is not None,
            self._arrival,
            queue_of(pod, pod_group, quotas),
            self.now,
            1 if key is None else minimum_of(key, pod, pod_group),
        )
        self._current[key or pod.key] = job
        self._jobs.append(job)
        self._waiting += 1
        return job

    def _listed(self, kind: str) -> list[Manifest]:
        return [obj for each in self._kinds.named(kind) for obj in self._objects.listed(each)]

    # -- runs ----------------------------------------------------------------------------------------------------

    def accept_binding(self, pod: Pod, node_name: str) -> None:
        current = self._pods.get(pod.key)
        is_new = current is not None and not current.manifest["spec"].get("nodeName")
        super().accept_binding(pod, node_name)
        if is_new:
            self._bound(self._members[pod.key], node_name)

    def _bound(self, member: SimulatedPod, node: str) -> None:
        job = member.job
        self._unbound.pop(member.key, None)
        member.node, member.bound_at = node, self.now
        self._usage.add(member.requests, self.now)
        self._bindings += 1
        self._last_change = self.now
        job.nodes[node] = None
        job.bound += 1
        if job.is_running:
            self._run_pod(member)
        elif job.has_minimum:
            self._waiting -= 1
            job.is_running = True
            if job.started is None:
                job.started = self.now
            for each in job.pods.values():
                if each.node and not each.has_ended:
                    self._run_pod(each)

    def _run_pod(self, member: SimulatedPod) -> None:
        member.running_since = self.now
        if member.run_seconds is not None:
            self._at(self.now + member.run_seconds, 0, partial(self._end_pod, member, member.run))

    def _end_pod(self, member: SimulatedPod, run: int) -> None:
        """End a pod that has run for its time, unless the run was cut short."""
        if member.run != run or member.has_ended:
            return
        job = member.job
        member.has_ended = True
        self._release(member)
        job.succeeded += 1
        self._ended_pods += 1
        self._last_change = self._last_end = self.now
        self._show(self._pods[member.key].phase("Succeeded"))
        for pod in member.workload.new_pods(1):
            self._create_pod(pod, member.workload)
        if all(each.has_ended for each in job.pods.values()):
            self._end_job(job)

    def _end_job(self, job: SimulatedJob) -> None:
        """Delete the pods of a job that has ended, as a controller does that cleans up at once."""
        if not job.is_running:
            self._waiting -= 1
        job.ended, job.is_running = self.now, False
        for member in list(job.pods.values()):
            namespace, _, name = member.key.partition("/")
            self.delete_pod(name, namespace)

    def _release(self, member: SimulatedPod) -> None:
        """Count the time of a pod that leaves its node."""
        self._count_time(member)
        self._usage.add(member.requests, self.now, -1)
        member.job.bound -= 1
        member.node, member.running_since = "", None

    def _count_time(self, member: SimulatedPod) -> None:
        began = self.now if member.running_since is None else member.running_since
        total = report.cpu_seconds(member.requests, self.now - member.bound_at)
        member.job.cpu_seconds += total
        self._idle += report.cpu_seconds(member.requests, began - member.bound_at)

    # -- evictions -----------------------------------------------------------------------------------------------

    def _evict(self, command: Evict) -> None:
        before, member = len(self.evictions), self._members.get(command.victim.key)
        super()._evict(command)
        if member is not None and len(self.evictions) > before:
            member.job.evictions += 1
            member.run += 1  # a terminating pod does not end by itself

    def delete_pod(self, name: str, namespace: str = "default") -> None:
        key = f"{namespace}/{name}"
        super().delete_pod(name, namespace)
        member = self._members.pop(key, None)
        if member is None:
            return
        self._unbound.pop(key, None)
        self._last_change = self.now
        if member.has_ended:
            member.job.pods.pop(key, None)
        else:
            self._cut_short(member)

    def _cut_short(self, member: SimulatedPod) -> None:
        """Create a deleted pod anew, and let the others of its group wait for it if it was one of the minimum."""
        job, workload = member.job, member.workload
        member.run += 1
        if member.node:
            if member.running_since is not None:
                self._lost += report.cpu_seconds(member.requests, self.now - member.running_since)
            self._release(member)
        if job.is_running and not job.has_minimum:
            job.is_running = False
            self._waiting += 1
            for each in job.pods.values():
                self._stall(each)
        if workload.recreates and (workload.survives_nodes or not self._is_removing_node):
            self._at(self.now + RECREATION, 0, partial(self._create_anew, member))
        else:
            self._forget(member)
        if workload.restarts_whole and job.ended is None:
            for each in [each for each in job.pods.values() if each.workload is workload and each.node]:
                namespace, _, name = each.key.partition("/")
                if each.key in self._members:
                    self.delete_pod(name, namespace)

    def _stall(self, member: SimulatedPod) -> None:
        """Let a pod wait on its node until the minimum of its job is complete again; it starts over then."""
        if member.running_since is None:
            return
        self._count_time(member)
        if member.run_seconds is not None:
            self._lost += report.cpu_seconds(member.requests, self.now - member.running_since)
        member.bound_at, member.running_since = self.now, None
        member.run += 1

    def _forget(self, member: SimulatedPod) -> None:
        """Drop a pod that no controller creates anew."""
        job = member.job
        job.pods.pop(member.key, None)
        self._notes["pods without a controller were evicted or lost, and are not created anew"] = None
        if job.pods and all(each.has_ended for each in job.pods.values()):
            self._end_job(job)
        elif not job.pods and job.ended is None:
            self._waiting -= not job.is_running
            job.ended, job.is_running = self.now, False

    def _create_anew(self, member: SimulatedPod) -> None:
        manifest = {**member.manifest, "spec": {k: v for k, v in member.manifest["spec"].items() if k != "nodeName"}}
        manifest.pop("status", None)
        manifest["metadata"] = {k: v for k, v in manifest["metadata"].items() if k not in ("uid", "creationTimestamp")}
        self._members[member.key] = self._unbound[member.key] = member
        self._apply_pod(manifest, member.workload, member.key)
        self._last_change = self.now

    # -- nodes ---------------------------------------------------------------------------------------------------

    def _change_node(self, change: NodeChange) -> None:
        name, action = change.node, change.action
        self._last_change = self.now
        if action is NodeAction.ADD:
            if name not in self._removed_nodes:
                raise SimulationProblem(f"{change.place}: node {name} was not removed before")
            self._apply_object(PlacedManifest(change.place, self._removed_nodes.pop(name)))
            return
        node = self.nodes.get(name)
        if node is None:
            raise SimulationProblem(f"{change.place}: node {name} does not exist at {self.now:g} s")
        if action is NodeAction.REMOVE:
            self._remove_node(name)
        else:
            spec = {**(node.get("spec") or {}), "unschedulable": action is NodeAction.CORDON}
            self._write(NODES, {**node, "spec": spec})

    def _remove_node(self, name: str) -> None:
        """Delete a node and its pods."""
        self._usage.add_node(self._allocatable(name), self.now, -1)
        self._removed_nodes[name] = self.nodes[name]
        self.delete_node(name)
        self._is_removing_node = True
        on_node = [key for key, pod in self._pods.items() if pod.manifest["spec"].get("nodeName") == name]
        for key in on_node:
            member = self._members.get(key)
            if member is not None and not member.has_ended:
                member.job.lost += 1
                self.delete_pod(key.partition("/")[2], key.partition("/")[0])
        self._is_removing_node = False

    # -- time ----------------------------------------------------------------------------------------------------

    def _check_state(self) -> None:
        """Leave out the invariants: they are validated by the scheduler's own tests."""

    def run(self) -> None:
        super().run()
        self.commands.clear()
        self.observed.clear()

    def _at(self, time: float, rank: int, action: Callable[[], None]) -> None:
        """Plan an action; of those at one time, the lowest rank is first."""
        heapq.heappush(self._agenda, (time, rank, next(self._numbers), action))

    def _next_wake(self) -> float | None:
        wake = super()._next_wake()
        if self._agenda:
            return self._agenda[0][0] if wake is None else min(wake, self._agenda[0][0])
        return wake

    def _wake(self) -> None:
        while self._agenda and self._agenda[0][0] <= self.now:
            heapq.heappop(self._agenda)[3]()
        super()._wake()
        self._usage.record(self.now, self._waiting)

    def _is_over(self, wake: float) -> bool:
        """Return True if nothing changes any more, unless `until` has the end of the simulation."""
        if self._scenario.until is not None or self._agenda or self._ends:
            return False
        return not self._unbound or wake > self._last_change + QUIET

    # -- results -------------------------------------------------------------------------------------------------

    def _patch_status(self, command: PatchStatus) -> None:
        super()._patch_status(command)
        member = self._members.get(command.pod.key)
        if member is not None and command.condition is not None and member.job.is_waiting:
            member.job.add_message(command.condition.message)

    def _message(self, member: SimulatedPod) -> str:
        pod: PodBuilder | None = self._pods.get(member.key)
        condition = None if pod is None else condition_of(pod.manifest, "PodScheduled")
        return (condition or {}).get("message") or "it has not been tried"

    def _result(self, name: str, end: float) -> SimulationResult:
        self.now = end
        self._usage.advance(end)
        for member in self._members.values():
            if member.node and not member.has_ended:
                self._count_time(member)
        jobs = []
        for job in self._jobs:
            pending = [each for each in job.pods.values() if each.key in self._unbound]
            if pending:
                job.add_message(self._message(pending[0]))
            jobs.append(report.job_result(job, end, len(pending)))
        queues = [each["metadata"]["name"] for each in self._listed("Queue")]
        queues += [f"{q['metadata']['namespace']}/{q['metadata']['name']}" for q in self._listed("ElasticQuota")]
        return SimulationResult(
            config=name,
            seconds=round(end, 3),
            makespan=round(self._last_end, 3),
            nodes=len(self.nodes),
            jobs_started=sum(job.started is not None for job in jobs),
            pods=report.PodCounts(
                sum(job.pods for job in jobs),
                self._bindings,
                self._ended_pods,
                sum(job.evictions for job in jobs),
                sum(job.lost for job in jobs),
                len(self._unbound),
            ),
            waiting=report.wait_times(job.waited for job in jobs),
            utilization={resource: round(share, 4) for resource, share in self._usage.utilization().items()},
            idle_cpu_seconds=round(self._idle, 3),
            lost_cpu_seconds=round(self._lost, 3),
            notes=tuple(self._notes),
            queues=tuple(report.queue_results(jobs, queues)),
            arrivals=tuple(report.summaries(jobs, lambda job: job.arrival)),
            resources=tuple(self._usage.resources),
            series=report.series(self._usage, end),
            jobs=tuple(jobs),
        )


def _order(placed: PlacedManifest) -> int:
    kind = placed.manifest.get("kind")
    if kind in _FIRST:
        return _FIRST.index(kind)
    return len(_FIRST) + is_workload(placed.manifest)
