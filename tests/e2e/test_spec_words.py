"""Events with names and sources, and conditions, as users and their tools read them.

docs/specs.md maps specs to tests.
"""

from __future__ import annotations

import re
import socket

import pytest

from tests.e2e.client import Json
from tests.e2e.story import NAME, PYSCHEDULER, Story, condition
from tests.e2e.workloads import pod

pytestmark = pytest.mark.asyncio(loop_scope="session")

SEAT = "example.com/seat"
REPORTER = {"reportingController": NAME, "reportingInstance": f"{NAME}-{socket.gethostname()}"}


def reference(item: Json) -> Json:
    """Return an Event's reference to a pod, without the resourceVersion."""
    meta = item["metadata"]
    return {"apiVersion": "v1", "kind": "Pod", **{key: meta[key] for key in ("name", "namespace", "uid")}}


def normalized(event: Json) -> Json:
    """Return an Event without its times and the versions of pods; its name must be `<pod>.<suffix>`."""
    meta = event["metadata"]
    assert re.fullmatch(re.escape(event["regarding"]["name"]) + r"\.[0-9a-f]+", meta["name"])
    assert meta["namespace"] == event["regarding"]["namespace"]
    assert event["eventTime"]
    content = {key: value for key, value in event.items() if key not in ("metadata", "eventTime", "series")}
    for side in ("regarding", "related"):
        if side in content:
            content[side] = {key: value for key, value in content[side].items() if key != "resourceVersion"}
    return content


async def test_bound_pod_has_a_scheduled_event(story: Story) -> None:
    node = await story.node("a")
    await story.pod("web")
    await story.bound("web")
    found = await story.api.get(f"{story.pods}/web")
    (event,) = await story.events("web", "Scheduled")
    assert normalized(event) == {
        **REPORTER,
        "action": "Binding",
        "reason": "Scheduled",
        "type": "Normal",
        "note": f"Successfully assigned {story.namespace}/web to {node}",
        "regarding": reference(found),
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
    }
    assert condition(found, "PodScheduled") == {"type": "PodScheduled", "status": "True"}


async def test_core_event_names_the_reporting_component(story: Story) -> None:
    await story.node("a")
    await story.pod("web")
    await story.events("web", "Scheduled")
    query = "involvedObject.name=web,reason=Scheduled"
    (event,) = await story.api.list(story.at("v1", "events"), fieldSelector=query)
    assert event["reportingComponent"] == NAME
    assert event["source"] == {}
    assert event["involvedObject"]["kind"] == "Pod"
    assert {event["firstTimestamp"], event["lastTimestamp"]} == {None}
    assert "count" not in event


async def test_unschedulable_pod_has_an_equal_condition_and_event(story: Story) -> None:
    await story.node("a", extra={SEAT: "1"})
    await story.pod("small", story.spec({SEAT: "1"}))
    await story.bound("small")  # the node is in the cache now, so there is one rejection
    await story.pod("big", story.spec({SEAT: "2"}))
    message = await story.unschedulable("big")
    found = await story.api.get(f"{story.pods}/big")
    assert condition(found, "PodScheduled") == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "observedGeneration": 1,
    }
    (event,) = await story.events("big", "FailedScheduling")
    assert normalized(event) == {
        **REPORTER,
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "type": "Warning",
        "note": message,
        "regarding": reference(found),
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
    }


async def test_condition_has_the_observed_generation(story: Story) -> None:
    await story.node("a", taints=[{"key": "kind", "value": "rare", "effect": "NoSchedule"}], extra={SEAT: "1"})
    await story.pod("big", story.spec({SEAT: "2"}))
    await story.unschedulable("big", "untolerated taint")
    tolerates = [{"key": "kind", "operator": "Exists", "effect": "NoSchedule"}]
    before = (await story.api.get(f"{story.pods}/big"))["spec"]["tolerations"]
    await story.api.patch(f"{story.pods}/big", {"spec": {"tolerations": [*before, *tolerates]}})
    found = await story.until(
        f"{story.pods}/big", lambda found: "Insufficient" in condition(found, "PodScheduled").get("message", "")
    )
    assert found["metadata"]["generation"] == 2
    assert condition(found, "PodScheduled")["observedGeneration"] == 2


async def test_event_reports_a_cluster_without_nodes(story: Story) -> None:
    await story.pod("early")
    await story.unschedulable_with("early", "no nodes available to schedule pods")
    (event,) = await story.events("early", "FailedScheduling")
    assert event["note"] == "no nodes available to schedule pods"
    await story.node("a")
    assert await story.bound("early") == "a"


async def test_terminating_pod_is_skipped(story: Story) -> None:
    await story.node("a")
    leaving = pod("leaving", story.spec(schedulingGates=[{"name": "example.com/later"}]))
    leaving["metadata"]["finalizers"] = ["example.com/looked-at"]
    await story.api.create(story.pods, leaving)
    await story.api.delete(f"{story.pods}/leaving")
    await story.api.patch(f"{story.pods}/leaving", {"spec": {"schedulingGates": None}})
    (event,) = await story.events("leaving", "FailedScheduling")
    assert event["note"] == f"skip schedule deleting pod: {story.namespace}/leaving"
    found = await story.api.get(f"{story.pods}/leaving")
    assert "nodeName" not in found["spec"]
    await story.api.patch(f"{story.pods}/leaving", {"metadata": {"finalizers": None}})


async def test_victim_has_a_preempted_event(story: Story) -> None:
    node = await story.node("a", extra={SEAT: "5"})
    low, high = await story.priority("low", 1), await story.priority("high", 1000)
    victim = await story.pod("victim", story.spec({SEAT: "3"}, priorityClassName=low))
    await story.bound("victim")
    preemptor = await story.pod("preemptor", story.spec({SEAT: "3"}, priorityClassName=high))
    await story.bound("preemptor")
    (event,) = await story.events("victim", "Preempted")
    content = normalized(event)
    related = content.pop("related", None)  # kube-scheduler tries to set it, and does not
    assert related == (reference(preemptor) if story.scheduler == PYSCHEDULER else None)
    assert content == {
        **REPORTER,
        "action": "Preempting",
        "reason": "Preempted",
        "type": "Normal",
        "note": f"Preempted by pod {preemptor['metadata']['uid']} on node {node}",
        "regarding": reference(victim),
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
    }


async def test_repeated_rejection_is_reported_again(story: Story) -> None:
    await story.node("a", extra={SEAT: "2"})
    await story.pod("small", story.spec({SEAT: "1"}))
    await story.bound("small")
    await story.pod("big", story.spec({SEAT: "3"}))
    message = await story.unschedulable("big")
    await story.events("big", "FailedScheduling")
    await story.delete_pod("small")
    content = await story.events("big", "FailedScheduling", times=2)
    assert {event["note"] for event in content} == {message}
    # The first rejection changes the pod's condition, and kube-scheduler starts a series per version of a pod.
    assert len(content) == (1 if story.scheduler == PYSCHEDULER else 2)
