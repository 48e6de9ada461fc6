"""Table of the scenarios. To add one, write a function that yields its rows, and add a line here."""

from __future__ import annotations

from functools import partial

from bench.decide.scenario import Scenario
from bench.decide.scenarios.anti_affinity import anti_affinity
from bench.decide.scenarios.changes import CHANGES, after_changes
from bench.decide.scenarios.claims import claims
from bench.decide.scenarios.deployments import deployments
from bench.decide.scenarios.devices import devices
from bench.decide.scenarios.full_cluster import full_cluster
from bench.decide.scenarios.group_preemption import group_preemption
from bench.decide.scenarios.hard_spread import hard_spread
from bench.decide.scenarios.memory import memory, memory_of_templates
from bench.decide.scenarios.new_service import new_service
from bench.decide.scenarios.node_changes import node_changes
from bench.decide.scenarios.pod_groups import POD_GROUPS, groups, large_group, waiting_groups
from bench.decide.scenarios.pod_kinds import pods_of_kind
from bench.decide.scenarios.pod_shapes import SHAPES, gates_removed, pods_of_shape
from bench.decide.scenarios.preemption import preemption
from bench.decide.scenarios.queues import QUEUES, queues, reservation
from bench.decide.scenarios.stateful_sets import stateful_sets
from bench.decide.scenarios.templates import new_template, templates
from bench.decide.scenarios.waiting import waiting_busy, waiting_event, waiting_retry
from bench.decide.scenarios.zonal_volumes import zonal_volumes
from bench.pod_features import POD_SPECS

KINDS = [
    Scenario(kind, f"pods with the spec {kind} of bench/pod_features.py", partial(pods_of_kind, kind=kind))
    for kind in POD_SPECS
]
APPS = [Scenario(name, shape.sentence, partial(pods_of_shape, shape=shape)) for name, shape in SHAPES.items()]
EVENTS = [
    Scenario(name, f"{sentence} before each decision", partial(after_changes, events=events))
    for name, (sentence, events) in CHANGES.items()
]
PRODUCTION = [
    Scenario(
        "node-changes", "a node's image, label, condition or heartbeat changes before each decision", node_changes
    ),
    Scenario("templates", "pods of 500, 1,000, 2,000 or 10,000 templates in turn", templates),
    Scenario("new-template", "every pod has requests of its own", new_template),
    Scenario(
        "deployments", "pods of 2,000, 200 or 20 ReplicaSets in turn, with the default soft spreading", deployments
    ),
    Scenario("stateful-sets", "pods of 200 StatefulSets in turn, with anti-affinity to their own set", stateful_sets),
    Scenario("new-service", "a Service is created before each decision, for 200 apps in turn", new_service),
    Scenario("hard-spread-zone-host", "hard spreading with maxSkew 1 over zones and hosts", hard_spread),
    Scenario(
        "anti-affinity-own-app", "200 or 20 apps in turn, each with required anti-affinity to itself", anti_affinity
    ),
    *APPS,
    *EVENTS,
    Scenario("gates-removed", "the scheduling gate of a pod is removed, and the pod is scheduled", gates_removed),
    Scenario("claims", "a WaitForFirstConsumer claim and its pod are created, the pod is scheduled", claims),
    Scenario("zonal-volumes", "pods with bound volumes of one zone each, of a CSI driver with limits", zonal_volumes),
    Scenario(
        "devices", "a pod with a ResourceClaim, or with an extended resource of a DeviceClass, is scheduled", devices
    ),
    Scenario("full-cluster", "a pod ends and one comes that fits only there, of 1 or 100 shapes", full_cluster),
    Scenario("waiting-retry", "attempt of one of 10,000 waiting pods, which still does not fit", waiting_retry),
    Scenario("waiting-event", "a node's label changes, which helps none of 10,000 waiting pods", waiting_event),
    Scenario("waiting-busy", "100,000 pods wait while 100 pods a second end and are replaced", waiting_busy),
    Scenario("preemption", "an attempt that preempts three pods, by equal or different preemptors", preemption),
    Scenario(
        "group-preemption",
        "attempt of a group of 1, 10 or 100 pods that preempts as many of 10 per node",
        group_preemption,
        POD_GROUPS,
    ),
    Scenario("groups", "10,000 pods are bound, alone or in 1, 20, 500 or 10,000 groups", groups, POD_GROUPS),
    Scenario(
        "large-group", "attempt of a group of 1,000, equal or not, that fits or lacks one node", large_group, POD_GROUPS
    ),
    Scenario("waiting-groups", "1,000 groups of 10 wait for one node each", waiting_groups, POD_GROUPS),
    Scenario("queues", "attempts and shares with 1,000 queues that request too much", queues, QUEUES),
    Scenario("reservation", "attempt of a group that gets the reservation, 20 pods a node run", reservation, QUEUES),
    Scenario("memory", "resident memory with 10 pods per node, then with 200 templates", memory, adds_nodes=True),
    Scenario(
        "memory-templates", "resident memory of nodes, then with 200 templates", memory_of_templates, adds_nodes=True
    ),
]
SCENARIOS = {scenario.name: scenario for scenario in [*KINDS, *PRODUCTION]}
