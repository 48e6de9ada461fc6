"""Recording, reading and selection of cases, and the subjects of results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conformance import records
from tests.conformance.compare import Difference
from tests.conformance.coverage import Coverage, plain, subjects
from tests.conformance.generator import Case, draw
from tests.conformance.generator.generated_cluster import Manifest

NO = {"feasible": False, "plugin": "NodePorts", "code": "Unschedulable", "reasons": ["no port"]}
YES = {"feasible": True, "plugin": "", "code": "Success", "reasons": []}


class OracleStub:
    """Stub of the oracle."""

    def evaluate(self, document: Manifest) -> list[Any]:
        return [{"id": document["id"], "pod": pod, "nodes": {"n0": NO}} for pod in document["pods"]]


def test_recorded_case_is_read_back(tmp_path: Path) -> None:
    case = draw(5)
    path = records.write(tmp_path, "nodes NodePorts", case, [{"id": 5}])
    assert path.name.startswith("nodes-NodePorts-")
    assert records.files(tmp_path) == [path]
    (recorded,) = records.read(path)
    assert recorded == {"features": list(case.features), "document": case.document, "answers": [{"id": 5}]}


def test_renewed_records_cover_everything_with_few_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "FOLDER", tmp_path)
    (tmp_path / "drawn-99.jsonl").write_text("old\n")
    (tmp_path / "other.json").write_text("{}\n")
    cases = [draw(seed) for seed in range(120)]
    number = records.renew("drawn", cases, OracleStub(), 10)  # type: ignore[arg-type]
    recorded = [case for path in records.files(tmp_path) if path.suffix == ".jsonl" for case in records.read(path)]
    assert 10 <= number == len(recorded) < 120
    assert {f for case in recorded for f in case["features"]} == {f for case in cases for f in case.features}
    assert not (tmp_path / "drawn-99.jsonl").exists()
    assert (tmp_path / "other.json").exists()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"error": "no state"}, {"error"}),
        ({"nodes": {"a": NO, "b": YES}}, {"reason NodePorts Unschedulable: no port"}),
        ({"scores": {"A": {"a": 1, "b": 2}, "B": {"a": 1, "b": 1}}}, {"score A"}),
        ({"preenqueue": {"plugin": "Gates", "reasons": ["gates: [a b]"]}}, {"reason preenqueue Gates: gates: .."}),
        ({"preemption": {"status": "Unschedulable", "message": ""}}, {"preemption Unschedulable"}),
        ({"attempts": [{"victims": ["v"], "node": ""}]}, {"attempt that preempts"}),
    ],
)
def test_subjects_of_a_result(answer: Manifest, expected: set[str]) -> None:
    assert set(subjects(answer)) == expected


def test_names_are_removed_from_reasons() -> None:
    assert plain('claim "a" of pod ns/p is gone') == "claim .. of pod .. is gone"


def test_coverage_counts_by_feature_and_first_difference() -> None:
    coverage = Coverage()
    differences = [Difference("nodes NodePorts", "n0"), Difference("message", "0/1")]
    coverage.add(Case({"id": 1}, ("ports",)), [{"nodes": {"a": NO}, "filter_message": "0/1"}], differences)
    coverage.add(Case({"id": 2}, ("ports", "taints")), [{"nodes": {"a": YES}}] * 3, [])
    lines = [line.split() for line in coverage.table()]
    assert lines[0][:4] == ["2", "cases,", "4", "pods,"]
    assert ["ports", "2", "4"] in lines
    assert ["taints", "1", "3"] in lines
    assert ["nodes", "NodePorts", "1"] in lines
