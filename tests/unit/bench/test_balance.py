"""Placement quality over all nodes, idle ones included, with initial pods."""

from __future__ import annotations

import pytest

from bench.balance import Balance, requested
from tests.unit.bench.cases import program

OPS = """
- {opcode: createNodes, count: 2}
- {opcode: createPods, count: 3}
- {opcode: createPods, count: 2, collectMetrics: true}
"""


@pytest.mark.parametrize(
    ("chosen", "cpu", "expected"),
    [
        (["a", "b", "c"], {"a": 0.5, "b": 0.5, "c": 0.5}, Balance(3, 1, 0.0, 0.0)),
        (["a", "a"], {"a": 1.0, "b": 0.0}, Balance(1, 2, 1.0, 50.0)),  # two on one node, none on the other
        (["a", "a", "a", "b"], {"a": 0.5, "b": 0.25}, Balance(2, 3, 1.0, 12.5)),
    ],
)
def test_balance_counts_nodes_without_pods(chosen: list[str], cpu: dict[str, float], expected: Balance) -> None:
    assert Balance.of(chosen, cpu) == expected


def test_requested_cpu_includes_initial_and_scheduled_pods() -> None:
    """Nodes have 4 CPUs, pods request half of one; of the three initial pods, node-0 has two."""
    result = program(OPS)

    assert requested(result, {}, []) == {"node-0": 0.25, "node-1": 0.125}
    assert requested(result, {"namespace-2/object-2-1": "node-1"}, []) == {"node-0": 0.25, "node-1": 0.25}


def test_deleted_pods_request_nothing() -> None:
    result = program(OPS)

    assert requested(result, {}, [(result.shared[0], 2)]) == {"node-0": 0.125, "node-1": 0.125}
