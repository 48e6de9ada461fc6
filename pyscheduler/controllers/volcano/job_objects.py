"""Objects that belong to a Volcano Job: pods, PodGroup, and the Service and ConfigMap of the plugin svc."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from typing import Any, Final

from pyscheduler.controllers.volcano.job_spec import ENV, SVC, JobSpec, Task
from pyscheduler.controllers.volcano.pods import GROUP_NAMES, JOB_NAME, JOB_VERSION, PARTITION, TASK, TASK_INDEX

API_VERSION: Final = "batch.volcano.sh/v1alpha1"
HOSTS_PATH: Final = "/etc/volcano"
_MAX_HOSTS: Final = 1 << 20
"""Maximum bytes of a ConfigMap."""
_JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
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

Json = dict[str, Any]


def pod_name(job: Mapping[str, Any], task: Task, index: int) -> str:
    """Return the name of a pod."""
    return f"{job['metadata']['name']}-{task.name}-{index}"


def pod_group_name(job: Mapping[str, Any]) -> str:
    """Return the name of the Job's PodGroup."""
    return f"{job['metadata']['name']}-{job['metadata']['uid']}"


def pod(job: Mapping[str, Any], spec: JobSpec, task: Task, index: int, *, version: int, retries: int) -> Json:
    """Return a pod of a task."""
    meta, template = job["metadata"], copy.deepcopy(dict(task.template))
    template_meta = template.get("metadata") or {}
    pod_spec: Json = template.get("spec") or {}
    pod_spec["schedulerName"] = pod_spec.get("schedulerName") or spec.scheduler
    if spec.priority_class and not pod_spec.get("priorityClassName"):
        pod_spec["priorityClassName"] = spec.priority_class
    if ENV in spec.plugins:
        _add_env(pod_spec, [{"name": name, "value": str(index)} for name in ("VK_TASK_INDEX", "VC_TASK_INDEX")])
    if SVC in spec.plugins:
        _add_hosts(pod_spec, job, spec, pod_name(job, task, index))
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
            **owned(job, pod_name(job, task, index)),
            "labels": {**(template_meta.get("labels") or {}), **shared, **partition, _JOB_NAMESPACE: meta["namespace"]},
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
            **owned(job, pod_group_name(job)),
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


def service(job: Mapping[str, Any]) -> Json:
    """Return the headless Service that gives pods their host names."""
    meta = job["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": owned(job, meta["name"]),
        "spec": {
            "clusterIP": "None",
            "selector": {JOB_NAME: meta["name"], _JOB_NAMESPACE: meta["namespace"]},
            "publishNotReadyAddresses": True,
        },
    }


def hosts(job: Mapping[str, Any], spec: JobSpec) -> Json:
    """Return the ConfigMap with the host names of each task."""
    data: dict[str, str] = {}
    for task in spec.tasks:
        names = _host_names(job, task)
        name = task.name.replace("-", "_")
        data[f"{name}.host"] = "\n".join(names)
        data[f"VC_{name.upper()}_HOSTS"] = ",".join(names)
        data[f"VC_{name.upper()}_NUM"] = str(len(names))
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": owned(job, _config_map(job)), "data": data}


def hosts_problem(job: Mapping[str, Any], spec: JobSpec) -> str:
    """Return why a ConfigMap cannot have the host names of the plugin svc, "" if it can."""
    if SVC not in spec.plugins or 2 * sum(_host_bytes(job, task) for task in spec.tasks) <= _MAX_HOSTS:
        return ""
    return f"spec.plugins.svc: Too long: the host names of {spec.replicas} pods exceed the size of a ConfigMap"


def owned(job: Mapping[str, Any], name: str) -> Json:
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


def _host_names(job: Mapping[str, Any], task: Task) -> list[str]:
    return [_host_name(job, task, i) for i in range(_number_of_hosts(task))]


def _host_bytes(job: Mapping[str, Any], task: Task) -> int:
    """Return an upper bound of the size of the list of the task's host names."""
    return _number_of_hosts(task) * (len(_host_name(job, task, task.replicas)) + 1)


def _number_of_hosts(task: Task) -> int:
    return 1 if (task.template.get("spec") or {}).get("hostname") else task.replicas


def _host_name(job: Mapping[str, Any], task: Task, index: int) -> str:
    pod_spec = task.template.get("spec") or {}
    subdomain = pod_spec.get("subdomain") or job["metadata"]["name"]
    return f"{pod_spec.get('hostname') or pod_name(job, task, index)}.{subdomain}"


def _config_map(job: Mapping[str, Any]) -> str:
    return f"{job['metadata']['name']}-{SVC}"


def _add_hosts(pod_spec: Json, job: Mapping[str, Any], spec: JobSpec, name: str) -> None:
    config_map = _config_map(job)
    pod_spec["hostname"] = pod_spec.get("hostname") or name
    pod_spec["subdomain"] = pod_spec.get("subdomain") or job["metadata"]["name"]
    keys = [f"VC_{task.name.replace('-', '_').upper()}_{suffix}" for task in spec.tasks for suffix in ("HOSTS", "NUM")]
    _add_env(
        pod_spec,
        [{"name": key, "valueFrom": {"configMapKeyRef": {"name": config_map, "key": key}}} for key in keys],
    )
    _extend(pod_spec, "volumes", [{"name": config_map, "configMap": {"name": config_map}}])
    for container in _containers(pod_spec):
        _extend(container, "volumeMounts", [{"name": config_map, "mountPath": HOSTS_PATH}])


def _add_env(pod_spec: Json, variables: list[Json]) -> None:
    for container in _containers(pod_spec):
        _extend(container, "env", variables)


def _extend(obj: Json, name: str, items: list[Json]) -> None:
    """Append to a list of a template, which may be null."""
    obj[name] = [*(obj.get(name) or ()), *items]


def _containers(pod_spec: Json) -> list[Json]:
    return [*(pod_spec.get("initContainers") or ()), *(pod_spec.get("containers") or ())]
