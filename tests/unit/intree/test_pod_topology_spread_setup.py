"""PodTopologySpread: queueing hints and args."""

from __future__ import annotations

import pytest

from pyscheduler.api import ASSIGNED_POD, NODE, UNSCHEDULED_POD, Action, ClusterEvent
from pyscheduler.api.objects import LabelSelector, TopologySpreadConstraint
from pyscheduler.config.load import loads
from pyscheduler.config.problems import ConfigError
from pyscheduler.intree import PodTopologySpread
from pyscheduler.testing import NodeBuilder, PodBuilder, node, pod

from .cluster import build, node_added, node_updated, pod_deleted, pod_updated, requeues
from .spreading import HARD, HOSTNAME, IN_A, IN_B, NOWHERE, SOFT, ZONE, placed, spread, web

ME = web(spread(), spread(HOSTNAME, nodeTaintsPolicy="Honor"))
(OTHER,) = placed("a1")
DB = pod("db").label("app", "db").on("a1")
LABELS, TOLERATIONS = Action.UPDATE_POD_LABEL, Action.UPDATE_POD_TOLERATION
TERMINATING = Action.UPDATE_POD_TERMINATING
HOSTLESS = NodeBuilder({**IN_A.manifest, "metadata": {"name": "a1", "labels": {ZONE: "a"}}})


def pod_added(new: PodBuilder) -> ClusterEvent:
    made = new.build()
    return ClusterEvent(ASSIGNED_POD if made.node_name else UNSCHEDULED_POD, Action.ADD, None, made)


def node_deleted(old: NodeBuilder) -> ClusterEvent:
    return ClusterEvent(NODE, Action.DELETE, old.build(), None)


@pytest.mark.parametrize(
    ("event", "requeued"),
    [
        pytest.param(pod_added(OTHER), True, id="a web pod comes"),
        pytest.param(pod_added(DB), False, id="another pod comes"),
        pytest.param(pod_added(OTHER.namespace("n")), False, id="a web pod of another namespace comes"),
        pytest.param(pod_added(OTHER.on("")), False, id="pending web pod"),
        pytest.param(pod_added(OTHER.on("").nominated("a1")), True, id="nominated web pod"),
        pytest.param(pod_deleted(OTHER), True, id="a web pod goes"),
        pytest.param(pod_deleted(DB), False, id="another pod goes"),
        pytest.param(pod_updated(LABELS, OTHER, OTHER.label("app", "db")), True, id="web pod no longer matches"),
        pytest.param(pod_updated(LABELS, DB, DB.label("app", "web")), True, id="a pod becomes a web pod"),
        pytest.param(pod_updated(LABELS, OTHER, OTHER.label("x")), False, id="label outside the selector"),
        pytest.param(pod_updated(LABELS, ME, ME.label("app", "db")), True, id="its own labels"),
        pytest.param(pod_updated(TERMINATING, OTHER, OTHER.deleting()), True, id="a web pod begins to terminate"),
        pytest.param(pod_updated(TERMINATING, DB, DB.deleting()), False, id="another pod begins to terminate"),
        pytest.param(pod_deleted(OTHER.deleting()), False, id="terminating web pod is deleted"),
        pytest.param(pod_updated(TOLERATIONS, ME, ME.tolerates("k")), True, id="its own tolerations"),
        pytest.param(pod_updated(TOLERATIONS, OTHER, OTHER.tolerates("k")), False, id="another's tolerations"),
        pytest.param(node_added(IN_A), True, id="a node with zone and host name comes"),
        pytest.param(node_added(HOSTLESS), False, id="a node without host name comes"),
        pytest.param(node_deleted(IN_A), True, id="a node goes"),
        pytest.param(node_deleted(HOSTLESS), False, id="a node without host name goes"),
        pytest.param(node_updated(Action.UPDATE_NODE_LABEL, HOSTLESS, IN_A), True, id="a node gets a host name"),
        pytest.param(node_updated(Action.UPDATE_NODE_LABEL, IN_A, HOSTLESS), True, id="a node loses its host name"),
        pytest.param(node_updated(Action.UPDATE_NODE_LABEL, IN_A, IN_A.zone("b")), True, id="a node moves"),
        pytest.param(node_updated(Action.UPDATE_NODE_LABEL, IN_A, IN_A.label("x")), False, id="another label"),
        pytest.param(node_updated(Action.UPDATE_NODE_LABEL, NOWHERE, NOWHERE.label("x")), False, id="still no zone"),
        pytest.param(node_updated(Action.UPDATE_NODE_TAINT, IN_A, IN_A.taint("k")), True, id="a node's taints"),
        pytest.param(node_updated(Action.UPDATE_NODE_TAINT, NOWHERE, NOWHERE.taint("k")), False, id="no zone, tainted"),
        pytest.param(node_updated(Action.UPDATE_NODE_ALLOCATABLE, IN_A, IN_B), False, id="a node grows"),
    ],
)
def test_requeue_of_pod_rejected_by_spread(event: ClusterEvent, requeued: bool) -> None:
    assert requeues(build(PodTopologySpread), ME, event) is requeued


def test_requeue_when_node_newly_matches_node_affinity_policy() -> None:
    """The label is no topology key, but the pod's nodeSelector requires it."""
    subject, of = build(PodTopologySpread), web(spread()).node_selector(disk="ssd")
    relabelled = node_updated(Action.UPDATE_NODE_LABEL, IN_A, IN_A.label("disk", "ssd"))
    assert requeues(subject, of, relabelled)
    assert not requeues(subject, web(spread()), relabelled)
    assert not requeues(subject, web(spread(nodeAffinityPolicy="Ignore")).node_selector(disk="ssd"), relabelled)


def test_own_tolerations_requeue_only_if_taints_are_honored() -> None:
    event = pod_updated(TOLERATIONS, web(spread()), web(spread()).tolerates("k"))
    assert not requeues(build(PodTopologySpread), web(spread()), event)


def test_pod_with_invalid_constraints_is_requeued_by_any_event() -> None:
    broken = web(spread(selector={"matchExpressions": [{"key": "app", "operator": "Near"}]}))
    for event in (pod_deleted(DB), node_added(NOWHERE)):
        assert requeues(build(PodTopologySpread), broken, event)


def constraint(key: str = ZONE, when: str = HARD, skew: int = 1, selector: bool = False) -> TopologySpreadConstraint:
    labels = LabelSelector() if selector else None
    return TopologySpreadConstraint(topology_key=key, when_unsatisfiable=when, max_skew=skew, label_selector=labels)


ONE = (constraint(),)
NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize(
    ("kind", "constraints", "problem"),
    [
        pytest.param("System", (), "", id="the default"),
        pytest.param("", (), "", id="empty"),
        pytest.param("List", (), "", id="none"),
        pytest.param("List", (constraint(), constraint(when=SOFT), constraint(HOSTNAME)), "", id="some"),
        pytest.param(
            "Some",
            ONE,
            'defaultingType: Unsupported value: "Some": supported values: "System", "List"',
            id="unknown type",
        ),
        pytest.param(
            "System",
            ONE,
            'defaultingType: Invalid value: "System": when .defaultConstraints are not empty',
            id="System with constraints",
        ),
        pytest.param(
            "List",
            (constraint(skew=0),),
            "defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)",
            id="skew",
        ),
        pytest.param(
            "List",
            (constraint(""),),
            "defaultConstraints[0].topologyKey: Required value: can not be empty",
            id="no key",
        ),
        pytest.param(
            "List",
            (constraint("a b"),),
            f'defaultConstraints[0].topologyKey: Invalid value: "a b": {NAME_RULE}',
            id="invalid key",
        ),
        pytest.param(
            "List",
            (constraint(when=""),),
            "defaultConstraints[0].whenUnsatisfiable: Required value: can not be empty",
            id="no action",
        ),
        pytest.param(
            "List",
            (constraint(when="Never"),),
            'defaultConstraints[0].whenUnsatisfiable: Unsupported value: "Never": supported values: "DoNotSchedule", '
            '"ScheduleAnyway"',
            id="unknown action",
        ),
        pytest.param(
            "List",
            (constraint(selector=True),),
            "defaultConstraints[0].labelSelector: Forbidden: constraint must not define a selector, as they deduced "
            "for each pod",
            id="selector",
        ),
        pytest.param(
            "List",
            (constraint(), constraint(HOSTNAME), constraint()),
            'defaultConstraints[2]: Duplicate value: "{topology.kubernetes.io/zone, DoNotSchedule}"',
            id="twice",
        ),
        pytest.param(
            "List",
            (constraint(skew=-1), constraint("")),
            "[defaultConstraints[0].maxSkew: Invalid value: -1: not in valid range (0, inf), "
            "defaultConstraints[1].topologyKey: Required value: can not be empty]",
            id="all problems at once",
        ),
    ],
)
def test_invalid_args_raise_kube_schedulers_error(
    kind: str, constraints: tuple[TopologySpreadConstraint, ...], problem: str
) -> None:
    message = ""
    try:
        args = PodTopologySpread.Args(constraints, kind)
        assert args.defaulting_type == (kind or "System")
    except ValueError as error:
        message = str(error)
    assert message == problem


def test_missing_configuration_fields_raise_kube_schedulers_error() -> None:
    text = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - pluginConfig:
      - name: PodTopologySpread
        args: {defaultingType: List, defaultConstraints: [{topologyKey: a, whenUnsatisfiable: ScheduleAnyway}]}
"""
    with pytest.raises(ConfigError) as caught:
        loads(text)
    (problem,) = caught.value.problems
    assert problem.path == "profiles[0].pluginConfig[0].args.defaultConstraints[0].maxSkew"
    assert problem.message == "Invalid value: 0: not in valid range (0, inf)"


def test_pod_without_remaining_constraints_is_requeued_by_any_node() -> None:
    # Default constraints rejected the pod, and its Service is gone.
    assert requeues(build(PodTopologySpread), web(), node_added(node("n")))
