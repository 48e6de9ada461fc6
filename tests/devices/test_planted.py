"""The recorded documents detect planted bugs: one for each rule of the allocator."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import pytest

from pyscheduler.intree.devices import pools as pools_module
from pyscheduler.intree.devices import results as results_module
from pyscheduler.intree.devices.chosen import ChosenDevices
from pyscheduler.intree.devices.constraints import Constraint
from pyscheduler.intree.devices.counters import PoolCounters
from pyscheduler.intree.devices.search import SearchOutcome
from tests.devices import ours, records
from tests.devices.compare import difference


@dataclass(frozen=True)
class Plant:
    """A bug: a name within the package, `module.attribute`, and what it is replaced by."""

    bug: str
    name: str
    instead: Any

    def __str__(self) -> str:
        return self.bug


def _in_use_without_admin(self: Any, claim: int, request: Any, device: Any) -> bool:
    return bool(self._claims_of.get(device.id)) or device.id in self.allocated.devices


def _in_use_of_attempt(self: Any, claim: int, request: Any, device: Any) -> bool:
    return bool(self._claims_of.get(device.id))


_charge, _configure = ChosenDevices.counters_to_charge, results_module._configuration


def _charge_each_share(self: Any, number: int) -> Any:
    device = self.node.devices[number]
    if device.counters and device.is_shared:
        return self._counters.setdefault(
            self.node.pool_of[number], PoolCounters(self.node.pool_of[number], self.allocated)
        )
    return _charge(self, number)


def _older_first(slices: list[Any], added: Any) -> None:
    if not slices or added.api.spec.pool.generation == slices[0].api.spec.pool.generation:
        slices.append(added)


def _own_slices_only(id_: Any, slices: list[Any], inventory: Any) -> Any:
    return pools_module._build(pools_module.DevicePool(id_, 1), slices, ())


def _unordered_alternatives(self: Any, at: Any, number: int) -> Any:
    for alternative in reversed(range(number)):
        outcome = yield at._replace(alternative=alternative)
        if outcome is SearchOutcome.DONE:
            self.alternative[at.claim, at.request] = alternative
            return outcome
    return SearchOutcome.FAILED


def _first_value_wins(self: Any, value: Any) -> bool:
    return value is not None


def _matches_name_only(self: Any, name: str, labels: Any) -> bool:
    return self.node_name == name if self.node_name else True


def _without_names(source: str, names: Any, requests: Any, opaque: Any) -> Any:
    return _configure(source, (), requests, opaque)


def _value_of_short_name(self: Constraint, device: Any) -> Any:
    attribute = (device.api.attributes or {}).get(self.attribute)
    return None if attribute is None else ("any", str(attribute))


PLANTS = [
    Plant("admin access counts devices in use", "chosen.ChosenDevices.is_in_use", _in_use_without_admin),
    Plant("devices of other claims are free", "chosen.ChosenDevices.is_in_use", _in_use_of_attempt),
    Plant("an older generation is kept", "pools._add_to_generation", _older_first),
    Plant("an incomplete pool is used", "pools._complete", _own_slices_only),
    Plant("duplicate names are accepted", "pools._duplicate", lambda kind, names: ""),
    Plant("missing counters are accepted", "pools._missing_counter", lambda devices, sets: ""),
    Plant("binding conditions do not come last", "pools.DevicePool.has_binding_conditions", property(lambda _: False)),
    Plant("compatibility groups are accepted", "inventory._uses_groups", lambda devices: False),
    Plant("every node is selected", "inventory.NodeReference.matches", _matches_name_only),
    Plant("every slice is relevant", "inventory.PreparedSlice.is_relevant", lambda self, name, labels: True),
    Plant("selectors are ignored", "matching.matches", lambda selectors, expression, device: True),
    Plant("counters are not checked", "counters.PoolCounters.fits", lambda self, device: True),
    Plant("allocated devices leave counters", "allocated.AllocatedDevices.is_allocated", lambda self, device: False),
    Plant("each share consumes counters", "chosen.ChosenDevices.counters_to_charge", _charge_each_share),
    Plant("taints are ignored", "chosen.ChosenDevices.tolerates", lambda self, request, device: True),
    Plant("unknown effects block", "inventory.blocking", lambda taints: tuple(taints or ())),
    Plant("tolerations ignore the value", "taints.tolerates", lambda t, taint: t.key in ("", taint.key)),
    Plant("taint rules are ignored", "taints._with_taints", lambda device, taints: device),
    Plant("matchAttribute compares nothing", "constraints.MatchAttribute.accepts", _first_value_wins),
    Plant("distinctAttribute compares nothing", "constraints.DistinctAttribute.accepts", _first_value_wins),
    Plant("attributes have one name", "constraints.Constraint.value", _value_of_short_name),
    Plant("constraints apply to all requests", "requests.Request.is_listed", lambda self, names: True),
    Plant("alternatives are tried backwards", "search.Search._try_alternatives", _unordered_alternatives),
    Plant("the limit of 32 devices is absent", "validation.MAX_DEVICES_PER_CLAIM", 10**6),
    Plant(
        "all devices are those that are free", "validation._is_large_enough", lambda request, number, node: number < 1
    ),
    Plant("capacity is not compared", "chosen.fits", lambda consumed, capacities, in_use, allocating: True),
    Plant("policies are ignored", "capacity._violates", lambda amount, policy: False),
    Plant("requests are not rounded up", "capacity._rounded_to_range", lambda requested, least, valid: requested),
    Plant("thousandths are not used", "capacity.ValidRange.uses_milli", property(lambda _: False)),
    Plant("binding to a node is ignored", "results._node_selector", lambda claim, chosen, node_name: None),
    Plant("parameters apply to all requests", "results._configuration", _without_names),
    Plant("equal requirements are repeated", "results._are_equal", lambda one, other: False),
]


@pytest.mark.parametrize("plant", PLANTS, ids=str)
def test_planted_bug_is_detected(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    assert detects(plant, monkeypatch), f"no recorded document detects: {plant.bug}"


def detects(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return True if a recorded document has another result with the bug, or fails."""
    module, *path, attribute = plant.name.split(".")
    owner: Any = importlib.import_module(f"pyscheduler.intree.devices.{module}")
    for each in path:
        owner = getattr(owner, each)
    monkeypatch.setattr(owner, attribute, plant.instead)
    return any(_differs(each) for path_ in records.files() for each in records.read(path_))


def _differs(recorded: dict[str, Any]) -> bool:
    try:
        return bool(difference(recorded["result"], ours.allocate(recorded["document"], steps=20_000)))
    except Exception:
        return True
