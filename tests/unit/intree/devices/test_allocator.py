"""Allocation of devices to claims, as stories."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from pyscheduler.api.devices import AllocationResult, DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from pyscheduler.intree.devices import lookahead
from pyscheduler.intree.devices.allocated import AllocatedDevices
from pyscheduler.intree.devices.allocator import Allocator
from pyscheduler.intree.devices.errors import AllocationError, AllocationTimeoutError
from pyscheduler.intree.devices.inventory import DeviceID, Inventory
from pyscheduler.intree.devices.quantity import parse
from pyscheduler.intree.devices.score import allocation_score
from pyscheduler.intree.devices.selectors import SelectedDevice
from pyscheduler.intree.devices.taints import apply_taint_rules


class Always:
    """Selectors that count their evaluations and match everything."""

    def __init__(self) -> None:
        self.evaluations = 0

    def matches(self, expression: str, device: SelectedDevice) -> bool:
        self.evaluations += 1
        return True


def devices(number: int, **fields: Any) -> ResourceSlice:
    """Return a slice of `node-1` with equal devices."""
    return devices_of(*[fields] * number)


def devices_of(*described: dict[str, Any]) -> ResourceSlice:
    """Return a slice of `node-1` with these devices."""
    spec = {
        "driver": "gpu.example.com",
        "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "node-1",
        "devices": [{"name": f"gpu-{n}", **each} for n, each in enumerate(described)],
    }
    return msgspec.convert({"metadata": {"name": "slice"}, "spec": spec}, ResourceSlice)


def claim(*requests: dict[str, Any], **fields: Any) -> ResourceClaim:
    """Return a claim of the class `gpu`."""
    named = [{"name": f"r{n}", **each} for n, each in enumerate(requests)]
    spec = {"devices": {"requests": named, **fields}}
    return msgspec.convert({"metadata": {"name": "c", "namespace": "ns"}, "spec": spec}, ResourceClaim)


def exactly(count: int, **fields: Any) -> dict[str, Any]:
    """Return a request for a number of devices."""
    return {"exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count, **fields}}


def allocate(
    slice_: ResourceSlice, *claims: ResourceClaim, allocated: AllocatedDevices | None = None, **options: Any
) -> list[AllocationResult] | None:
    """Allocate on `node-1`."""
    selector = {"cel": {"expression": "true"}}
    spec = {"metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}}
    classes = {"gpu": msgspec.convert(spec, DeviceClass)}
    used = allocated or AllocatedDevices()
    allocator = Allocator(Inventory([slice_]), classes, used, options.pop("selectors", Always()), lambda: "share")
    return allocator.allocate("node-1", {}, claims, **options)


def names(results: list[AllocationResult] | None) -> list[str] | None:
    """Return the names of all allocated devices."""
    if results is None:
        return None
    return [device.device for result in results for device in result.devices.results or ()]


def test_first_free_devices_are_allocated() -> None:
    used = AllocatedDevices(devices={DeviceID("gpu.example.com", "node-1", "gpu-0")})
    assert names(allocate(devices(4), claim(exactly(2)), allocated=used)) == ["gpu-1", "gpu-2"]


@pytest.mark.parametrize(
    "requests", [[exactly(32)], [exactly(16), exactly(16)]], ids=["one request", "several requests"]
)
def test_one_device_too_few_fails_after_few_steps(requests: list[dict[str, Any]]) -> None:
    """Trying all subsets of 31 devices takes 2^31 steps (kubernetes issue 131730)."""
    assert allocate(devices(31), claim(*requests), steps=50_000) is None
    with pytest.raises(AllocationTimeoutError, match="context deadline exceeded"):
        allocate(devices(31), claim(*requests), steps=50_000, prunes=False)


def test_checks_of_a_hopeless_search_count_as_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs of requests on different boards, as the edges of a graph that three colours do not suffice for."""
    considered = 0
    is_candidate = lookahead.is_candidate

    def count(*arguments: Any) -> bool:
        nonlocal considered
        considered += 1
        return is_candidate(*arguments)

    monkeypatch.setattr(lookahead, "is_candidate", count)
    boards = [{"attributes": {"board": {"int": n % 3}, "serial": {"int": n // 3}}} for n in range(36)]
    slice_ = devices_of(*boards)
    rng = random.Random(1)
    edges = [[f"r{n}" for n in rng.sample(range(24), 3)] for _ in range(32)]
    constraints = [{"requests": edge, "distinctAttribute": "gpu.example.com/board"} for edge in edges]
    with pytest.raises(AllocationTimeoutError):
        allocate(slice_, claim(*[exactly(1)] * 24, constraints=constraints), steps=20_000)
    assert considered <= 20_000


def test_request_of_a_later_claim_ends_the_search() -> None:
    impossible = claim(exactly(1), constraints=[{"matchAttribute": "example.org/absent"}])
    assert allocate(devices(32), claim(exactly(16)), claim(exactly(8)), impossible, steps=50_000) is None


def test_depth_of_the_search_is_not_limited_by_the_interpreter() -> None:
    claims = [claim(exactly(1, adminAccess=True), exactly(1, adminAccess=True)) for _ in range(500)]
    assert len(names(allocate(devices(2), *claims)) or ()) == 1000


def test_selector_is_evaluated_once_for_equal_devices() -> None:
    selectors = Always()
    allocate(devices(8), claim(exactly(8)), selectors=selectors)
    assert selectors.evaluations == 1


def test_shared_devices_get_an_identifier_and_the_consumed_capacity() -> None:
    slice_ = devices(1, allowMultipleAllocations=True, capacity={"memory": {"value": "10Gi"}})
    requests = [exactly(1, capacity={"requests": {"memory": "4Gi"}})] * 2
    results = allocate(slice_, claim(*requests))
    assert results
    assert [(d.share_id, d.consumed_capacity) for d in results[0].devices.results or ()] == [
        ("share", {"memory": "4Gi"}),
        ("share", {"memory": "4Gi"}),
    ]
    assert allocate(slice_, claim(*requests, requests[0])) is None


def test_earlier_alternatives_score_higher() -> None:
    alternatives = [{"name": n, "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": c} for n, c in _TWO]
    wanted = claim({"firstAvailable": alternatives})
    results = allocate(devices(1), wanted)
    assert results
    assert allocation_score([(wanted, results[0])]) == 7


_TWO = (("both", 2), ("one", 1))


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (exactly(33), "request r0: adding 33 devices exceeds the claim limit of 32, with 0 already accounted for"),
        (exactly(1, deviceClassName=""), "request r0: missing device class name"),
        (
            exactly(1, deviceClassName="x"),
            'device class x: deviceclass.resource.k8s.io "x" not found',
        ),
        (exactly(1, selectors=[{}]), "request r0, selector #0: CEL expression empty"),
        ({}, "request r0: missing device class name"),
        (
            exactly(1, capacity={"requests": {"memory": "much"}}),
            "r0: capacity request: 'much' is not a quantity",
        ),
    ],
)
def test_mistakes_in_claims_name_the_place(request_: dict[str, Any], text: str) -> None:
    with pytest.raises(AllocationError) as raised:
        allocate(devices(40), claim(request_))
    assert str(raised.value).startswith("claim ns/c, request")
    assert text in str(raised.value)


def test_pool_with_an_invalid_quantity_is_not_used() -> None:
    with pytest.raises(AllocationError, match="invalid resource pools were encountered"):
        allocate(devices(1, capacity={"memory": {"value": "much"}}), claim(exactly(1)))


@pytest.mark.parametrize(
    ("selector", "tainted"),
    [(None, False), ({}, True), ({"device": "gpu-0"}, True), ({"device": "gpu-1"}, False), ({"driver": "x"}, False)],
)
def test_taint_rules_apply_to_selected_devices(selector: dict[str, str] | None, tainted: bool) -> None:
    spec = {"deviceSelector": selector, "taint": {"key": "broken", "effect": "NoSchedule"}}
    rule = msgspec.convert({"metadata": {"name": "rule"}, "spec": spec}, DeviceTaintRule)
    assert (allocate(apply_taint_rules(devices(1), [rule]), claim(exactly(1))) is None) == tainted


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("1.5Gi", "1536Mi"),
        ("1000m", "1"),
        ("1.500", "1.500"),
        ("1.50", "1500m"),
        ("2048Ki", "2Mi"),
        ("0.5Ki", "512"),
        ("1e3", "1e3"),
    ],
)
def test_quantities_are_shown_in_canonical_form(given: str, shown: str) -> None:
    assert str(parse(given)) == shown
