"""The recorded documents detect planted bugs: one for each rule of the allocator."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from pyscheduler.intree.devices import capacity as capacity_module
from pyscheduler.intree.devices import pools as pools_module
from pyscheduler.intree.devices import requests as requests_module
from pyscheduler.intree.devices import results as results_module
from pyscheduler.intree.devices import validation as validation_module
from pyscheduler.intree.devices.chosen import ChosenDevices
from pyscheduler.intree.devices.constraints import Constraint, constraint
from pyscheduler.intree.devices.counters import PoolCounters
from pyscheduler.intree.devices.errors import AllocationError, NodeAllocationError
from pyscheduler.intree.devices.inventory import NodeReference, PoolID
from pyscheduler.intree.devices.quantity import parse
from pyscheduler.intree.devices.search import Search, SearchOutcome
from pyscheduler.intree.devices.selectors import matches
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
_config, _amount = results_module._config, capacity_module._consumed


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


FALSE = property(lambda _: False)
RESULT_FIELDS = ("admin_access", "tolerations", "binding_conditions", "share_id", "consumed_capacity")

_matches, _complete, _build = NodeReference.matches, pools_module._complete, pools_module._build
_is_duplicate, _visit = pools_module._duplicate, Search._visit
_choose_all, _expressions = ChosenDevices.choose_all, requests_module.Request._expressions
_init_counters, _fits, _value = PoolCounters.__init__, capacity_module.fits, Constraint.value
_consumed, _device_result, _tolerates = (
    capacity_module.consumed_by_request,
    results_module._device_result,
    ChosenDevices.tolerates,
)


def _without_reason(_: str) -> Exception:
    return NodeAllocationError("")


def _matches_no_other(self: Any, name: str, labels: Any) -> bool:
    return bool(self.node_name) and self.node_name == name


def _pool_of_any_driver(driver: str, pool: str) -> PoolID:
    return PoolID("", pool)


def _of_known_generation(id_: Any, slices: list[Any], inventory: Any) -> Any:
    found = _complete(id_, slices, inventory)
    return pools_module._build(pools_module.DevicePool(id_, 1), slices, ()) if found is None else found


def _slices_reversed(pool: Any, slices: list[Any], elsewhere: Any) -> Any:
    return _build(pool, slices[::-1], elsewhere)


def _duplicate_of(kind: str) -> Any:
    return lambda requested, names: _is_duplicate(requested, names) if requested == kind else ""


def _sorted_backwards(values: Any, key: Any = None) -> list[Any]:
    return sorted(values, key=key, reverse=True)


def _any_class(self: Any, spec: Any, classes: Any) -> Any:
    return classes.get(spec.device_class_name, next(iter(classes.values())))


def _match_of_no_attribute(claim: str, number: int, given: Any) -> Any:
    return (
        constraint(claim, number, given) if given.match_attribute or given.distinct_attribute else AcceptAll("", None)
    )


class AcceptAll(Constraint):
    """A constraint that is always satisfied."""

    def accepts(self, value: Any) -> bool:
        return True

    def limit(self, values: Any) -> int:
        return len(values)


def _all_of_usable_pools(request: Any, node: Any) -> list[int]:
    large = validation_module._is_large_enough
    return [n for n in range(len(node.devices)) if node.is_selectable(request, n) and large(request, n, node)]


def _visit_none_of_all(self: Any, at: Any) -> Any:
    requests = self._claims[at.claim] if at.claim < len(self._claims) else []
    if at.request < len(requests):
        request = requests[at.request][at.alternative or 0]
        if request.takes_all and not request.all_devices and (at.alternative is not None or not request.parent):
            return (yield at._replace(request=at.request + 1, alternative=None))
    return (yield from _visit(self, at))


def _choose_all_silently(self: Any, claim: int, request: Any, number: int) -> bool:
    try:
        return _choose_all(self, claim, request, number)
    except AllocationError:
        return False


def _request_first(self: Any, spec: Any) -> Any:
    return _expressions(self, spec)[::-1]


def _on_any_node(self: Any, request: Any, device: Any) -> bool:
    return all(matches(self._selectors, expression, device.selected) for _, expression in request.expressions)


def _counters_of_node(self: Any, pool: Any, allocated: Any) -> None:
    elsewhere, pool.elsewhere = pool.elsewhere, []
    _init_counters(self, pool, allocated)
    pool.elsewhere = elsewhere


def _fits_one_counter(self: Any, device: Any) -> bool:
    return all(self.consumed.get(name, 0) + amount <= self.available[name] for name, amount in device.counters)


def _tolerates_for_admin(self: Any, request: Any, device: Any) -> bool:
    return request.admin_access or _tolerates(self, request, device)


def _only_the_first(self: Any, at: Any, number: int) -> Any:
    outcome = yield at._replace(alternative=0)
    if outcome is SearchOutcome.DONE:
        self.alternative[at.claim, at.request] = 0
    return outcome


def _accepts_missing(self: Any, value: Any) -> bool:
    return not self.values or value is None or value == self.values[0]


def _accepts_missing_once(self: Any, value: Any) -> bool:
    return value is None or value not in self.values


def _value_without_type(self: Constraint, device: Any) -> Any:
    value = _value(self, device)
    return value and ("any", str(value[1]))


def _fits_without_use(consumed: Any, capacities: Any, in_use: Any, allocating: Any) -> bool:
    return _fits(consumed, capacities, {}, allocating)


def _fits_without_attempt(consumed: Any, capacities: Any, in_use: Any, allocating: Any) -> bool:
    return _fits(consumed, capacities, in_use, {})


def _consumed_of_known(requested: Any, capacities: Any) -> Any:
    return _consumed({name: amount for name, amount in requested.items() if name in capacities}, capacities)


def _without_default(requested: Any, capacity: Any) -> Any:
    return capacity.value if requested is None else _amount(requested, capacity)


def _nothing_by_default(requested: Any, capacity: Any) -> Any:
    has_default = capacity.policy is not None and capacity.policy.default is not None
    return parse("0") if requested is None and not has_default else _amount(requested, capacity)


def _not_rounded_to_values(requested: Any, capacity: Any) -> Any:
    has_values = capacity.policy is not None and capacity.policy.valid_values
    return requested if has_values and requested is not None else _amount(requested, capacity)


def _result_without(field: str) -> Any:
    return lambda chosen: msgspec.structs.replace(_device_result(chosen), **{field: None})


def _config_by_request(claim: Any, requests: Any) -> Any:
    return [each for request in requests for each in _config(claim, (request,))]


PLANTS_BY_RULE: dict[str, list[Plant]] = {
    "slices of a node": [
        Plant("every slice is relevant", "inventory.PreparedSlice.is_relevant", lambda self, name, labels: True),
        Plant("every node is selected", "inventory.NodeReference.matches", _matches_name_only),
        Plant("slices of all nodes are not used", "inventory.NodeReference.matches", _matches_no_other),
    ],
    "pools by driver and name": [Plant("pools of drivers are one", "inventory.PoolID", _pool_of_any_driver)],
    "generations": [
        Plant("an older generation is kept", "pools._add_to_generation", _older_first),
        Plant("a newer generation elsewhere is not seen", "pools._complete", _of_known_generation),
    ],
    "complete pools": [
        Plant("an incomplete pool is used", "pools._complete", _own_slices_only),
        Plant("slices of other nodes do not complete a pool", "inventory.Inventory.of_pool", lambda self, pool: []),
    ],
    "order of slices": [Plant("slices are in reverse order", "pools._build", _slices_reversed)],
    "compatibility groups": [Plant("groups are accepted", "inventory._uses_groups", lambda devices: False)],
    "invalid pools": [
        Plant("duplicate devices are accepted", "pools._duplicate", _duplicate_of("counter set")),
        Plant("duplicate counter sets are accepted", "pools._duplicate", _duplicate_of("device")),
        Plant("missing counters are accepted", "pools._missing_counter", lambda devices, sets: ""),
    ],
    "order of pools": [
        Plant("binding conditions do not come last", "pools.DevicePool.has_binding_conditions", FALSE),
        Plant("the last pool is first", "pools.sorted", _sorted_backwards),
    ],
    "checks of requests": [
        Plant("requests are not checked", "requests.Request._checked_class", _any_class),
        Plant("counts are not limited", "validation.MAX_DEVICES_PER_CLAIM", 10**6),
        Plant("modes are not checked", "validation.EXACT_COUNT", "Other"),
        Plant("the largest alternative counts", "validation.min", max),
        Plant("empty constraints are accepted", "validation.constraint", _match_of_no_attribute),
    ],
    "all devices": [
        Plant("capacity does not matter", "validation._is_large_enough", lambda request, number, node: True),
        Plant("unusable pools are left out", "validation._all_devices", _all_of_usable_pools),
        Plant("none are enough", "search.Search._visit", _visit_none_of_all),
        Plant("a constraint rejects the node only", "chosen.ChosenDevices.choose_all", _choose_all_silently),
    ],
    "order of search": [
        Plant("alternatives are tried backwards", "search.Search._try_alternatives", _unordered_alternatives),
        Plant("devices are tried backwards", "search.range", lambda *args: [*range(*args)][::-1]),
    ],
    "devices in use": [
        Plant("admin access counts devices in use", "chosen.ChosenDevices.is_in_use", _in_use_without_admin),
        Plant("devices of other claims are free", "chosen.ChosenDevices.is_in_use", _in_use_of_attempt),
    ],
    "selectors": [
        Plant("selectors are ignored", "matching.matches", lambda selectors, expression, device: True),
        Plant("those of the request come first", "requests.Request._expressions", _request_first),
        Plant("devices have no nodes of their own", "matching.NodeDevices._is_selectable", _on_any_node),
    ],
    "shared counters": [
        Plant("counters are not checked", "counters.PoolCounters.fits", lambda self, device: True),
        Plant(
            "allocated devices leave counters", "allocated.AllocatedDevices.is_allocated", lambda self, device: False
        ),
        Plant("devices of other nodes leave counters", "counters.PoolCounters.__init__", _counters_of_node),
        Plant("each share consumes counters", "chosen.ChosenDevices.counters_to_charge", _charge_each_share),
        Plant("overcommitted pools are used", "counters.PoolCounters.fits", _fits_one_counter),
    ],
    "taints": [
        Plant("taints are ignored", "chosen.ChosenDevices.tolerates", lambda self, request, device: True),
        Plant("admin access tolerates", "chosen.ChosenDevices.tolerates", _tolerates_for_admin),
        Plant("unknown effects block", "inventory.blocking", lambda taints: tuple(taints or ())),
        Plant("tolerations ignore the value", "taints.tolerates", lambda t, taint: t.key in ("", taint.key)),
        Plant("rules are ignored", "taints._with_taints", lambda device, taints: device),
    ],
    "limit of 32 devices": [
        Plant("results are not limited", "search.MAX_DEVICES_PER_CLAIM", 10**6),
        Plant("a new claim ends the search", "search.Search._try_alternatives", _only_the_first),
    ],
    "constraints": [
        Plant("matchAttribute compares nothing", "constraints.MatchAttribute.accepts", _first_value_wins),
        Plant("distinctAttribute compares nothing", "constraints.DistinctAttribute.accepts", _first_value_wins),
        Plant("a missing attribute matches", "constraints.MatchAttribute.accepts", _accepts_missing),
        Plant("a missing attribute is distinct", "constraints.DistinctAttribute.accepts", _accepts_missing_once),
        Plant("attributes have one name", "constraints.Constraint.value", _value_of_short_name),
        Plant("types are not compared", "constraints.Constraint.value", _value_without_type),
        Plant("all requests are listed", "requests.Request.is_listed", lambda self, names: True),
    ],
    "capacity": [
        Plant("capacity is not compared", "chosen.fits", lambda consumed, capacities, in_use, allocating: True),
        Plant("shares in use leave capacity", "chosen.fits", _fits_without_use),
        Plant("shares of the attempt leave capacity", "chosen.fits", _fits_without_attempt),
        Plant("unknown names are ignored", "matching.consumed_by_request", _consumed_of_known),
        Plant("the default of a policy is ignored", "capacity._consumed", _without_default),
        Plant("without a request nothing is consumed", "capacity._consumed", _nothing_by_default),
        Plant("policies are ignored", "capacity._violates", lambda amount, policy: False),
        Plant(
            "requests are not rounded to ranges",
            "capacity._rounded_to_range",
            lambda requested, least, valid: requested,
        ),
        Plant("requests are not rounded to values", "capacity._consumed", _not_rounded_to_values),
        Plant("thousandths are not used", "capacity.ValidRange.uses_milli", FALSE),
    ],
    "results": [
        Plant("names lack the request", "requests.Request.result_name", property(lambda self: self.name)),
        *(Plant(f"{field} is not set", "results._device_result", _result_without(field)) for field in RESULT_FIELDS),
        Plant("binding to a node is ignored", "results._node_selector", lambda claim, chosen, node_name: None),
        Plant("equal requirements are repeated", "results._are_equal", lambda one, other: False),
        Plant("parameters apply to all requests", "results._configuration", _without_names),
        Plant("parameters are repeated for each request", "results._config", _config_by_request),
    ],
    "no solution": [Plant("invalid pools give no reason", "allocator.NodeAllocationError", _without_reason)],
}
"""Rules of kube-scheduler's allocator (structured/internal/incubating) with the bugs that break them.

The signal by which a search that exceeds 32 devices ends has no bug of its own: without it the result is the same,
after a longer search.
"""
PLANTS = [plant for plants in PLANTS_BY_RULE.values() for plant in plants]

BUILTINS = ("sorted", "min", "range")
"""Functions that a bug replaces within a module."""


@pytest.mark.parametrize("plant", PLANTS, ids=str)
def test_planted_bug_is_detected(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    assert detects(plant, monkeypatch), f"no recorded document detects: {plant.bug}"


def detects(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return True if a recorded document has another result with the bug, or fails."""
    module, *path, attribute = plant.name.split(".")
    owner: Any = importlib.import_module(f"pyscheduler.intree.devices.{module}")
    for each in path:
        owner = getattr(owner, each)
    monkeypatch.setattr(owner, attribute, plant.instead, raising=attribute not in BUILTINS)
    return any(_differs(each) for path_ in records.files() for each in records.read(path_))


def _differs(recorded: dict[str, Any]) -> bool:
    try:
        return bool(difference(recorded["result"], ours.allocate(recorded["document"], steps=20_000)))
    except Exception:
        return True
