"""Stories of simulations: exact times at which jobs start and end in virtual time."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pyscheduler.cli.command_problem import CommandProblem
from pyscheduler.core.commands import Command
from pyscheduler.core.events import Event, Tick
from pyscheduler.core.machine import Machine
from pyscheduler.simulator.scenario import SimulationProblem
from tests.unit.simulator.scenarios import (
    BATCH,
    DEFAULT,
    RUN_SECONDS,
    arrival,
    bare_pod,
    job,
    jobs_of,
    play,
    pod_spec,
    scenario,
    starts,
)

CRITICAL = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 1000,
}


def test_backfill_example_of_the_documentation_starts_at_its_times() -> None:
    result = play(
        scenario(
            arrival(0, job("r", 6, seconds=100)),
            arrival(1, job("h", 8, seconds=50)),
            arrival(2, job("b1", 2, seconds=90)),
            arrival(2, job("b2", 1, seconds=60)),
        )
    )
    assert starts(result) == {"r": 0, "h": 100, "b1": 2, "b2": 150}
    assert result.makespan == 210
    assert any("would delay pod group default/Job/h" in message for message in jobs_of(result)["b2"].messages)
    assert jobs_of(result)["h"].waited == 99


def test_utilization_is_weighted_by_time() -> None:
    result = play(scenario(arrival(0, job("half", 4, seconds=100)), arrival(100, job("full", 8, seconds=50))))
    assert result.utilization == {"cpu": pytest.approx((4 * 100 + 8 * 50) / (8 * 150), abs=1e-4)}
    assert sum(point.used[0] for point in result.series) / len(result.series) == pytest.approx(0.6667, abs=1e-3)


@pytest.mark.parametrize(("config", "idle", "started"), [(DEFAULT, True, 0), (BATCH, False, 2)])
def test_two_gangs_block_each_other_only_without_pod_groups(config: object, idle: bool, started: int) -> None:
    """Pods of both gangs get nodes one by one, and all wait for the rest."""
    pods = [bare_pod(f"{gang}{i}", annotations=_gang(gang, 3)) for i in range(3) for gang in "ab"]
    result = play(scenario(arrival(0, *pods), cpus=4), config)  # type: ignore[arg-type]
    assert (result.jobs_started, result.idle_cpu_seconds > 0) == (started, idle)
    assert [each.state for each in result.jobs] == ["Ended" if started else "Waiting"] * 2
    if idle:
        assert result.pods.pending == 2
        assert all("Insufficient cpu" in each.messages[-1] for each in result.jobs)


def _gang(name: str, size: int) -> dict[str, str]:
    group = {"pyscheduler.io/pod-group": name, "pyscheduler.io/pod-group-min-count": str(size)}
    return {**group, RUN_SECONDS: "10"}


def test_preempted_job_starts_over() -> None:
    result = play(
        scenario(
            arrival(0, job("low", 1, seconds=100, gang=False, cpu=8)),
            arrival(60, CRITICAL, job("high", 1, seconds=30, gang=False, cpu=8, priorityClassName="high")),
        ),
        DEFAULT,
    )
    low = jobs_of(result)["low-0"]
    assert (low.started, low.evictions, low.state) == (0, 1, "Ended")
    assert jobs_of(result)["high-0"].started == pytest.approx(60, abs=2)
    assert low.ended is not None
    assert low.ended >= 60 + 30 + 100
    assert result.lost_cpu_seconds == 8 * 60
    assert result.pods.evicted == 1


def test_preempted_pod_without_a_controller_is_gone() -> None:
    result = play(
        scenario(
            arrival(0, bare_pod("low", 8), runSeconds=100),
            arrival(60, CRITICAL, bare_pod("high", 8, priorityClassName="high"), runSeconds=30),
        ),
        DEFAULT,
    )
    low = jobs_of(result)["low"]
    assert (low.state, low.evictions, low.ended) == ("Gone", 1, 60)
    assert result.pods.pending == 0
    assert "are not created anew" in result.notes[0]


def test_group_on_a_lost_node_waits_and_starts_over_as_a_whole() -> None:
    changes = [
        {"at": 40, "node": "n-1", "action": "remove"},
        {"at": 100, "node": "n-1", "action": "add"},
    ]
    result = play(scenario(arrival(0, job("gang", 2, seconds=50, cpu=5)), nodes=2, changes=changes))
    gang = jobs_of(result)["gang"]
    assert (gang.started, gang.lost, gang.evictions) == (0, 1, 0)
    assert gang.ended == pytest.approx(150, abs=12)
    assert result.nodes == 2


def test_no_pod_starts_on_a_cordoned_node() -> None:
    changes = [{"at": 0, "node": "n-1", "action": "cordon"}, {"at": 200, "node": "n-1", "action": "uncordon"}]
    result = play(scenario(arrival(10, job("a", 2, seconds=10)), changes=changes))
    assert jobs_of(result)["a"].started == pytest.approx(200, abs=12)


def test_job_creates_its_next_pod_when_one_has_ended() -> None:
    template = {"spec": pod_spec()}
    spec = {"parallelism": 2, "completions": 5, "template": template}
    work = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work"}, "spec": spec}
    result = play(scenario(arrival(0, work, runSeconds=10)), DEFAULT)
    assert [each.started for each in result.jobs] == [0, 0, 10, 10, 20]
    assert (result.makespan, result.pods.ended) == (30, 5)


def test_gpus_that_only_limits_state_are_requested() -> None:
    container = {"name": "train", "resources": {"limits": {"cpu": "1", "example.com/gpu": 1}}}
    spec = {"parallelism": 2, "completions": 2, "template": {"spec": {"containers": [container]}}}
    train = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": spec}
    pools = [{"name": "n", "capacity": {"cpu": 8, "example.com/gpu": 1}}]
    result = play(scenario(arrival(0, train, runSeconds=10)) | {"nodePools": pools}, DEFAULT)
    assert [each.started for each in result.jobs] == [0, 10]
    assert result.utilization["example.com/gpu"] == 1


def test_pods_of_a_deployment_stay_until_the_end() -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod_spec()}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    result = play(scenario(arrival(0, web), arrival(5, job("j", seconds=20))), DEFAULT)
    assert {each.state for each in result.jobs if "web" in each.name} == {"Running"}
    assert (result.seconds, result.pods.bound) == (25, 4)


def test_volcano_job_is_a_group_that_restarts_as_a_whole() -> None:
    task = {"name": "worker", "replicas": 2, "template": {"spec": pod_spec(5)}}
    policies = [{"event": "PodEvicted", "action": "RestartJob"}]
    train = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "train"}}
    train["spec"] = {"minAvailable": 2, "tasks": [task], "policies": policies}
    changes = [{"at": 30, "node": "n-1", "action": "remove"}]
    result = play(scenario(arrival(0, train, runSeconds=50), nodes=3, changes=changes))
    (found,) = result.jobs
    assert (found.name, found.group, found.minimum, found.started) == ("default/train-job", True, 2, 0)
    assert found.ended == pytest.approx(81, abs=12)


@pytest.mark.parametrize(
    ("fields", "replicas", "message"),
    [
        ({"volumes": [{"mountPath": "/data", "volumeClaimName": "data"}]}, 1, "spec.volumes: cannot be simulated"),
        ({"plugins": {"tensorflow": []}}, 50_000, "spec.plugins.svc: Too long: the host names of 50000 pods exceed"),
        ({"plugins": {"ssh": ["--ssh-port=0"]}}, 1, r"spec.plugins.ssh\[0\]: Invalid value: --ssh-port=0"),
    ],
)
def test_volcano_job_that_cannot_be_simulated_is_reported(fields: dict[str, Any], replicas: int, message: str) -> None:
    task = {"name": "worker", "replicas": replicas, "template": {"spec": pod_spec(5)}}
    train = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "train"}}
    with pytest.raises(CommandProblem, match=message):
        play(scenario(arrival(0, {**train, "spec": {"tasks": [task], **fields}}, runSeconds=50)))


def test_pods_of_an_mpi_job_are_simulated() -> None:
    tasks = [{"name": name, "replicas": 1, "template": {"spec": pod_spec()}} for name in ("master", "worker")]
    train = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "train"}}
    result = play(scenario(arrival(0, {**train, "spec": {"tasks": tasks, "plugins": {"mpi": []}}}, runSeconds=5)))
    assert (result.pods.bound, result.seconds) == (2, 5)


def test_pod_that_never_fits_is_pending_with_the_schedulers_message() -> None:
    result = play(scenario(arrival(0, job("large", cpu=9, seconds=5)), arrival(0, job("small", seconds=5))))
    assert jobs_of(result)["large"].state == "Waiting"
    assert "Insufficient cpu" in jobs_of(result)["large"].messages[-1]
    assert (result.pods.pending, result.jobs_started) == (1, 1)


def test_until_ends_a_simulation() -> None:
    result = play(scenario(arrival(0, job("a", seconds=100)), until=30))
    assert (result.seconds, jobs_of(result)["a"].state, result.utilization) == (30, "Running", {"cpu": 0.125})


def test_workload_with_its_pods_in_a_dump_creates_no_others() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": True}
    running = bare_pod("web-x", nodeName="n-1")
    running["metadata"] |= {"namespace": "default", "ownerReferences": [owner]}
    spec = {"replicas": 1, "template": {"spec": pod_spec()}}
    web = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"}, "spec": spec}
    result = play(scenario(arrival(1, job("a", 8, seconds=1)), objects=[web, running], until=60))
    assert (result.pods.created, result.pods.pending) == (9, 8)


def test_queues_have_their_waits_and_shares() -> None:
    def queued(name: str, seconds: float) -> dict[str, object]:
        annotations = {"pyscheduler.io/pod-group-queue": name, RUN_SECONDS: f"{seconds:g}"}
        return bare_pod(f"pod-{name}", 8, annotations)

    queues = [
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": {}}
        for name in ("a", "b", "unused")
    ]
    result = play(scenario(arrival(0, queued("a", 30)), arrival(10, queued("b", 10)), objects=queues))
    shown = {each.name: (each.jobs, each.mean_wait, each.cpu_share) for each in result.queues}
    assert shown == {"a": (1, 0, 0.75), "b": (1, 20, 0.25), "unused": (0, 0, 0)}


def test_equal_seeds_give_equal_results() -> None:
    def drawn(seed: int) -> bytes:
        many = arrival(0, bare_pod("p-{i}"), count=40, every=[1, 9], runSeconds=[5, 60])
        return msgspec.json.encode(play(scenario(many, cpus=2, nodes=2, seed=seed)))

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_utilization_ends_with_the_last_change() -> None:
    """The simulator goes on for an hour, since a pod that never fits is still pending."""
    short = arrival(0, bare_pod("short", 4, {RUN_SECONDS: "60"}))
    result = play(scenario(short, arrival(0, bare_pod("large", 16, {RUN_SECONDS: "60"}))))
    assert (result.seconds, result.utilization["cpu"]) == (60.0, 0.5)


def test_early_retries_need_no_ticks_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pod that ends makes all waiting pods leave their backoff early, one every 10 ms: most wake-ups are these."""
    ticks: list[float] = []
    handle = Machine.handle

    def counted(machine: Machine, event: Event) -> list[Command]:
        ticks.extend([event.at] if isinstance(event, Tick) else [])
        return handle(machine, event)

    monkeypatch.setattr(Machine, "handle", counted)
    running = [arrival(i * 0.3, bare_pod(f"r{i}", annotations={RUN_SECONDS: f"{5 + i}"})) for i in range(8)]
    waiting = [arrival(3.0, bare_pod(f"w{i}", 4 + i / 10, annotations={RUN_SECONDS: "4"})) for i in range(30)]
    story = scenario(*running, *waiting, until=60)
    found, count = play(story, DEFAULT), len(ticks)
    monkeypatch.setattr(Machine, "is_tick_due", lambda *_: True)
    assert play(story, DEFAULT) == found
    assert count < (len(ticks) - count) / 2


def test_invalid_pod_is_reported_with_its_place() -> None:
    with pytest.raises(SimulationProblem, match=r"arrivals\[0\].objects\[0\]: Pod bad: 'lots' is not a quantity"):
        play(scenario(arrival(0, bare_pod("bad", "lots"))))
