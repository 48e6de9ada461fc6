"""Defaults of Volcano Jobs, and the reasons why a Job cannot run."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.controllers.volcano.job_spec import JobSpec, read_spec, scheduler_of
from tests.unit.controllers.volcano.jobs import job, policy, task


def test_defaults() -> None:
    spec = read_spec({"spec": {"tasks": [{"replicas": 2, "template": {}}, {"replicas": 3, "minAvailable": 1}]}})
    assert isinstance(spec, JobSpec)
    assert [(each.name, each.min_available) for each in spec.tasks] == [("default0", 2), ("default1", 1)]
    assert (spec.min_available, spec.max_retry, spec.queue, spec.scheduler) == (3, 3, "default", "volcano")


@pytest.mark.parametrize(
    ("fields", "minimum"),
    [({}, 4), ({"minPartitions": 1}, 2), ({"minPartitions": 1, "minAvailable": 3}, None), ({"minAvailable": 3}, 3)],
)
def test_minimum_of_partitions_is_that_of_the_task(fields: dict[str, int], minimum: int | None) -> None:
    partitions = {"totalPartitions": 2, "partitionSize": 2, **fields}
    least = partitions.pop("minAvailable", None)
    found = read_spec(job(task("a", 4, partitionPolicy=partitions, minAvailable=least)))
    if minimum is None:
        problem = "spec.tasks[0].minAvailable: Invalid value: 3: must equal minPartitions × partitionSize, 2"
        assert found == problem
    else:
        assert isinstance(found, JobSpec)
        assert (found.tasks[0].min_available, found.min_available) == (minimum, minimum)


def test_scheduler_of_a_job_without_a_name_is_volcano() -> None:
    assert [scheduler_of({"spec": {}}), scheduler_of(job())] == ["volcano", "pyscheduler"]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "spec.tasks: Required value"),
        ({"tasks": "x"}, "spec: Invalid value: Expected `array | null`, got `str` - at `$.tasks`"),
        (
            {"volumes": [{"mountPath": "/x"}]},
            "spec.volumes[0]: Invalid value: must have either a volumeClaimName or a volumeClaim",
        ),
        (
            {"volumes": [{"volumeClaimName": "x"}]},
            "spec: Invalid value: Object missing required field `mountPath` - at `$.volumes[0]`",
        ),
        ({"plugins": {"mpi": []}}, "spec.plugins.mpi: Not found: --master=master must be the name of a task"),
        ({"minAvailable": 3}, "spec.minAvailable: Invalid value: 3: must be at most the replicas, 2"),
        (
            {"policies": [policy("PodReady", "AbortJob")]},
            "spec.policies[0].event: 'PodReady' is not supported: supported values: "
            "*, PodFailed, PodEvicted, PodPending, TaskCompleted, Unknown",
        ),
        (
            {"policies": [policy("PodFailed", "ResumeJob")]},
            "spec.policies[0].action: 'ResumeJob' is not supported: supported values: "
            "AbortJob, RestartJob, RestartTask, RestartPod, TerminateJob, CompleteJob",
        ),
        (
            {"policies": [policy("PodEvicted", "AbortJob", timeout="1m")]},
            "spec.policies[0].timeout: is not supported with the event 'PodEvicted': supported are timeouts of "
            "PodFailed, PodPending and exitCode",
        ),
        (
            {"policies": [policy("PodPending", "AbortJob")]},
            "spec.policies[0].timeout: Required value: every pod is pending at first, so PodPending needs a timeout",
        ),
        (
            {"policies": [policy("PodFailed", "AbortJob", timeout="soon")]},
            'spec.policies[0].timeout: Invalid value: "soon" is not a duration such as 15s, 1m30s or 500ms',
        ),
        (
            {"policies": [policy("PodFailed", "AbortJob", timeout="1" * 500_000)]},
            "spec.policies[0].timeout: Invalid value: must have at most 64 characters",
        ),
        (
            {"policies": [policy("PodFailed", "AbortJob", timeout="-1m")]},
            "spec.policies[0].timeout: Invalid value: -1m: must not be negative",
        ),
        (
            {"policies": [{"action": "AbortJob"}]},
            "spec.policies[0]: Invalid value: must have either an event or an exitCode",
        ),
        (
            {"policies": [{"action": "AbortJob", "event": "*", "exitCode": 1}]},
            "spec.policies[0]: Invalid value: must have either an event or an exitCode",
        ),
    ],
)
def test_problem_of_a_job(fields: dict[str, Any], problem: str) -> None:
    tasks = [] if problem.startswith("spec.tasks") else [task("a", 2)]
    assert read_spec({"spec": {"tasks": tasks, **fields}}) == problem


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"minAvailable": 3}, "spec.tasks[1].minAvailable: Invalid value: 3: must be at most replicas, 2"),
        (
            {"partitionPolicy": {"totalPartitions": 2, "partitionSize": 2}},
            "spec.tasks[1].partitionPolicy: Invalid value: 2 partitions of 2 pods are not the replicas, 2",
        ),
        ({"partitionPolicy": {"totalPartitions": 2, "partitionSize": 1}}, None),
        (
            {"topologyPolicy": "restricted"},
            "spec.tasks[1].topologyPolicy: is not supported: remove it, and set topologyManagerPolicy in the "
            "configuration of the kubelets",
        ),
        ({"name": "a"}, "spec.tasks: Duplicate value: task names must differ"),
        ({"dependsOn": {"name": ["c"]}}, "spec.tasks[1].dependsOn.name: Not found: 'c'"),
        ({"dependsOn": {"name": ["b"]}}, "spec.tasks: dependsOn: Invalid value: cycle b -> b"),
        (
            {"policies": [policy("PodFailed", "Sleep")]},
            "spec.tasks[1].policies[0].action: 'Sleep' is not supported: supported values: "
            "AbortJob, RestartJob, RestartTask, RestartPod, TerminateJob, CompleteJob",
        ),
        (
            {"template": {"metadata": {"labels": ["app"]}}},
            "spec.tasks[1].template: Invalid value: Expected `object | null`, got `array` - at `$.metadata.labels`",
        ),
        (
            {"template": {"spec": {"containers": [{"env": {"A": "b"}}]}}},
            "spec.tasks[1].template: Invalid value: Expected `array | null`, got `object` - "
            "at `$.spec.containers[0].env`",
        ),
        ({"topologyPolicy": "none"}, None),
        ({"policies": [policy("*", "RestartPod")]}, None),
    ],
)
def test_problem_of_a_task(fields: dict[str, Any], problem: str | None) -> None:
    found = read_spec(job(task("a", 2), {**task("b", 2), **fields}))
    assert found == problem if problem else isinstance(found, JobSpec)
