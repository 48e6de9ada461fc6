"""Comparison with recorded results of kube-scheduler."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance import ours, records
from tests.conformance.compare import compare
from tests.conformance.coverage import subjects
from tests.conformance.generator import GROUPS, PROFILES

FILES = records.files()


@pytest.mark.parametrize("limit", [ours.PLAIN, ours.NUMPY], ids=["plain", "numpy"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_recorded_cases_agree_with_kube_scheduler(path: Path, limit: int) -> None:
    for recorded in records.read(path):
        found = compare(recorded["answers"], ours.evaluate(recorded["document"], limit))
        differences = "\n".join(str(difference) for difference in found)
        assert not found, f"case {recorded['document']['id']} of {path.name}:\n{differences}"


def test_recorded_cases_cover_every_feature() -> None:
    recorded = [case for path in FILES for case in records.read(path)]
    assert len(recorded) >= 300
    features = {feature for case in recorded for feature in case["features"]}
    assert {f"profile:{name}" for name in PROFILES} <= features
    tested = {subject for case in recorded for answer in case["answers"] for subject in subjects(answer)}
    words = {subject.split()[0] for subject in tested}
    assert {"reason", "score", "preemption"} <= words
    assert len(features) > 4 * len(GROUPS)
