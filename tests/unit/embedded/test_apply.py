"""Server-side apply: field ownership, conflicts, and removal of fields that are no longer applied."""

from __future__ import annotations

import copy
import json
from typing import Any

from pyscheduler.embedded.objects import timestamp

from .builders import APPLY, Cluster, Json, api_error, config_map, workload


def apply(cluster: Cluster, plural: str, config: Json, manager: str = "me", **options: Any) -> Json:
    return cluster.patch(plural, config["metadata"]["name"], config, APPLY, manager=manager, **options)


def settings(**data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": data}


def owner_of(obj: Json, *path: str) -> set[str]:
    """Return the managers that own the field at a fieldsV1 path."""
    found = set()
    for entry in obj["metadata"]["managedFields"]:
        here = entry["fieldsV1"]
        for step in path:
            here = here.get(step) if here is not None else None
        if here is not None:
            found.add(entry["manager"])
    return found


def test_apply_creates_a_missing_object() -> None:
    obj = apply(Cluster(), "configmaps", settings(a="1"))
    assert obj["data"] == {"a": "1"}
    (entry,) = obj["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("me", "Apply")
    assert entry["fieldsV1"] == {"f:data": {"f:a": {}}}


def test_applying_an_equal_config_changes_nothing() -> None:
    cluster = Cluster()
    first = apply(cluster, "configmaps", settings(a="1"))
    cluster.now += 100
    assert apply(cluster, "configmaps", settings(a="1")) == first


def test_field_no_longer_applied_is_removed() -> None:
    cluster = Cluster()
    apply(cluster, "configmaps", settings(a="1", b="2"))
    assert apply(cluster, "configmaps", settings(a="1"))["data"] == {"a": "1"}


def test_field_that_another_manager_applies_is_preserved() -> None:
    cluster = Cluster()
    apply(cluster, "configmaps", settings(a="1", b="2"))
    apply(cluster, "configmaps", settings(b="2"), manager="other")
    after = apply(cluster, "configmaps", settings(a="1"))
    assert after["data"] == {"a": "1", "b": "2"}
    assert owner_of(after, "f:data", "f:b") == {"other"}


def test_changing_a_field_of_another_manager_conflicts_unless_forced() -> None:
    cluster = Cluster()
    apply(cluster, "configmaps", settings(a="1"))
    error = api_error(lambda: apply(cluster, "configmaps", settings(a="2"), manager="other"))
    assert (error.code, error.reason) == (409, "Conflict")
    assert error.message == 'Apply failed with 1 conflict: conflict with "me": .data.a'
    causes = error.body()["details"]["causes"]
    assert causes == [{"reason": "FieldManagerConflict", "message": 'conflict with "me"', "field": ".data.a"}]
    forced = apply(cluster, "configmaps", settings(a="2"), manager="other", force=True)
    assert forced["data"] == {"a": "2"}
    assert owner_of(forced, "f:data", "f:a") == {"other"}


def test_items_of_associative_lists_have_separate_owners() -> None:
    cluster = Cluster()
    apply(cluster, "deployments.apps", workload("Deployment"))
    sidecar = workload("Deployment")
    sidecar["spec"] = {"template": {"spec": {"containers": [{"name": "side", "image": "side:1"}]}}}
    both = apply(cluster, "deployments.apps", sidecar, manager="injector")
    assert [c["name"] for c in both["spec"]["template"]["spec"]["containers"]] == ["c", "side"]
    sidecar["spec"] = {}
    alone = apply(cluster, "deployments.apps", sidecar, manager="injector")
    assert [c["name"] for c in alone["spec"]["template"]["spec"]["containers"]] == ["c"]


def test_missing_merge_key_has_its_default() -> None:
    cluster = Cluster()
    config = workload("Deployment")
    config["spec"]["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": 80}]
    apply(cluster, "deployments.apps", copy.deepcopy(config))
    after = apply(cluster, "deployments.apps", config)
    ports = after["spec"]["template"]["spec"]["containers"][0]["ports"]
    assert ports == [{"containerPort": 80, "protocol": "TCP"}]


def test_defaulted_fields_have_no_owner_and_are_preserved() -> None:
    cluster = Cluster()
    apply(cluster, "deployments.apps", workload("Deployment", replicas=3))
    without = workload("Deployment")
    after = apply(cluster, "deployments.apps", without)
    assert after["spec"]["replicas"] == 1  # no longer applied, hence defaulted again
    assert after["spec"]["revisionHistoryLimit"] == 10


def test_untracked_object_belongs_to_before_first_apply() -> None:
    cluster = Cluster()
    cluster.create("configmaps", config_map(a="1"))
    error = api_error(lambda: apply(cluster, "configmaps", settings(a="2")))
    assert 'conflict with "before-first-apply"' in error.message
    agreed = apply(cluster, "configmaps", settings(a="1", b="2"))
    assert owner_of(agreed, "f:data", "f:a") == {"before-first-apply", "me"}


def test_update_takes_ownership_of_the_fields_it_changes() -> None:
    cluster = Cluster()
    apply(cluster, "configmaps", settings(a="1", b="2"))
    after = cluster.patch("configmaps", "settings", {"data": {"a": "9"}}, manager="editor")
    assert owner_of(after, "f:data", "f:a") == {"editor"}
    assert owner_of(after, "f:data", "f:b") == {"me"}
    assert 'conflict with "editor"' in api_error(lambda: apply(cluster, "configmaps", settings(a="1", b="2"))).message


def test_scaling_takes_ownership_of_replicas_from_the_applier() -> None:
    cluster = Cluster()
    apply(cluster, "deployments.apps", workload("Deployment", replicas=2))
    cluster.patch("deployments.apps", "web", {"spec": {"replicas": 5}}, manager="scaler")
    error = api_error(lambda: apply(cluster, "deployments.apps", workload("Deployment", replicas=2)))
    assert error.message.endswith('conflict with "scaler": .spec.replicas')


def test_kubectl_can_migrate_from_client_side_to_server_side_apply() -> None:
    cluster = Cluster()
    old = settings(a="1")
    annotation = "kubectl.kubernetes.io/last-applied-configuration"
    obj = config_map(a="1")
    obj["metadata"]["annotations"] = {annotation: json.dumps(old)}
    cluster.create("configmaps", obj, manager="kubectl-client-side-apply")
    after = apply(cluster, "configmaps", settings(a="2"), manager="kubectl")
    assert after["data"] == {"a": "2"}
    assert json.loads(after["metadata"]["annotations"][annotation])["data"] == {"a": "2"}


def test_apply_requires_a_manager_and_no_managed_fields() -> None:
    cluster = Cluster()
    assert api_error(lambda: apply(cluster, "configmaps", settings(), manager="")).code == 400
    config = settings()
    config["metadata"]["managedFields"] = [{"manager": "x"}]
    assert api_error(lambda: apply(cluster, "configmaps", config)).code == 400


def test_status_is_tracked_with_the_time_of_each_managers_last_change() -> None:
    cluster = Cluster()
    cluster.create("deployments.apps", workload("Deployment"))
    for manager, ready in (("a", 1), ("b", 2), ("a", 3), ("b", 3)):
        cluster.now += 100
        status = {"status": {"readyReplicas": ready, "replicas": 3}}
        obj = cluster.patch("deployments.apps", "web", status, subresource="status", manager=manager)
    [entry] = obj["metadata"]["managedFields"]
    assert (entry["manager"], entry["subresource"]) == ("a", "status")
    assert entry["fieldsV1"] == {"f:status": {"f:readyReplicas": {}, "f:replicas": {}}}
    assert entry["time"] == timestamp(cluster.now - 100)


def test_first_apply_after_a_tracked_status_assigns_the_rest_of_the_object() -> None:
    cluster = Cluster()
    cluster.create("deployments.apps", workload("Deployment"))
    cluster.patch("deployments.apps", "web", {"status": {"replicas": 3}}, subresource="status", manager="a")
    obj = apply(cluster, "deployments.apps", workload("Deployment", replicas=2), force=True)
    assert owner_of(obj, "f:status", "f:replicas") == {"a"}
    assert owner_of(obj, "f:spec", "f:selector") == {"before-first-apply", "me"}
