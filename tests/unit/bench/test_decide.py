"""Scenarios of `bench decide` on tiny clusters: each one does what its sentence says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

import msgspec
import pytest

from bench.decide.cluster import Cluster, Size
from bench.decide.measurement import WrongOutcomeError, measure
from bench.decide.scenario import Reading, Row, Scenario
from bench.decide.scenarios import SCENARIOS
from bench.decide.scenarios.changes import CHANGES, after_changes
from bench.decide.scenarios.pod_shapes import SHAPES
from pyscheduler.api.objects import NodeObject
from pyscheduler.cli.progress_bar import ProgressBar
from pyscheduler.core.commands import Bind, Command, Evict
from pyscheduler.core.events import Event, NodeChanged, NodeGone, PodChanged, PodGone
from pyscheduler.intree.volumes.objects import CLAIM

TINY = Size(nodes=8, pods=4, rounds=1, scale=0.01)


def rows(name: str, size: Size = TINY) -> Iterator[tuple[Cluster, Row]]:
    """Yield the rows of a scenario with its cluster, each after its warm-up."""
    cluster = Cluster(size, ProgressBar(name), size.nodes, SCENARIOS[name].config)
    for part in SCENARIOS[name].set_up(cluster):
        assert isinstance(part, Row)
        if part.warm_up:
            run(part, part.warm_up)
        yield cluster, part


def run(row: Row, count: int) -> list[Command]:
    """Return the commands of one round, which had the right outcome."""
    commands = [command for action in row.prepare(count) for command in action()]
    assert row.finish(commands) == count
    return commands


def binds(commands: list[Command]) -> list[Bind]:
    return [command for command in commands if isinstance(command, Bind)]


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario_has_figures_on_a_tiny_cluster(name: str) -> None:
    figures = list(measure(SCENARIOS[name], TINY))

    assert len({figure.name for figure in figures}) == len(figures) > 0
    assert all(figure.name.partition(":")[0] == name and figure.nodes == 8 for figure in figures)
    assert all(0 < figure.least <= figure.median for figure in figures)


def test_nodes_change_between_decisions() -> None:
    changed = {}
    for cluster, row in rows("node-changes"):
        before = _nodes(cluster)
        assert len(binds(run(row, 3))) == 3
        pairs = list(zip(before, _nodes(cluster), strict=True))
        changed[row.name] = {
            "labels": sum(old.metadata.labels != new.metadata.labels for old, new in pairs),
            "images": sum(old.status.images != new.status.images for old, new in pairs),
            "conditions": sum(old.status.conditions != new.status.conditions for old, new in pairs),
            "version": sum(old.metadata.resource_version != new.metadata.resource_version for old, new in pairs),
        }

    unchanged = {"labels": 0, "images": 0, "conditions": 0, "version": 3}
    assert changed == {
        "image": {**unchanged, "images": 3},
        "label": {**unchanged, "labels": 3},
        "condition": {**unchanged, "conditions": 3},
        "heartbeat": unchanged,
    }


def test_churn_changes_a_node_before_each_attempt() -> None:
    size = msgspec.structs.replace(TINY, churn=True)
    for cluster, row in rows("nothing", size):
        before = _nodes(cluster)
        assert len(binds(run(row, 3))) == 3
        images = [new.status.images for old, new in zip(before, _nodes(cluster), strict=True) if old is not new]
        assert len(images) == 3
        assert all(images)


def _nodes(cluster: Cluster) -> list[NodeObject]:
    found = (cluster.machine.context.state.info(f"node-{i}") for i in range(cluster.size.nodes))
    return [node.node for node in found if node is not None and node.node is not None]


def test_each_template_has_a_signature_of_its_own() -> None:
    for _, row in rows("templates"):
        templates = int(row.name)
        signatures = {id(bind.pod.signature) for bind in binds(run(row, templates))}
        assert len(signatures) == templates


def test_new_templates_are_never_repeated() -> None:
    for _, row in rows("new-template"):
        assert len({id(bind.pod.signature) for bind in binds(run(row, 5) + run(row, 5))}) == 10


def test_pods_of_a_replica_set_are_spread_by_default() -> None:
    for _, row in rows("deployments"):
        per_app = Counter((bind.pod.labels["app"], bind.node_name) for bind in binds(run(row, 8)))
        assert len(per_app) == 8


def test_hard_spread_keeps_the_skew() -> None:
    placed: Counter[str] = Counter()
    for _, row in rows("hard-spread-zone-host"):
        placed.update(bind.node_name for bind in binds(run(row, 1 if row.name == "first pod" else 7)))
    # 1 + 2 of the warm-up + 7: with 10 pods on 8 nodes, no node has more than 2.
    assert max(placed.values()) <= 2
    assert placed.total() == 8


def test_pods_of_an_app_share_no_node() -> None:
    for _, row in rows("anti-affinity-own-app"):
        commands = run(row, 8)
        places = Counter((bind.pod.labels["app"], bind.node_name) for bind in binds(commands))
        assert max(places.values()) == 1
        assert len({bind.pod.labels["app"] for bind in binds(commands)}) > 1


def test_pods_of_each_shape_have_its_constraints() -> None:
    """Each shape has what makes its pods costly."""
    found: dict[str, list[Bind]] = {}
    for name in SHAPES:
        for cluster, row in rows(name):
            found[name] = binds(run(row, 6))
            nominated = cluster.machine.context.queue.nominator.node_of
            assert bool(nominated) == (name == "nominated-pods")
    assert [bind.node_name for bind in found["daemon-set"]] == [
        "node-2",
        "node-2",
        "node-3",
        "node-3",
        "node-4",
        "node-4",
    ]
    assert all(bind.pod.signature.host_ports for bind in found["host-ports"])
    assert len({bind.pod.signature for bind in found["cron-jobs"]}) == 6
    assert len({bind.pod.signature for bind in found["large-job"]}) == 6
    assert len({bind.node_name for bind in found["large-job"]}) > 1
    assert {bind.pod.priority for bind in found["priorities"]} == {0, 100}
    for bind in found["tainted-pools"]:
        pool = (bind.pod.spec.node_selector or {})["pool"]
        assert int(bind.node_name.removeprefix("node-")) % 2 == int(pool)
    for name in ("database-affinity", "namespace-selector"):
        zones = {"app-0": "node-0", "app-1": "node-7"}
        assert all(zones[bind.pod.labels["app"]] == bind.node_name for bind in found[name])


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("node-added", (NodeChanged, 3)),
        ("node-removed", (NodeGone, -3)),
        ("node-tainted", (NodeChanged, 0)),
        ("node-allocatable", (NodeChanged, 0)),
        ("pod-status", (PodChanged, 0)),
        ("pod-deleted", (PodGone, 0)),
    ],
)
def test_change_precedes_each_decision(name: str, changed: tuple[type, int]) -> None:
    event_type, more_nodes = changed
    events = CHANGES[name][1]
    cluster = Cluster(TINY, ProgressBar(name), TINY.nodes)
    recorded: list[Event] = []

    def recording(cluster: Cluster, number: int) -> Iterator[Event]:
        for event in events(cluster, number):
            recorded.append(event)
            yield event

    [row, *_] = islice(after_changes(cluster, recording), 1)
    run(row, row.warm_up)
    recorded.clear()
    nodes = len(cluster.machine.context.state)
    assert len(binds(run(row, 3))) == 3
    assert [type(event) for event in recorded] == [event_type] * 3
    assert len(cluster.machine.context.state) == nodes + more_nodes


def test_pods_are_gated_until_their_decision() -> None:
    for cluster, row in rows("gates-removed"):
        first, *_ = row.prepare(3)
        assert cluster.ready_pods == 0
        assert cluster.pending_pods == 3
        assert len(binds(first())) == 1


def test_claims_are_bound_after_their_pods() -> None:
    for cluster, row in rows("claims"):
        run(row, 3)
        stored = cluster.machine.context.handle.objects[CLAIM]
        assert len(stored) == row.warm_up + 3
        assert all(stored[key]["spec"]["volumeName"] == f"pv-{key[1]}" for key in stored)


def test_full_cluster_binds_each_pod_to_the_node_that_became_free() -> None:
    for cluster, row in rows("full-cluster"):
        actions = row.prepare(3)
        nodes_before = Counter(pod.spec.node_name for pod in cluster.pods.values())
        commands = [command for action in actions for command in action()]
        assert row.finish(commands) == 3
        assert Counter(pod.spec.node_name for pod in cluster.pods.values()) == nodes_before
        assert set(nodes_before.values()) == {4}


def test_waiting_pods_are_retried_and_stay_unschedulable() -> None:
    for cluster, row in rows("waiting-retry"):
        waiting, attempts = cluster.pending_pods, cluster.attempts
        commands = run(row, waiting)
        assert not binds(commands)
        assert cluster.attempts == attempts + waiting
        assert cluster.pending_pods == waiting == 100


def test_event_that_helps_no_waiting_pod_causes_no_attempt() -> None:
    for cluster, row in rows("waiting-event"):
        attempts = cluster.attempts
        before = _nodes(cluster)
        assert run(row, 3) == []
        pairs = zip(before, _nodes(cluster), strict=True)
        assert sum(old.metadata.labels != new.metadata.labels for old, new in pairs) == 3
        assert cluster.attempts == attempts
        assert cluster.pending_pods == 100


def test_busy_cluster_retries_the_pods_that_might_fit() -> None:
    for cluster, row in rows("waiting-busy"):
        attempts = cluster.attempts
        assert len(binds(run(row, 12))) == 12
        cluster.advance(11.0)
        assert len(binds(run(row, 12))) == 12
        assert cluster.attempts >= attempts + 24 + 500
        assert cluster.pending_pods == 1000


def test_preemptors_evict_three_pods_of_one_node() -> None:
    shapes = []
    for cluster, row in rows("preemption"):
        pods = len(cluster.pods)
        evictions = [command for command in run(row, 3) if isinstance(command, Evict)]
        nodes_of = Counter((command.preemptor.uid, command.victim.node_name) for command in evictions)
        assert list(nodes_of.values()) == [3, 3, 3]
        assert len(cluster.pods) == pods == 24
        shapes.append(len({id(command.preemptor.signature) for command in evictions}))
    assert shapes == [1, 1, 3]


def test_pods_are_bound_in_groups_of_each_size() -> None:
    for cluster, row in rows("groups"):
        assert row.per_round == 100
        assert len(binds(run(row, 100))) == 100
        assert cluster.pods == {}


def test_large_group_is_bound_whole_or_not_at_all() -> None:
    bound = {row.name: len(binds(run(row, 1))) for _, row in rows("large-group")}
    assert bound == {
        "fits": 4,
        "fits, all different": 4,
        "one short": 0,
        "one short, all different": 0,
        "one short, a pod ends": 0,
    }


def test_waiting_groups_are_not_attempted_while_they_lack_room() -> None:
    attempts = {}
    for cluster, row in rows("waiting-groups", Size(nodes=20, scale=0.05)):
        before = cluster.attempts
        assert run(row, 3) == []
        assert cluster.pending_pods == 500
        attempts[row.name] = cluster.attempts - before
    assert attempts == {"idle": 0, "a pod ends each second": 0}


def test_queues_divide_the_cluster_in_both_shapes() -> None:
    bound = {row.name: len(binds(run(row, 4))) for _, row in rows("queues")}
    assert bound == {"attempt, 4 levels": 4, "shares, 4 levels": 0, "attempt, flat": 4, "shares, flat": 0}


def test_wrong_outcome_is_an_error() -> None:
    def set_up(cluster: Cluster) -> Iterator[Row | Reading]:
        yield Row("", lambda count: [list] * count, cluster.confirm)

    with pytest.raises(WrongOutcomeError, match="idle: 0 of 2 actions had the expected outcome"):
        list(measure(Scenario("idle", "nothing happens", set_up), TINY))
