"""Placement quality: over all nodes, idle ones too, and with what lay there before."""

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
def test_balance_counts_empty_nodes_too(chosen: list[str], cpu: dict[str, float], expected: Balance) -> None:
    assert Balance.of(chosen, cpu) == expected


def test_what_nodes_are_asked_for_is_what_lay_there_and_what_came() -> None:
    """Nodes have 4 CPUs, pods ask for half of one; of the three that lay there, node-0 has two."""
    made = program(OPS)

    assert requested(made, {}, []) == {"node-0": 0.25, "node-1": 0.125}
    assert requested(made, {"namespace-2/object-2-1": "node-1"}, []) == {"node-0": 0.25, "node-1": 0.25}


def test_pods_that_had_to_go_ask_for_nothing() -> None:
    made = program(OPS)

    assert requested(made, {}, [(made.shared[0], 2)]) == {"node-0": 0.125, "node-1": 0.125}
