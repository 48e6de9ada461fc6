"""Taints of devices: tolerations of requests, and DeviceTaintRules (KEP-5055)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from pyscheduler.api.devices import Device, DeviceTaint, DeviceTaintRule, DeviceToleration, ResourceSlice
from pyscheduler.api.match import NO_EXECUTE, NO_SCHEDULE


def blocking(taints: Iterable[DeviceTaint] | None) -> tuple[DeviceTaint, ...]:
    """Return the taints whose effect prevents allocation; others, such as None, are ignored."""
    return tuple(taint for taint in taints or () if taint.effect in (NO_SCHEDULE, NO_EXECUTE))


def are_tolerated(taints: Sequence[DeviceTaint], tolerations: Sequence[DeviceToleration]) -> bool:
    """Return True if there is a toleration for each taint."""
    return all(any(tolerates(toleration, taint) for toleration in tolerations) for taint in taints)


def tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """Return True if the toleration tolerates the taint (resourceclaim.ToleratesTaint)."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def apply_taint_rules(slice_: ResourceSlice, rules: Iterable[DeviceTaintRule]) -> ResourceSlice:
    """Return the slice with the taints of all rules that select its devices; the same object if none does.

    A rule without selector selects nothing, one with an empty selector everything (resourceslice/tracker).
    """
    added: dict[int, list[DeviceTaint]] = {}
    devices = slice_.spec.devices or ()
    for rule in rules:
        selector = rule.spec.device_selector
        if selector is None:
            continue
        if selector.driver is not None and selector.driver != slice_.spec.driver:
            continue
        if selector.pool is not None and selector.pool != slice_.spec.pool.name:
            continue
        for index, device in enumerate(devices):
            if selector.device is None or selector.device == device.name:
                added.setdefault(index, []).append(rule.spec.taint)
    if not added:
        return slice_
    tainted = tuple(_with_taints(device, added.get(index, ())) for index, device in enumerate(devices))
    return msgspec.structs.replace(slice_, spec=msgspec.structs.replace(slice_.spec, devices=tainted))


def _with_taints(device: Device, taints: Sequence[DeviceTaint]) -> Device:
    return msgspec.structs.replace(device, taints=(*(device.taints or ()), *taints)) if taints else device
