"""CRDs that `pyscheduler up` installs equal those of the manifests, and work in the embedded API server."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml

from pyscheduler.embedded.server_state import WriteOptions
from tests.unit.embedded.builders import Cluster

MANIFESTS = Path(__file__).parents[3] / "manifests"
NOT_CRDS = {"kustomization.yaml", "users.yaml"}
CRDS = "customresourcedefinitions.apiextensions.k8s.io"

Json = dict[str, Any]


def shipped() -> dict[str, str]:
    return {f.name: f.read_text() for f in (resources.files("pyscheduler.controllers") / "crds").iterdir()}


@pytest.fixture
def cluster() -> Cluster:
    with_crds = Cluster()
    for text in shipped().values():
        with_crds.create(CRDS, yaml.safe_load(text))
    return with_crds


def test_packaged_crds_equal_those_of_the_manifests() -> None:
    files = [*(MANIFESTS / "base" / "crds").iterdir(), *(MANIFESTS / "crds").iterdir()]
    assert shipped() == {f.name: f.read_text() for f in files if f.name not in NOT_CRDS}


def stored(cluster: Cluster, api_version: str, kind: str, spec: Json) -> Json:
    """Return the spec of a created object."""
    resource = cluster.api.state.registry.of_kind(api_version, kind)
    assert resource is not None
    obj = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": spec}
    namespace = "default" if resource.namespaced else ""
    created: Json = cluster.api.create(resource, namespace, obj, WriteOptions()).object["spec"]
    return created


def test_volcano_pod_group_is_stored_with_fields_of_newer_versions(cluster: Cluster) -> None:
    spec = {
        "minMember": 2,
        "minTaskMember": {"a": 1},
        "minResources": {"cpu": "2", "pods": 2},
        "networkTopology": {"mode": "soft"},
    }
    assert stored(cluster, "scheduling.volcano.sh/v1beta1", "PodGroup", spec) == {**spec, "queue": "default"}


def test_volcano_queue_is_stored_with_fields_of_newer_versions(cluster: Cluster) -> None:
    spec = {
        "weight": 1,
        "parent": "root",
        "capability": {"cpu": "2"},
        "guarantee": {"resource": {"cpu": 1}},
        "affinity": {"nodeGroupAffinity": {}},
    }
    assert stored(cluster, "scheduling.volcano.sh/v1beta1", "Queue", spec) == spec


def test_elastic_quota_is_stored(cluster: Cluster) -> None:
    spec = {"min": {"cpu": "2"}, "max": {"nvidia.com/gpu": 4}}
    assert stored(cluster, "scheduling.x-k8s.io/v1alpha1", "ElasticQuota", spec) == spec
