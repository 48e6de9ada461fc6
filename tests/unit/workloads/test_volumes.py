"""Claims are bound to volumes that fit, or to provisioned ones, and volumes follow their claims."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.embedded.client.kinds import CLAIMS, VOLUMES
from pyscheduler.embedded.objects import Key
from pyscheduler.embedded.workloads.actions import Action, Create, Delete, Patch, RecordAction
from pyscheduler.embedded.workloads.volume_index import VolumeIndex
from pyscheduler.embedded.workloads.volumes import SELECTED_NODE, reconcile_claim, reconcile_volume
from tests.unit.workloads.builders import Json, terminating

MODES = ["ReadWriteOnce"]


def claim(*, phase: str = "Pending", annotations: Json | None = None, size: str = "1Gi", **spec: Any) -> Json:
    meta = {"name": "c", "namespace": "n", "uid": "u", "annotations": annotations or {}}
    resources = {"requests": {"storage": size}}
    whole = {"accessModes": MODES, "resources": resources, "volumeMode": "Filesystem", **spec}
    return {"metadata": meta, "spec": whole, "status": {"phase": phase}}


def volume(name: str = "v", size: str = "1Gi", *, phase: str = "Available", **spec: Any) -> Json:
    whole = {"capacity": {"storage": size}, "accessModes": MODES, "volumeMode": "Filesystem", **spec}
    return {"metadata": {"name": name, "uid": name, "resourceVersion": "7"}, "spec": whole, "status": {"phase": phase}}


def storage_class(name: str = "gold", mode: str = "Immediate", **more: Any) -> Json:
    return {"metadata": {"name": name}, "provisioner": "example.com/disk", "volumeBindingMode": mode, **more}


def by_name(*objects: Json) -> dict[Key, Json]:
    return {("", each["metadata"]["name"]): each for each in objects}


def index_of(*volumes: Json) -> VolumeIndex:
    index = VolumeIndex()
    for each in volumes:
        index.change(None, each)
    return index


def bound_to(actions: list[Action]) -> list[str]:
    """Return the volumes to which the actions bind the claim."""
    return [
        a.patch["spec"]["volumeName"]
        for a in actions
        if isinstance(a, Patch) and "volumeName" in a.patch.get("spec", {})
    ]


def reasons(actions: list[Action]) -> list[str]:
    return [action.reason for action in actions if isinstance(action, RecordAction)]


def provisioned(actions: list[Action]) -> list[Json]:
    return [action.obj for action in actions if isinstance(action, Create) and action.resource == VOLUMES]


@pytest.mark.parametrize(
    ("wanted", "volumes", "chosen"),
    [
        pytest.param(claim(), [volume("big", "9Gi"), volume("small", "2Gi")], ["small"], id="the smallest that fits"),
        pytest.param(claim(size="5Gi"), [volume("small", "2Gi")], [], id="too small"),
        pytest.param(claim(), [terminating(volume())], [], id="volume in deletion"),
        pytest.param(claim(), [volume(storageClassName="x")], [], id="another class"),
        pytest.param(claim(accessModes=["ReadWriteMany"]), [volume()], [], id="another access mode"),
        pytest.param(claim(volumeMode="Block"), [volume()], [], id="another volume mode"),
        pytest.param(claim(), [volume(claimRef={"namespace": "n", "name": "other"})], [], id="reserved for another"),
        pytest.param(
            claim(size="5Gi"), [volume(claimRef={"namespace": "n", "name": "c"})], ["v"], id="reserved for it"
        ),
        pytest.param(
            claim(), [volume(claimRef={"namespace": "n", "name": "c", "uid": "x"})], [], id="for its namesake"
        ),
        pytest.param(claim(selector={"matchLabels": {"a": "b"}}), [volume()], [], id="not selected"),
        pytest.param(claim(volumeName="v"), [volume()], ["v"], id="named in the claim"),
        pytest.param(terminating(claim()), [volume()], [], id="in deletion"),
    ],
)
def test_claim_is_bound_to_a_volume_that_fits(wanted: Json, volumes: list[Json], chosen: list[str]) -> None:
    assert bound_to(reconcile_claim(wanted, index_of(*volumes), {})) == chosen


def test_binding_writes_both_objects() -> None:
    actions = [a for a in reconcile_claim(claim(), index_of(volume()), {}) if isinstance(a, Patch)]
    assert [(action.resource, action.subresource) for action in actions] == [
        (VOLUMES, ""),
        (VOLUMES, "status"),
        (CLAIMS, ""),
        (CLAIMS, "status"),
    ]
    assert actions[0].patch["spec"]["claimRef"]["uid"] == "u"
    assert actions[0].patch["metadata"] == {"resourceVersion": "7"}, "rejected if another claim has the volume"
    assert actions[3].patch["status"] == {"phase": "Bound", "accessModes": MODES, "capacity": {"storage": "1Gi"}}


def test_volume_is_provisioned_for_its_class() -> None:
    (made,) = provisioned(reconcile_claim(claim(storageClassName="gold"), index_of(), by_name(storage_class())))
    assert made["metadata"]["name"] == "pvc-u"
    assert made["spec"]["claimRef"] == {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "uid": "u",
        "namespace": "n",
        "name": "c",
    }
    assert (made["spec"]["capacity"], made["spec"]["persistentVolumeReclaimPolicy"]) == ({"storage": "1Gi"}, "Delete")


def test_claim_waits_for_its_first_consumer() -> None:
    classes = by_name(storage_class(mode="WaitForFirstConsumer"))
    waiting = reconcile_claim(claim(storageClassName="gold"), index_of(volume(storageClassName="gold")), classes)
    assert (provisioned(waiting), bound_to(waiting), reasons(waiting)) == ([], [], ["WaitForFirstConsumer"])
    selected = claim(storageClassName="gold", annotations={SELECTED_NODE: "n1"})
    assert len(provisioned(reconcile_claim(selected, index_of(), classes))) == 1


@pytest.mark.parametrize(
    ("wanted", "classes", "reason"),
    [
        pytest.param(claim(), {}, ["FailedBinding"], id="no class"),
        pytest.param(claim(storageClassName="gold"), {}, ["ProvisioningFailed"], id="missing class"),
        pytest.param(
            claim(storageClassName="gold"),
            by_name(storage_class(provisioner="kubernetes.io/no-provisioner")),
            [],
            id="class without provisioner",
        ),
    ],
)
def test_claim_that_cannot_be_bound_has_an_event(wanted: Json, classes: dict[Key, Json], reason: list[str]) -> None:
    actions = reconcile_claim(wanted, index_of(), classes)
    assert (reasons(actions), provisioned(actions)) == (reason, [])


@pytest.mark.parametrize(("allowed", "grown"), [(True, ["5Gi", "5Gi"]), (False, [])])
def test_bound_claim_grows_if_its_class_allows_it(allowed: bool, grown: list[str]) -> None:
    wanted = claim(phase="Bound", volumeName="v", storageClassName="gold", size="5Gi")
    classes = by_name(storage_class(allowVolumeExpansion=allowed))
    actions = [a for a in reconcile_claim(wanted, index_of(volume()), classes) if isinstance(a, Patch)]
    assert [next(iter(a.patch.values()))["capacity"]["storage"] for a in actions] == grown


def test_claim_that_lost_its_volume_says_so() -> None:
    actions = reconcile_claim(claim(phase="Bound", volumeName="v"), index_of(), {})
    assert reasons(actions) == ["ClaimLost"]
    assert isinstance(actions[0], Patch)
    assert actions[0].patch == {"status": {"phase": "Lost"}}


OWN = {"namespace": "n", "name": "c", "uid": "u"}
RESERVED = {"namespace": "n", "name": "c"}


@pytest.mark.parametrize(
    ("kept", "claims", "outcome"),
    [
        pytest.param(volume(phase="Pending"), {}, "Available", id="new"),
        pytest.param(volume(), {}, "", id="available already"),
        pytest.param(volume(phase="Bound", claimRef=OWN), {("n", "c"): claim()}, "", id="in use"),
        pytest.param(volume(phase="Bound", claimRef=OWN), {}, "Released", id="released"),
        pytest.param(
            volume(phase="Bound", claimRef=OWN, persistentVolumeReclaimPolicy="Delete"), {}, "deleted", id="deleted"
        ),
        pytest.param(volume(phase="Pending", claimRef=OWN), {}, "", id="claim not received yet"),
        pytest.param(volume(phase="Pending", claimRef=RESERVED), {}, "Available", id="new and reserved"),
        pytest.param(volume(claimRef=RESERVED), {}, "", id="reserved and available already"),
        pytest.param(
            volume(phase="Released", claimRef=RESERVED), {}, "Available", id="reserved again after its release"
        ),
        pytest.param(
            volume(phase="Bound", claimRef={**OWN, "uid": "x"}), {("n", "c"): claim()}, "Released", id="namesake"
        ),
    ],
)
def test_volume_follows_its_claim(kept: Json, claims: dict[Key, Json], outcome: str) -> None:
    actions = reconcile_volume(kept, claims)
    if not actions:
        assert outcome == ""
    elif isinstance(actions[0], Delete):
        assert outcome == "deleted"
    else:
        assert isinstance(actions[0], Patch)
        assert actions[0].patch == {"status": {"phase": outcome}}


def test_index_follows_the_changes_of_volumes() -> None:
    small, big, other = volume("small", "2Gi"), volume("big", "9Gi"), volume("other", storageClassName="x")
    index = index_of(big, other, small, volume("tiny"))

    def free() -> list[str]:
        return [each["metadata"]["name"] for each in index.free("", 2 * 2**30)]

    assert free() == ["small", "big"]
    taken = volume("small", "2Gi", claimRef=OWN)
    index.change(small, taken)
    grown = volume("big", "20Gi")
    index.change(big, grown)
    assert (free(), list(index.reserved_for(("n", "c")))) == (["big"], [taken])
    index.change(taken, None)
    index.change(grown, terminating(grown))
    assert (free(), list(index.reserved_for(("n", "c"))), index.get("small")) == ([], [], None)
