"""Sample files as in kube-scheduler's documentation, with the expected values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyscheduler.config.load import LoadedConfig, default, load
from tests.unit.config.row import at, view

FOLDER = Path(__file__).parent / "samples"
DEFAULT = view(default())["profiles"][0]
SCORES = DEFAULT["plugins"]["score"]
ARGS = "profiles[0].args"

EXPECTED: dict[str, dict[str, Any]] = {
    "minimal": {"clientConnection.kubeconfig": "KUBECONFIG", "profiles[0].plugins": DEFAULT["plugins"]},
    "plugins-at-a-point": {
        "profiles[0].schedulerName": "default-scheduler",
        "profiles[0].plugins.score": [
            "NodeAffinity",
            "InterPodAffinity",
            *(name for name in SCORES if name not in ("NodeAffinity", "InterPodAffinity", "ImageLocality")),
        ],
        "profiles[0].weights.InterPodAffinity": 1,
    },
    "several-profiles": {
        "profiles[0].plugins": DEFAULT["plugins"],
        "profiles[1].schedulerName": "unscored-scheduler",
        "profiles[1].plugins.score": [],
        "profiles[1].plugins.preScore": [],
        "profiles[1].plugins.filter": DEFAULT["plugins"]["filter"],
    },
    "multipoint-but-one-point": {"profiles[0].plugins.score": [name for name in SCORES if name != "NodeAffinity"]},
    "multipoint-from-nothing": {
        "profiles[0].plugins.score": ["ImageLocality", "NodeResourcesFit", "TaintToleration"],
        "profiles[0].weights": {"ImageLocality": 5, "NodeResourcesFit": 2, "TaintToleration": 1},
        "profiles[0].plugins.filter": ["NodeResourcesFit"],
    },
    "bin-packing-most-allocated": {
        f"{ARGS}.NodeResourcesFit.scoringStrategy.type": "MostAllocated",
        f"{ARGS}.NodeResourcesFit.scoringStrategy.resources[2]": {"name": "example.com/foo", "weight": 3},
    },
    "bin-packing-ratio": {
        f"{ARGS}.NodeResourcesFit.scoringStrategy.type": "RequestedToCapacityRatio",
        f"{ARGS}.NodeResourcesFit.scoringStrategy.requestedToCapacityRatio.shape": [
            {"utilization": 0, "score": 0},
            {"utilization": 100, "score": 10},
        ],
    },
    "topology-spread-list": {
        f"{ARGS}.PodTopologySpread.defaultingType": "List",
        f"{ARGS}.PodTopologySpread.defaultConstraints[0].topologyKey": "topology.kubernetes.io/zone",
    },
    "topology-spread-none": {
        f"{ARGS}.PodTopologySpread.defaultingType": "List",
        f"{ARGS}.PodTopologySpread.defaultConstraints": [],
    },
    "added-affinity": {
        f"{ARGS}.NodeAffinity.addedAffinity": None,
        "profiles[1].args.NodeAffinity.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "scheduler-profile", "operator": "In", "values": ["foo"]}]}
            ]
        },
    },
    "performance-tuning": {"profiles[0].percentageOfNodesToScore": 50},
    "second-scheduler": {"profiles[0].schedulerName": "my-scheduler", "leaderElection.leaderElect": False},
    "second-scheduler-elected": {
        "profiles[0].schedulerName": "my-scheduler",
        "leaderElection.leaderElect": True,
        "leaderElection.resourceName": "my-scheduler",
        "leaderElection.leaseDuration": "15s",
    },
    "extender": {
        "extenders[0].urlPrefix": "http://127.0.0.1:12345/api/scheduler",
        "extenders[0].httpTimeout": "30s",
        f"{ARGS}.NodeResourcesFit.ignoredResources": ["example.com/foo"],
    },
    "preemption-and-volumes": {
        f"{ARGS}.DefaultPreemption": {"minCandidateNodesPercentage": 5, "minCandidateNodesAbsolute": 50},
        f"{ARGS}.VolumeBinding.bindTimeoutSeconds": 300,
        f"{ARGS}.InterPodAffinity": {"hardPodAffinityWeight": 100, "ignorePreferredTermsOfExistingPods": True},
        f"{ARGS}.NodeResourcesBalancedAllocation.resources[1].name": "example.com/gpu",
    },
}


def sample(name: str) -> LoadedConfig:
    return load(FOLDER / f"{name}.yaml")


@pytest.mark.parametrize("name", EXPECTED)
def test_sample_gives_the_expected_values(name: str) -> None:
    values = view(sample(name))
    assert {path: at(values, path) for path in EXPECTED[name]} == EXPECTED[name]


def test_multipoint_equals_the_expanded_points() -> None:
    assert sample("multipoint").profiles == sample("multipoint-spelled-out").profiles


def test_every_sample_has_expected_values() -> None:
    names = {file.stem for file in FOLDER.glob("*.yaml")}
    assert names == {*EXPECTED, "multipoint", "multipoint-spelled-out"}
