"""Arrays of integers of every width and layout that `score_all` returns are valid scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyscheduler.api import Cycle, NodeInfo, NodeTable, Pod, Reads, ScorePlugin, Scores
from pyscheduler.testing import Harness, node, pod


class PrefersLargeNode(ScorePlugin):
    """Score a node by its pods; `score_all` returns `dtype`, or every second cell of an array."""

    name = "PrefersLargeNode"
    reads = Reads.OWN_NODE
    weight = 100
    dtype: Any = np.int64
    step = 1

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return node.allowed_pods

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        scores: Scores = nodes.allowed_pods.astype(self.dtype).repeat(self.step)[:: self.step]
        return scores


CONFIG = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{{name: "{__name__}:PrefersLargeNode"}}]
"""


@pytest.mark.parametrize("reads", [Reads.OWN_NODE, Reads.OWN_NODE_AND_PODS, Reads.EVERYTHING])
@pytest.mark.parametrize(("dtype", "step"), [(np.int8, 1), (np.int32, 1), (np.uint64, 1), (np.int64, 2)])
def test_scores_of_any_width_and_layout_are_valid(
    reads: Reads, dtype: Any, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("reads", reads), ("dtype", dtype), ("step", step)):
        monkeypatch.setattr(PrefersLargeNode, name, value)
    harness = Harness(CONFIG)
    harness.add(*(node(f"n{i}", pods=str(10 + i)) for i in range(30)))
    harness.add(pod("p").requests(cpu="10m"))
    harness.run()
    assert harness.assignments["p"] == "n29"
