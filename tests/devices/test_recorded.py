"""Comparison with recorded results of kube-scheduler's allocator."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyscheduler.intree.devices.allocator import DEFAULT_STEPS
from tests.devices import ours, records
from tests.devices.compare import difference, is_too_long
from tests.devices.generator import FEATURES

FILES = records.files()


@pytest.mark.parametrize("prunes", [True, False], ids=["pruned", "exhaustive"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_recorded_allocations_agree_with_kube_scheduler(path: Path, prunes: bool) -> None:
    for recorded in records.read(path):
        document = recorded["document"]
        if not prunes and recorded["result"]["steps"] > 2_000:
            continue  # an exhaustive search takes too long
        steps = 2 * DEFAULT_STEPS if is_too_long(document, recorded["result"]) else DEFAULT_STEPS
        found = difference(recorded["result"], ours.allocate(document, prunes=prunes, steps=steps))
        assert not found, f"document {document['id']} of {path.name}: {found}"


def test_recorded_documents_cover_every_feature() -> None:
    recorded = [each for path in FILES for each in records.read(path)]
    assert len(recorded) >= 100
    assert {feature for each in recorded for feature in each["document"]["features"]} >= set(FEATURES)
    kinds = {records.kind(each["result"]) for each in recorded}
    assert {"allocated", "nothing"} < kinds
    assert len(kinds) > 10
