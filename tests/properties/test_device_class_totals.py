"""DeviceClassTotals, which is incremental, equals a count of all slices for every node."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api import NodeInfo
from pyscheduler.api.devices import DeviceClass, ResourceSlice
from pyscheduler.intree.devices import device_class_totals
from pyscheduler.intree.devices.allocated import AllocatedDevices
from pyscheduler.intree.devices.cel_selectors import CelSelectors
from pyscheduler.intree.devices.device_class_totals import DeviceClassTotals
from pyscheduler.intree.devices.inventory import DeviceID, Inventory, PoolID, PreparedSlice
from pyscheduler.testing import NodeBuilder, node
from tests.properties.profiles import assert_caught, quick
from tests.unit.intree.cluster import state_of

Json = dict[str, Any]
SEEDS = st.integers(0, 1_000_000)
NODES = ("a", "b", "c", "d")
ZONES = ("", "x", "y")
MODEL = 'device.attributes["d"].model == "a"'
"""Fails for devices without a model."""


def selector(rng: random.Random) -> Json:
    zone = {"key": "zone", "operator": "In", "values": [rng.choice(ZONES[1:])]}
    return {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}


def node_fields(rng: random.Random) -> Json:
    return rng.choice(({"nodeName": rng.choice(NODES)}, {"allNodes": True}, {"nodeSelector": selector(rng)}))


def drawn_slice(rng: random.Random, name: str) -> ResourceSlice:
    """Return a slice; a few set no nodes, as those of a later API version may."""
    per_device = rng.random() < 0.3
    devices: list[Json] = []
    for i in range(rng.randint(0, 4)):
        attributes = {} if rng.random() < 0.03 else {"model": {"string": rng.choice("aab")}}
        nodes = node_fields(rng) if per_device and rng.random() < 0.9 else {}
        devices.append({"name": f"{name}-{i}", "attributes": attributes, **nodes})
    nodes = {"perDeviceNodeSelection": True} if per_device else node_fields(rng) if rng.random() < 0.9 else {}
    pool = {"name": rng.choice("pq"), "generation": rng.randint(1, 2), "resourceSliceCount": 1}
    spec = {"driver": "d", "pool": pool, "devices": devices, **nodes}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, ResourceSlice)


def drawn_node(rng: random.Random, name: str) -> NodeBuilder:
    zone = rng.choice(ZONES)
    return node(name).label("zone", zone) if zone else node(name)


def counted(
    each: NodeInfo, slices: list[ResourceSlice], in_use: AllocatedDevices, has_selector: bool
) -> tuple[int, int]:
    """Return the devices of a node and the allocated ones, in the way of calculateDRAResourceTotals."""
    devices = allocated = 0
    for slice_ in slices:
        for device in slice_.spec.devices or ():
            fields = device if slice_.spec.per_device_node_selection else slice_.spec
            terms = (fields.node_selector.node_selector_terms or ()) if fields.node_selector else ()
            wanted = [value for term in terms for e in term.match_expressions or () for value in e.values or ()]
            is_set = fields.node_name or fields.all_nodes or wanted
            if not (
                fields.all_nodes
                or fields.node_name == each.name
                or each.labels.get("zone") in wanted
                or not (is_set or slice_.spec.per_device_node_selection)
            ):
                continue
            attributes = device.attributes or {}
            if has_selector and "model" not in attributes:
                return 0, 0
            if not has_selector or attributes["model"].string_value == "a":
                devices += 1
                allocated += in_use.is_allocated(DeviceID("d", slice_.spec.pool.name, device.name))
    return devices, allocated


def check(seed: int) -> None:
    """Check all nodes after each of some changes to slices, nodes and the use of devices."""
    rng = random.Random(seed)
    state = state_of([drawn_node(rng, name) for name in NODES[: rng.randint(1, 3)]])
    slices = {name: drawn_slice(rng, name) for name in ("s0", "s1", "s2")}
    has_selector = rng.random() < 0.7
    spec: Json = {"selectors": [{"cel": {"expression": MODEL}}]} if has_selector else {}
    subject = DeviceClassTotals(msgspec.convert({"metadata": {"name": "c"}, "spec": spec}, DeviceClass), CelSelectors())
    used: set[DeviceID] = set()
    shared: set[DeviceID] = set()
    inventory, in_use = Inventory(slices.values()), AllocatedDevices(used, shared)
    for _ in range(6):
        changed: list[PoolID] = []
        kind = rng.choice(("slices", "nodes", "use", "use"))
        if kind == "slices":
            name = rng.choice(("s0", "s1", "s2", "s3"))
            if slices.pop(name, None) is None or rng.random() < 0.7:
                slices[name] = drawn_slice(rng, name)
            inventory = Inventory(slices.values(), inventory)
        elif kind == "nodes":
            name = rng.choice(NODES)
            state.set_node(drawn_node(rng, name).build())
        else:
            for device in [each.id for slice_ in inventory.slices for each in slice_.devices if rng.random() < 0.4]:
                rng.choice((used, shared)).symmetric_difference_update({device})
                changed.append(PoolID(device.driver, device.pool))
        nodes = state.table()
        subject.refresh(inventory, in_use, rng.choice((changed, changed, None)), nodes)
        expected = [counted(each, list(slices.values()), in_use, has_selector) for each in nodes]
        devices, allocated = subject.of(nodes)
        assert list(zip(devices.tolist(), allocated.tolist(), strict=True)) == expected
        assert [subject.at(subject.position(each.name)) for each in nodes] == expected


@quick(200)
@given(SEEDS)
def test_totals_equal_a_count_of_all_slices(seed: int) -> None:
    check(seed)


def _all_devices(slice_: PreparedSlice) -> list[Any]:
    return [(slice_.nodes, list(slice_.devices))]


PLANTED = [
    pytest.param(device_class_totals, "_by_nodes", _all_devices, id="nodes of devices"),
    pytest.param(DeviceClassTotals, "_count", lambda *_: None, id="devices in use"),
    pytest.param(DeviceClassTotals, "_matches", lambda *_: True, id="selectors"),
    pytest.param(DeviceClassTotals, "_read_slices", lambda *_: None, id="removed slices"),
]


@pytest.mark.parametrize(("owner", "name", "bug"), PLANTED)
def test_property_catches_planted_bug(owner: Any, name: str, bug: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, name, bug)
    assert_caught(check, SEEDS, AssertionError)
