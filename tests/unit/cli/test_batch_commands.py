"""`pyscheduler groups`, `queues` and `queue` against an API server in memory: output, rights and errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pyscheduler.cli import batch_command
from pyscheduler.cli import queue as queue_module
from pyscheduler.cli.command_problem import CommandProblem
from pyscheduler.cli.program import app
from tests.scenarios.batch.manifests import NATIVE, NATIVE_ALPHA, VOLCANO, Manifest, annotated, gang, node, pod, queue
from tests.unit.cli.batch_server import BatchServer, bound, stored
from tests.unit.cli.test_group_rows import some_bound

GROUP_KEYS = {
    *("namespace", "name", "api", "queue", "priority", "state", "needed", "neededByRole", "pending", "gated"),
    *("placed", "succeeded", "position", "inLine", "ahead", "reason", "message", "created"),
}
QUEUE_KEYS = {
    *("name", "parent", "depth", "state", "problem", "weight", "priority", "resources", "groups", "next"),
}
RESOURCE_KEYS = {"allocated", "requested", "share", "borrowed", "deserved", "guarantee", "capability"}
Run = Callable[..., Result]


def objects() -> list[Manifest]:
    groups = [gang("first", 6, api=VOLCANO, queue="team"), gang("second", 4, api=VOLCANO, queue="team")]
    running = some_bound(gang("running", 2, api=VOLCANO, queue="team"), 2)
    return stored(node("n1", 4), queue("team", weight=1), queue("other", weight=1), *groups, running)


@pytest.fixture
def server() -> BatchServer:
    return BatchServer(objects())


@pytest.fixture
def run(server: BatchServer, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line; a CommandProblem is the result's exception."""

    async def connect(*_: Any) -> BatchServer:
        return server

    monkeypatch.setattr(batch_command, "connect", connect)
    monkeypatch.setattr(queue_module, "connect", connect)
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *args: CliRunner().invoke(app, list(args))


def problem(result: Result) -> str:
    """Return the message of the command's error."""
    assert isinstance(result.exception, CommandProblem), result.output
    return str(result.exception)


def lines(result: Result) -> list[dict[str, Any]]:
    """Return the JSON lines of a successful command."""
    assert result.exit_code == 0, result.exception
    return [json.loads(line) for line in result.output.splitlines()]


# -- groups ----------------------------------------------------------------------------------------------------------


def test_groups_are_a_table_with_counts(run: Run) -> None:
    output = run("groups").output
    assert [line.split()[:7] for line in output.splitlines()[1:4]] == [
        ["default/first", "team", "0", "0", "6", "6", "Waiting"],
        ["default/running", "team", "0", "2", "0", "2", "Scheduled"],
        ["default/second", "team", "0", "0", "4", "4", "Waiting"],
    ]
    assert "Volcano" in output
    assert "1 of 2" in output
    assert output.splitlines()[-1] == "2 waiting, 1 scheduled"


@pytest.mark.parametrize("columns", [80, 100, 200])
@pytest.mark.parametrize("command", ["groups", "queues"])
def test_names_and_reasons_are_complete_in_narrow_terminals(
    run: Run, server: BatchServer, monkeypatch: pytest.MonkeyPatch, command: str, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    name = "training-of-a-large-language-model-0c054d7e-aa87-4898-98ad-b6a5025a9b41"
    server.objects += stored(gang(name, 2, api=VOLCANO, queue="a-queue-that-does-not-exist"))
    output = run(command).output
    assert max(map(len, output.splitlines())) <= columns
    assert "\N{HORIZONTAL ELLIPSIS}" not in output
    text = "".join(output.split())
    assert f"default/{name}:queuea-queue-that-does-not-existdoesnotexist" in text or columns == 200
    assert "queuea-queue-that-does-not-existdoesnotexist" in text


@pytest.mark.parametrize("name", ["train", "default/train", "Job/train", "default/Job/train"])
def test_group_of_a_job_is_found_by_the_name_of_the_job(run: Run, server: BatchServer, name: str) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "0c054d7e", "controller": True}
    member = annotated(pod("train-0"), pod_group_min_count="2")
    member["metadata"]["ownerReferences"] = [owner]
    server.objects += stored(member)
    assert "default/Job/train" in run("groups", name).output


def test_json_of_groups_has_stable_keys(run: Run) -> None:
    rows = lines(run("groups", "-o", "json"))
    assert [row["name"] for row in rows] == ["first", "running", "second"]
    assert {frozenset(row) for row in rows} == {frozenset(GROUP_KEYS)}
    (named,) = lines(run("groups", "running", "-o", "json"))
    assert named.keys() == GROUP_KEYS | {"members"}
    assert named["members"][0] == {
        "name": "running0",
        "role": "",
        "phase": "Running",
        "node": "n1",
        "reason": "",
        "message": "",
    }


def test_groups_are_selected_by_state_and_queue(run: Run) -> None:
    assert [row["name"] for row in lines(run("groups", "--state", "scheduled", "-o", "json"))] == ["running"]
    assert lines(run("groups", "--queue", "other", "-o", "json")) == []
    assert lines(run("groups", "-n", "elsewhere", "-o", "json")) == []


def test_position_counts_groups_of_other_namespaces(server: BatchServer, run: Run) -> None:
    for each in server.objects:
        if each["kind"] in ("Pod", "PodGroup") and each["metadata"]["name"].startswith("first"):
            each["metadata"]["namespace"] = "elsewhere"
    output = run("groups", "-n", "default", "--state", "waiting").output
    assert [line.split()[0] for line in output.splitlines()[1:-1]] == ["default/second"]
    assert "2 of 2" in output


def test_details_have_members_nodes_and_the_group_ahead(run: Run) -> None:
    output = run("groups", "second", "default/running").output
    assert "team, 2 of 2 in line, behind default/first" in output
    assert "0 of 4 needed placed, 4 pending" in output
    assert ["running1", "Running", "n1"] in [line.split() for line in output.splitlines()]


def test_unknown_group_is_an_error_that_names_the_next_step(run: Run) -> None:
    message = problem(run("groups", "nope", "-n", "default"))
    assert message.startswith("there is no group 'nope' in namespace default; `pyscheduler groups` shows all")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["groups", "secnd"], "second"),
        (["groups", "default/runing"], "default/running"),
        (["queues", "tean"], "team"),
        (["queue", "stop", "tean"], "team"),
    ],
)
def test_mistyped_name_gets_a_suggestion(run: Run, words: list[str], meant: str) -> None:
    assert problem(run(*words)).endswith(f'; did you mean "{meant}"?')


def test_only_the_newest_served_version_is_listed(server: BatchServer, run: Run) -> None:
    native = gang("native", 2, api=NATIVE)
    old = {**native.objects[0], "apiVersion": NATIVE_ALPHA}
    server.objects += stored(*native.manifests, old)
    assert "native" in [row["name"] for row in lines(run("groups", "-o", "json"))]
    assert sorted(server.listed) == [
        *("/api/v1/nodes", "/api/v1/pods", f"/apis/{NATIVE}/podgroups"),
        *(f"/apis/{VOLCANO}/podgroups", f"/apis/{VOLCANO}/queues"),
    ]


def test_cluster_without_kinds_of_groups_is_empty(server: BatchServer, run: Run) -> None:
    server.objects = stored(node("n1"))
    assert lines(run("groups", "-o", "json")) == []


def test_rights_in_a_namespace_suffice_to_show_its_groups(server: BatchServer, run: Run) -> None:
    server.forbidden = {"pods@", "podgroups@", "nodes", "queues", "priorityclasses"}
    result = run("groups", "-n", "default")
    assert result.exit_code == 0
    assert "default/first" in result.output
    assert "you may not list nodes,queues.scheduling.volcano.sh" in result.output
    assert "only namespace default is read" in result.output
    rows = lines(run("groups", "-n", "default", "-o", "json"))
    assert [(row["name"], row["state"], row["position"], row["message"]) for row in rows] == [
        ("first", "Waiting", None, "not attempted yet"),
        ("running", "Scheduled", None, ""),
        ("second", "Waiting", None, "not attempted yet"),
    ]


def test_forbidden_pods_are_an_error_that_names_the_namespace_option(server: BatchServer, run: Run) -> None:
    server.forbidden = {"pods@"}
    message = problem(run("groups"))
    assert message.startswith("you may not list pods in all namespaces: ")
    assert message.endswith("for one namespace: -n NAMESPACE")


# -- queues ----------------------------------------------------------------------------------------------------------


def test_queues_are_a_tree_with_the_next_group(run: Run) -> None:
    output = run("queues").output.splitlines()
    assert [line.split()[0] for line in output if "Open" in line] == ["root", "default", "other", "team"]
    (team,) = (line for line in output if line.startswith("  team"))
    assert team.split()[1:7] == ["Open", "cpu", "-", "4", "2", "0"]
    assert "default/first: not attempted yet" in team


def test_json_of_queues_has_stable_keys(run: Run) -> None:
    rows = {row["name"]: row for row in lines(run("queues", "-o", "json"))}
    assert {frozenset(row) for row in rows.values()} == {frozenset(QUEUE_KEYS)}
    assert rows["team"]["resources"]["cpu"].keys() == RESOURCE_KEYS
    assert rows["team"]["groups"] == {"running": 1, "waiting": 2, "waitingPods": 10, "gated": 0}
    assert rows["team"]["next"].keys() == {"namespace", "name", "api", "reason", "message"}
    assert rows["other"]["next"] is None


def test_named_queue_is_shown_with_its_line(run: Run) -> None:
    output = run("queues", "team").output
    assert "other" not in output
    assert output.index("1 of 2") < output.index("2 of 2")
    assert problem(run("queues", "nope")) == "there is no queue 'nope' among 4; `pyscheduler queues` shows all"


def test_queues_without_all_rights_are_an_error_that_names_them(server: BatchServer, run: Run) -> None:
    server.forbidden = {"nodes", "queues"}
    message = problem(run("queues"))
    assert "--verb=list --resource=nodes,queues.scheduling.volcano.sh" in message


# -- queue -----------------------------------------------------------------------------------------------------------


def state_of(server: BatchServer, name: str) -> str:
    (found,) = (each for each in server.objects if each["kind"] == "Queue" and each["metadata"]["name"] == name)
    return str(found["status"]["state"])


def test_queue_is_stopped_and_resumed(server: BatchServer, run: Run) -> None:
    assert run("queue", "stop", "team").output == (
        "queue team is Closing: no job of it starts from now on, running pods continue\n"
    )
    assert server.patches == [("queues/team/status", {"status": {"state": "Closing"}})]
    assert {row["state"] for row in lines(run("groups", "--state", "gated", "-o", "json"))} == {"Gated"}
    assert run("queue", "stop", "team").output == "queue team is already Closing\n"
    assert run("queue", "resume", "team").output == "queue team is Open: its jobs start again\n"
    assert run("queue", "resume", "team").output == "queue team is already Open\n"
    assert state_of(server, "team") == "Open"
    assert len(server.patches) == 2


def test_queue_without_status_subresource_is_stopped(server: BatchServer, run: Run) -> None:
    server.status_subresource = False
    assert run("queue", "stop", "team").exit_code == 0
    assert state_of(server, "team") == "Closing"


def test_resumed_queue_below_a_closed_one_stays_closed(server: BatchServer, run: Run) -> None:
    server.objects += stored(queue("top", state="Closed"), queue("sub", parent="top", state="Closed"))
    assert run("queue", "resume", "sub").output.endswith("; it stays closed until its parent top is resumed\n")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nope", "there is no Queue 'nope' among 2; `pyscheduler queues` shows all"),
        ("default", "queue default has no object that could have a state; create a Queue of this name first: "),
        ("root", "queue root is the sum of all queues and has no object; stop or resume the queues below it"),
        ("team/limit", "team/limit is the queue of an ElasticQuota, which has no state; "),
    ],
)
def test_queue_that_cannot_be_stopped_is_an_error(run: Run, name: str, message: str) -> None:
    assert problem(run("queue", "stop", name)).startswith(message)


def test_missing_right_to_stop_is_an_error_that_names_it(server: BatchServer, run: Run) -> None:
    server.forbidden = {"queues/status"}
    message = problem(run("queue", "stop", "team"))
    assert message.startswith("you may not patch the status of queues.scheduling.volcano.sh: ")
    assert "kubectl create clusterrole queue-operator --verb=get,list,patch" in message
    assert state_of(server, "team") == "Open"


# -- watch -----------------------------------------------------------------------------------------------------------


def test_watch_prints_the_rows_that_change(server: BatchServer, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = 0

    async def change(_seconds: float) -> None:
        nonlocal reads
        reads += 1
        if reads == 3:
            raise KeyboardInterrupt
        if reads == 2:
            server.objects = [
                bound(each) if each["metadata"]["name"].startswith("second") and each["kind"] == "Pod" else each
                for each in server.objects
            ]

    monkeypatch.setattr(asyncio, "sleep", change)
    rows = lines(run("groups", "--watch", "-o", "json"))
    assert [(row["name"], row["state"]) for row in rows] == [
        *(("first", "Waiting"), ("running", "Scheduled"), ("second", "Waiting")),
        *(("first", "Waiting"), ("second", "Scheduled")),
    ]
    assert [row["inLine"] for row in rows if row["name"] == "first"] == [2, 1]
    assert server.closed


# -- configuration ---------------------------------------------------------------------------------------------------


def test_configuration_without_the_plugins_is_an_error(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    assert problem(run("groups", "--config", str(file))).startswith(f"{file}: no profile enables a plugin for pod")
    assert problem(run("queues", "--config", str(file))).startswith(f"{file}: no profile enables the plugin Queues")


def test_groups_of_another_scheduler_are_shown_by_its_name(server: BatchServer, run: Run) -> None:
    for each in server.objects:
        if each["kind"] == "Pod":
            each["spec"]["schedulerName"] = "batch"
    assert lines(run("groups", "-o", "json")) == []
    assert len(lines(run("groups", "--scheduler", "batch", "-o", "json"))) == 3


def ended_by_its_leader(job: str, phase: str = "Succeeded", **condition: str) -> list[Manifest]:
    """Return a group of three of a Job, of which the leader is left."""
    group = gang(job, 3, api=VOLCANO)
    leader = bound(group.pods[0], phase=phase)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"job-{job}", "controller": True}
    leader["metadata"]["ownerReferences"] = [owner]
    conditions = [condition] if condition else []
    meta = {"name": job, "uid": f"job-{job}"}
    stored_job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "status": {"conditions": conditions}}
    return [*group.objects, leader, stored_job]


def test_group_of_a_job_that_ended_by_its_success_policy_is_completed(run: Run, server: BatchServer) -> None:
    met = {"type": "SuccessCriteriaMet", "status": "True", "reason": "SuccessPolicy"}
    complete = {"type": "Complete", "status": "True"}
    failed = {"type": "Failed", "status": "True"}
    jobs = [ended_by_its_leader("met", **met), ended_by_its_leader("failed", **failed), ended_by_its_leader("active")]
    jobs.append(ended_by_its_leader("complete", **complete))
    server.objects = stored(node("n1", 4), *(each for job in jobs for each in job))
    rows = {row["name"]: row for row in map(json.loads, run("groups", "-o", "json").stdout.splitlines())}
    assert {name: row["state"] for name, row in rows.items()} == {
        "met": "Completed",
        "failed": "Gated",
        "active": "Gated",
        "complete": "Gated",
    }
    assert (rows["met"]["reason"], rows["met"]["message"]) == ("", "")
    server.forbidden = {"jobs"}
    assert json.loads(run("groups", "met", "-o", "json").stdout)["state"] == "Gated"


def test_jobs_are_listed_only_if_only_succeeded_pods_of_one_are_left(run: Run, server: BatchServer) -> None:
    server.objects = stored(node("n1", 4), *ended_by_its_leader("active", phase="Running"))
    assert run("groups").exit_code == 0
    assert not any(path.endswith("/jobs") for path in server.listed)
