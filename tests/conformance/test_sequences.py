"""The recorded sequences detect planted bugs in what a placed pod leaves behind for those after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyscheduler.api import ApiWriter
from pyscheduler.api.devices import AllocationResult
from pyscheduler.intree.resource_claims import claim_writer
from pyscheduler.intree.resource_claims.claim_cache import DevicesInUse
from pyscheduler.intree.resource_claims.claim_writer import ClaimWriter
from pyscheduler.intree.resource_claims.objects import CachedClaim
from tests.conformance import ours, records
from tests.conformance.claim_store import ClaimStore
from tests.conformance.compare import compare
from tests.conformance.generator.generated_cluster import Manifest

RECORDED = [case for path in records.FOLDER.glob("devices-sequences-*.jsonl") for case in records.read(path)]


def devices_stay_free(self: DevicesInUse, claim: str, allocation: AllocationResult | None) -> None:
    """Nothing is in use."""


async def stay_allocated(claim: CachedClaim, api: ApiWriter) -> None:
    """PostFilter frees no devices."""


async def without_reservation(self: ClaimWriter, claim: Any, allocation: Any, *, is_shared: bool = False) -> Any:
    """The claim is returned as it was."""
    return claim.source


def written_claims_are_not_shown(self: ClaimStore, claim: Manifest) -> Manifest:
    return claim


PLANTS: list[tuple[object, str, Callable[..., Any]]] = [
    (DevicesInUse, "use", devices_stay_free),
    (claim_writer, "deallocate", stay_allocated),
    (ClaimWriter, "reserve", without_reservation),
    (ClaimStore, "_stored", written_claims_are_not_shown),
]


def _differs(case: Manifest) -> bool:
    found = compare(case["answers"], ours.evaluate(case["document"]))
    return any(difference.kind.startswith("sequence ") for difference in found)


@pytest.mark.parametrize(("owner", "name", "bug"), PLANTS, ids=[bug.__name__ for _, _, bug in PLANTS])
def test_planted_bug_is_detected(
    owner: object, name: str, bug: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, bug)
    assert any(map(_differs, RECORDED))


def test_recorded_sequences_have_devices() -> None:
    features = {feature for case in RECORDED for feature in case["features"]}
    assert {"devices:shared", "devices:template", "devices:named", "devices:resource"} <= features
    assert not any(map(_differs, RECORDED))
