"""Scores of pods with extended resources that are devices, and devices in use by pods of another profile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyscheduler.api import ScorePlugin
from pyscheduler.intree import NodeResourcesFit
from pyscheduler.testing import Harness, node, pod

from .devices import DRIVER, Json, claim, device_class, devices_of, exactly, resource_slice, user

GPU = "example.com/gpu"
NAMED = {"schedulerName": "default-scheduler"}


def config(strategy: str = "MostAllocated", balanced: bool = False) -> Json:
    """Return a configuration in which only one plugin scores, and only by GPUs."""
    resources: list[Json] = [{"name": GPU, "weight": 1}]
    name = "NodeResourcesBalancedAllocation" if balanced else "NodeResourcesFit"
    args: Json = {"resources": [*resources, {"name": "cpu", "weight": 1}]}
    if not balanced:
        args = {"scoringStrategy": {"type": strategy, "resources": resources}}
    score = {"disabled": [{"name": "*"}], "enabled": [{"name": name}]}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{**NAMED, "plugins": {"score": score}, "pluginConfig": [{"name": name, "args": args}]}],
    }


def cluster(tmp_path: Path, written: Json) -> Harness:
    """Return a cluster of two nodes with four GPUs each, as devices."""
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps(written))
    harness = Harness(config=path)
    harness.apply(device_class(extendedResourceName=GPU))
    for name in ("a", "b"):
        harness.add(node(name))
        harness.apply(resource_slice(name, *(f"g{i}" for i in range(4))))
    return harness


def in_use(name: str, node_name: str, *devices: str, share: str = "") -> Json:
    """Return a claim that another scheduler has allocated."""
    results = [{"request": "r", "driver": DRIVER, "pool": node_name, "device": each} for each in devices]
    for result in results if share else ():
        result["shareID"] = share
    return {**claim(name), "status": {"allocation": {"devices": {"results": results}}}}


def place(harness: Harness, name: str) -> str:
    harness.add(pod(name).request(GPU, "1"))
    harness.run()
    return harness.assignments[name]


@pytest.mark.parametrize(("strategy", "expected"), [("MostAllocated", "b"), ("LeastAllocated", "a")])
def test_devices_in_use_count_in_the_score(strategy: str, expected: str, tmp_path: Path) -> None:
    harness = cluster(tmp_path, config(strategy))
    harness.apply(in_use("other", "b", "g3"))
    assert place(harness, "p") == expected


def test_pods_of_one_template_follow_claims_that_change_between_them(tmp_path: Path) -> None:
    harness = cluster(tmp_path, config())
    harness.apply(in_use("on-a", "a", "g3"))
    assert place(harness, "p0") == "a"
    harness.apply(in_use("on-b", "b", "g1", "g2", "g3"))
    assert place(harness, "p1") == "b"
    harness.delete("ResourceClaim", "on-a")
    assert place(harness, "p2") == "a"  # b is full
    harness.delete("ResourceClaim", "on-b")
    assert place(harness, "p3") == "a"


def test_shares_of_a_device_count_as_one_device(tmp_path: Path) -> None:
    harness = cluster(tmp_path, config())
    harness.apply(in_use("one", "b", "g3", share="s"))
    harness.apply(in_use("two", "a", "g2", "g3"))
    harness.apply(in_use("three", "b", "g3", share="t"))
    assert place(harness, "p") == "a"


def test_new_devices_of_a_node_count(tmp_path: Path) -> None:
    harness = cluster(tmp_path, config())
    for each in (in_use("on-a", "a", "g0", "g1"), in_use("on-b", "b", "g0")):
        harness.apply(each)
    assert place(harness, "p0") == "a"  # 3 of 4 against 2 of 4
    harness.apply(resource_slice("a", *(f"g{i}" for i in range(16))))
    assert place(harness, "p1") == "b"  # 4 of 16 against 2 of 4


def test_resource_of_a_device_plugin_counts_by_pods(tmp_path: Path) -> None:
    harness = cluster(tmp_path, config())
    harness.add(node("b").capacity(**{GPU: "4"}))
    harness.add(pod("running").request(GPU, "2").on("b"))
    harness.apply(in_use("on-a", "a", "g0"))
    assert place(harness, "p0") == "b"


def test_class_that_stops_to_provide_the_resource_gives_no_score(tmp_path: Path) -> None:
    harness = cluster(tmp_path, config())
    harness.apply(in_use("other", "b", "g3"))
    harness.apply(device_class(extendedResourceName="example.com/other"))
    harness.add(node("a").capacity(**{GPU: "4"}), node("b").capacity(**{GPU: "2"}))
    assert place(harness, "p") == "b"  # one of two against one of four


def test_balance_counts_devices(tmp_path: Path) -> None:
    harness = cluster(tmp_path, config(balanced=True))
    harness.apply(in_use("on-a", "a", "g0", "g1", "g2"))
    harness.add(pod("running").requests(cpu="3").on("b"))
    assert place(harness, "p") == "b"


def test_device_that_a_pod_of_another_profile_has_reserved_is_in_use(tmp_path: Path) -> None:
    written = config()
    written["profiles"].append({"schedulerName": "second"})
    harness = cluster(tmp_path, written)
    harness.complete_bindings = False
    for name in ("c0", "c1"):
        harness.apply(claim(name, exactly(count=3)))
    harness.apply(user("p0", "c0"))
    harness.apply(user("p1", "c1", schedulerName="second"))
    harness.run()
    harness.complete_bindings = True
    for name in ("p0", "p1"):
        harness.finish_binding(name)
    harness.run()
    pools = {devices_of(harness, name)[0].split("/")[0] for name in ("c0", "c1")}
    assert pools == {"a", "b"}


def test_plain_pods_use_no_cache_key() -> None:
    """Only configurations that score extended resources compare versions of devices."""
    plugins = {each.name: each for each in Harness().machine.context.profiles["default-scheduler"].plugins}
    for plugin in (plugins["NodeResourcesFit"], plugins["NodeResourcesBalancedAllocation"]):
        assert isinstance(plugin, ScorePlugin)
        assert not plugin.has_score_key


def test_stories_catch_scores_without_a_cache_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(NodeResourcesFit, "score_cache_key", lambda *_: ())
    with pytest.raises(AssertionError):
        test_pods_of_one_template_follow_claims_that_change_between_them(tmp_path)
