"""The bare client says to the API server what schedulers say to it."""

from __future__ import annotations

import json

from bench.bare_client import Job, PodMeta

JOB = Job("bare", events=True)
POD = PodMeta("pod-1", "uid-1", "bench")


def test_a_binding_names_pod_uid_and_node() -> None:
    path, body = JOB.binding(POD, "node-7")

    assert path == "/api/v1/namespaces/bench/pods/pod-1/binding"
    assert json.loads(body)["metadata"] == {"namespace": "bench", "name": "pod-1", "uid": "uid-1"}
    assert json.loads(body)["target"]["name"] == "node-7"


def test_an_event_is_what_a_scheduler_writes() -> None:
    path, body = JOB.event(POD, "node-7", 1.5)

    event = json.loads(body)
    assert path == "/apis/events.k8s.io/v1/namespaces/bench/events"
    assert event["eventTime"] == "1970-01-01T00:00:01.500000Z"
    assert (event["reason"], event["note"]) == ("Scheduled", "Successfully assigned bench/pod-1 to node-7")
    assert event["regarding"]["uid"] == "uid-1"


def test_only_its_own_pending_pods_are_listed() -> None:
    assert JOB.pending.endswith("/pods?fieldSelector=spec.schedulerName=bare,spec.nodeName=")
