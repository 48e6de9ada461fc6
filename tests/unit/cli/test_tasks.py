"""`pyscheduler tasks` while no process runs the state file: queued requests, output and errors."""

from __future__ import annotations

import asyncio
import io
import json
import re
import sqlite3
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar, Protocol, Self

import pytest
import yaml

from pyscheduler.api import ApiError, ResourceKind
from pyscheduler.api.objects import Toleration
from pyscheduler.backend.client import KubernetesClient
from pyscheduler.backend.outcomes import Outcome
from pyscheduler.backend.pods import PodsSnapshot, PodState
from pyscheduler.backend.state import StateIdentity
from pyscheduler.backend.state.request_queue import Adopt, Forget, Kill, Request, RequestQueue, Submit
from pyscheduler.backend.state.sqlite import SqliteState
from pyscheduler.backend.task import Json, RetryPolicy, TaskGang, TaskPhase, TaskRecord, TaskSpec
from pyscheduler.cli.program import run as main
from pyscheduler.cli.task_run import UpdateReporter
from tests.tasks.records import full_record, record

IDLE = "; not running, start it with `pyscheduler tasks run --state tasks.db`\n"


class Cli(Protocol):
    """Runs `pyscheduler tasks …` in a temporary folder; returns exit code, stdout and stderr."""

    def __call__(self, *args: object) -> tuple[int, str, str]: ...


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def _run(*args: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["pyscheduler", "tasks", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        return int(ended.value.code or 0), out, err

    return _run


def queued() -> list[Request]:
    """Return the requests in the queue."""
    with RequestQueue(Path("tasks.db")) as queue:
        return [one.request for one in queue.pending()]


def save(*records: TaskRecord) -> None:
    """Store records, as a process that ran the state file."""

    async def commit() -> None:
        store = SqliteState(Path("tasks.db"))
        await store.open()
        await store.commit(records)
        await store.close()

    asyncio.run(commit())


def test_submit_builds_a_task_from_flags(tasks: Cli) -> None:
    flags = [
        *("--image", "etl:3", "--cpu", "500m", "--memory", "1Gi", "--resource", "nvidia.com/gpu=1"),
        *("--limit", "memory=2Gi", "--env", "DAY=7", "--env", "EQUATION=a=b", "--label", "team=x"),
        *("--node-selector", "zone=a", "--priority-class", "high", "--queue", "night", "--gang", "g:3"),
        *("--arg", "a", "--arg", "b", "--pull-secret", "registry", "--service-account", "etl", "--priority", "7"),
        *("--toleration", "spot", "--toleration", "gpu=a:NoSchedule", "--start-seconds", "60"),
        *("--retry", "application=2", "--pending-seconds", "30", "--deadline-seconds", "3600", "--scheduler", "s"),
    ]
    assert tasks("submit", "nightly-7", *flags, "--", "load", "--day", "7") == (0, "1 submitted" + IDLE, "")
    [request] = queued()
    assert request == Submit(
        TaskSpec(
            id="nightly-7",
            image="etl:3",
            command=("load", "--day", "7"),
            cpu="500m",
            memory="1Gi",
            resources={"nvidia.com/gpu": "1"},
            limits={"memory": "2Gi"},
            env={"DAY": "7", "EQUATION": "a=b"},
            labels={"team": "x"},
            node_selector={"zone": "a"},
            priority_class="high",
            queue="night",
            gang=TaskGang(name="g", size=3),
            retry=RetryPolicy(application=2),
            args=("a", "b"),
            pull_secrets=("registry",),
            service_account="etl",
            priority=7,
            tolerations=(
                Toleration(key="spot", operator="Exists"),
                Toleration(key="gpu", operator="Equal", value="a", effect="NoSchedule"),
            ),
            start_seconds=60.0,
            pending_seconds=30.0,
            deadline_seconds=3600.0,
            scheduler="s",
        )
    )


YAML = """
- {id: a, image: i, cpu: 100m}
- id: b
  image: i
  command: [load, --day, "7"]
  retry: {infrastructure: 1}
---
id: c
pod:
  spec: {containers: [{name: main, image: i}]}
"""
LINES = '{"id": "a", "image": "i", "cpu": "100m"}\n\n{"id": "b", "image": "i"}\n{"id": "c", "image": "i"}\n'


@pytest.mark.parametrize("text", [YAML, LINES, json.dumps([{"id": i, "image": "i"} for i in "abc"])])
def test_submit_reads_tasks_from_a_file(tasks: Cli, text: str) -> None:
    Path("many").write_text(text)
    assert tasks("submit", "--file", "many") == (0, "3 submitted" + IDLE, "")
    assert [request.spec.id for request in queued() if isinstance(request, Submit)] == ["a", "b", "c"]


def test_submitting_tasks_again_changes_nothing(tasks: Cli) -> None:
    Path("many").write_text(YAML)
    tasks("submit", "--file", "many")
    tasks("submit", "d", "--image", "i")
    assert tasks("submit", "--file", "many")[1] == "0 submitted, 3 submitted before" + IDLE
    save(record("e"))
    assert tasks("submit", "e", "--image", "pause:1", "--cpu", "100m")[1].startswith("0 submitted, 1 submitted before")
    assert len(queued()) == 4


WRONG = [
    (["submit"], 2, "name a task (ID --image I), or a file of tasks (--file FILE)"),
    (["submit", "a"], 2, "--image is required"),
    (["submit", "a", "--image", "i", "--cpu", "x"], 1, "pyscheduler: task 'a': cpu: "),
    (["submit", "a", "--image", "i", "--env", "X"], 2, "'X' is not NAME=VALUE"),
    (["submit", "a", "--image", "i", "--gang", "g"], 2, "'g' is not NAME:SIZE"),
    (["submit", "a", "--image", "i", "--retry", "all=3"], 2, "all=3 is not infrastructure=N, application=N"),
    (
        ["submit", "a", "--image", "i", "--pending-seconds", "-1"],
        1,
        "pending_seconds, start_seconds and deadline_seconds must be",
    ),
    (["submit", "a", "--image", "i", "--start-seconds", "0"], 1, "pending_seconds, start_seconds and deadline_seconds"),
    (["submit", "a", "--file", "many"], 2, "--file cannot be combined with an ID or other flags"),
    (["submit", "--file", "nowhere"], 1, "pyscheduler: nowhere: cannot be read: No such file or directory"),
    (["list"], 1, "tasks.db does not exist: create it with `pyscheduler tasks submit` or `tasks run`"),
    (["kill"], 2, "name the tasks: ID..., --queue Q or --all"),
    (["forget"], 2, "name the tasks: ID..., or --ended"),
    (["list", "--phase", "Lost"], 2, "'Lost' is not one of"),
    (["submit", "a", "--image", "i", "--toleration", "a:Never"], 2, "'a:Never' is not KEY[=VALUE][:EFFECT]"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), WRONG, ids=lambda value: str(value)[:40])
def test_wrong_arguments_are_reported(tasks: Cli, arguments: list[str], code: int, message: str) -> None:
    Path("many").write_text(YAML)
    exit_code, out, err = tasks(*arguments)
    assert (exit_code, out) == (code, "")
    assert message in err
    assert "Traceback" not in err
    assert not Path("tasks.db").exists()


BAD_FILES = [
    ("- id: a\n  image: [", r"many:\d:\d+: not valid YAML: "),
    ("- {id: a, image: i}\n- {id: b, imag: i}", r"many: \[1\]: Object contains unknown field `imag`"),
    ("id: a\nimage: i\n---\nid: 7\nimage: {}", "many: document 2: Expected `str`, got "),
    ('{"id": "a", "image": "i"}\n{"id": "b"}', "many:2: task 'b': give either pod or image"),
    ('{"id": "a", "image": "i"}\n{"id": ', "many:2: is not JSON: "),
    ("- {id: a, image: i}\n- {id: a, image: j}", "many: the id 'a' is used for two different tasks"),
    ("", "many: has no tasks; see `pyscheduler tasks submit --help` for the format"),
]


@pytest.mark.parametrize(("text", "message"), BAD_FILES, ids=[message for _, message in BAD_FILES])
def test_invalid_file_is_rejected_as_a_whole(tasks: Cli, text: str, message: str) -> None:
    Path("many").write_text(text)
    code, out, err = tasks("submit", "--file", "many")
    assert (code, out) == (1, "")
    assert re.match(f"pyscheduler: {message}", err), err
    assert len(err.splitlines()) == 1
    assert not Path("tasks.db").exists()


def test_id_of_another_task_is_rejected(tasks: Cli) -> None:
    save(record("a"))
    message = "pyscheduler: task 'a' already exists with another spec: use another id\n"
    assert tasks("submit", "a", "--image", "other") == (1, "", message)
    assert queued() == []


def save_all_phases() -> None:
    """Store tasks of every phase."""
    failed = record("failed", phase=TaskPhase.FAILED, reason=Outcome.OOM_KILLED, exit_code=137, message="too much")
    save(record("running", phase=TaskPhase.RUNNING, node="n-1"), record("done", phase=TaskPhase.SUCCEEDED), failed)
    with RequestQueue(Path("tasks.db")) as queue:
        queue.put([Submit(TaskSpec(id="waits", image="i", queue="night")), Submit(TaskSpec(id="no", image="i"))])
        queue.reject([queue.pending()[1].number], "larger than the whole budget")


def test_list_includes_records_and_queued_and_rejected_tasks(tasks: Cli) -> None:
    save_all_phases()
    code, out, _ = tasks("list")
    assert code == 0
    assert [line.split()[:2] for line in out.splitlines()[:-1]] == [
        ["TASK", "PHASE"],
        ["running", "Running"],
        ["done", "Succeeded"],
        ["failed", "Failed"],
        ["no", "Refused"],
        ["waits", "Waiting"],
    ]
    assert "OOMKilled: exit code 137: too much" in out
    assert "larger than the whole budget" in out
    assert out.splitlines()[-1].startswith("1 waiting, 1 running, 1 succeeded, 1 failed, 1 refused; not running")


@pytest.mark.parametrize(
    ("flags", "ids"),
    [
        (["--phase", "running", "--phase", "Failed"], ["running", "failed"]),
        (["--queue", "night"], ["waits"]),
        (["--id", "*n*"], ["running", "done", "no"]),
        (["--id", "nothing-like-it"], []),
    ],
)
def test_list_filters_by_phase_queue_and_id(tasks: Cli, flags: list[str], ids: list[str]) -> None:
    save_all_phases()
    _, out, _ = tasks("list", *flags, "--output", "json")
    assert [json.loads(line)["spec"]["id"] for line in out.splitlines()] == ids


def test_list_limit_shows_the_last_tasks(tasks: Cli) -> None:
    save(*(record(f"t-{i}") for i in range(9)))
    _, out, _ = tasks("list", "--limit", "2")
    assert [line.split()[0] for line in out.splitlines()[1:3]] == ["t-7", "t-8"]
    assert out.splitlines()[-1].startswith("9 submitted (the last 2 shown; --limit shows more)")


def test_show_prints_all_fields(tasks: Cli) -> None:
    save_all_phases()
    shown = yaml.safe_load(tasks("show", "failed")[1])
    assert (shown["phase"], shown["reason"], shown["exit_code"]) == ("Failed", "OOMKilled", 137)
    assert shown["spec"]["image"] == "pause:1"
    assert yaml.safe_load(tasks("show", "no")[1])["message"] == "larger than the whole budget"


def test_show_prints_times_as_dates_and_names_fields_as_the_record_does(tasks: Cli) -> None:
    save(full_record("full"))
    code, out, _ = tasks("show", "full")
    assert code == 0
    assert "submitted_at: '2023-11-14T22:13:20.125Z'" in out.splitlines()
    assert "finished_at: '2023-11-14T22:13:22.500Z'" in out.splitlines()
    shown = yaml.safe_load(out)
    assert shown.keys() <= {*TaskRecord.__struct_fields__}
    assert shown["acknowledged"] is True
    listed = json.loads(tasks("list", "-o", "json")[1])
    assert (listed.keys(), listed["submitted_at"]) == (shown.keys(), 1_700_000_000.125)


def test_list_shows_time_since_submission_and_run_time(tasks: Cli) -> None:
    now = time.time()
    save(
        record("done", phase=TaskPhase.SUCCEEDED, submitted_at=now - 600, started_at=now - 580, finished_at=now - 570),
        record("pending", phase=TaskPhase.PENDING, submitted_at=now - 61),
    )
    header, done, pending, _ = tasks("list")[1].splitlines()
    assert header.split() == ["TASK", "PHASE", "TRY", "NODE", "AGE", "DURATION", "WHY"]
    assert done.split() == ["done", "Succeeded", "1", "10m00s", "10s"]
    assert pending.split() == ["pending", "Pending", "1", "1m01s"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "done"),
        ("kill", "done"),
        ("forget", "done"),
        ("watch", "done"),
        ("logs", "done"),
        ("submit", "done", "--image", "other"),
    ],
)
def test_command_for_one_task_decodes_no_other_record(tasks: Cli, arguments: tuple[str, ...]) -> None:
    save_all_phases()
    with closing(sqlite3.connect("tasks.db")) as db, db:
        db.execute("UPDATE task SET record = 'unreadable' WHERE id != 'done'")
    assert "damaged" not in tasks(*arguments)[2]
    assert "damaged" in tasks("list")[2]


def test_forget_ended_decodes_only_tasks_that_have_ended(tasks: Cli) -> None:
    save_all_phases()
    with closing(sqlite3.connect("tasks.db")) as db, db:
        db.execute("UPDATE task SET record = 'unreadable' WHERE id = 'running'")
    assert tasks("forget", "--ended")[1] == "3 to be forgotten" + IDLE
    assert tasks("list", "--phase", "Failed")[0] == 0


def test_logs_need_a_pod(tasks: Cli) -> None:
    save_all_phases()
    assert tasks("logs", "no")[2].endswith("task 'no' is Refused: it has no pod\n")
    assert "no `pyscheduler tasks run` has used this state file" in tasks("logs", "failed")[2]


def save_identity(file: Path, identity: StateIdentity) -> None:
    """Make a state file that belongs to a backend."""

    async def bind() -> None:
        store = SqliteState(file)
        await store.open()
        await store.bind(identity)
        await store.close()

    asyncio.run(bind())


@pytest.mark.parametrize("command", [("list",), ("adopt", "pod-1"), ("release", "--all", "--delete")])
def test_orphans_of_another_cluster_are_left_alone(
    tasks: Cli, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    class OtherCluster(KubernetesClient):
        async def __aenter__(self) -> Self:
            return self

        async def namespace_uid(self, name: str) -> str:
            return f"other-{name}"

    save_identity(Path("tasks.db"), StateIdentity(namespace="default", backend="tasks", cluster_uid="ours"))
    monkeypatch.setattr("pyscheduler.cli.task_client.KubernetesClient", OtherCluster)
    code, out, err = tasks("orphans", *command, "--context", "other")
    assert (code, out) == (1, "")
    assert "this is another cluster, where namespace kube-system has the uid other-kube-system, not ours" in err


class ClusterWithOrphan(KubernetesClient):
    """Cluster with one pod, and a Lease that was renewed some seconds ago, or none."""

    renewed_ago: float | None = None
    released: ClassVar[list[str]] = []

    async def __aenter__(self) -> Self:
        return self

    async def get_object(self, kind: ResourceKind, name: str) -> Json:
        if self.renewed_ago is None:
            raise ApiError(404, "NotFound", f"{kind.plural} {name!r} not found")
        renewed = datetime.now(UTC) - timedelta(seconds=self.renewed_ago)
        return {"spec": {"holderIdentity": "", "renewTime": renewed.isoformat().replace("+00:00", "Z")}}

    async def list_pods(self, _: str) -> PodsSnapshot:
        return PodsSnapshot(pods={"p": PodState(name="p", uid="u", version=1, task="a", has_finalizer=True)})

    async def release_pod(self, name: str, uid: str) -> None:
        self.released.append(f"{name} {uid}")


@pytest.mark.parametrize(
    ("renewed_ago", "out"),
    [
        pytest.param(100.0, "0 released: backend 'tasks' was in use 100 s ago\n", id="used lately"),
        pytest.param(4000.0, "1 released\n", id="unused for longer"),
        pytest.param(None, "1 released\n", id="no lease"),
    ],
)
def test_finalizers_are_removed_once_the_backend_is_unused_for_a_time(
    tasks: Cli, renewed_ago: float | None, out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyscheduler.cli.task_client.KubernetesClient", ClusterWithOrphan)
    monkeypatch.setattr(ClusterWithOrphan, "renewed_ago", renewed_ago)
    monkeypatch.setattr(ClusterWithOrphan, "released", [])
    assert tasks("orphans", "release", "--all", "--state", "nowhere.db", "--unused-for", "3600") == (0, out, "")
    assert len(ClusterWithOrphan.released) == int(out[0])


@pytest.mark.parametrize("command", [("list",), ("adopt", "p"), ("release", "p")])
def test_orphans_of_the_state_file_that_the_environment_names(
    tasks: Cli, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """All commands of `tasks` use the same file."""
    state = tmp_path / "of-environment.db"
    monkeypatch.setenv("PYSCHEDULER_TASKS_STATE", str(state))
    save_identity(state, StateIdentity(namespace="jobs", backend="tasks"))
    monkeypatch.setattr("pyscheduler.cli.task_client.KubernetesClient", ClusterWithOrphan)
    monkeypatch.setattr(ClusterWithOrphan, "released", [])
    message = "of-environment.db is the state of another backend: the flags have namespace 'default', not 'jobs'\n"
    assert tasks("orphans", *command, "--namespace", "default")[::2] == (1, f"pyscheduler: {tmp_path}/{message}")


def test_orphans_list_has_the_reason_why_a_pod_was_not_adopted(tasks: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyscheduler.cli.task_client.KubernetesClient", ClusterWithOrphan)
    with RequestQueue(Path("tasks.db"), create=True) as queue:
        queue.put([Adopt("a", "p")])
        queue.reject([queue.pending()[0].number], "task 'a' exists")
    line, _ = tasks("orphans", "list")[1].splitlines()
    assert line == "p  task 'a'  Pending  no node  not adopted: task 'a' exists"
    assert tasks("orphans", "adopt", "p") == (0, f"1 to be adopted{IDLE}", "")
    assert tasks("orphans", "list")[1].startswith("p  task 'a'  Pending  no node\n"), "the next request replaces it"


def test_unknown_tasks_are_reported(tasks: Cli) -> None:
    save_all_phases()
    for arguments in (["show", "x"], ["kill", "done", "x"], ["watch", "x"], ["forget", "x"]):
        code, out, err = tasks(*arguments)
        assert (code, out) == (1, "")
        assert err == "pyscheduler: there is no task 'x'; `pyscheduler tasks list` shows all\n"
    assert [r for r in queued() if not isinstance(r, Submit)] == []


def test_kill_queues_a_request_for_each_task_that_has_not_ended(tasks: Cli) -> None:
    save_all_phases()
    assert tasks("kill", "running", "done")[1] == "1 to be killed, 1 already ended" + IDLE
    assert tasks("kill", "--queue", "night")[1] == "1 to be killed" + IDLE
    assert [request for request in queued() if isinstance(request, Kill)] == [Kill("running"), Kill("waits")]
    assert tasks("kill", "--all")[1] == "2 to be killed" + IDLE


@pytest.mark.parametrize("words", [("done",), ("--queue", "none")], ids=" ".join)
def test_kill_with_watch_ends_at_once_if_no_task_is_to_be_killed(tasks: Cli, words: tuple[str, ...]) -> None:
    save_all_phases()
    code, out, _ = tasks("kill", *words, "--watch")
    assert (code, out.partition("\n")[2]) == (0, ""), "tasks that are not killed are watched"


def test_forget_accepts_only_tasks_that_have_ended(tasks: Cli) -> None:
    save_all_phases()
    message = "pyscheduler: task 'running' has not ended: kill it first with `pyscheduler tasks kill`\n"
    assert tasks("forget", "running")[2] == message
    assert tasks("forget", "--ended")[1] == "3 to be forgotten" + IDLE
    assert [request for request in queued() if isinstance(request, Forget)] == [Forget("done"), Forget("failed")]
    assert "no" not in tasks("list", "--output", "json")[1].replace("node", "")


def test_rejected_task_can_be_submitted_with_another_spec(tasks: Cli) -> None:
    save_all_phases()
    assert tasks("submit", "no", "--image", "smaller")[0] == 0
    assert Submit(TaskSpec(id="no", image="smaller")) in queued()
    assert '"Refused"' not in tasks("list", "--output", "json")[1]


def test_watch_exits_when_all_tasks_have_ended(tasks: Cli) -> None:
    save(record("a", phase=TaskPhase.SUCCEEDED), record("b", phase=TaskPhase.FAILED, reason=Outcome.GONE))
    assert tasks("watch", "a")[:2] == (0, "a Succeeded\n1 succeeded\n")
    assert tasks("watch")[:2] == (1, "a Succeeded\nb Failed (Gone)\n1 succeeded, 1 failed\n")


def test_offers_shows_the_last_offer(tasks: Cli) -> None:
    save()
    assert "has no offer yet; start `pyscheduler tasks run`" in tasks("offers")[2]
    with RequestQueue(Path("tasks.db")) as queue:
        queue.set_meta("offer", "allocated: nothing\nfree: cpu 4")
    hint = "as of the last `pyscheduler tasks run`, which is not running"
    assert tasks("offers")[1] == f"allocated: nothing\nfree: cpu 4\n{hint}\n"


def test_help_has_examples(tasks: Cli) -> None:
    _, out, _ = tasks("--help")
    assert (
        "pyscheduler tasks submit hello --image busybox:1.37 --annotation pyscheduler.io/run-seconds=1 -- echo hello"
        in out
    )
    assert "docs/tasks.md" in out
    assert "deadline_seconds: 3600" in tasks("submit", "--help")[1]


def test_lines_of_concurrent_updates_are_not_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """`run` reports updates of different tasks in different threads."""

    class SlowOutput(io.StringIO):
        def write(self, text: str) -> int:
            time.sleep(0.001)
            return super().write(text)

    monkeypatch.setattr(sys, "stdout", output := SlowOutput())
    reporter = UpdateReporter("text")
    ended = [record(f"t-{number}", phase=TaskPhase.SUCCEEDED) for number in range(32)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(reporter.update, ended))
    assert sorted(output.getvalue().splitlines()) == sorted(f"{one.id} Succeeded" for one in ended)
