"""Default constraints: their selector comes from the pod's Services and owner, and follows their changes."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import SKIP_SIGNATURE, SKIP_SIGNATURE_GROUP
from pyscheduler.api.objects import TopologySpreadConstraint
from pyscheduler.core.framework import object_store
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.intree import PodTopologySpread
from pyscheduler.intree.spread.default_selector import (
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
    DefaultSelectors,
)
from pyscheduler.testing import Harness, PodBuilder, node, pod

from .cluster import cycle, final_scores, reasons, scores, table
from .spreading import (
    HARD,
    HOSTNAME,
    IN_A,
    IN_B,
    NOWHERE,
    SOFT,
    UNEVEN,
    WEB,
    ZONE,
    ZONES,
    Manifest,
    placed,
    spread,
    web,
)

SELECTS_WEB: Manifest = {"selector": {"app": "web"}}
RED_WEB = pod("new").label("app", "web").label("team", "red").label("x", "1")


def owned(by: str, name: str = "owner", version: str = "apps/v1", controller: bool = True) -> PodBuilder:
    reference = {"apiVersion": version, "kind": by, "name": name, "uid": "u", "controller": controller}
    return RED_WEB._with("metadata.ownerReferences", [reference])


def obj(name: str, spec: Any, namespace: str = "default") -> Manifest:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def service(name: str = "s", namespace: str = "default", **selector: str) -> tuple[Any, Manifest]:
    return SERVICES, obj(name, {"selector": selector}, namespace)


TEAM_RED: Manifest = {"matchLabels": {"team": "red"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]}
SETS = (REPLICA_SETS, obj("owner", {"selector": TEAM_RED}))


@pytest.mark.parametrize(
    ("of", "objects", "selected"),
    [
        pytest.param(RED_WEB, [], "", id="no selector matches"),
        pytest.param(RED_WEB, [service(app="web")], "app In web", id="a Service"),
        pytest.param(
            RED_WEB, [service(app="web"), service("t", team="red")], "app In web, team In red", id="two Services"
        ),
        pytest.param(RED_WEB, [service(app="db"), service("t", "other", app="web")], "", id="Services of other pods"),
        pytest.param(RED_WEB, [service(app="web", team="blue")], "", id="Service with further labels"),
        pytest.param(RED_WEB, [(SERVICES, obj("s", {})), service("t")], "", id="Services that select nothing"),
        pytest.param(RED_WEB, [(SERVICES, obj("s", None)), (SERVICES, {"metadata": {}})], "", id="malformed Services"),
        pytest.param(
            RED_WEB,
            [service("a", team="red", app="web"), (SERVICES, obj("b", {"selector": {"app": []}}))],
            "app In web, team In red",
            id="beside a malformed one",
        ),
        pytest.param(owned("ReplicaSet"), [SETS], "team In red, x Exists ", id="a ReplicaSet"),
        pytest.param(
            owned("ReplicaSet"), [SETS, service(app="web", team="red")], "app In web, team In red, x Exists ", id="both"
        ),
        pytest.param(
            owned("StatefulSet"), [(STATEFUL_SETS, obj("owner", {"selector": WEB}))], "app In web", id="a StatefulSet"
        ),
        pytest.param(
            owned("ReplicationController", version="v1"),
            [(REPLICATION_CONTROLLERS, obj("owner", {"selector": {"team": "red"}})), service(app="web")],
            "app In web, team In red",
            id="a ReplicationController",
        ),
        pytest.param(owned("ReplicaSet", "another"), [SETS], "", id="another ReplicaSet"),
        pytest.param(owned("ReplicaSet").namespace("other"), [SETS], "", id="a ReplicaSet of another namespace"),
        pytest.param(owned("ReplicaSet", version="extensions/v1beta1"), [SETS], "", id="an old ReplicaSet"),
        pytest.param(owned("ReplicaSet", controller=False), [SETS], "", id="an owner that does not control it"),
        pytest.param(owned("Job", version="batch/v1"), [SETS], "", id="a Job"),
        pytest.param(owned("ReplicaSet"), [(REPLICA_SETS, obj("owner", {}))], "", id="an owner without a selector"),
        pytest.param(
            owned("ReplicaSet"),
            [(REPLICA_SETS, obj("owner", {"selector": {"matchExpressions": [{"key": "x", "operator": "?"}]}}))],
            "",
            id="owner with invalid selector",
        ),
        pytest.param(
            owned("ReplicaSet"),
            [(REPLICA_SETS, obj("owner", {"selector": {"matchLabels": 1}}))],
            "",
            id="malformed selector",
        ),
    ],
)
def test_default_selector_from_services_and_owner(
    of: PodBuilder, objects: list[tuple[Any, Manifest]], selected: str
) -> None:
    handle = empty_handle()
    selectors = DefaultSelectors(handle)
    for kind, made in objects:
        handle.objects.set(kind, made)
    requirements = selectors.of(of.build().signature, None).selector.requirements
    assert ", ".join(f"{r.key} {r.operator} {' '.join(r.values)}" for r in requirements) == selected


def test_default_selector_is_cached_until_service_or_owner_changes() -> None:
    handle, signature = empty_handle(), owned("ReplicaSet").build().signature
    selectors = DefaultSelectors(handle)
    seen = [selectors.of(signature, None)]
    handle.objects.set(*service(app="web"))
    seen.append(selectors.of(signature, seen[-1]))
    handle.objects.set(REPLICA_SETS, obj("owner", {"selector": {"matchLabels": {"team": "red"}}}))
    seen.append(selectors.of(signature, seen[-1]))
    handle.objects.set(REPLICA_SETS, obj("owner", {"selector": {"matchLabels": {"x": "1"}}, "replicas": 2}))
    seen.append(selectors.of(signature, seen[-1]))
    handle.objects.remove(SERVICES, "default", "s")
    seen.append(selectors.of(signature, seen[-1]))
    found = [each.selector for each in seen]
    assert [[r.key for r in s.requirements] for s in found] == [[], ["app"], ["app", "team"], ["app", "x"], ["x"]]
    assert selectors.of(signature, seen[-1]) is seen[-1]
    handle.objects.set(REPLICA_SETS, obj("owner", {"selector": {"matchLabels": {"x": "1"}}, "replicas": 3}))
    handle.objects.set(*service(app="db"))
    assert selectors.of(signature, seen[-1]).selector is found[-1]


def test_default_selectors_follow_more_changes_than_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "KEEP", 1)
    handle, signature = empty_handle(), RED_WEB.build().signature
    selectors = DefaultSelectors(handle)
    handle.objects.set(*service("s", app="web"))
    assert [each.key for each in selectors.of(signature, None).selector.requirements] == ["app"]
    handle.objects.remove(SERVICES, "default", "s")
    for name in ("t", "u", "v"):
        handle.objects.set(*service(name, team="red"))
    assert [each.key for each in selectors.of(signature, None).selector.requirements] == ["team"]


def test_hundreds_of_services_with_common_labels_are_found_by_their_own() -> None:
    handle, chart = empty_handle(), {"component": "server", "managed-by": "chart"}
    selectors = DefaultSelectors(handle)
    for i in range(300):
        handle.objects.set(*service(f"s{i}", **chart, app=f"app-{i}"))
    built = pod("one").label("component", "server").label("managed-by", "chart").label("app", "app-7").build()
    assert len(selectors.of(built.signature, None).selector.requirements) == 3
    candidates = selectors._index.candidates(built.signature)
    assert len(candidates) <= 3, f"the pod is compared with {len(candidates)} Services"


# -- default constraints in the plugin ---------------------------------------------------------------------------------


def plugin(*defaults: Manifest, spec: Manifest = SELECTS_WEB, **args: Any) -> PodTopologySpread:
    """Return the plugin with default constraints, and a Service that selects the web pods."""
    handle = empty_handle()
    handle.objects.set(SERVICES, obj("s", spec))
    constraints = tuple(
        TopologySpreadConstraint(max_skew=d["maxSkew"], topology_key=d["topologyKey"], when_unsatisfiable=d["when"])
        for d in defaults
    )
    return PodTopologySpread(PodTopologySpread.Args(constraints, **args), handle)


def default(key: str, when: str, skew: int = 1) -> Manifest:
    return {"maxSkew": skew, "topologyKey": key, "when": when}


def test_system_defaults_spread_over_hosts_and_zones() -> None:
    others = placed("a1", "a1", "b1")
    # Hosts weigh ln 5 and add 2, zones ln 4 and add 4.
    assert scores(plugin(), web(), ZONES, others) == [12, 9, 9]
    assert final_scores(plugin(), web(), ZONES, others) == [75, 100, 100]
    assert plugin().pre_filter(cycle(), web().build(), table(ZONES)) is SKIP_SIGNATURE_GROUP


def test_system_defaults_score_nodes_without_zone_by_host() -> None:
    nodes, others = [IN_A, NOWHERE], placed("nowhere", "nowhere")
    assert scores(plugin(), web(), nodes, others) == [6, 5]
    # A node with an empty zone is like one without a zone, but the constraint on zones scores it.
    nodes = [IN_A, node("blank").zone(""), NOWHERE]
    assert scores(plugin(), web(), nodes, others) == [6, 9, 5]


def test_defaults_apply_to_selected_pods_without_constraints() -> None:
    assert plugin().pre_score(cycle(), web(spread()).build(), table(ZONES)) is SKIP_SIGNATURE_GROUP
    for of in (pod(), web().namespace("other")):  # other pods of the signature group may have labels that are selected
        assert plugin().pre_score(cycle(), of.build(), table(ZONES)) is SKIP_SIGNATURE
    assert plugin(spec={}).pre_score(cycle(), web().build(), table(ZONES)) is SKIP_SIGNATURE


def test_list_defaults_replace_system_defaults() -> None:
    subject = plugin(default(ZONE, HARD), default(HOSTNAME, SOFT), defaulting_type="List")
    assert reasons(subject, web(), ZONES, placed("a1")) == [UNEVEN, UNEVEN, None]
    assert scores(subject, web(), ZONES, placed("a1")) == [2, 0, 0]
    subject = plugin(default(ZONE, SOFT), defaulting_type="List")
    assert final_scores(subject, web(), [IN_A, IN_B, NOWHERE], placed("b1")) == [100, 0, 0]
    assert plugin(defaulting_type="List").pre_score(cycle(), web().build(), table(ZONES)) is SKIP_SIGNATURE_GROUP


LIST = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - pluginConfig:
      - name: PodTopologySpread
        args:
          defaultingType: List
          defaultConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule}]
"""


@pytest.mark.parametrize("gone", [False, True])
def test_cached_results_are_invalidated_when_service_changes(gone: bool) -> None:
    harness = Harness(LIST)
    harness.add_object(*service("s", app="web"))
    harness.add_object(*service("t", team="red"))
    harness.add(
        node("a"), node("b", cpu="0"), web().uid("1")._with("metadata.name", "red").label("team", "red").on("a")
    )
    harness.add(*placed("b"), web().label("team", "red").requests(cpu="1"))
    harness.run()
    # The red web pods are one ahead on a.
    assert harness.pending_message("new").startswith(
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match pod"
    )
    if gone:
        harness.remove_object(SERVICES, "t")
    else:
        harness.add_object(*service("t", app="web"))
    harness.advance(600)  # no event requeues the pod; it is flushed from the unschedulable pods after the timeout
    # Of all web pods there is one on each node.
    assert harness.assignments["new"] == "a"
