"""Names of the objects of a Volcano Job, their owner, and the host names of its pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyscheduler.controllers.volcano.job_spec import Task

API_VERSION: Final = "batch.volcano.sh/v1alpha1"

Json = dict[str, Any]


def pod_name(job: Mapping[str, Any], task: Task, index: int) -> str:
    """Return the name of a pod."""
    return f"{job['metadata']['name']}-{task.name}-{index}"


def pod_group_name(job: Mapping[str, Any]) -> str:
    """Return the name of the Job's PodGroup."""
    return unique_name(job)


def unique_name(job: Mapping[str, Any], *suffixes: str) -> str:
    """Return a name that no object has before the Job exists: the Job cannot adopt an object of another owner."""
    meta = job["metadata"]
    return "-".join((meta["name"], meta["uid"], *suffixes))


def owned_metadata(job: Mapping[str, Any], name: str) -> Json:
    """Return the metadata of an object that is deleted with the Job."""
    meta = job["metadata"]
    owner = {
        "apiVersion": API_VERSION,
        "kind": "Job",
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {"name": name, "namespace": meta["namespace"], "ownerReferences": [owner]}


def host_name(job: Mapping[str, Any], task: Task, index: int) -> str:
    """Return the host name of a pod, with which other pods of the namespace reach it."""
    pod_spec = task.template.get("spec") or {}
    subdomain = pod_spec.get("subdomain") or job["metadata"]["name"]
    return f"{pod_spec.get('hostname') or pod_name(job, task, index)}.{subdomain}"


def host_names(job: Mapping[str, Any], task: Task) -> Iterator[str]:
    """Yield the host names of a task. Pods of a template with a host name share that one."""
    return (host_name(job, task, i) for i in range(number_of_hosts(task)))


def number_of_hosts(task: Task) -> int:
    """Return the number of host names of a task."""
    return 1 if (task.template.get("spec") or {}).get("hostname") else task.replicas


def max_host_length(job: Mapping[str, Any], task: Task) -> int:
    """Return an upper bound of the length of a host name of a task."""
    return len(host_name(job, task, task.replicas).encode())
