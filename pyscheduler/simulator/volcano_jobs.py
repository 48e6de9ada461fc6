"""Volcano Jobs in a simulation: pods and PodGroup as Volcano's controller creates them; pods do not fail."""

from __future__ import annotations

from pyscheduler.controllers.volcano import job_objects
from pyscheduler.controllers.volcano.job_spec import (
    ANY_EVENT,
    COMPLETE,
    POD_EVICTED,
    RESTART_JOB,
    RESTART_POD,
    TASK_COMPLETED,
    JobSpec,
    read_spec,
)
from pyscheduler.controllers.volcano.plugin_objects import size_problem
from pyscheduler.simulator.scenario import PlacedManifest
from pyscheduler.simulator.workload import MAX_PODS, SimulatedWorkload, declared_run_seconds, no_run_time, problem


def volcano_workload(placed: PlacedManifest, run_seconds: float | None) -> SimulatedWorkload:
    """Return the pods and the PodGroup of a Volcano Job. SimulationProblem for what cannot be simulated."""
    meta = placed.manifest.get("metadata") or {}
    job = {**placed.manifest, "metadata": {**meta, "namespace": meta.get("namespace") or "default", "uid": "job"}}
    spec = read_spec(job)
    if isinstance(spec, str):
        raise problem(placed, spec)
    restarts_whole = _restarts_whole(placed, spec)
    if spec.volumes:
        raise problem(placed, "spec.volumes: cannot be simulated")
    if invalid := size_problem(job, spec):
        raise problem(placed, invalid)
    if spec.replicas > MAX_PODS:
        raise problem(placed, f"spec.tasks: has {spec.replicas} pods, at most {MAX_PODS} are simulated")
    for task in spec.tasks:
        if run_seconds is None and declared_run_seconds(placed, task.template) is None:
            raise no_run_time(placed)
    pods = (
        job_objects.pod(job, spec, task, i, version=0, retries=0) for task in spec.tasks for i in range(task.replicas)
    )
    group = job_objects.pod_group(job, spec, spec.tasks)
    return SimulatedWorkload(placed.place, pods, spec.replicas, run_seconds, [group], restarts_whole=restarts_whole)


def _restarts_whole(placed: PlacedManifest, spec: JobSpec) -> bool:
    """Return True if the whole Job restarts when a pod is evicted. SimulationProblem for what is not simulated."""
    if any(task.depends_on.name for task in spec.tasks):
        raise problem(placed, "spec.tasks: dependsOn cannot be simulated")
    restarts_whole = False
    for policy in (*spec.policies, *(each for task in spec.tasks for each in task.policies)):
        events = {ANY_EVENT, POD_EVICTED, TASK_COMPLETED}.intersection(policy.all_events)
        if not events or (policy.action == RESTART_POD and TASK_COMPLETED not in events):
            continue  # pods do not fail in a simulation
        if policy.action == COMPLETE and events == {TASK_COMPLETED} and len(spec.tasks) == 1:
            continue
        if policy.action != RESTART_JOB or TASK_COMPLETED in events:
            raise problem(placed, f"spec.policies: {policy.action} after {min(events)} cannot be simulated")
        restarts_whole = True
    return restarts_whole
