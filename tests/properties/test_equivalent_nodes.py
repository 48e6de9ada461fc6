"""Nodes that EquivalentNodes gives one number have one outcome of an allocation, whatever their devices are called."""

from __future__ import annotations

import copy
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api.devices import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from pyscheduler.intree.devices import equivalent_nodes
from pyscheduler.intree.devices.allocated import AllocatedDevices
from pyscheduler.intree.devices.allocator import Allocator
from pyscheduler.intree.devices.equivalent_nodes import EquivalentNodes
from pyscheduler.intree.devices.errors import AllocationError, AllocationTimeoutError, NodeAllocationError
from pyscheduler.intree.devices.inventory import DeviceID, Inventory
from pyscheduler.intree.devices.taints import apply_taint_rules
from pyscheduler.testing import NodeBuilder, node
from tests.devices.expressions import GeneratedExpressions
from tests.devices.generator import draw
from tests.devices.ours import in_use
from tests.properties.profiles import assert_caught, quick
from tests.unit.intree.cluster import state_of

Json = dict[str, Any]
TWIN = "twin-of-"
SEEDS = st.integers(0, 1_000_000)
FOCUS = ("", "usage", "capacity", "shared")
"""Features of documents in turn: what matters here is the use of devices."""


def twin(document: Json, rng: random.Random) -> Json:
    """Return the document with a second node: its own slices once more under other names.

    A device of it may lack something, not be in use, or have no capacity left.
    """
    name = document["node"]["metadata"]["name"]
    own = [each for each in document["slices"] if each["spec"].get("nodeName") == name]
    pools = {(each["spec"]["driver"], each["spec"]["pool"]["name"]) for each in own}
    made = copy.deepcopy(document)
    for each in copy.deepcopy(own):
        each["metadata"]["name"] = TWIN + each["metadata"]["name"]
        each["spec"]["nodeName"] = TWIN + name
        each["spec"]["pool"]["name"] = TWIN + each["spec"]["pool"]["name"]
        for device in each["spec"].get("devices") or []:
            if rng.random() < 0.1:
                device.pop(rng.choice(("attributes", "capacity", "taints", "consumesCounters")), None)
        made["slices"].append(each)
    usage = made["allocated"]
    for kind, device_of in (("devices", None), ("shared", None), ("capacity", "device")):
        for each in [each for each in usage[kind] if tuple((each[device_of] if device_of else each)[:2]) in pools]:
            if rng.random() < 0.4:
                continue
            added = copy.deepcopy(each)
            device = added[device_of] if device_of else added
            device[1] = TWIN + device[1]
            usage[kind].append(added)
    for slice_ in made["slices"][len(document["slices"]) :]:
        if rng.random() < 0.3:
            _consume_all(usage, slice_["spec"])
    return made


def _consume_all(usage: Json, spec: Json) -> None:
    """Let the shareable devices of a slice have no capacity left."""
    for device in spec.get("devices") or []:
        if device.get("allowMultipleAllocations") and device.get("capacity"):
            key = [spec["driver"], spec["pool"]["name"], device["name"]]
            usage["shared"].append([*key, "all"])
            usage["capacity"].append({"device": key, "consumed": dict.fromkeys(device["capacity"], "1000")})


def check(seed: int) -> None:
    """Check one random document, before and after its use has changed."""
    rng = random.Random(seed)
    document = twin(msgspec.to_builtins(draw(seed, FOCUS[seed % len(FOCUS)])), rng)
    rules = msgspec.convert(document["rules"], list[DeviceTaintRule])
    slices = [apply_taint_rules(each, rules) for each in msgspec.convert(document["slices"], list[ResourceSlice])]
    named = {each.spec.node_name for each in slices if each.spec.node_name}
    names = [document["node"]["metadata"]["name"], *sorted(named)]
    labels = document["node"]["metadata"].get("labels") or {}
    names = list(dict.fromkeys([*names, "bare", "bare-too"]))
    state, equivalent, devices = state_of([_node(name, labels) for name in names]), EquivalentNodes(), Inventory(slices)
    columns = state.table()
    used = in_use(document["allocated"])
    empty = AllocatedDevices()
    equivalent.refresh(devices, empty, (), columns)
    outcomes: dict[int, tuple[str, str]] = {}
    epoch = -1
    for allocated in (empty, used, used):
        pools = {each.pool: None for each in devices.slices}
        equivalent.refresh(devices, allocated, rng.choice((pools, None)), columns)
        if equivalent.epoch != epoch:
            epoch, outcomes = equivalent.epoch, {}
        numbers = equivalent.numbers(columns).tolist()
        assert equivalent.numbers_in_use() == sorted({*numbers}), "numbers in use"
        for number, each in zip(numbers, columns, strict=True):
            found = outcome(document, devices, allocated, each.name, each.labels)
            other, known = outcomes.setdefault(number, (each.name, found))
            assert known == found, f"{each.name} and {other}: {found} and {known}"
        for name in names:  # an outcome that is known for a number holds for nodes that get it later
            if rng.random() < 0.5:
                state.set_node(_node(name, {} if rng.random() < 0.5 else labels).build())
        columns = state.table()
    state.remove_node(rng.choice(names))
    columns = state.table()
    equivalent.refresh(devices, empty, None, columns)
    assert equivalent.numbers_in_use() == sorted({*equivalent.numbers(columns).tolist()}), "numbers in use"


def _node(name: str, labels: dict[str, str]) -> NodeBuilder:
    built = node(name)
    for key, value in labels.items():
        built = built.label(key, value)
    return built


def outcome(document: Json, devices: Inventory, allocated: AllocatedDevices, name: str, labels: Any) -> str:
    """Return what the claims get on a node, without the names of devices."""
    classes = {each["metadata"]["name"]: msgspec.convert(each, DeviceClass) for each in document["classes"]}
    allocator = Allocator(devices, classes, allocated, GeneratedExpressions(), lambda: "share")
    claims = msgspec.convert(document["claims"], list[ResourceClaim])
    try:
        results = allocator.allocate(name, labels, claims)
    except (AllocationTimeoutError, NodeAllocationError, AllocationError) as error:
        return type(error).__name__
    return "nothing" if results is None else str([[r.request for r in each.devices.results or ()] for each in results])


@quick(150)
@given(SEEDS)
def test_equivalent_nodes_have_one_outcome(seed: int) -> None:
    check(seed)


def _no_use(_allocated: AllocatedDevices, _device: DeviceID) -> bool:
    return False


def _no_consumed_amounts(allocated: AllocatedDevices, device: DeviceID) -> bool:
    return device in allocated.devices


def _number_of_devices(self: Any, pool: Any, usable_of: Any) -> Any:
    return POOL(self, pool, usable_of)._replace(content=len(pool.devices))


def _only_added_nodes(self: EquivalentNodes, number: int, more: int) -> None:
    self._nodes_with[number] += max(more, 0)


POOL = EquivalentNodes._pool
PLANTED = [
    pytest.param(equivalent_nodes, "_use", _no_use, id="devices in use"),
    pytest.param(equivalent_nodes, "_use", _no_consumed_amounts, id="consumed capacity", marks=pytest.mark.slow),
    pytest.param(EquivalentNodes, "_pool", _number_of_devices, id="fields of devices"),
    pytest.param(equivalent_nodes, "_usable", lambda *_: (), id="nodes of devices", marks=pytest.mark.slow),
    pytest.param(EquivalentNodes, "_count", _only_added_nodes, id="numbers in use"),
]


@pytest.mark.parametrize(("owner", "name", "bug"), PLANTED)
def test_property_catches_planted_bug(owner: Any, name: str, bug: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, name, bug)
    assert_caught(check, SEEDS, AssertionError, examples=6000)
