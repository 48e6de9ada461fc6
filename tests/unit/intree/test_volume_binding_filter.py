"""VolumeBinding's Filter: nodes on which a pod's volumes are accessible or can be bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pyscheduler.api import StatusError
from pyscheduler.intree import VolumeBinding
from pyscheduler.testing import NodeBuilder, PodBuilder, node
from pyscheduler.testing.conformance import assert_filters_agree

from .cluster import Reasons, cycle
from .storage import Cluster, Manifest, bound, claim, meta, obj, spec, storage_class, using, volume, within

UNREACHED = "node(s) didn't match PersistentVolume's node affinity"
UNMATCHED = "node(s) didn't find available persistent volumes to bind"
NO_ROOM = "node(s) did not have enough free storage"
LOST = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

NODES = [node("a").zone("z1"), node("b").zone("z2"), node("c")]
NOWHERE = storage_class(provisioner="kubernetes.io/no-provisioner")
SELECTED = "volume.kubernetes.io/selected-node"


def results(incoming: PodBuilder, *objects: Manifest, nodes: Sequence[NodeBuilder] = NODES) -> list[Reasons]:
    """Return the reasons of each node, from both forms."""
    cluster, attempt = Cluster(*objects, nodes=nodes), cycle()
    plugin, built = VolumeBinding(VolumeBinding.Args(), cluster.handle), incoming.build()
    assert_filters_agree(plugin, attempt, built, cluster.state.table())
    rejections = [plugin.filter(attempt, built, info) for info in cluster.state.table()]
    assert not any(r.resolvable for r in rejections if r)
    return [r.reasons if r else None for r in rejections]


def on(result: list[Reasons]) -> str:
    """Return the names of the nodes that fit."""
    return "".join(n.manifest["metadata"]["name"] for n, a in zip(NODES, result, strict=True) if a is None)


# -- bound claims ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("affinity", "fitting"),
    [
        pytest.param(None, "abc", id="none"),
        pytest.param({}, "abc", id="not required"),
        pytest.param(within("z1"), "a", id="a zone"),
        pytest.param(within("z1", "z2"), "ab", id="two zones"),
        pytest.param({"required": {"nodeSelectorTerms": []}}, "", id="no term"),
        pytest.param({"required": {}}, "", id="no terms at all"),
        pytest.param({"required": {"nodeSelectorTerms": [{}]}}, "", id="an empty term"),
        pytest.param(
            {
                "required": {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
                    ]
                }
            },
            "abc",
            id="matchFields are ignored",
        ),
        pytest.param(
            {
                "required": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["b"]}]}
                    ]
                }
            },
            "ac",
            id="not a host",
        ),
        pytest.param(
            {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "x", "operator": "Is"}]}]}},
            "",
            id="an operator that does not exist",
        ),
    ],
)
def test_bound_volume_must_be_accessible(affinity: Any, fitting: str) -> None:
    result = results(using("data"), bound("pv"), volume(nodeAffinity=affinity))
    assert on(result) == fitting
    assert all(a in (None, (UNREACHED,)) for a in result)


def test_a_bound_volume_must_exist() -> None:
    assert results(using("data"), bound("gone")) == [(LOST,)] * 3


def test_claim_without_volume_is_unbound_despite_annotation() -> None:
    completed = meta(claim(), annotations={"pv.kubernetes.io/bind-completed": "yes"})
    assert results(using("data"), completed, NOWHERE) == [(UNMATCHED,)] * 3
    assert results(using("data"), completed, volume(), NOWHERE) == [None] * 3


def test_first_conflicting_bound_claim_is_reported() -> None:
    far, gone = bound("far", "x"), bound("gone", "y")
    there = volume("far", nodeAffinity=within("z1"))
    assert results(using("x", "y"), far, gone, there) == [(LOST,), (UNREACHED,), (UNREACHED,)]
    assert results(using("y", "x"), far, gone, there) == [(LOST,)] * 3


# -- static volumes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offered", "fitting"),
    [
        pytest.param(volume(), "abc", id="free"),
        pytest.param(volume(size="2Gi"), "abc", id="larger"),
        pytest.param(volume(size="1023Mi"), "", id="smaller"),
        pytest.param(volume(size="1073741823999m"), "", id="smaller by a thousandth"),
        pytest.param(volume(nodeAffinity=within("z2")), "b", id="in another zone"),
        pytest.param(volume(storage_class="now"), "", id="of another class"),
        pytest.param(volume(volumeMode="Block"), "", id="a block device"),
        pytest.param(volume(volumeMode="Filesystem"), "abc", id="explicit file system"),
        pytest.param(volume(accessModes=["ReadWriteOnce", "ReadOnlyMany"]), "abc", id="more access modes"),
        pytest.param(volume(accessModes=["ReadOnlyMany"]), "", id="other access modes"),
        pytest.param(volume(volumeAttributesClassName="gold"), "", id="other attributes"),
        pytest.param({**volume(), "status": {"phase": "Released"}}, "", id="not available"),
        pytest.param(meta(volume(), deletionTimestamp="2026-01-01T00:00:00Z"), "", id="being deleted"),
        pytest.param(volume(claimRef={"namespace": "default", "name": "other"}), "", id="another claim's"),
        pytest.param(volume(claimRef={"namespace": "other", "name": "data"}), "", id="another namespace's"),
        pytest.param(volume(claimRef={"namespace": "default", "name": "data"}), "abc", id="pre-bound to the claim"),
        pytest.param(
            volume(claimRef={"namespace": "default", "name": "data", "uid": "uid-data"}), "abc", id="pre-bound by UID"
        ),
        pytest.param(
            volume(claimRef={"namespace": "default", "name": "data", "uid": "older"}),
            "",
            id="pre-bound to a claim with another UID",
        ),
        pytest.param(
            volume(claimRef={"namespace": "default", "name": "data"}, accessModes=[], nodeAffinity=within("z1")),
            "a",
            id="pre-bound with other access modes",
        ),
        pytest.param(
            {**volume(claimRef={"namespace": "default", "name": "data"}), "status": {}},
            "abc",
            id="pre-bound in any phase",
        ),
        pytest.param(
            volume(claimRef={"namespace": "default", "name": "data"}, size="1Mi"), "", id="pre-bound but too small"
        ),
        pytest.param(
            meta(volume(), annotations={"volume.beta.kubernetes.io/storage-class": "x"}), "", id="beta: another class"
        ),
    ],
)
def test_unbound_claim_needs_matching_volume(offered: Manifest, fitting: str) -> None:
    result = results(using("data"), claim(), offered, NOWHERE)
    assert on(result) == fitting
    assert all(a in (None, (UNMATCHED,)) for a in result)


@pytest.mark.parametrize(
    ("selector", "fitting"),
    [({}, "abc"), ({"matchLabels": {"disk": "fast"}}, "abc"), ({"matchLabels": {"disk": "slow"}}, "")],
)
def test_a_claim_may_select_volumes_by_label(selector: Any, fitting: str) -> None:
    offered = meta(volume(), labels={"disk": "fast"})
    assert on(results(using("data"), claim(selector=selector), offered, NOWHERE)) == fitting


def test_invalid_volume_selector_raises() -> None:
    wrong = claim(selector={"matchExpressions": [{"key": "disk", "operator": "Near"}]})
    problem = 'error creating internal label selector for claim: default/data: "Near" is not a valid label selector'
    with pytest.raises(StatusError, match=problem):
        results(using("data"), wrong, NOWHERE)


def test_two_claims_need_two_volumes_on_one_node() -> None:
    wanted = [claim("x"), claim("y"), NOWHERE]
    here: Manifest = {"nodeAffinity": within("z1")}
    assert on(results(using("x", "y"), *wanted, volume("p", **here))) == ""
    assert on(results(using("x", "y"), *wanted, volume("p", **here), volume("q"))) == "a"
    assert on(results(using("x", "y"), *wanted, volume("p"), volume("q"))) == "abc"


def test_the_smaller_claim_leaves_the_larger_volume_to_the_larger_claim() -> None:
    wanted = [claim("big", "5Gi"), claim("small", "1Gi"), NOWHERE]
    assert on(results(using("big", "small"), *wanted, volume("p", "5Gi"), volume("q", "2Gi"))) == "abc"


def test_prebound_volume_rules_out_others() -> None:
    cached = volume("cached", claimRef={"namespace": "default", "name": "data"}, nodeAffinity=within("z1"))
    assert on(results(using("data"), claim(), cached, volume("free"), NOWHERE)) == "a"


# -- provisioning ------------------------------------------------------------------------------------------------------


def topology(*zones: str) -> Manifest:
    return {"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": list(zones)}]}


@pytest.mark.parametrize(
    ("made", "fitting"),
    [
        pytest.param(storage_class(), "abc", id="anywhere"),
        pytest.param(storage_class(provisioner=""), "", id="no provisioner"),
        pytest.param(storage_class(allowedTopologies=[]), "abc", id="no topology"),
        pytest.param(storage_class(allowedTopologies=[topology("z2")]), "b", id="in a zone"),
        pytest.param(storage_class(allowedTopologies=[topology("z2"), topology("z1")]), "ab", id="in either zone"),
        pytest.param(storage_class(allowedTopologies=[{}]), "", id="an empty term"),
        pytest.param(storage_class(allowedTopologies=[topology()]), "", id="a term without values"),
    ],
)
def test_provisioning_respects_allowed_topologies(made: Manifest, fitting: str) -> None:
    result = results(using("data"), claim(), made)
    assert on(result) == fitting
    assert all(a in (None, (UNMATCHED,)) for a in result)


def capacity(size: str | None, labels: Any = None, name: str = "cap", **fields: Any) -> Manifest:
    fields = {"nodeTopology": {"matchLabels": labels or {}}, "storageClassName": "late", **fields}
    return obj("CSIStorageCapacity", name, **({"capacity": size} if size else {}), **fields)


DRIVER = obj("CSIDriver", "maker", spec={"storageCapacity": True})


@pytest.mark.parametrize(
    ("published", "fitting"),
    [
        pytest.param([], "", id="none"),
        pytest.param([capacity("1Gi")], "abc", id="just enough"),
        pytest.param([capacity("1Mi")], "", id="too little"),
        pytest.param([capacity(None)], "", id="capacity not stated"),
        pytest.param([capacity("1Mi", maximumVolumeSize="1Gi")], "abc", id="maximumVolumeSize takes precedence"),
        pytest.param([capacity("9Gi", maximumVolumeSize="1Mi")], "", id="maximumVolumeSize too small"),
        pytest.param([capacity("1Gi", storageClassName="x")], "", id="for another class"),
        pytest.param([capacity("1Gi", nodeTopology=None)], "", id="reached by no node"),
        pytest.param(
            [capacity("1Gi", nodeTopology={"matchExpressions": [{"operator": "?"}]})], "", id="invalid topology"
        ),
        pytest.param([capacity("1Gi", {"topology.kubernetes.io/zone": "z1"})], "a", id="in a zone"),
        pytest.param(
            [
                capacity("1Gi", {"topology.kubernetes.io/zone": "z1"}),
                capacity("1Gi", {"topology.kubernetes.io/zone": "z2"}, name="other"),
            ],
            "ab",
            id="in two zones",
        ),
    ],
)
def test_provisioning_needs_published_capacity(published: list[Manifest], fitting: str) -> None:
    result = results(using("data"), claim(), storage_class(), DRIVER, *published)
    assert on(result) == fitting
    assert all(a in (None, (NO_ROOM,)) for a in result)


@pytest.mark.parametrize("driver", [spec(DRIVER, storageCapacity=False), spec(DRIVER, storageCapacity=None)])
def test_capacity_of_untracked_drivers_is_not_checked(driver: Manifest) -> None:
    assert on(results(using("data"), claim(), storage_class(), driver)) == "abc"


def test_claim_without_size_needs_no_capacity() -> None:
    assert on(results(using("data"), claim(resources={}), storage_class(), DRIVER)) == "abc"


def test_first_unprovisionable_claim_is_reported() -> None:
    classes = [storage_class("far", allowedTopologies=[topology("z1")], provisioner="other"), storage_class(), DRIVER]
    far, full = claim("far", "1Mi", "far"), claim("full", "2Mi")
    assert results(using("far", "full"), far, full, *classes) == [(NO_ROOM,), (UNMATCHED,), (UNMATCHED,)]
    first = claim("full", "1Ki")
    assert results(using("far", "full"), far, first, *classes) == [(NO_ROOM,)] * 3


def test_reasons_of_bound_and_unbound_claims_are_reported_together() -> None:
    there = volume(storage_class="now", nodeAffinity=within("z1"))
    objects = [bound("pv", "x"), there, claim("y"), storage_class(), DRIVER]
    assert results(using("x", "y"), *objects) == [(NO_ROOM,), (UNREACHED, NO_ROOM), (UNREACHED, NO_ROOM)]
    objects = [bound("gone", "x"), claim("y"), NOWHERE]
    assert results(using("x", "y"), *objects) == [(UNMATCHED, LOST)] * 3


# -- claims with a selected node ---------------------------------------------------------------------------------------


def begun(node_name: str, name: str = "data") -> Manifest:
    return meta(claim(name), annotations={SELECTED: node_name})


def test_claim_with_selected_node_fits_that_node_only() -> None:
    # The claim is not matched any more: the matching volume stays available.
    assert results(using("data"), begun("b"), volume(), storage_class()) == [(UNMATCHED,), None, (UNMATCHED,)]
    assert results(using("data"), begun("b"), volume(), NOWHERE) == [(UNMATCHED,)] * 3


def test_claims_with_different_selected_nodes_fit_nowhere() -> None:
    assert on(results(using("x", "y"), begun("a", "x"), begun("b", "y"), storage_class())) == ""


def test_selected_node_conflict_is_reported_with_inaccessible_volume() -> None:
    there = volume(storage_class="now", nodeAffinity=within("z1"))
    reported = results(using("x", "y"), bound("pv", "x"), there, begun("b", "y"), storage_class())
    assert reported == [(UNMATCHED,), (UNREACHED,), (UNREACHED, UNMATCHED)]


def test_selected_node_conflict_is_reported_before_matching() -> None:
    full = [storage_class(), DRIVER, begun("a", "x"), claim("y")]
    assert results(using("x", "y"), *full) == [(NO_ROOM,), (UNMATCHED,), (UNMATCHED,)]


# -- in-tree volumes of migrated plugins -------------------------------------------------------------------------------


def migrated(name: str, *plugins: str) -> Manifest:
    annotation = {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(plugins)}
    return meta(obj("CSINode", name), annotations=annotation)


AWS: Manifest = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
AWS_KEY = "topology.ebs.csi.aws.com/zone"
DRIVERS = [node("a").zone("z1"), node("b").label(AWS_KEY, "z1").zone("z2"), node("c").label(AWS_KEY, "z1")]
ON_B = migrated("b", "kubernetes.io/gce-pd", "kubernetes.io/aws-ebs")
BETA = "failure-domain.beta.kubernetes.io"


def translated(disk: Manifest, *csi_nodes: Manifest, nodes: Sequence[NodeBuilder] = DRIVERS) -> str:
    return on(results(using("data"), bound("pv"), disk, *csi_nodes, nodes=nodes))


@pytest.mark.parametrize(
    ("disk", "fitting"),
    [
        pytest.param(volume(nodeAffinity=within("z1"), **AWS), "ab", id="zone"),
        pytest.param(volume(nodeAffinity=within("z1", key=f"{BETA}/zone"), **AWS), "b", id="beta zone"),
        pytest.param(volume(nodeAffinity=within("z1")), "a", id="no in-tree volume"),
        pytest.param(volume(nodeAffinity=within("z1"), azureDisk={"kind": "Managed"}), "a", id="not on that node"),
        pytest.param(meta(volume(**AWS), labels={"topology.kubernetes.io/zone": "z9__z1"}), "abc", id="label, there"),
        pytest.param(meta(volume(**AWS), labels={f"{BETA}/zone": "z9"}), "ac", id="label, elsewhere"),
        pytest.param(volume(**AWS), "abc", id="no affinity"),
    ],
)
def test_migrated_volume_uses_topology_key_of_driver(disk: Manifest, fitting: str) -> None:
    assert translated(disk, ON_B, migrated("c")) == fitting


@pytest.mark.parametrize(("zone", "fitting"), [(f"{BETA}/zone", "b"), ("topology.kubernetes.io/zone", "")])
def test_beta_region_is_translated_with_beta_zone(zone: str, fitting: str) -> None:
    terms = [{"key": key, "operator": "In", "values": ["z1"]} for key in (zone, f"{BETA}/region")]
    disk = volume(nodeAffinity={"required": {"nodeSelectorTerms": [{"matchExpressions": terms}]}}, **AWS)
    nodes = [node("a"), node("b").label(AWS_KEY, "z1").label("topology.kubernetes.io/region", "z1"), node("c")]
    assert translated(disk, ON_B, nodes=nodes) == fitting


def test_a_plugin_is_migrated_if_its_whole_name_is_listed() -> None:
    disk = volume(nodeAffinity=within("z1"), **AWS)
    assert translated(disk, migrated("b", "kubernetes.io/aws-ebs-next")) == "a"


@pytest.mark.parametrize(
    ("plugin", "source", "labels", "problem"),
    [
        (
            "kubernetes.io/aws-ebs",
            {"awsElasticBlockStore": {"volumeID": "aws://z1/disk"}},
            {},
            "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://z1/disk)",
        ),
        ("kubernetes.io/azure-disk", {"azureDisk": {"kind": "Shared"}}, {}, "kind(Shared) is not supported in csi "),
        (
            "kubernetes.io/gce-pd",
            {"gcePersistentDisk": {"pdName": "d"}},
            {"topology.kubernetes.io/zone": "us-a-1__us-b-1"},
            "failed to get region from zones: multiple or no regions gotten from zones, got: map[us-a:{} us-b:{}]",
        ),
        (
            "kubernetes.io/gce-pd",
            {"gcePersistentDisk": {"pdName": "d"}},
            {f"{BETA}/zone": "here__there"},
            "zone in unexpected format, expected: {locale}-{region}-{zone}, got: here",
        ),
    ],
)
def test_untranslatable_volume_raises_on_migrated_node(
    plugin: str, source: Manifest, labels: Manifest, problem: str
) -> None:
    disk = meta(volume(**source), labels=labels)
    assert translated(disk) == "abc"
    with pytest.raises(StatusError) as caught:
        translated(disk, migrated("b", plugin))
    assert str(caught.value).startswith("could not translate pv: ")
    assert problem in str(caught.value)


@pytest.mark.parametrize("volume_id", ["vol-1", "aws://z1/vol-1", "aws:///vol-1", "disk"])
def test_aws_volume_ids(volume_id: str) -> None:
    disk = volume(awsElasticBlockStore={"volumeID": volume_id}, nodeAffinity=within("z1"))
    assert translated(disk, ON_B) == "ab"
