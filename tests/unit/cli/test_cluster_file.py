"""Cluster files of `up --cluster`: pools become node templates; each mistake is reported with line and path."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyscheduler.cli.cluster_file import read_cluster_file
from pyscheduler.config.problems import ConfigError
from pyscheduler.data import CONFIGURATIONS
from pyscheduler.embedded.hollow.pools import NodePool, pools_config_map, pools_of

HEAD = "apiVersion: pyscheduler.io/v1\nkind: EmbeddedCluster\n"


def read(tmp_path: Path, text: str) -> list[NodePool]:
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    return read_cluster_file(file)


def test_shipped_example_has_gpu_nodes_with_a_taint_in_two_zones() -> None:
    general, gpu = read_cluster_file(CONFIGURATIONS / "clusters" / "gpu.yaml")
    nodes = gpu.templates()
    assert (general.count, [node.name for node in nodes]) == (6, ["gpu-1", "gpu-2", "gpu-3", "gpu-4"])
    assert [node.labels["topology.kubernetes.io/zone"] for node in nodes] == ["zone-a", "zone-b"] * 2
    assert nodes[0].amounts == {
        "cpu": "64",
        "memory": "512Gi",
        "pods": "64",
        "ephemeral-storage": "1Ti",
        "nvidia.com/gpu": "8",
    }
    assert nodes[0].taints == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    assert nodes[0].labels["pyscheduler.io/node-pool"] == "gpu"


def test_pool_needs_only_a_name(tmp_path: Path) -> None:
    (pool,) = read(tmp_path, f"{HEAD}nodePools: [{{name: a}}]")
    assert [node.name for node in pool.templates()] == ["a-1"]
    assert pool.template(1).amounts == {
        "cpu": "4",
        "memory": "32Gi",
        "ephemeral-storage": "100Gi",
        "pods": "110",
    }


POOLS = [
    ("[{name: a, capacitty: {}}]", '3: nodePools[0].capacitty: unknown field "capacitty"; did you mean "capacity"?'),
    ("[{count: 2}]", "3: nodePools[0].name: is required"),
    ("[]", "3: nodePools: must name at least one pool"),
    ("[{name: A_b}]", "3: nodePools[0].name: "),
    (f"[{{name: {'a' * 51}}}]", "at most 50 characters"),
    ("[{name: a}, {name: a}]", '3: nodePools[1].name: two pools are named "a"'),
    ("[{name: a, count: -1}]", "3: nodePools[0].count: must be from 0 to 100,000, not -1"),
    ("[{name: a, count: 60000}, {name: b, count: 60000}]", "3: nodePools: has more than 100,000 nodes"),
    ("[{name: a, count: many}]", '3: nodePools[0].count: must be a whole number, not "many"'),
    ("[{name: a, capacity: {cpu: lots}}]", "3: nodePools[0].capacity.cpu: 'lots' is not a quantity"),
    ("[{name: a, capacity: {memory: -1Gi}}]", "3: nodePools[0].capacity.memory: must not be negative"),
    ("[{name: a, capacity: {gpu: 1}}]", "3: nodePools[0].capacity.gpu: is no resource; use cpu"),
    ("[{name: a, labels: {a b: c}}]", "3: nodePools[0].labels: "),
    ("[{name: a, labels: {a: 'b c'}}]", "3: nodePools[0].labels: "),
    ("[{name: a, labels: {pyscheduler.io/node-pool: b}}]", "is set by the pool's name"),
    ("[{name: a, zones: [z], labels: {topology.kubernetes.io/zone: b}}]", "is set by the pool's zones"),
    ("[{name: a, zones: ['a b']}]", "3: nodePools[0].zones[0]: "),
    ("[{name: a, zones: zone-1}]", '3: nodePools[0].zones: must be a list, not "zone-1"'),
    ("[{name: a, taints: [{key: k, effect: Never}]}]", '3: nodePools[0].taints[0].effect: "Never" is none of: '),
    ("[{name: a, taints: [{key: 'a b', effect: NoSchedule}]}]", "3: nodePools[0].taints[0].key: "),
    ("[{name: a, taints: [{key: k, value: 'a b', effect: NoSchedule}]}]", "3: nodePools[0].taints[0].value: "),
    (
        "[{name: a, taints: [{key: k, effect: NoExecute}, {key: k, effect: NoExecute}]}]",
        "taints[1]: k:NoExecute is there",
    ),
]


@pytest.mark.parametrize(("pools", "message"), POOLS)
def test_mistake_in_a_pool_is_reported_with_its_path(tmp_path: Path, pools: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        read(tmp_path, f"{HEAD}nodePools: {pools}\n")
    assert message in str(error.value)
    assert len(str(error.value).splitlines()) == 1, error.value


FILES = [
    ("nodePools: [", "not valid YAML"),
    ("", "holds 0 YAML documents"),
    ("a: 1\n---\nb: 2", "holds 2 YAML documents"),
    (
        "apiVersion: v1\nkind: EmbeddedCluster\nnodePools: [{name: a}]",
        '1: apiVersion: must be pyscheduler.io/v1, not "v1"',
    ),
    ("apiVersion: pyscheduler.io/v1\nkind: Cluster\nnodePools: [{name: a}]", "2: kind: must be EmbeddedCluster"),
    ("[1, 2]", "must be a mapping, not a list"),
]


@pytest.mark.parametrize(("text", "message"), FILES)
def test_file_that_is_no_cluster_is_rejected(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=r"cluster\.yaml") as error:
        read(tmp_path, text)
    assert message in str(error.value)


def test_new_nodes_are_numbered_after_the_highest_and_continue_the_zones() -> None:
    pool = NodePool("a", zones=("x", "y"))
    new = pool.new_templates(2, ["a-1", "a-9", "b-40", "a-b", "other"])
    assert [(node.name, node.labels["topology.kubernetes.io/zone"]) for node in new] == [("a-10", "y"), ("a-11", "x")]


def test_config_map_returns_the_pools_that_it_was_made_of() -> None:
    pools = [NodePool("a", 2, zones=("x",)), NodePool("b", taints=[{"key": "k", "effect": "NoSchedule"}])]
    read_again = pools_of(pools_config_map(pools))
    assert [pool.templates() for pool in read_again.values()] == [pool.templates() for pool in pools]
