"""Subgroups with config/batch.yaml, end to end: a CompositePodGroup by way of CRDs, and Volcano's subGroupPolicy."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pyscheduler.embedded.hollow import NodeTemplate
from tests.e2e.client import Json
from tests.e2e.plane import Plane, opened
from tests.e2e.scheduler import install_batch, scheduler_with
from tests.e2e.test_pod_groups import APIS, CONFIG, SCHEDULER, Gangs
from tests.e2e.workloads import hollow_nodes, in_pool, placed, pod, pod_spec, unscheduled

pytestmark = pytest.mark.asyncio(loop_scope="session")

ALPHA = "scheduling.k8s.io/v1alpha3"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definition(kind: str) -> Json:
    """Return a CRD that serves a kind of Kubernetes 1.37, with any fields."""
    plural = f"{kind.lower()}s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1alpha3",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}},
    }
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    spec = {"group": "scheduling.k8s.io", "names": names, "scope": "Namespaced", "versions": [version]}
    meta = {"name": f"{plural}.scheduling.k8s.io"}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": meta, "spec": spec}


def condition(found: Json, type_: str) -> Json:
    conditions = found.get("status", {}).get("conditions") or ()
    return next((dict(each) for each in conditions if each["type"] == type_), {})


async def start(plane: Plane, namespace: str) -> Gangs:
    await install_batch(plane.api)
    await plane.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    await plane.api.until("/apis/scheduling.volcano.sh/v1beta1/podgroups", lambda found: "items" in found)
    return Gangs(plane, namespace, APIS["volcano"])


async def test_tree_is_bound_whole_and_each_object_has_its_condition(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    async with opened("", request.config) as plane:
        if plane.real is not None:
            pytest.skip("the real API server serves PodGroups of other versions")
        tree = await start(plane, "tree")
        for kind in ("PodGroup", "CompositePodGroup"):
            await plane.api.create(CRDS, definition(kind))
            await plane.api.until(f"/apis/{ALPHA}/{kind.lower()}s", lambda found: "items" in found)
        objects = f"/apis/{ALPHA}/namespaces/tree"
        async with hollow_nodes(plane, "tree", 3, cpu="1") as nodes, scheduler_with(plane, CONFIG, tmp_path):
            for name in ("a", "b"):
                spec = {"parentCompositePodGroupName": "root", "schedulingPolicy": {"gang": {"minCount": 2}}}
                group = {"apiVersion": ALPHA, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}
                await plane.api.create(f"{objects}/podgroups", group)
                joined = pod_spec(SCHEDULER, "tree", cpu="1", schedulingGroup={"podGroupName": name})
                await asyncio.gather(*(plane.api.create(tree.pods, pod(f"{name}-{i}", joined)) for i in range(2)))
            found = await plane.api.until(tree.pods, lambda found: bool(messages(found)))
            assert messages(found) == {"waiting for CompositePodGroup tree/root (scheduling.k8s.io) to appear": 4}
            root = {"apiVersion": ALPHA, "kind": "CompositePodGroup", "metadata": {"name": "root"}}
            policy = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}}
            await plane.api.create(f"{objects}/compositepodgroups", {**root, "spec": policy})
            type_ = "CompositePodGroupInitiallyScheduled"
            path = f"{objects}/compositepodgroups/root"
            waiting = await plane.api.until(path, lambda found: condition(found, type_).get("status") == "False")
            assert "3 of 4 required pods have a node" in condition(waiting, type_)["message"]
            assert placed(await plane.api.get(tree.pods)) == {}
            await nodes.add(in_pool(NodeTemplate("tree-added", cpu="1"), "tree"))
            await tree.until_bound(4)
            await plane.api.until(path, lambda found: condition(found, type_).get("status") == "True")
            for name in ("a", "b"):
                await plane.api.until(
                    f"{objects}/podgroups/{name}",
                    lambda found: condition(found, "PodGroupInitiallyScheduled").get("status") == "True",
                )


async def test_subgroups_of_a_volcano_pod_group_are_bound_as_wholes(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    async with opened("", request.config) as plane:
        rings = await start(plane, "rings")
        policy = {"name": "rings", "subGroupSize": 2, "minSubGroups": 1, "matchLabelKeys": ["ring"]}
        group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}}
        spec = {"minMember": 2, "subGroupPolicy": [policy]}
        await plane.api.create(rings.group_api.collection("rings"), {**group, "spec": spec})
        async with hollow_nodes(plane, "rings", 3, cpu="1"), scheduler_with(plane, CONFIG, tmp_path):
            for name in ("a0", "a1", "b0", "b1"):
                member = pod(name, pod_spec(SCHEDULER, "rings", cpu="1"))
                member["metadata"] |= {
                    "annotations": {"scheduling.k8s.io/group-name": "g"},
                    "labels": {"ring": name[0]},
                }
                await plane.api.create(rings.pods, member)
            bound = await rings.until_bound(2)
            assert len({name[0] for name in bound}) == 1
            await plane.api.until(rings.pods, lambda found: sum(map(bool, map(unscheduled, found["items"]))) == 2)


def messages(found: Json) -> dict[str, int]:
    """Return the messages of pods that wait, each with the number of pods."""
    texts = [unscheduled(each) for each in found["items"] if unscheduled(each)]
    return {text: texts.count(text) for text in texts} if len(texts) == 4 else {}
