"""Conditions that a driver has to set on an allocated device before its pod may be bound (KEP-5007)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from pyscheduler.api.devices import DeviceRequestAllocationResult
from pyscheduler.intree.resource_claims.objects import CachedClaim


class DeviceBindingFailedError(Exception):
    """The driver reports that a device cannot be used."""


class DeviceBindingTimeoutError(Exception):
    """The driver has not set the binding conditions in time."""


def has_binding_conditions(claims: Iterable[CachedClaim]) -> bool:
    """Return True if an allocated device of the claims has binding conditions."""
    return any(True for claim in claims for _ in with_binding_conditions(claim))


def is_ready(claim: CachedClaim) -> bool:
    """Return True if all binding conditions of the claim's devices are True.

    DeviceBindingFailedError if a failure condition is.
    """
    if claim.allocation is None:
        return False
    for result in with_binding_conditions(claim):
        conditions = _conditions(claim, result)
        if conditions is None:
            return False
        for name in result.binding_failure_conditions or ():
            failed = conditions.get(name, {})
            if failed.get("status") == "True":
                reason, message = str(failed.get("reason", "")), str(failed.get("message", ""))
                raise DeviceBindingFailedError(
                    f"device binding failed: claim={claim.key[1]}, reason={reason}, message={_quoted(message)}"
                )
        if not all(conditions.get(name, {}).get("status") == "True" for name in result.binding_conditions or ()):
            return False
    return True


def has_timed_out(claim: CachedClaim, timeout: float, now: str) -> bool:
    """Return True if devices with binding conditions were allocated more than `timeout` seconds before `now`.

    The time counts from the allocation timestamp (isClaimTimeout), so that a restart does not extend it. Times are as
    in API objects, with whole seconds.
    """
    allocated = claim.allocation.allocation_timestamp if claim.allocation else None
    if allocated is None or not has_binding_conditions((claim,)):
        return False
    try:
        return (datetime.fromisoformat(now) - datetime.fromisoformat(allocated)).total_seconds() > timeout
    except (ValueError, TypeError):  # only an API server that does not validate timestamps stores such a one
        return False


def with_binding_conditions(claim: CachedClaim) -> Iterator[DeviceRequestAllocationResult]:
    """Yield the allocated devices of a claim that have binding conditions."""
    allocation = claim.allocation
    for result in (allocation.devices.results or ()) if allocation else ():
        if result.binding_conditions:
            yield result


def _conditions(claim: CachedClaim, result: DeviceRequestAllocationResult) -> Mapping[str, Mapping[str, Any]] | None:
    """Return the conditions that the driver has set on a device by type; None before it has set its status."""
    for device in (claim.source.get("status") or {}).get("devices") or ():
        if (device.get("driver"), device.get("pool"), device.get("device")) == (
            result.driver,
            result.pool,
            result.device,
        ):
            return {str(each.get("type")): each for each in device.get("conditions") or ()}
    return None


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'
