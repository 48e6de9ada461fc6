"""The time that devices have for their binding conditions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pyscheduler.api.devices import ResourceClaim
from pyscheduler.intree.resource_claims.binding_conditions import has_timed_out
from pyscheduler.intree.resource_claims.objects import CachedClaim

ALLOCATED = "2026-01-01T00:00:00Z"


def allocated(at: str | None, conditions: list[str]) -> CachedClaim:
    result = {"request": "r", "driver": "d", "pool": "p", "device": "g", "bindingConditions": conditions}
    allocation: dict[str, Any] = {"devices": {"results": [result]}}
    if at is not None:
        allocation["allocationTimestamp"] = at
    source = {"metadata": {"name": "c", "namespace": "n"}, "status": {"allocation": allocation}}
    return CachedClaim(source, msgspec.convert(source, ResourceClaim))


@pytest.mark.parametrize(
    ("at", "conditions", "now", "expected"),
    [
        (ALLOCATED, ["Attached"], "2026-01-01T00:10:00Z", False),
        (ALLOCATED, ["Attached"], "2026-01-01T00:10:01Z", True),
        ("2026-01-01T02:00:00+02:00", ["Attached"], "2026-01-01T00:10:01Z", True),
        (ALLOCATED, [], "2026-01-01T00:10:01Z", False),
        (None, ["Attached"], "2026-01-01T00:10:01Z", False),
        ("9999-12-31T23:59:59Z", ["Attached"], "2026-01-01T00:10:01Z", False),
        ("0001-01-01T00:00:00Z", ["Attached"], "2026-01-01T00:10:01Z", True),
        ("yesterday", ["Attached"], "2026-01-01T00:10:01Z", False),
        ("2026-01-01T00:00:00", ["Attached"], "2026-01-01T00:10:01Z", False),
    ],
    ids=["on time", "late", "zone", "no conditions", "no time", "far future", "far past", "unreadable", "no zone"],
)
def test_claim_has_timed_out(at: str | None, conditions: list[str], now: str, expected: bool) -> None:
    assert has_timed_out(allocated(at, conditions), 600.0, now) is expected
