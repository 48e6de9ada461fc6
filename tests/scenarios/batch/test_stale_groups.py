"""Groups that have lost pods for longer than their grace period."""

from __future__ import annotations

import pytest

from pyscheduler.api import Pod
from tests.scenarios.batch.cluster import CONFIG, Cluster
from tests.scenarios.batch.manifests import (
    APIS,
    COSCHEDULING,
    NATIVE,
    VOLCANO,
    Gang,
    Manifest,
    annotated,
    gang,
    pod,
    priority_class,
    slots,
)

HOUR = 3600


def with_grace(group: Gang, seconds: str, *, of_pods: bool = False) -> Gang:
    """Return a group with the annotation on its object, or on its pods."""
    if of_pods or not group.objects:
        return Gang(
            group.name,
            group.minimum,
            [annotated(each, pod_group_stale_grace_seconds=seconds) for each in group.pods],
            group.objects,
        )
    objects = [annotated(each, pod_group_stale_grace_seconds=seconds) for each in group.objects]
    return Gang(group.name, group.minimum, group.pods, objects)


def broken(group: Gang, *others: Manifest, **options: str) -> Cluster:
    """Return a cluster in which the group has run for ten seconds and has lost its first pod, which is not replaced."""
    cluster = Cluster(*slots(len(group.pods)), **options)
    cluster.submit(group, *others)
    cluster.advance_to(10)
    cluster.exempt(group)
    cluster.delete("Node", cluster.bindings["default/a0"])
    cluster.delete("Pod", "a0")
    return cluster


@pytest.mark.parametrize("api", APIS)
def test_rest_of_a_broken_group_is_evicted_after_its_grace_period(api: str) -> None:
    cluster = broken(with_grace(gang("a", 3, api=api), "60"))
    cluster.submit(pod("waiting"))
    cluster.advance_to(69)
    assert cluster.evicted_names == []
    cluster.advance_to(71)
    assert sorted(cluster.evicted_names) == ["a1", "a2"]
    assert "default/waiting" in cluster.bindings
    cluster.advance_to(HOUR)
    assert sorted(cluster.evicted_names) == ["a1", "a2"]


@pytest.mark.parametrize("api", APIS)
def test_evicted_pods_have_an_event_with_the_reason(api: str) -> None:
    cluster = broken(with_grace(gang("a", 3, api=api), "60"))
    cluster.advance_to(71)
    text = "pod group default/a gives its room back: it has had only 2 of the 3 pods that it needs for 60 s"
    assert ("PodGroupIncomplete", text) in cluster.events("a1")


def test_annotation_of_the_pods_serves_for_a_group_with_an_object() -> None:
    cluster = broken(with_grace(gang("a", 3), "0", of_pods=True))
    cluster.advance(2)
    assert sorted(cluster.evicted_names) == ["a1", "a2"]


@pytest.mark.parametrize("api", [NATIVE, VOLCANO, COSCHEDULING])
def test_grace_period_may_be_changed_while_it_lasts(api: str) -> None:
    group = gang("a", 3, api=api)
    cluster = broken(with_grace(group, "60"))
    cluster.advance_to(40)
    cluster.submit(*with_grace(group, "-1").objects)
    cluster.advance_to(HOUR)
    assert cluster.evicted_names == []
    cluster.submit(*with_grace(group, "5").objects)
    cluster.advance_to(HOUR + 10)
    assert sorted(cluster.evicted_names) == ["a1", "a2"]


def test_grace_period_starts_anew_after_the_group_was_completed() -> None:
    group = with_grace(gang("a", 3), "60")
    cluster = broken(group)
    cluster.submit(group.pods[0])
    cluster.advance_to(50)
    cluster.submit(*slots(3))
    cluster.advance_to(60)
    assert cluster.members(group) == 3
    cluster.delete("Pod", "a1")
    cluster.advance_to(119)
    assert cluster.evicted_names == []
    cluster.advance_to(122)
    assert sorted(cluster.evicted_names) == ["a0", "a2"]


def test_group_with_more_than_its_minimum_is_not_stale() -> None:
    cluster = broken(with_grace(gang("a", 2, 3), "60"))
    cluster.advance_to(HOUR)
    assert cluster.evicted_names == []


def test_group_is_not_evicted_while_others_are_evicted_for_it() -> None:
    group = with_grace(gang("a", 3, [pod(f"a{i}", priority=10) for i in range(3)]), "60")
    cluster = Cluster(*slots(4))
    cluster.submit(annotated(pod("low"), ends_after="50"))
    cluster.submit(group)
    cluster.advance_to(10)
    cluster.exempt(group)
    cluster.delete("Node", cluster.bindings["default/a0"])
    cluster.delete("Pod", "a0")
    cluster.advance_to(40)
    cluster.submit(group.pods[0])
    cluster.advance_to(HOUR)
    assert cluster.evicted_names == ["low"]
    assert cluster.members(group) == 3


def test_evicted_group_starts_again_as_a_whole() -> None:
    group = with_grace(gang("a", 3), "60")
    cluster = broken(group)
    cluster.submit(group.pods[0])
    cluster.advance_to(100)
    assert sorted(cluster.evicted_names) == ["a1", "a2"]
    assert cluster.members(group) == 0
    cluster.submit(*slots(3))
    cluster.advance_to(200)
    assert cluster.members(group) == 3


def test_broken_group_keeps_running_by_default() -> None:
    cluster = broken(gang("a", 3))
    cluster.advance_to(HOUR)
    assert cluster.evicted_names == []


def owned(manifest: Manifest) -> Manifest:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "1", "controller": True}
    return {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": [owner]}}


@pytest.mark.parametrize(
    ("is_owned", "grace", "evicted"),
    [
        pytest.param(True, None, ["a1", "a2"], id="a Job owns the pods"),
        pytest.param(False, None, [], id="nothing would replace the pods"),
        pytest.param(True, "-1", [], id="never, by the annotation"),
        pytest.param(False, "60", ["a1", "a2"], id="by the annotation"),
    ],
)
def test_grace_period_of_the_configuration(is_owned: bool, grace: str | None, evicted: list[str]) -> None:
    args = "    pluginConfig:\n      - {name: PodGroups, args: {staleGracePeriodSeconds: 30}}\n"
    config = CONFIG.read_text(encoding="utf-8").replace("    pluginConfig:\n", args)
    group = gang("a", 3, api=NATIVE)
    group = group if grace is None else with_grace(group, grace)
    members = [owned(each) if is_owned else each for each in group.pods]
    cluster = broken(Gang("a", 3, members, group.objects), priority_class(0), config=config)
    cluster.advance_to(HOUR)
    assert sorted(set(cluster.evicted_names)) == evicted


@pytest.mark.parametrize("of_pods", [True, False])
def test_group_with_an_invalid_grace_period_waits(of_pods: bool) -> None:
    cluster = Cluster(*slots(3))
    cluster.submit(with_grace(gang("a", 3), "soon", of_pods=of_pods))
    cluster.advance(5)
    assert cluster.bindings == {}
    assert '"soon" is not a number of seconds' in cluster.message("a0")


def test_refused_evictions_are_repeated_later() -> None:
    cluster = broken(with_grace(gang("a", 3), "5"))
    refused: list[str] = []

    def refuse(victim: Pod) -> str:
        refused.append(victim.name)
        return "denied by policy" if cluster.time < 40 else ""

    cluster.eviction_error = refuse
    cluster.advance_to(HOUR)
    assert sorted(cluster.evicted_names) == ["a1", "a2"]
    assert len(refused) == 4, "after 5 and 35 seconds"


def test_group_of_another_scheduler_is_not_evicted() -> None:
    group = with_grace(gang("a", 3), "60")
    cluster = Cluster(*slots(3), *group.objects)
    for i, each in enumerate(group.pods[:2]):
        cluster.apply({**each, "spec": {**each["spec"], "schedulerName": "theirs", "nodeName": f"slot{i}"}})
    cluster.advance_to(HOUR)
    assert cluster.evicted_names == []
