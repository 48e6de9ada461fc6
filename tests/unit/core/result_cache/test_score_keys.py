"""Scores with a cache key are computed again once the key has changed, whatever else has changed meanwhile."""

from __future__ import annotations

from collections.abc import Hashable

import pytest

from pyscheduler.api import Cycle, NodeInfo, Pod, Reads, ResourceKind, ScorePlugin
from pyscheduler.testing import Harness, node, pod

PREFERENCES = ResourceKind("example.com", "v1", "preferences", "Preference", namespaced=False)


class PrefersNode(ScorePlugin):
    """Prefer the node that an object names."""

    name = "PrefersNode"
    watches = (PREFERENCES,)
    reads = Reads.OWN_NODE
    has_score_key = True
    weight = 100

    def score_cache_key(self, cycle: Cycle) -> Hashable:
        return tuple(each["spec"]["node"] for each in self.handle.objects[PREFERENCES].values())

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return 100 if (node.name,) == self.score_cache_key(cycle) else 0


CONFIG = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{{name: "{__name__}:PrefersNode"}}]
"""


@pytest.mark.parametrize("nodes", [3, 30])
def test_changed_object_changes_the_choice_of_the_next_pod(nodes: int) -> None:
    harness = Harness(CONFIG)
    harness.add(*(node(f"n{i}") for i in range(nodes)))
    for i in range(nodes):
        preferred = f"n{i}"
        harness.add_object(PREFERENCES, {"metadata": {"name": "preference"}, "spec": {"node": preferred}})
        harness.add(pod(f"p{i}").requests(cpu="10m"))
        harness.run()
        assert harness.assignments[f"p{i}"] == preferred
