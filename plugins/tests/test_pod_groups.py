"""PodGroups: the group of a pod, the requirements of a group, and the groups that an event changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyscheduler.api import Action, ClusterEvent, PodGroup, PodGroupKey, Rejection, ResourceKind
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.testing import PodBuilder, pod
from pyscheduler_plugins.pod_group import POD_GROUP, POD_GROUP_LABEL
from pyscheduler_plugins.pod_groups import native, volcano
from pyscheduler_plugins.pod_groups.plugin import PRIORITY_CLASS, PodGroups
from pyscheduler_plugins.pod_groups.stale_grace import PodGroupsArgs

Json = dict[str, Any]
V1BETA1, V1ALPHA3, V1ALPHA2 = (
    next(kind for kind in native.KINDS if kind.version == version) for version in ("v1beta1", "v1alpha3", "v1alpha2")
)
NATIVE = PodGroupKey("default", "g", "scheduling.k8s.io")
VOLCANO = PodGroupKey("default", "g", "scheduling.volcano.sh")
COSCHEDULING = PodGroupKey("default", "g", "scheduling.x-k8s.io")
ANNOTATED = PodGroupKey("default", "g")


def of_kubernetes(name: str = "a") -> PodBuilder:
    return pod(name).spec(schedulingGroup={"podGroupName": "g"})


def of_volcano(name: str = "a") -> PodBuilder:
    return pod(name).annotation("scheduling.k8s.io/group-name", "g")


def of_coscheduling(name: str = "a") -> PodBuilder:
    return pod(name).label(POD_GROUP_LABEL, "g")


def annotated(name: str = "a", min_count: str = "2") -> PodBuilder:
    group = pod(name).annotation("pyscheduler.io/pod-group", "g")
    return group.annotation("pyscheduler.io/pod-group-min-count", min_count)


def running(name: str, min_count: str, since: str) -> PodBuilder:
    return annotated(name, min_count).on("n").started(since)


def of_controller(kind: str, uid: str = "uid", **labels: str) -> PodBuilder:
    """Return a pod with a controller and a minimum; `_` in label names stands for `-`."""
    member = pod("a").annotation("pyscheduler.io/pod-group-min-count", "2")
    owner = {"apiVersion": "v1", "kind": kind, "name": "train", "uid": uid, "controller": True}
    member.manifest["metadata"]["ownerReferences"] = [owner]
    for name, value in labels.items():
        domain = "jobset" if "job" in name else "leaderworkerset"
        member = member.label(f"{domain}.sigs.k8s.io/{name.replace('_', '-')}", value)
    return member


def pod_group(name: str = "g", **spec: Any) -> Json:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def gang(min_count: int, **spec: Any) -> Json:
    return pod_group(schedulingPolicy={"gang": {"minCount": min_count}}, **spec)


def priority_class(name: str, value: int) -> Json:
    return {"metadata": {"name": name}, "value": value}


def plugin(*objects: tuple[ResourceKind, Json]) -> PodGroups:
    handle = empty_handle()
    handle.objects.watch(PodGroups.watches)
    for kind, obj in objects:
        handle.objects.set(kind, obj)
    return PodGroups(PodGroupsArgs(), handle)


def group(pod_groups: PodGroups, *members: PodBuilder) -> PodGroup:
    found = result(pod_groups, *members)
    assert isinstance(found, PodGroup)
    return found


def message(pod_groups: PodGroups, *members: PodBuilder) -> str:
    found = result(pod_groups, *members)
    assert isinstance(found, Rejection)
    assert not found.resolvable
    return found.message


def result(pod_groups: PodGroups, *members: PodBuilder) -> PodGroup | Rejection:
    """Return the result of `pod_group` for pods of one group."""
    pods = [member.build() for member in members]
    (key,) = {pod_groups.group_of(each) for each in pods}
    assert key is not None
    return pod_groups.pod_group(key, pods)


@pytest.mark.parametrize(
    ("member", "key"),
    [
        pytest.param(pod("a").label("app", "x").annotation("note", "y"), None, id="no group"),
        pytest.param(of_kubernetes(), NATIVE, id="spec.schedulingGroup"),
        pytest.param(of_volcano(), VOLCANO, id="scheduling.k8s.io/group-name"),
        pytest.param(
            pod("a").annotation("scheduling.volcano.sh/group-name", "g"), VOLCANO, id="scheduling.volcano.sh/group-name"
        ),
        pytest.param(
            of_volcano().annotation("scheduling.volcano.sh/group-name", "g"),
            VOLCANO,
            id="both of Volcano's annotations",
        ),
        pytest.param(of_coscheduling(), COSCHEDULING, id="label of scheduling.x-k8s.io"),
        pytest.param(annotated(), ANNOTATED, id="annotation of pyscheduler"),
        pytest.param(of_controller("Job"), PodGroupKey("default", "Job/train", "uid"), id="minimum and a controller"),
        pytest.param(
            of_controller("Job", jobset_name="js", jobset_uid="1234"),
            PodGroupKey("default", "JobSet/js", "1234"),
            id="JobSet",
        ),
        pytest.param(
            of_controller("StatefulSet", name="lws", group_index="0", group_key="abcd"),
            PodGroupKey("default", "LeaderWorkerSet/lws-0", "abcd"),
            id="replica of a LeaderWorkerSet",
        ),
        pytest.param(
            of_controller("Job").annotation("pyscheduler.io/pod-group", "g"), ANNOTATED, id="name and a controller"
        ),
        pytest.param(pod("a").spec(schedulingGroup={}), None, id="schedulingGroup without name"),
        pytest.param(pod("a").label(POD_GROUP_LABEL, ""), None, id="empty label"),
    ],
)
def test_group_of_a_pod(member: PodBuilder, key: PodGroupKey | None) -> None:
    assert plugin().group_of(member.build()) == key


def test_pods_of_two_namespaces_are_in_two_groups() -> None:
    other = plugin().group_of(annotated().namespace("other").build())
    assert other == PodGroupKey("other", "g")


def test_role_is_the_volcano_task_or_the_annotation() -> None:
    roles = [
        plugin().role_of(each.build())
        for each in (
            of_volcano().annotation("volcano.sh/task-spec", "worker"),
            annotated().annotation("pyscheduler.io/pod-group-role", "launcher"),
            of_kubernetes(),
        )
    ]
    assert roles == ["worker", "launcher", ""]


@pytest.mark.parametrize(
    ("member", "text"),
    [
        pytest.param(
            of_kubernetes().label(POD_GROUP_LABEL, "h"),
            "pod declares several pod groups: PodGroup default/g (scheduling.k8s.io) and "
            "PodGroup default/h (scheduling.x-k8s.io)",
            id="two APIs",
        ),
        pytest.param(
            annotated().annotation("scheduling.k8s.io/group-name", "g"),
            "pod declares several pod groups: PodGroup default/g (scheduling.volcano.sh) and "
            "pod group default/g of annotations",
            id="Volcano and annotations",
        ),
        pytest.param(
            pod("a").annotation("pyscheduler.io/pod-group-min-count", "2"),
            "annotation pyscheduler.io/pod-group-min-count requires the name of the group in annotation "
            "pyscheduler.io/pod-group or a controller of the pod",
            id="annotations without name",
        ),
        pytest.param(
            of_controller("Job").annotation("scheduling.k8s.io/group-name", "g"),
            "pod declares several pod groups: PodGroup default/g (scheduling.volcano.sh) and "
            "pod group default/Job/train of annotations",
            id="Volcano and controller",
        ),
        pytest.param(
            pod("a").annotation("pyscheduler.io/pod-group-role", "worker"),
            "annotation pyscheduler.io/pod-group-role requires the name of the group in annotation "
            "pyscheduler.io/pod-group",
            id="role without group",
        ),
        pytest.param(
            pod("a").annotation("yunikorn.apache.org/task-group-name", "workers"),
            "pod groups declared by yunikorn.apache.org/task-group-name are not supported",
            id="YuniKorn",
        ),
        pytest.param(
            pod("a").label("pod-group.scheduling.sigs.k8s.io", "g"),
            "pod groups declared by pod-group.scheduling.sigs.k8s.io are not supported",
            id="Koordinator's label",
        ),
        pytest.param(
            of_volcano().annotation("gang.scheduling.koordinator.sh/name", "g"),
            "pod groups declared by gang.scheduling.koordinator.sh/name are not supported",
            id="Koordinator and Volcano",
        ),
    ],
)
def test_pod_with_an_invalid_declaration_is_rejected_alone(member: PodBuilder, text: str) -> None:
    pod_groups = plugin((V1BETA1, gang(1)), (volcano.KIND, pod_group(minMember=1)))
    assert message(pod_groups, member) == f"pod default/a: {text}"
    assert pod_groups.group_of(member.build()) not in (NATIVE, VOLCANO, COSCHEDULING, ANNOTATED)


@pytest.mark.parametrize(
    ("member", "name"),
    [
        pytest.param(of_kubernetes(), "scheduling.k8s.io", id="Kubernetes"),
        pytest.param(of_volcano(), "scheduling.volcano.sh", id="Volcano"),
        pytest.param(of_coscheduling(), "scheduling.x-k8s.io", id="scheduler-plugins"),
    ],
)
def test_pods_wait_for_a_missing_pod_group(member: PodBuilder, name: str) -> None:
    assert message(plugin(), member) == f"waiting for PodGroup default/g ({name}) to appear"


def test_pod_group_of_another_api_with_the_same_name_is_not_used() -> None:
    pod_groups = plugin((V1BETA1, gang(2)), (POD_GROUP, pod_group(minMember=3)), (volcano.KIND, pod_group(minMember=4)))
    members = of_kubernetes(), of_coscheduling(), of_volcano()
    assert [group(pod_groups, member).min_count for member in members] == [2, 3, 4]


@pytest.mark.parametrize(
    ("versions", "min_count"),
    [
        pytest.param({V1ALPHA2: gang(2)}, 2, id="1.36"),
        pytest.param({V1ALPHA3: gang(3)}, 3, id="v1alpha3 only"),
        pytest.param({V1ALPHA3: gang(3), V1BETA1: gang(4)}, 4, id="1.37"),
    ],
)
def test_newest_version_of_a_kubernetes_pod_group_is_read(versions: dict[ResourceKind, Json], min_count: int) -> None:
    assert group(plugin(*versions.items()), of_kubernetes()).min_count == min_count


def test_invalid_pod_group_rejects_its_pods_with_object_and_field() -> None:
    pod_groups = plugin((volcano.KIND, pod_group(minMember=-1)))
    text = "PodGroup default/g (scheduling.volcano.sh): spec.minMember: Invalid value: expected int >= 0"
    assert message(pod_groups, of_volcano()) == text


@pytest.mark.parametrize(
    ("kind", "obj", "member"),
    [
        pytest.param(V1BETA1, gang(1, priorityClassName="high"), of_kubernetes(), id="Kubernetes"),
        pytest.param(volcano.KIND, pod_group(priorityClassName="high"), of_volcano(), id="Volcano"),
    ],
)
def test_priority_is_the_value_of_the_priority_class(kind: ResourceKind, obj: Json, member: PodBuilder) -> None:
    pod_groups = plugin((kind, obj), (PRIORITY_CLASS, priority_class("high", 100)))
    assert group(pod_groups, member).priority == 100
    missing = message(plugin((kind, obj)), member)
    assert missing == f'PodGroup default/g ({kind.group}): spec.priorityClassName: no PriorityClass "high" was found'


def test_pods_of_several_schedulers_are_rejected_with_kube_schedulers_text() -> None:
    members = annotated("a"), annotated("b").scheduler("other")
    text = 'all pods in a single pod group should have the same .spec.schedulerName set, got: "default-scheduler" and '
    assert message(plugin(), *members) == text + '"other"'


@pytest.mark.parametrize(
    ("policies", "may_preempt"),
    [
        pytest.param((None, "PreemptLowerPriority"), True, id="all may preempt"),
        pytest.param(("PreemptLowerPriority", "Never"), False, id="one may not"),
    ],
)
def test_group_preempts_only_if_all_its_pods_may(policies: tuple[str | None, ...], may_preempt: bool) -> None:
    members = [annotated(f"p{i}").spec(preemptionPolicy=policy) for i, policy in enumerate(policies)]
    assert group(plugin(), *members).may_preempt is may_preempt


def test_annotations_declare_minimum_and_queue() -> None:
    members = [annotated(name, "3").annotation("pyscheduler.io/pod-group-queue", "research") for name in "ab"]
    assert group(plugin(), *members) == PodGroup(ANNOTATED, 3, queue="research")


@pytest.mark.parametrize("member", [of_kubernetes, of_volcano, of_coscheduling])
def test_annotations_give_a_group_of_each_api_queue_and_role(member: Callable[[], PodBuilder]) -> None:
    kinds = ((V1BETA1, gang(1)), (volcano.KIND, pod_group(minMember=1)), (POD_GROUP, pod_group(minMember=1)))
    annotated_member = member().annotation("pyscheduler.io/pod-group-queue", "research")
    annotated_member = annotated_member.annotation("pyscheduler.io/pod-group-role", "worker")
    assert group(plugin(*kinds), annotated_member).queue == "research"
    assert plugin().role_of(annotated_member.build()) == "worker"


def test_queue_of_a_volcano_pod_group_precedes_the_annotation() -> None:
    member = of_volcano().annotation("pyscheduler.io/pod-group-queue", "research")
    assert group(plugin((volcano.KIND, pod_group(minMember=1, queue="q"))), member).queue == "q"


def test_pods_of_a_recreated_controller_are_a_group_of_their_own() -> None:
    first, second = (plugin().group_of(of_controller("Job", uid).build()) for uid in ("1", "2"))
    assert first != second


@pytest.mark.parametrize(
    ("members", "text"),
    [
        pytest.param(
            (annotated("a", "2"), annotated("b", "2"), annotated("c", "3")),
            "pods default/a and default/c of one pod group have different annotations "
            'pyscheduler.io/pod-group-min-count: "2" and "3"',
            id="minimum",
        ),
        pytest.param(
            (annotated("a"), annotated("b").annotation("pyscheduler.io/pod-group-queue", "q")),
            "pods default/a and default/b of one pod group have different annotations "
            'pyscheduler.io/pod-group-queue: none and "q"',
            id="queue",
        ),
        pytest.param(
            (pod("a").annotation("pyscheduler.io/pod-group", "g"),),
            "pod default/a: annotation pyscheduler.io/pod-group-min-count: required for pods of a pod group",
            id="no minimum",
        ),
    ],
)
def test_annotations_that_differ_or_are_incomplete_are_rejected(members: tuple[PodBuilder, ...], text: str) -> None:
    assert message(plugin(), *members) == text


@pytest.mark.parametrize(
    ("members", "min_count"),
    [
        pytest.param((annotated("a").on("n"), annotated("b", "3")), 3, id="larger"),
        pytest.param((annotated("a").on("n"), annotated("b", "1"), annotated("c").on("n")), 1, id="smaller"),
        pytest.param(
            (running("a", "4", "2026-01-02T00:00:00Z"), running("b", "2", "2026-01-01T00:00:00Z")), 4, id="all run"
        ),
    ],
)
def test_pods_that_wait_or_else_the_last_to_start_declare_the_group(
    members: tuple[PodBuilder, ...], min_count: int
) -> None:
    assert group(plugin(), *members).min_count == min_count


@pytest.mark.parametrize("value", ["", "0", "-1", "two", "1.5", "+2", " 2", "2\n", "\u0662", "1000000000", "9" * 5000])
def test_annotation_that_is_not_a_count_is_rejected(value: str) -> None:
    assert "is not a number of pods from 1 to 999999999" in message(plugin(), annotated("a", value))


def event(kind: ResourceKind, old: Json | None, new: Json | None) -> ClusterEvent:
    action = Action.ADD if old is None else Action.DELETE if new is None else Action.UPDATE_OTHER
    return ClusterEvent(kind.kind, action, old, new)


@pytest.mark.parametrize(
    "kind", [*native.KINDS, volcano.KIND, POD_GROUP], ids=lambda kind: f"{kind.group}/{kind.version}"
)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(None, pod_group(minMember=1), id="added"),
        pytest.param(pod_group(minMember=1), pod_group(minMember=2), id="updated"),
        pytest.param(pod_group(minMember=1), None, id="deleted"),
    ],
)
def test_pod_group_event_changes_its_group(kind: ResourceKind, old: Json | None, new: Json | None) -> None:
    assert PodGroupKey("default", "g", kind.group) in plugin().changed_groups(event(kind, old, new))


def test_status_of_a_pod_group_changes_no_group() -> None:
    old = pod_group(minMember=1)
    assert list(plugin().changed_groups(event(volcano.KIND, old, {**old, "status": {"phase": "Inqueue"}}))) == []


def test_recreated_pod_group_changes_its_group() -> None:
    old = pod_group(minMember=1)
    new = {**old, "metadata": {**old["metadata"], "uid": "other"}}
    assert VOLCANO in plugin().changed_groups(event(volcano.KIND, old, new))


def test_priority_class_event_changes_the_groups_that_name_it() -> None:
    pod_groups = plugin(
        (V1BETA1, gang(1, priorityClassName="high")),
        (volcano.KIND, pod_group("named", priorityClassName="high")),
        (volcano.KIND, pod_group("other", priorityClassName="low")),
        (POD_GROUP, pod_group("none", minMember=1)),
    )
    changed = pod_groups.changed_groups(event(PRIORITY_CLASS, None, priority_class("high", 100)))
    assert list(changed) == [NATIVE, PodGroupKey("default", "named", "scheduling.volcano.sh")]


def test_scheduler_starts_without_permission_to_list_the_kinds() -> None:
    assert all(kind.optional for kind in PodGroups.watches)


@pytest.mark.parametrize("annotation", ["required", "preferred"])
def test_annotation_has_a_limited_number_of_topologies(annotation: str) -> None:
    name = f"pyscheduler.io/pod-group-{annotation}-topology"
    keys = [f"example.com/l{i}" for i in range(17)]
    assert message(plugin(), annotated().annotation(name, ",".join(keys))).endswith("has more than 16 node labels")
    assert len(group(plugin(), annotated().annotation(name, ",".join(keys[:16]))).topology) == 16
