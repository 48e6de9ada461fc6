"""Merge, JSON and strategic merge patches, as functions and through the API."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pyscheduler.embedded.patch.jsonpatch import json_patch
from pyscheduler.embedded.patch.merge import merge_patch
from pyscheduler.embedded.patch.strategic import strategic_patch
from pyscheduler.embedded.schema.models import tree
from pyscheduler.embedded.schema.published import OBJECT_META
from pyscheduler.embedded.status import ApiStatusError

from .builders import MERGE, Cluster, api_error, config_map, pod, workload


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": 1}, {"a": {"b": {"c": None, "d": 1}}}, {"a": {"b": {"d": 1}}}),
    ],
)
def test_merge_patch(target: Any, patch: Any, expected: Any) -> None:
    before = copy.deepcopy(target)
    assert merge_patch(target, patch) == expected
    assert target == before


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({"op": "add", "path": "/b", "value": 1}, {"a": [1, 2], "m": {"x/y": 0}, "b": 1}),
        ({"op": "add", "path": "/a/1", "value": 9}, {"a": [1, 9, 2], "m": {"x/y": 0}}),
        ({"op": "add", "path": "/a/-", "value": 9}, {"a": [1, 2, 9], "m": {"x/y": 0}}),
        ({"op": "remove", "path": "/a/0"}, {"a": [2], "m": {"x/y": 0}}),
        ({"op": "replace", "path": "/m/x~1y", "value": 5}, {"a": [1, 2], "m": {"x/y": 5}}),
        ({"op": "replace", "path": "/a/1", "value": 5}, {"a": [1, 5], "m": {"x/y": 0}}),
        ({"op": "move", "from": "/a", "path": "/n"}, {"n": [1, 2], "m": {"x/y": 0}}),
        ({"op": "copy", "from": "/a/0", "path": "/n"}, {"a": [1, 2], "m": {"x/y": 0}, "n": 1}),
        ({"op": "test", "path": "/a/0", "value": 1}, {"a": [1, 2], "m": {"x/y": 0}}),
    ],
)
def test_json_patch(operation: dict[str, Any], expected: Any) -> None:
    assert json_patch({"a": [1, 2], "m": {"x/y": 0}}, [operation]) == expected


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ({"op": "add"}, 400),
        ([{"op": "add"}], 400),
        ([{"op": "jump", "path": "/a"}], 400),
        ([{"op": "add", "path": "/a"}], 400),
        ([{"op": "add", "path": "a", "value": 1}], 400),
        ([{"op": "remove", "path": "/none"}], 422),
        ([{"op": "test", "path": "/a", "value": 2}], 422),
        ([{"op": "replace", "path": "/l/7", "value": 2}], 422),
        ([{"op": "add", "path": "/a/b", "value": 2}], 422),
    ],
)
def test_invalid_json_patch_is_rejected(operations: Any, code: int) -> None:
    with pytest.raises(ApiStatusError) as caught:
        json_patch({"a": 1, "l": []}, operations)
    assert caught.value.code == code


def containers(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "image": f"{name}:1"} for name in names]


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        (
            {"containers": containers("a", "b")},
            {"containers": [{"name": "b", "image": "b:2"}]},
            {"containers": [*containers("a"), {"name": "b", "image": "b:2"}]},
        ),
        ({"containers": containers("a")}, {"containers": containers("b")}, {"containers": containers("a", "b")}),
        (
            {"containers": containers("a", "b")},
            {"containers": [{"name": "a", "$patch": "delete"}]},
            {"containers": containers("b")},
        ),
        (
            {"containers": containers("a", "b")},
            {"containers": [{"$patch": "replace"}, *containers("c")]},
            {"containers": containers("c")},
        ),
        (
            {"containers": containers("a", "x", "b")},
            {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "b"}]},
            {"containers": containers("b", "a", "x")},
        ),
        (
            {"containers": containers("a", "x", "b")},
            {"$setElementOrder/containers": [{"name": "a"}, {"name": "b"}], "containers": [{"name": "a"}]},
            {"containers": containers("a", "x", "b")},
        ),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}, {"tolerations": [{"key": "b"}]}),
        ({"nodeSelector": {"a": "1"}}, {"nodeSelector": {"b": "2", "a": None}}, {"nodeSelector": {"b": "2"}}),
        (
            {"nodeSelector": {"a": "1"}},
            {"nodeSelector": {"$patch": "replace", "b": "2"}},
            {"nodeSelector": {"b": "2"}},
        ),
        (
            {"volumes": [{"name": "v", "emptyDir": {}}]},
            {"volumes": [{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}}]},
            {"volumes": [{"name": "v", "configMap": {"name": "c"}}]},
        ),
        ({"securityContext": {"runAsUser": 1}}, {"securityContext": {"$patch": "delete"}}, {}),
    ],
)
def test_strategic_patch(target: Any, patch: Any, expected: Any) -> None:
    before = copy.deepcopy(target)
    assert strategic_patch(target, patch, tree("io.k8s.api.core.v1.PodSpec")) == expected
    assert target == before


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"finalizers": ["b"]}, ["a", "c", "b"]),
        ({"$deleteFromPrimitiveList/finalizers": ["a"]}, ["c"]),
    ],
)
def test_strategic_patch_of_a_list_of_strings(patch: Any, expected: list[str]) -> None:
    assert strategic_patch({"finalizers": ["a", "c"]}, patch, tree(OBJECT_META))["finalizers"] == expected


@pytest.mark.parametrize("patch", [[], {"$patch": "merge-all"}, {"containers": [{"image": "x"}]}])
def test_malformed_strategic_patch_is_a_bad_request(patch: Any) -> None:
    with pytest.raises(ApiStatusError) as caught:
        strategic_patch({"containers": containers("a")}, patch, tree("io.k8s.api.core.v1.PodSpec"))
    assert caught.value.code == 400


def test_conditions_are_merged_by_type() -> None:
    cluster = Cluster()
    cluster.create("pods", pod())
    for kind in ("PodScheduled", "Ready", "PodScheduled"):
        condition = {"type": kind, "status": "False", "reason": kind}
        cluster.patch("pods", "p", {"status": {"conditions": [condition]}}, subresource="status")
    assert [c["type"] for c in cluster.get("pods", "p")["status"]["conditions"]] == ["PodScheduled", "Ready"]


def test_patch_with_a_stale_resource_version_conflicts() -> None:
    cluster = Cluster()
    obj = cluster.create("configmaps", config_map(a="1"))
    cluster.patch("configmaps", "settings", {"data": {"a": "2"}})
    stale = {"metadata": {"resourceVersion": obj["metadata"]["resourceVersion"]}, "data": {"a": "3"}}
    assert api_error(lambda: cluster.patch("configmaps", "settings", stale)).code == 409


def test_patch_does_not_modify_the_stored_object() -> None:
    cluster = Cluster()
    obj = cluster.create("deployments.apps", workload("Deployment"))
    before = copy.deepcopy(obj)
    change = {"spec": {"template": {"spec": {"hostNetwork": True}}}}
    cluster.patch("deployments.apps", "web", change)
    assert obj == before


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"spec": {"replicas": "three"}}, 400),
        ({"spec": {"replicas": -3}}, 422),
        ({"metadata": {"labels": {"a": "b c"}}}, 422),
        ({"metadata": {"name": "other"}}, 400),
        ({"kind": "Pod"}, 400),
        ({"spec": None}, 422),
    ],
)
def test_patch_result_is_validated_like_an_update(body: Any, code: int) -> None:
    cluster = Cluster()
    cluster.create("deployments.apps", workload("Deployment"))
    assert api_error(lambda: cluster.patch("deployments.apps", "web", body, MERGE)).code == code


def test_unknown_patch_type_is_unsupported() -> None:
    cluster = Cluster()
    cluster.create("configmaps", config_map())
    assert api_error(lambda: cluster.patch("configmaps", "settings", {}, "text/plain")).code == 415
