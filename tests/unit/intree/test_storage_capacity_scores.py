"""VolumeBinding's score: nodes with much free storage are preferred, in the plain and in the NumPy form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pyscheduler.api import SKIP, Requirement, Selector
from pyscheduler.intree import VolumeBinding
from pyscheduler.intree._scoring import UtilizationShapePoint
from pyscheduler.intree.volumes.capacity_index import CapacityIndex, FreeCapacity
from pyscheduler.testing import PodBuilder, node
from pyscheduler.testing.conformance import assert_scores_agree

from .cluster import cycle
from .storage import ZONE, Cluster, Manifest, claim, meta, obj, storage_class, using, volume, within

NODES = [node("a").label(ZONE, "z1"), node("b").label(ZONE, "z2"), node("c")]
TRACKED = obj("CSIDriver", "maker", spec={"storageCapacity": True})


def capacity(name: str, size: str, zone: str, **fields: str) -> Manifest:
    made = obj("CSIStorageCapacity", name, storageClassName="late", capacity=size, **fields)
    return {**meta(made, namespace="default"), "nodeTopology": {"matchLabels": {ZONE: zone}}}


def local(name: str, size: str, zone: str) -> Manifest:
    return volume(name, size, nodeAffinity=within(zone))


def scored(pod: PodBuilder, *objects: Manifest, **args: Any) -> list[int]:
    """Return the scores of the nodes, equal in both forms."""
    cluster, attempt, incoming = Cluster(*objects, nodes=NODES), cycle(), pod.build()
    plugin, table = VolumeBinding(VolumeBinding.Args(**args), cluster.handle), cluster.state.table()
    plugin.pre_filter(attempt, incoming, table)
    assert plugin.pre_score(attempt, incoming, table) is None
    assert_scores_agree(plugin, attempt, incoming, table)
    return [plugin.score(attempt, incoming, each) for each in table]


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param(
            [claim(size="25Gi"), capacity("x", "100Gi", "z1"), capacity("y", "50Gi", "z2")], [75, 50, 0], id="free"
        ),
        pytest.param(
            [claim(size="25Gi"), local("v", "100Gi", "z1"), local("w", "30Gi", "z2")], [75, 17, 0], id="volumes"
        ),
        pytest.param(
            [claim(size="25Gi"), local("v", "50Gi", "z1"), capacity("x", "100Gi", "z1"), capacity("y", "50Gi", "z2")],
            [50, 50, 0],
            id="volumes before free capacity",
        ),
        pytest.param([claim(size="25Gi"), capacity("x", "25Gi", "z1")], [0, 0, 0], id="nothing left"),
        pytest.param(
            [claim(size="25Gi"), capacity("x", "50Gi", "z1"), capacity("w", "100Gi", "z1")],
            [75, 0, 0],
            id="first by name",
        ),
        pytest.param(
            [claim(size="25Gi"), capacity("x", "20Gi", "z1", maximumVolumeSize="30Gi")],
            [0, 0, 0],
            id="volumes may be larger than what is left",
        ),
    ],
)
def test_score_of_one_claim_falls_with_its_share_of_the_storage(
    objects: Sequence[Manifest], expected: list[int]
) -> None:
    assert scored(using("data"), storage_class(), TRACKED, *objects) == expected


def test_claims_of_one_class_share_its_capacity() -> None:
    claims = claim("one", "10Gi"), claim("two", "30Gi")
    assert scored(using("one", "two"), storage_class(), TRACKED, *claims, capacity("x", "80Gi", "z1")) == [50, 0, 0]


def test_volumes_of_one_class_add_up_and_classes_have_equal_weight() -> None:
    fast = claim("fast", "10Gi", "fast")
    volumes = local("v", "20Gi", "z1"), local("w", "60Gi", "z1"), volume("f", "10Gi", "fast", nodeAffinity=within("z1"))
    claims = claim("one", "20Gi"), claim("two", "40Gi"), fast
    objects = (storage_class(), storage_class("fast"), *claims, *volumes)
    # 60 of 80 GiB leaves 25 percent, 10 of 10 GiB nothing; the mean of 25 and 0 is rounded up
    assert scored(using("one", "two", "fast"), *objects) == [13, 0, 0]


def test_shape_may_prefer_full_storage() -> None:
    rising = (UtilizationShapePoint(0, 0), UtilizationShapePoint(100, 10))
    objects = (storage_class(), TRACKED, claim(size="25Gi"), capacity("x", "100Gi", "z1"))
    assert scored(using("data"), *objects, shape=rising) == [25, 0, 0]


def test_use_of_exabytes_is_rated() -> None:
    exabytes = [claim(size="2Ei"), capacity("x", "4Ei", "z1"), capacity("y", "9Ei", "z2")]
    assert scored(using("data"), storage_class(), TRACKED, *exabytes) == [50, 75, 0]


@pytest.mark.parametrize("objects", [[], [TRACKED], [capacity("x", "100Gi", "z1")], [TRACKED, volume("used", "1Gi")]])
def test_score_is_skipped_if_no_capacity_can_be_known(objects: Sequence[Manifest]) -> None:
    cluster, attempt, pod = Cluster(storage_class(), claim(size="2Gi"), *objects, nodes=NODES), cycle(), using("data")
    plugin, table = VolumeBinding(VolumeBinding.Args(), cluster.handle), cluster.state.table()
    plugin.pre_filter(attempt, pod.build(), table)
    is_known = TRACKED in objects  # a driver that publishes capacities may do so later
    assert plugin.pre_score(attempt, pod.build(), table) is (None if is_known else SKIP)


@pytest.mark.parametrize(
    ("labels", "size"),
    [({"host": "a"}, 1), ({"host": "b"}, 2), ({"host": "b", "disk": "ssd"}, 2), ({"disk": "ssd"}, 3), ({}, None)],
)
def test_first_accessible_capacity_is_found(labels: dict[str, str], size: int | None) -> None:
    def only(key: str, *values: str) -> Selector:
        return Selector((Requirement(key, "In", values),))

    exists = Selector((Requirement("disk", "Exists", ()),))
    found = CapacityIndex(
        [FreeCapacity(only("host", "a"), 1), FreeCapacity(only("host", "a", "b"), 2), FreeCapacity(exists, 3)]
    )
    assert found.at(labels) == size
    second = node("second")
    for key, value in labels.items():
        second = second.label(key, value)
    nodes = [node("first").label("host", "a"), second, node("third")]
    for _ in range(2):  # the second time from what is kept
        assert found.sizes(Cluster(nodes=nodes).state.table(), -1).tolist() == [1, -1 if size is None else size, -1]
