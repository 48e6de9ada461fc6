"""Pods and PodGroup of a Volcano Job."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from typing import Any, Final

from pyscheduler.controllers.volcano.job_names import Json, owned_metadata, pod_group_name, pod_name
from pyscheduler.controllers.volcano.job_spec import JobSpec, Task
from pyscheduler.controllers.volcano.plugin_pods import add_plugins
from pyscheduler.controllers.volcano.pods import (
    GROUP_NAMES,
    JOB_NAME,
    JOB_NAMESPACE,
    JOB_VERSION,
    PARTITION,
    TASK,
    TASK_INDEX,
)

_QUEUE_NAME: Final = "volcano.sh/queue-name"
_RETRY_COUNT: Final = "volcano.sh/job-retry-count"
_TEMPLATE: Final = "volcano.sh/template-uid"
_COPIED: Final = (
    "volcano.sh/preemptable",
    "volcano.sh/cooldown-time",
    "volcano.sh/revocable-zone",
    "volcano.sh/jdb-min-available",
    "volcano.sh/jdb-max-unavailable",
)
"""Annotations of a job that its pods have, too."""


def pod(job: Mapping[str, Any], spec: JobSpec, task: Task, index: int, *, version: int, retries: int) -> Json:
    """Return a pod of a task."""
    meta, template = job["metadata"], copy.deepcopy(dict(task.template))
    template_meta = template.get("metadata") or {}
    pod_spec: Json = template.get("spec") or {}
    pod_spec["schedulerName"] = pod_spec.get("schedulerName") or spec.scheduler
    if spec.priority_class and not pod_spec.get("priorityClassName"):
        pod_spec["priorityClassName"] = spec.priority_class
    if pod_spec.get("hostNetwork") and not pod_spec.get("dnsPolicy"):
        pod_spec["dnsPolicy"] = "ClusterFirstWithHostNet"  # as Volcano's webhook does
    add_plugins(pod_spec, job, spec, task, index)
    partition = {PARTITION: str(index // task.partitions.partition_size)} if task.partitions else {}
    shared = {TASK_INDEX: str(index), TASK: task.name, JOB_NAME: meta["name"], _QUEUE_NAME: spec.queue}
    annotations = {
        GROUP_NAMES[0]: pod_group_name(job),
        JOB_VERSION: str(version),
        _RETRY_COUNT: str(retries),
        _TEMPLATE: f"{meta['name']}-{task.name}",
    }
    of_job = {name: value for name, value in (meta.get("annotations") or {}).items() if name in _COPIED}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **owned_metadata(job, pod_name(job, task, index)),
            "labels": {**(template_meta.get("labels") or {}), **shared, **partition, JOB_NAMESPACE: meta["namespace"]},
            "annotations": {**(template_meta.get("annotations") or {}), **of_job, **shared, **annotations},
        },
        "spec": pod_spec,
    }


def pod_group(job: Mapping[str, Any], spec: JobSpec, tasks: Collection[Task]) -> Json:
    """Return the PodGroup while pods of these tasks may exist.

    Pods of other tasks are created when those run, so the group cannot require them yet.
    """
    meta = job["metadata"]
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            **owned_metadata(job, pod_group_name(job)),
            "labels": dict(meta.get("labels") or {}),
            "annotations": {
                name: value
                for name, value in (meta.get("annotations") or {}).items()
                if not name.startswith("kubectl.kubernetes.io/")
            },
        },
        "spec": {
            "minMember": min(spec.min_available, sum(task.replicas for task in tasks)),
            "minTaskMember": {task.name: task.min_available for task in tasks},
            "queue": spec.queue,
            "priorityClassName": spec.priority_class,
            **({"networkTopology": dict(spec.network_topology)} if spec.network_topology else {}),
            **_sub_group_policy(tasks),
        },
    }


def _sub_group_policy(tasks: Collection[Task]) -> Json:
    """Return the field of the PodGroup with the partitions of the tasks; nothing if there are none."""
    policies = [
        {
            "name": task.name,
            "subGroupSize": task.partitions.partition_size,
            "minSubGroups": task.partitions.min_partitions,
            "labelSelector": {"matchLabels": {TASK: task.name}},
            "matchLabelKeys": [PARTITION],
            **({"networkTopology": task.partitions.network_topology} if task.partitions.network_topology else {}),
        }
        for task in tasks
        if task.partitions is not None
    ]
    return {"subGroupPolicy": policies} if policies else {}
