"""Pods that a Job creates: template, tracking finalizer, and the completion index."""

from __future__ import annotations

from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.workloads.jobs.pods import (
    FINALIZER,
    INDEX,
    INDEX_FAILURES,
    INDEX_IGNORED,
    index_failures,
    index_ignored,
)
from pyscheduler.embedded.workloads.jobs.policies import match_failure_policy
from pyscheduler.embedded.workloads.objects import owned_by, pod_from_template

_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
_LONGEST_PREFIX = 58
"""63 characters minus the five that the server appends to generateName."""


def pod_of(job: Json) -> Json:
    """Return a pod of a Job without indexes."""
    template = job["spec"]["template"]
    pod = pod_from_template(job, owned_by(job, "Job", "batch/v1"), template)
    finalizers = (template.get("metadata") or {}).get("finalizers") or []
    pod["metadata"]["finalizers"] = [*finalizers, *([] if FINALIZER in finalizers else [FINALIZER])]
    return pod


def pod_of_index(job: Json, index: int) -> Json:
    """Return the pod of one index, with the index in label, annotation, host name, variable and name."""
    pod, name = pod_of(job), job["metadata"]["name"]
    suffix = f"-{index}-"
    pod["metadata"]["generateName"] = name[: _LONGEST_PREFIX - len(suffix)] + suffix
    pod["metadata"]["annotations"][INDEX] = str(index)
    pod["metadata"]["labels"][INDEX] = str(index)
    pod["spec"] = {**_with_variable(pod["spec"]), "hostname": f"{name}-{index}"}
    return pod


def count_failures(pod: Json, job: Json, replaced: Json | None) -> None:
    """Set the failure counts of a new pod's index: those of the replaced pod plus its own failure."""
    counted = ignored = 0
    if replaced is not None:
        counts = match_failure_policy(job, replaced).counts
        counted, ignored = index_failures(replaced) + counts, index_ignored(replaced) + (not counts)
    pod["metadata"]["annotations"][INDEX_FAILURES] = str(counted)
    if ignored:
        pod["metadata"]["annotations"][INDEX_IGNORED] = str(ignored)


def _with_variable(spec: Json) -> Json:
    lists = ("initContainers", "containers")
    return spec | {field: [_with_index(container) for container in spec[field]] for field in lists if spec.get(field)}


def _with_index(container: Json) -> Json:
    given = container.get("env") or []
    if any(variable["name"] == _INDEX_VARIABLE for variable in given):
        return container
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    return {**container, "env": [*given, {"name": _INDEX_VARIABLE, "valueFrom": source}]}
