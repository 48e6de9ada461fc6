"""`pyscheduler up`: the scheduler it starts, state that it loads and saves, and the live view."""

from __future__ import annotations

import asyncio
import json
import shlex
import ssl
import sys
import urllib.request
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result
from rich.console import Console

from pyscheduler.cli.program import app
from pyscheduler.cli.progress import WorkloadProgress, current_progress, node_table
from pyscheduler.cli.up import _program
from pyscheduler.cli.up_scheduler import InProcessScheduler
from pyscheduler.cli.up_watch import after_changes, node_rows, render, watch_cluster
from pyscheduler.clock import SystemClock
from pyscheduler.config.load import default as load_default
from pyscheduler.controllers.operator import PodGroupOperator
from pyscheduler.embedded import Api
from pyscheduler.embedded.cluster import EmbeddedCluster
from pyscheduler.embedded.hollow.template import NodeTemplate, node_object
from pyscheduler.shell.heartbeat import Heartbeat
from pyscheduler.shell.metrics import Metrics
from pyscheduler.testing import pod

Json = dict[str, Any]
ONCE = ("up", "--once", "--timeout", "20")


def up(*words: object, command: tuple[str, ...] = ONCE) -> Result:
    return CliRunner().invoke(app, [*command, *map(str, words)], catch_exceptions=False)


def pod_file(folder: Path, *names: str, **spec: Any) -> Path:
    file = folder / "pods.yaml"
    file.write_text(yaml.safe_dump_all(pod(name).spec(**spec).manifest for name in names))
    return file


def saved(file: Path, kind: str) -> dict[str, Json]:
    return {o["metadata"]["name"]: o for o in json.loads(file.read_text())["items"] if o["kind"] == kind}


def test_snapshot_is_restored_with_nodes_and_assigned_pods(tmp_path: Path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    result = up("--nodes", 2, "--node-cpu", "7", "--apply", pod_file(tmp_path, "a", "b"), "--snapshot", first)
    assert result.exit_code == 0, result.output
    assert f"pyscheduler up --restore {first}" in result.output.replace("\n", "")
    result = up("--restore", first, "--snapshot", second)
    assert "A cluster of 2 hollow nodes" in result.output
    assert "Loaded " in result.output
    before, after = saved(first, "Pod"), saved(second, "Pod")
    assert {name: (p["spec"]["nodeName"], p["metadata"]["uid"]) for name, p in after.items()} == {
        name: (p["spec"]["nodeName"], p["metadata"]["uid"]) for name, p in before.items()
    }
    assert {n["status"]["capacity"]["cpu"] for n in saved(second, "Node").values()} == {"7"}
    assert first.stat().st_mode & 0o777 == 0o600


def test_pods_of_a_loaded_dump_count_on_their_nodes(tmp_path: Path) -> None:
    """The dumped pod leaves no room on its node for another one of its size."""
    node = node_object(NodeTemplate("real", cpu="2"), "10.0.0.1", 0.0)
    running = pod("old").requests(cpu="1500m").manifest
    running["spec"]["nodeName"] = "real"
    running["metadata"]["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "x"}]
    dump, new = tmp_path / "dump.json", tmp_path / "new.yaml"
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node, running]}))
    new.write_text(yaml.safe_dump(pod("new").requests(cpu="1").manifest))
    result = up("--timeout", "2", "--load", dump, "--apply", new)
    assert result.exit_code == 1, result.output
    assert "A cluster of 1 hollow node at" in result.output
    assert "Removed the owners of 1 object," in result.output
    assert "default/new: 0/1 nodes are available: 1 Insufficient cpu." in result.output


LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l", "namespace": "default"}}
WIDGET = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}


@pytest.mark.parametrize("option", ["--load", "--restore"])
@pytest.mark.parametrize(
    ("content", "left_out"),
    [
        pytest.param("", "", id="empty file"),
        pytest.param(json.dumps({"apiVersion": "v1", "kind": "List", "items": []}), "", id="empty list"),
        pytest.param(json.dumps(LEASE), "", id="temporary object"),
        pytest.param(json.dumps(WIDGET), "Left out 1 of Widget (example.com/v1)", id="kind that is not served"),
    ],
)
def test_files_without_objects_that_are_stored_give_a_new_cluster(
    tmp_path: Path, option: str, content: str, left_out: str
) -> None:
    dump, state = tmp_path / "dump.json", tmp_path / "state.json"
    dump.write_text(content)
    result = up("--nodes", 1, option, dump, "--snapshot", state, "--no-scheduler")
    assert result.exit_code == 0, result.output
    assert "A cluster of 1 hollow node at" in result.output
    assert left_out in result.output
    assert "podgroups.scheduling.x-k8s.io" in saved(state, "CustomResourceDefinition")
    assert "standard" in saved(state, "StorageClass")


def test_equal_seeds_give_equal_uids_and_names(tmp_path: Path) -> None:
    uids = []
    for name in ("first", "second"):
        file = tmp_path / f"{name}.json"
        up("--nodes", 2, "--seed", 7, "--apply", pod_file(tmp_path, "a", "b"), "--snapshot", file)
        uids.append({pod: obj["metadata"]["uid"] for pod, obj in saved(file, "Pod").items()})
    assert uids[0] == uids[1]


def test_claims_without_a_class_get_the_default_one_and_its_pods_a_node(tmp_path: Path) -> None:
    """Manifests for other clusters seldom name a StorageClass."""
    claims, snapshot = tmp_path / "claims.yaml", tmp_path / "snapshot.json"
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec}
    claims.write_text(yaml.safe_dump(claim))
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    result = up("--apply", claims, "--apply", pod_file(tmp_path, "db", volumes=volumes), "--snapshot", snapshot)
    assert result.exit_code == 0, result.output
    assert saved(snapshot, "PersistentVolumeClaim")["data"]["spec"]["storageClassName"] == "standard"


def test_a_class_of_the_manifests_is_the_only_one(tmp_path: Path) -> None:
    file, snapshot = tmp_path / "class.yaml", tmp_path / "snapshot.json"
    file.write_text(
        "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: fast}\nprovisioner: disk.example.com\n"
    )
    assert up("--apply", file, "--snapshot", snapshot).exit_code == 0
    assert list(saved(snapshot, "StorageClass")) == ["fast"]


def test_without_scheduler_pods_stay_pending(tmp_path: Path) -> None:
    result = up("--timeout", "1", "--no-scheduler", "--apply", pod_file(tmp_path, "a"))
    assert (result.exit_code, "without a scheduler" in result.output) == (1, True)
    assert "no scheduler has tried it" in result.output


@pytest.mark.parametrize(
    "words",
    [
        ("--no-scheduler",),
        ("--scheduler-command", "sleep 60"),
        ("--seed", "7"),
        ("--feature-gates", "GenericWorkload=true"),
    ],
    ids=" ".join,
)
def test_printed_command_starts_the_same_cluster(tmp_path: Path, words: tuple[str, ...]) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    file = pod_file(folder, "a")
    printed = up("--timeout", "0", "--nodes", 1, "--apply", file, *words).output
    command = next(line for line in printed.splitlines() if "--kubeconfig-out kubeconfig" in line)
    after_up = shlex.split(command.partition(" up ")[2])
    assert after_up == [
        *("--nodes", "1", "--node-cpu", "4", "--node-memory", "32Gi", "--apply", str(file), *words),
        *("--kubeconfig-out", "kubeconfig"),
    ]


def test_number_that_is_no_integer_is_called_so() -> None:
    result = CliRunner().invoke(app, ["up", "--nodes", "many"], standalone_mode=False)
    assert isinstance(result.exception, click.UsageError)
    assert result.exception.message.startswith("Invalid value for '--nodes': 'many' is not a valid integer;")


@pytest.mark.parametrize(
    ("started", "expected"),
    [
        pytest.param("/opt/pyscheduler/__main__.py", ["python3", "-m", "pyscheduler"], id="as a module"),
        pytest.param("pyscheduler", ["pyscheduler"], id="as a program"),
    ],
)
def test_printed_command_starts_the_program_as_it_was_started(
    monkeypatch: pytest.MonkeyPatch, started: str, expected: list[str]
) -> None:
    monkeypatch.setattr("sys.argv", [started, "up"])
    monkeypatch.setattr("sys.executable", "/usr/bin/python3")
    assert _program() == expected


async def test_endpoints_need_no_credentials_and_log_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    def get(url: str) -> str:
        with urllib.request.urlopen(url, context=ssl._create_unverified_context()) as response:
            return str(response.read().decode())

    clock, metrics = SystemClock(), Metrics()
    scheduler = InProcessScheduler(load_default(), 0, dict, PodGroupOperator)
    async with AsyncExitStack() as stack:
        heartbeat = await stack.enter_async_context(Heartbeat(clock))
        cluster = await stack.enter_async_context(EmbeddedCluster(1))
        started = await scheduler.start(stack, cluster, clock, metrics, heartbeat)
        assert "scheduler_pending_pods" in await asyncio.to_thread(get, f"{started.endpoints}/metrics")
        assert "counts" in await asyncio.to_thread(get, f"{started.endpoints}/debug/queue")
    assert [record.message for record in caplog.records if record.name.startswith("pyscheduler")] == []


def test_scheduler_command_gets_the_kubeconfig_and_binds_pods(tmp_path: Path) -> None:
    program = tmp_path / "scheduler.py"
    program.write_text(
        "import json, os, sys, time, urllib.request, yaml\n"
        "assert sys.argv[1] == '--kubeconfig=' + os.environ['KUBECONFIG']\n"
        "url = yaml.safe_load(open(os.environ['KUBECONFIG']))['clusters'][0]['cluster']['server']\n"
        "target = {'metadata': {'name': 'a'}, 'target': {'name': 'node-2'}}\n"
        "path = url + '/api/v1/namespaces/default/pods/a/binding'\n"
        "head = {'Content-Type': 'application/json'}\n"
        "urllib.request.urlopen(urllib.request.Request(path, json.dumps(target).encode(), head))\n"
        "time.sleep(60)\n"
    )
    snapshot, command = tmp_path / "snapshot.json", f"{sys.executable} {program} --kubeconfig={{kubeconfig}}"
    result = up("--scheduler-command", command, "--apply", pod_file(tmp_path, "a"), "--snapshot", snapshot)
    assert result.exit_code == 0, result.output
    assert "with the scheduler" in result.output
    assert saved(snapshot, "Pod")["a"]["spec"]["nodeName"] == "node-2"


EXITS = [
    (
        "import sys; print('first'); sys.exit('no such flag')",
        "exited with code 1; its last output:\nfirst\nno such flag",
    ),
    ("", "exited with code 0, without any output"),
    ("import os; os.kill(os.getpid(), 9)", "was ended by signal 9"),
    ("print('x' * 300_000)", "exited with code 0; its last output:\nxxx"),
]


@pytest.mark.parametrize(("program", "message"), EXITS)
@pytest.mark.parametrize("live", [False, True], ids=["once", "watch"])
def test_end_of_the_scheduler_command_is_reported(tmp_path: Path, program: str, message: str, live: bool) -> None:
    file = tmp_path / "scheduler.py"
    file.write_text(program)
    words = ("--scheduler-command", f"{sys.executable} {file}", "--apply", pod_file(tmp_path, "a"))
    with pytest.raises(Exception, match="--scheduler-command: the scheduler") as error:
        up(*words, command=("up", "--watch") if live else ONCE)
    assert message in str(error.value)


def test_scheduler_command_that_does_not_exist_is_reported() -> None:
    with pytest.raises(Exception, match="--scheduler-command: /none cannot be started: No such file or directory"):
        up("--scheduler-command", "/none --flag")


CONTRADICTIONS = [
    (("--cluster", "f", "--nodes", "3"), "--cluster and --nodes"),
    (("--cluster", "f", "--node-memory", "1Gi"), "--cluster and --node-memory"),
    (("--load", "f", "--restore", "g"), "--load and --restore"),
    (("--no-scheduler", "--scheduler-command", "a"), "--no-scheduler and --scheduler-command"),
    (("--no-scheduler", "--config", "f"), "--no-scheduler and --config"),
    (("--scheduler-command", "a", "--feature-gates", "A=true"), "--scheduler-command and --feature-gates"),
    (("--scheduler-command", "a", "--secure-port", "1"), "--scheduler-command and --secure-port"),
]


@pytest.mark.parametrize(("words", "message"), CONTRADICTIONS)
def test_options_that_contradict_each_other_are_a_usage_error(words: tuple[str, ...], message: str) -> None:
    result = up(*words)
    assert (result.exit_code, f"{message} cannot be used together" in result.output) == (2, True), result.output


def api_with(*, nodes: int = 0, pods: int = 0) -> Api:
    api = Api()
    for number in range(nodes):
        api.create(api.resource("nodes"), "", node_object(NodeTemplate(f"n{number:03}"), "10.0.0.1", 0.0))
    for number in range(pods):
        manifest = pod(f"p{number:03}").requests(cpu="500m", memory="1Gi").manifest
        api.create(api.resource("pods"), "default", manifest)
    return api


def bind(api: Api, name: str, node: str) -> None:
    api.bind("default", name, {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}})


def text(api: Api, height: int) -> list[str]:
    console = Console(width=100, height=height)
    with console.capture() as capture:
        console.print(render(api, height))
    return capture.get().splitlines()


def test_live_table_shows_requests_of_running_pods_and_the_state_of_nodes() -> None:
    api = api_with(nodes=2, pods=3)
    bind(api, "p000", "n000")
    bind(api, "p001", "n000")
    cordon = ("application/merge-patch+json", {"spec": {"unschedulable": True}})
    api.patch(api.resource("nodes"), ("", "n001", ""), cordon)
    first, second = node_rows(api)
    assert first == ("n000", "Ready", "1/4", "2.0/32.0Gi", "2/110", "2 Starting")
    assert second == ("n001", "Ready,SchedulingDisabled", "0/4", "0.0/32.0Gi", "0/110", "-")
    assert "2 of 3 pods assigned to nodes (1 pending, 2 starting)" in text(api, 24)


def test_live_table_of_a_large_cluster_fits_the_terminal() -> None:
    lines = text(api_with(nodes=100, pods=10), height=20)
    assert len(lines) <= 20
    assert "... and 90 more nodes" in lines
    assert "... and 7 more pods without a node" in lines


class Steps:
    """Clock of which each sleep runs the next step."""

    def __init__(self, *steps: Any) -> None:
        self.steps, self.time, self.slept = list(steps), 0.0, list[float]()

    def now(self) -> float:
        return self.time

    def wall(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.steps.pop(0)()


async def test_drawing_takes_a_tenth_of_the_time_and_follows_changes_only() -> None:
    """Drawing reads every pod: in a cluster of thousands it would take the time of the scheduler beside it."""
    api, drawn = api_with(nodes=1), list[int]()
    clock = Steps(lambda: None, lambda: create_pod(api), lambda: None)

    def draw() -> bool:
        drawn.append(api.state.store.revision)
        clock.time += 2.0
        return False

    await after_changes(api, clock, draw, lambda: not clock.steps)
    assert len(drawn) == 2
    assert clock.slept == [20.0, 0.25, 20.0]


def create_pod(api: Api) -> None:
    api.create(api.resource("pods"), "default", pod("late").manifest)


def test_summary_of_a_large_cluster_is_short() -> None:
    api = api_with(nodes=60, pods=60)
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    for number in range(9):
        api.create(api.resource("deployments", "apps"), "default", {"metadata": {"name": f"d{number}"}, "spec": spec})
    assert current_progress(api).line.endswith("deployment/d3 and 5 more")
    console = Console(width=100)
    with console.capture() as capture:
        console.print(node_table(api))
    assert "n049" in capture.get()
    assert "n050" not in capture.get()
    assert "10 more" in capture.get()
    assert "p049" in capture.get()
    assert "p050" not in capture.get()


async def test_without_a_terminal_each_change_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    api = api_with(nodes=1, pods=1)
    clock = Steps(
        lambda: bind(api, "p000", "n000"),
        lambda: None,
        lambda: api.delete(api.resource("nodes"), "", "n000"),
    )
    await watch_cluster(Console(force_terminal=False), api, clock, lambda: not clock.steps)
    assert capsys.readouterr().out.splitlines() == [
        "node/n000  Ready",
        "pod/default/p000  Pending",
        "pod/default/p000  Starting on n000",
        "node/n000  deleted",
    ]


def test_progress_of_one_pod_is_in_the_singular() -> None:
    assert WorkloadProgress(Counter(running=1)).line == "1 of 1 pod assigned to nodes (1 running)"
