"""A plugin that cannot say what its answers rest on, or which nodes score alike, is named like one without answers."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from pyscheduler.api import (
    Cycle,
    FilterPlugin,
    NodeEquivalence,
    NodeInfo,
    Pod,
    PodCount,
    PodSignature,
    Reads,
    ScorePlugin,
)
from pyscheduler.testing import Harness, node, pod


class Baseless(FilterPlugin, ScorePlugin):
    """Lets all pods in everywhere, and says what `says` gives."""

    name = "Baseless"
    reads = Reads.DOMAINS
    says: ClassVar[dict[str, Any]] = {}

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        return None

    def filter_cache_key(self, cycle: Cycle) -> Any:
        return self._say("Filter")

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return 1

    def score_equivalence(self, cycle: Cycle) -> Any:
        return self._say("Score")

    def _say(self, point: str) -> Any:
        said: Any = self.says.get(point, NodeEquivalence())
        if isinstance(said, Exception):
            raise said
        return np.array(said) if isinstance(said, list) else said


CONFIG = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins:
      multiPoint: {{enabled: [{{name: "{__name__}:Baseless"}}]}}
"""
COLUMN = [1, 2, 3]
"""It is told as an array, and two of those compared are no yes or no."""


class Uncounted(PodCount):
    """What no pod can be asked."""

    terminating = True

    def of(self, signature: PodSignature) -> int:
        raise RuntimeError("of whom?")


@pytest.mark.parametrize(
    ("point", "said"),
    [
        pytest.param("Filter", RuntimeError("no idea"), id="a basis that raises"),
        pytest.param("Filter", COLUMN, id="a basis that cannot be compared"),
        pytest.param("Score", RuntimeError("no idea"), id="a likeness that raises"),
        pytest.param("Score", COLUMN, id="a likeness that is none"),
        pytest.param("Score", NodeEquivalence((["zone"],)), id="a likeness by what is no key"),  # type: ignore[arg-type]
        pytest.param("Score", NodeEquivalence((), (Uncounted(),)), id="a likeness by what cannot be counted"),
    ],
)
def test_it_is_named_and_the_loop_goes_on(point: str, said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(CONFIG)
    harness.add(*(node(f"n{i}") for i in range(20)))
    monkeypatch.setattr(Baseless, "says", {point: said})
    harness.add(pod("placed").on("n1"))
    for name in ("first", "second"):
        harness.add(pod(name))
        harness.run()
    assert "second" not in harness.assignments
    assert "Baseless" in harness.pending_message("second")
    monkeypatch.setattr(Baseless, "says", {})
    harness.advance(60)
    assert {"first", "second"} <= harness.assignments.keys()
