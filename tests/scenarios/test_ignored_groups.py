"""Pods that declare a group which no plugin reads are scheduled one by one, and an event says so."""

from __future__ import annotations

import pytest

from pyscheduler.core.pod_groups.ignored_groups import POD_GROUP_IGNORED, QUEUE_IGNORED
from pyscheduler.testing import Harness, PodBuilder, node, pod

PROFILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins: {multiPoint: {enabled: [{name: %s}]}}
"""
KUEUE_GROUP, MANAGED, OURS = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/managed", "pyscheduler.io/pod-group-queue"
VOLCANO, PGROUP = "scheduling.k8s.io/group-name", "scheduling.x-k8s.io/pod-group"


def notes(harness: Harness, name: str = "a") -> list[str]:
    return [note for reason, note in harness.events(name) if reason == POD_GROUP_IGNORED]


@pytest.mark.parametrize(
    ("made", "declaration"),
    [
        pytest.param(pod("a").annotation(VOLCANO, "g"), f"The annotation {VOLCANO}", id="Volcano"),
        pytest.param(pod("a").annotation("pyscheduler.io/pod-group", "g"), "The annotation pyscheduler.io/", id="ours"),
        pytest.param(pod("a").label(PGROUP, "g"), f"The label {PGROUP}", id="scheduler-plugins"),
        pytest.param(
            pod("a").spec(schedulingGroup={"podGroupName": "g"}), "The field spec.schedulingGroup", id="native"
        ),
        pytest.param(
            pod("a").annotation("yunikorn.apache.org/task-group-name", "g"), "The annotation yuni", id="YuniKorn"
        ),
    ],
)
def test_ignored_declaration_is_named_in_one_event(made: PodBuilder, declaration: str) -> None:
    harness = Harness()
    harness.add(node("n"), made)
    harness.run()
    assert harness.assignments == {"a": "n"}
    [note] = notes(harness)
    assert note.startswith(declaration)
    assert "no plugin of profile default-scheduler reads: the pod is scheduled by itself" in note


@pytest.mark.parametrize(
    ("plugin", "made", "is_ignored"),
    [
        ("PodGroups", pod("a").annotation(VOLCANO, "g"), False),
        ("PodGroups", pod("a").label(PGROUP, "g"), False),
        ("Gang", pod("a").label(PGROUP, "g"), False),
        ("Gang", pod("a").annotation(VOLCANO, "g"), True),
        ("BinPack", pod("a").label(PGROUP, "g"), True),
        ("BinPack", pod("a").label("app", "g").annotation("note", "g"), False),
    ],
)
def test_declaration_is_ignored_unless_a_plugin_reads_it(plugin: str, made: PodBuilder, is_ignored: bool) -> None:
    harness = Harness(PROFILE % plugin)
    harness.add(node("n"), made)
    harness.run()
    assert bool(notes(harness)) is is_ignored


@pytest.mark.parametrize(
    ("plugin", "made", "reason", "text"),
    [
        (
            "Queues",
            pod("a").label("kueue.x-k8s.io/queue-name", "q"),
            QUEUE_IGNORED,
            "The label kueue.x-k8s.io/queue-name",
        ),
        (
            "Queues",
            pod("a").annotation("yunikorn.apache.org/queue", "root.q"),
            QUEUE_IGNORED,
            "The annotation yunikorn",
        ),
        ("Queues", pod("a").label("yunikorn.apache.org/queue", "root.q"), QUEUE_IGNORED, "The label yunikorn"),
        ("Queues", pod("a").label("applicationId", "app").label("queue", "root.q"), QUEUE_IGNORED, "The label queue"),
        ("Queues", pod("a").label("queue", "anything"), "", ""),
        ("PodGroups", pod("a").label("kueue.x-k8s.io/queue-name", "q"), "", ""),
        ("Queues", pod("a").label("kueue.x-k8s.io/queue-name", "q").annotation(OURS, "default"), "", ""),
        ("Queues", pod("a").label("kueue.x-k8s.io/queue-name", "q").label(MANAGED, "true"), "", ""),
        ("PodGroups", pod("a").label(KUEUE_GROUP, "g"), POD_GROUP_IGNORED, f"The label {KUEUE_GROUP}"),
        ("BinPack", pod("a").label(KUEUE_GROUP, "g"), POD_GROUP_IGNORED, f"The label {KUEUE_GROUP}"),
        ("PodGroups", pod("a").label(KUEUE_GROUP, "g").label(MANAGED, "true"), "", ""),
    ],
)
def test_queues_and_groups_of_other_systems_have_an_event(
    plugin: str, made: PodBuilder, reason: str, text: str
) -> None:
    """Pods of a system that was replaced would be in the queue default without a word."""
    profile = PROFILE % plugin
    harness = Harness(profile.replace("enabled: [", "enabled: [{name: PodGroups}, ") if plugin == "Queues" else profile)
    harness.add(node("n"), made)
    harness.run()
    assert harness.assignments == {"a": "n"}
    [*found] = [(each, note) for each, note in harness.events("a") if each in (POD_GROUP_IGNORED, QUEUE_IGNORED)]
    assert [each for each, _ in found] == ([reason] if reason else [])
    assert all(note.startswith(text) for _, note in found)


def test_annotation_that_a_controller_adds_later_is_named() -> None:
    """Volcano's controller creates the PodGroup of a pod without one, and then annotates the pod."""
    harness = Harness()
    harness.add(pod("a"))
    harness.run()
    assert notes(harness) == []
    for version in (2, 3):
        harness.add(pod("a").annotation(VOLCANO, "g").label("app", str(version)).version(version))
        harness.run()
    assert len(notes(harness)) == 1


def test_event_is_not_repeated_by_attempts() -> None:
    harness = Harness()
    harness.add(pod("a").annotation(VOLCANO, "g"))
    harness.run()
    harness.add(node("n"))
    harness.advance(30)
    assert harness.assignments == {"a": "n"}
    assert len(notes(harness)) == 1
