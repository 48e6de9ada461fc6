"""Cached scores of the score plugins lead to the decisions of an evaluation of every node in every attempt."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyscheduler.testing import Harness, PodBuilder, node, pod

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled: [{name: PodGroups}, {name: PLUGIN, weight: 20}]
"""
UNCACHED = "\n---\napiVersion: pyscheduler.io/v1\nkind: PySchedulerConfiguration\nresultCache: false\n"
NODES = 5

Step = tuple[str, int, int]
kinds = st.sampled_from(["pod", "pod", "pod", "delete", "usage", "node"])
steps = st.lists(st.tuples(kinds, st.integers(0, 4), st.integers(0, 7)), min_size=8, max_size=25)


def incoming(number: int, kind: int, size: int) -> PodBuilder:
    """Return a pod: every other one of a group with a topology."""
    built = pod(f"p{number}").requests(cpu="500m", memory=f"{1 + size // 4}Gi")
    if kind % 2:
        return built
    group = {"pyscheduler.io/pod-group": f"g{kind}", "pyscheduler.io/pod-group-min-count": "1"}
    topology = {"volcano.sh/task-topology-affinity": "ps,worker", "volcano.sh/task-topology-anti-affinity": "ps"}
    for key, value in {**group, **topology, "volcano.sh/task-spec": "ps" if size % 2 else "worker"}.items():
        built = built.annotation(key, value)
    return built


def sample(name: str, milli_cpu: int, minute: int) -> dict[str, Any]:
    return {
        "apiVersion": "slo.koordinator.sh/v1alpha1",
        "kind": "NodeMetric",
        "metadata": {"name": name},
        "status": {
            "updateTime": f"1970-01-01T00:{minute % 60:02}:00Z",
            "nodeMetric": {"nodeUsage": {"resources": {"cpu": f"{milli_cpu}m", "memory": "1Gi"}}},
        },
    }


def decisions(config: str, script: list[Step]) -> dict[str, str]:
    harness = Harness(config)
    harness.add(*(node(f"n{i}", cpu="4", memory="16Gi") for i in range(NODES)))
    for number, (step, kind, size) in enumerate(script):
        if step == "pod":
            harness.add(incoming(number, kind, size))
        elif step == "node":
            harness.add(node(f"n{kind}", cpu=str(2 + size), memory="16Gi"))
        elif step == "usage":
            if "Usage" in config:
                harness.apply(sample(f"n{kind}", 400 * size, number))
        elif running := [key for key in harness.bindings if key in harness.pods]:
            harness.delete_pod(running[size % len(running)].partition("/")[2])
        harness.run()
    return dict(harness.bindings)


@pytest.mark.parametrize("plugin", ["BinPack", "TaskTopology", "Usage"])
@settings(max_examples=20)
@given(script=steps)
def test_decisions_are_those_without_the_cache(plugin: str, script: list[Step]) -> None:
    config = CONFIG.replace("PLUGIN", plugin)
    assert decisions(config, script) == decisions(config + UNCACHED, script)
