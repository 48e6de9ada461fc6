"""Allocation results as they are written to the status of claims."""

from __future__ import annotations

from collections.abc import Sequence

from pyscheduler.api.devices import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
)
from pyscheduler.api.match import NODE_NAME_FIELD
from pyscheduler.api.objects import LabelSelectorRequirement, NodeSelector, NodeSelectorTerm
from pyscheduler.intree.devices.chosen import ChosenDevice
from pyscheduler.intree.devices.errors import AllocationError
from pyscheduler.intree.devices.requests import Request
from pyscheduler.intree.devices.validation import CheckedClaim

FROM_CLASS = "FromClass"
FROM_CLAIM = "FromClaim"


def allocation_result(
    claim: CheckedClaim, requests: Sequence[Request], chosen: Sequence[ChosenDevice], node_name: str
) -> AllocationResult:
    """Return the result for a claim; `requests` has the chosen alternative of each request."""
    devices = DeviceAllocationResult(
        results=tuple(_device_result(each) for each in chosen), config=tuple(_config(claim, requests)) or None
    )
    return AllocationResult(devices=devices, node_selector=_node_selector(claim, chosen, node_name))


def _device_result(chosen: ChosenDevice) -> DeviceRequestAllocationResult:
    request, device = chosen.request, chosen.device
    return DeviceRequestAllocationResult(
        request=request.result_name,
        driver=device.id.driver,
        pool=device.id.pool,
        device=device.id.device,
        admin_access=request.admin_access or None,
        tolerations=request.tolerations or None,
        binding_conditions=device.api.binding_conditions or None,
        binding_failure_conditions=device.api.binding_failure_conditions or None,
        share_id=chosen.share_id,
        consumed_capacity={name: str(amount) for name, amount in chosen.consumed.items()} or None,
    )


def _config(claim: CheckedClaim, requests: Sequence[Request]) -> list[DeviceAllocationConfiguration]:
    """Return the parameters of each used class, then those of the claim that apply to a chosen request."""
    by_class: dict[str, list[Request]] = {}
    for request in requests:
        by_class.setdefault(request.device_class.metadata.name, []).append(request)
    configs = [
        _configuration(FROM_CLASS, tuple(request.result_name for request in users), requests, config.opaque)
        for users in by_class.values()
        for config in users[0].device_class.spec.config or ()
    ]
    for config in claim.claim.spec.devices.config or ():
        if any(request.is_listed(config.requests) for request in requests) or not config.requests:
            configs.append(_configuration(FROM_CLAIM, config.requests or (), requests, config.opaque))
    return configs


def _configuration(
    source: str, names: tuple[str, ...], requests: Sequence[Request], opaque: dict[str, object] | None
) -> DeviceAllocationConfiguration:
    applies_to_all = all(request.is_listed(names) for request in requests)
    return DeviceAllocationConfiguration(source=source, requests=None if applies_to_all else names, opaque=opaque)


def _node_selector(claim: CheckedClaim, chosen: Sequence[ChosenDevice], node_name: str) -> NodeSelector | None:
    """Return the nodes on which all devices can be used; None for all nodes."""
    fields: list[LabelSelectorRequirement] = []
    expressions: list[LabelSelectorRequirement] = []
    for each in chosen:
        spec, device = each.device.slice.spec, each.device.api
        source = device if spec.per_device_node_selection else spec
        if source.node_name is not None or device.binds_to_node:
            name = LabelSelectorRequirement(key=NODE_NAME_FIELD, operator="In", values=(node_name,))
            return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(name,)),))
        terms = (source.node_selector.node_selector_terms or ()) if source.node_selector else ()
        if len(terms) > 1:
            problem = f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            raise AllocationError(f"create NodeSelector for claim {claim.claim.metadata.name}: {problem}")
        for term in terms:
            _add_new(term.match_fields, fields)
            _add_new(term.match_expressions, expressions)
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_expressions=tuple(expressions) or None, match_fields=tuple(fields) or None)
    return NodeSelector(node_selector_terms=(term,))


def _add_new(source: tuple[LabelSelectorRequirement, ...] | None, requirements: list[LabelSelectorRequirement]) -> None:
    """Add the requirements that are not yet there; the order of their values does not matter."""
    for added in source or ():
        if not any(_are_equal(added, present) for present in requirements):
            requirements.append(added)


def _are_equal(one: LabelSelectorRequirement, other: LabelSelectorRequirement) -> bool:
    same = one.key == other.key and one.operator == other.operator
    return same and set(one.values or ()) == set(other.values or ())
