"""Plugins with a cache key or a node equivalence that raises or is invalid fail the attempt by name."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from pyscheduler.api import (
    Cycle,
    FilterPlugin,
    NodeEquivalence,
    NodeInfo,
    NodeTable,
    Pod,
    PodCount,
    PodSignature,
    Reads,
    ScorePlugin,
    Scores,
)
from pyscheduler.testing import Harness, node, pod


class InvalidKeys(FilterPlugin, ScorePlugin):
    """Accepts all nodes; `keys` has the cache key or node equivalence by extension point."""

    name = "InvalidKeys"
    reads = Reads.DOMAINS
    keys: ClassVar[dict[str, Any]] = {}

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        return None

    def filter_cache_key(self, cycle: Cycle) -> Any:
        return self._key("Filter")

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return 1

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        return np.ones(len(nodes), np.int64)

    def score_equivalence(self, cycle: Cycle) -> Any:
        return self._key("Score")

    def _key(self, point: str) -> Any:
        key: Any = self.keys.get(point, NodeEquivalence())
        if isinstance(key, Exception):
            raise key
        return np.array(key) if isinstance(key, list) else key


CONFIG = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins:
      multiPoint: {{enabled: [{{name: "{__name__}:InvalidKeys"}}]}}
"""
COLUMN = [1, 2, 3]
"""Returned as an array, and comparing two arrays gives no bool."""


class Uncounted(PodCount):
    """Count that raises."""

    terminating = True

    def of(self, signature: PodSignature) -> int:
        raise RuntimeError("cannot count")


@pytest.mark.parametrize(
    ("point", "key"),
    [
        pytest.param("Filter", RuntimeError("broken"), id="a cache key that raises"),
        pytest.param("Filter", COLUMN, id="a cache key that cannot be compared"),
        pytest.param("Score", RuntimeError("broken"), id="an equivalence that raises"),
        pytest.param("Score", COLUMN, id="an equivalence of the wrong type"),
        pytest.param("Score", NodeEquivalence((["zone"],)), id="an equivalence with an unhashable key"),  # type: ignore[arg-type]
        pytest.param("Score", NodeEquivalence((), (Uncounted(),)), id="an equivalence with a count that raises"),
    ],
)
def test_attempt_fails_with_the_plugins_name_and_is_retried(
    point: str, key: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = Harness(CONFIG)
    harness.add(*(node(f"n{i}") for i in range(20)))
    monkeypatch.setattr(InvalidKeys, "keys", {point: key})
    harness.add(pod("placed").on("n1"))
    for name in ("first", "second"):
        harness.add(pod(name))
        harness.run()
    assert "second" not in harness.assignments
    assert "InvalidKeys" in harness.pending_message("second")
    monkeypatch.setattr(InvalidKeys, "keys", {})
    harness.advance(60)
    assert {"first", "second"} <= harness.assignments.keys()
