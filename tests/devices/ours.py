"""Allocation of a document by pyscheduler."""

from __future__ import annotations

from collections import defaultdict
from itertools import count
from typing import Any

import msgspec

from pyscheduler.api.devices import AllocationResult, DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from pyscheduler.intree.devices.allocated import AllocatedDevices
from pyscheduler.intree.devices.allocator import DEFAULT_STEPS, Allocator
from pyscheduler.intree.devices.errors import AllocationError, AllocationTimeoutError, NodeAllocationError
from pyscheduler.intree.devices.inventory import DeviceID, Inventory
from pyscheduler.intree.devices.quantity import parse
from pyscheduler.intree.devices.taints import apply_taint_rules
from tests.devices.expressions import GeneratedExpressions

Result = dict[str, Any]


def allocate(document: dict[str, Any], *, prunes: bool = True, steps: int = DEFAULT_STEPS) -> Result:
    """Return the allocations or the error, in the form of the allocator command."""
    numbers = count(1)
    classes = {each["metadata"]["name"]: msgspec.convert(each, DeviceClass) for each in document["classes"]}
    rules = msgspec.convert(document["rules"], list[DeviceTaintRule])
    slices = msgspec.convert(document["slices"], list[ResourceSlice])
    inventory = Inventory((apply_taint_rules(each, rules) for each in slices), fractional=True)
    allocator = Allocator(
        inventory,
        classes,
        in_use(document["allocated"]),
        GeneratedExpressions(),
        lambda: f"share-{next(numbers)}",
        steps,
    )
    node = document["node"]["metadata"]
    claims = msgspec.convert(document["claims"], list[ResourceClaim])
    try:
        results = allocator.allocate(node["name"], node.get("labels", {}), claims, steps=steps, prunes=prunes)
    except AllocationTimeoutError as error:
        return {"error": str(error), "timedOut": True}
    except NodeAllocationError as error:
        return {"error": str(error), "onNode": True}
    except AllocationError as error:
        return {"error": str(error)}
    return {"allocations": [_builtins(result) for result in results]} if results else {}


def in_use(usage: dict[str, Any]) -> AllocatedDevices:
    """Return the devices in use."""
    consumed: dict[DeviceID, dict[str, int]] = defaultdict(dict)
    for each in usage["capacity"]:
        amounts = consumed[DeviceID(*each["device"])]
        for name, amount in each["consumed"].items():
            amounts[name] = amounts.get(name, 0) + parse(amount).nano
    return AllocatedDevices(
        devices={DeviceID(*each) for each in usage["devices"]},
        shared={DeviceID(*each[:3]) for each in usage["shared"]},
        consumed=dict(consumed),
    )


def _builtins(result: AllocationResult) -> Result:
    return dict(msgspec.to_builtins(result))
