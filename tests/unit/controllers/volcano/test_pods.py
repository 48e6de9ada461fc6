"""Records of pods, from manifests."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pyscheduler.controllers.volcano.pods import PodRecord, WatchedPod, record

JOB = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "job-uid", "controller": True}


def manifest(annotations: dict[str, str], **meta: Any) -> dict[str, Any]:
    containers = [{"name": "c", "resources": {"requests": {"cpu": "500m", "nvidia.com/gpu": 2}}}]
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "annotations": annotations, **meta},
        "spec": {"containers": containers, "nodeName": "n", "schedulerName": "pyscheduler"},
        "status": {
            "phase": "Failed",
            "containerStatuses": [
                {"ready": True, "state": {"running": {}}},
                {"ready": False, "state": {"terminated": {"exitCode": 3}}},
            ],
        },
    }


def read(pod: dict[str, Any]) -> PodRecord | None:
    return record(msgspec.convert(pod, WatchedPod))


def test_pod_of_a_volcano_job() -> None:
    annotations = {
        "scheduling.k8s.io/group-name": "g", "volcano.sh/task-spec": "worker", "volcano.sh/task-index": "4",
        "volcano.sh/job-version": "2", "scheduling.volcano.sh/queue-name": "q",
    }  # fmt: skip
    assert read(manifest(annotations, ownerReferences=[JOB], deletionTimestamp="2026-01-01T00:00:00Z")) == PodRecord(
        "ns", "p", "u", "g", "q", "job-uid", "worker", 4, 2, "pyscheduler", True, "Failed", True, False, 3,
        {"cpu": 500, "nvidia.com/gpu": 2},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("annotations", "group", "queue"),
    [
        ({"scheduling.volcano.sh/group-name": "g"}, "g", ""),
        ({"scheduling.volcano.sh/group-name": "g", "scheduling.k8s.io/group-name": "h"}, "h", ""),
        ({"scheduling.volcano.sh/queue-name": "q"}, "", "q"),
    ],
)
def test_group_and_queue_are_annotations(annotations: dict[str, str], group: str, queue: str) -> None:
    found = read(manifest(annotations))
    assert found is not None
    assert (found.group, found.queue, found.job) == (group, queue, "")


@pytest.mark.parametrize(
    ("status", "since"),
    [
        pytest.param({"phase": "Pending"}, "2026-01-01T00:00:00Z", id="creation"),
        pytest.param({"phase": "Failed"}, "2026-01-01T00:00:00Z", id="failed, without a time"),
        pytest.param(
            {
                "phase": "Failed",
                "containerStatuses": [
                    {"state": {"terminated": {"finishedAt": "2026-01-01T00:00:09Z"}}},
                    {"state": {"terminated": {"finishedAt": "2026-01-01T00:00:07Z"}}},
                ],
            },
            "2026-01-01T00:00:09Z",
            id="its last container has finished",
        ),
        pytest.param(
            {
                "phase": "Failed",
                "containerStatuses": [{"state": {"terminated": {"finishedAt": "2026-01-01T00:00:09Z"}}}],
                "conditions": [{"type": "example.com/gate", "lastTransitionTime": "2026-01-01T00:09:00Z"}],
            },
            "2026-01-01T00:00:09Z",
            id="a condition changes later",
        ),
        pytest.param(
            {"phase": "Failed", "conditions": [{"type": "Ready", "lastTransitionTime": "2026-01-01T00:00:05Z"}]},
            "2026-01-01T00:00:05Z",
            id="evicted by the kubelet",
        ),
    ],
)
def test_time_since_when_a_pod_is_pending_or_has_failed(status: dict[str, Any], since: str) -> None:
    pod = manifest({"scheduling.k8s.io/group-name": "g"}, creationTimestamp="2026-01-01T00:00:00Z")
    found = read({**pod, "status": status})
    assert found is not None
    assert found.since == since


def test_other_pods_have_no_record() -> None:
    assert read(manifest({"scheduling.k8s.io/group-name": ""})) is None


def test_pod_with_an_invalid_request_is_recorded_without_it() -> None:
    pod = manifest({"scheduling.k8s.io/group-name": "g"})
    pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "many"}
    found = read(pod)
    assert found is not None
    assert found.requests == {}
