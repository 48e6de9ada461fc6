"""`pyscheduler tasks` without anybody at work: what is left in the state file, what is shown, what is refused."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Protocol

import pytest
import yaml

from pyscheduler.backend.outcomes import Outcome
from pyscheduler.backend.state.request_queue import Forget, Kill, Request, RequestQueue, Submit
from pyscheduler.backend.state.sqlite import SqliteState
from pyscheduler.backend.task import Gang, RetryPolicy, TaskPhase, TaskRecord, TaskSpec
from pyscheduler.cli import main
from tests.tasks.records import record

NOBODY = "; nobody works tasks.db: `pyscheduler tasks run --state tasks.db` does\n"


class Cli(Protocol):
    """Runs `pyscheduler tasks …` in a folder of its own: exit code, standard output, standard error."""

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


def waiting() -> list[Request]:
    """What is in the inbox."""
    with RequestQueue(Path("tasks.db")) as box:
        return [one.request for one in box.pending()]


def worked(*records: TaskRecord) -> None:
    """Somebody has worked the state, and this is where the tasks are."""

    async def keep() -> None:
        store = SqliteState(Path("tasks.db"))
        await store.open()
        await store.commit(records)
        await store.close()

    asyncio.run(keep())


def test_a_task_from_flags(tasks: Cli) -> None:
    flags = [
        *("--image", "etl:3", "--cpu", "500m", "--memory", "1Gi", "--resource", "nvidia.com/gpu=1"),
        *("--limit", "memory=2Gi", "--env", "DAY=7", "--env", "EQUATION=a=b", "--label", "team=x"),
        *("--node-selector", "zone=a", "--priority-class", "high", "--queue", "night", "--gang", "g:3"),
        *("--retry", "application=2", "--pending-seconds", "30", "--deadline-seconds", "3600", "--scheduler", "s"),
    ]
    assert tasks("submit", "nightly-7", *flags, "--", "load", "--day", "7") == (0, "1 submitted" + NOBODY, "")
    [request] = waiting()
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
            gang=Gang(name="g", size=3),
            retry=RetryPolicy(application=2),
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
def test_many_tasks_from_a_file(tasks: Cli, text: str) -> None:
    Path("many").write_text(text)
    assert tasks("submit", "--file", "many") == (0, "3 submitted" + NOBODY, "")
    assert [request.spec.id for request in waiting() if isinstance(request, Submit)] == ["a", "b", "c"]


def test_submitting_again_changes_nothing(tasks: Cli) -> None:
    Path("many").write_text(YAML)
    tasks("submit", "--file", "many")
    tasks("submit", "d", "--image", "i")
    assert tasks("submit", "--file", "many")[1] == "0 submitted, 3 submitted before" + NOBODY
    worked(record("e"))
    assert tasks("submit", "e", "--image", "pause:1", "--cpu", "100m")[1].startswith("0 submitted, 1 submitted before")
    assert len(waiting()) == 4


WRONG = [
    (["submit"], 2, "name a task (ID --image I), or a file of tasks (--file FILE)"),
    (["submit", "a"], 2, "--image says what to run"),
    (["submit", "a", "--image", "i", "--cpu", "x"], 1, "pyscheduler: task 'a': cpu: "),
    (["submit", "a", "--image", "i", "--env", "X"], 2, "'X' is not NAME=VALUE"),
    (["submit", "a", "--image", "i", "--gang", "g"], 2, "'g' is not NAME:SIZE"),
    (["submit", "a", "--image", "i", "--retry", "all=3"], 2, "all=3 is not infrastructure=N, application=N"),
    (["submit", "a", "--image", "i", "--pending-seconds", "-1"], 1, "pending_seconds and deadline_seconds must be"),
    (["submit", "a", "--file", "many"], 2, "give either a file, or an ID with flags"),
    (["submit", "--file", "nowhere"], 1, "pyscheduler: nowhere: cannot be read: No such file or directory"),
    (["list"], 1, "tasks.db is not there: `pyscheduler tasks submit` and `tasks run` make a state file"),
    (["kill"], 2, "name the tasks: ID..., --queue Q or --all"),
    (["forget"], 2, "name the tasks: ID..., or --ended"),
    (["list", "--phase", "Lost"], 2, "'Lost' is not one of"),
]


@pytest.mark.parametrize(("words", "code", "said"), WRONG, ids=lambda value: str(value)[:40])
def test_what_is_wrong_is_told(tasks: Cli, words: list[str], code: int, said: str) -> None:
    Path("many").write_text(YAML)
    ended, out, err = tasks(*words)
    assert (ended, out) == (code, "")
    assert said in err
    assert "Traceback" not in err
    assert not Path("tasks.db").exists()


BAD_FILES = [
    ("- id: a\n  image: [", r"many:\d:\d+: not valid YAML: "),
    ("- {id: a, image: i}\n- {id: b, imag: i}", r"many: \[1\]: Object contains unknown field `imag`"),
    ("id: a\nimage: i\n---\nid: 7\nimage: {}", "many: document 2: Expected `str`, got "),
    ('{"id": "a", "image": "i"}\n{"id": "b"}', "many:2: task 'b': give either pod or image"),
    ('{"id": "a", "image": "i"}\n{"id": ', "many:2: is not JSON: "),
    ("- {id: a, image: i}\n- {id: a, image: j}", "many: the id 'a' stands for two different tasks"),
    ("", "many: has no tasks; `pyscheduler tasks submit --help` shows what they look like"),
]


@pytest.mark.parametrize(("text", "said"), BAD_FILES, ids=[said for _, said in BAD_FILES])
def test_a_bad_file_is_refused_whole_with_its_place(tasks: Cli, text: str, said: str) -> None:
    Path("many").write_text(text)
    code, out, err = tasks("submit", "--file", "many")
    assert (code, out) == (1, "")
    assert re.match(f"pyscheduler: {said}", err), err
    assert len(err.splitlines()) == 1
    assert not Path("tasks.db").exists()


def test_an_id_stands_for_one_task(tasks: Cli) -> None:
    worked(record("a"))
    said = "pyscheduler: task 'a' is there already, and is another one: give this one another id\n"
    assert tasks("submit", "a", "--image", "other") == (1, "", said)
    assert waiting() == []


def story() -> None:
    """Tasks of every phase."""
    failed = record("failed", phase=TaskPhase.FAILED, reason=Outcome.OOM_KILLED, exit_code=137, message="too much")
    worked(record("running", phase=TaskPhase.RUNNING, node="n-1"), record("done", phase=TaskPhase.SUCCEEDED), failed)
    with RequestQueue(Path("tasks.db")) as box:
        box.put([Submit(TaskSpec(id="waits", image="i", queue="night")), Submit(TaskSpec(id="no", image="i"))])
        box.reject([box.pending()[1].number], "there will never be room for it")


def test_the_list_has_what_runs_what_waits_and_what_was_refused(tasks: Cli) -> None:
    story()
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
    assert "there will never be room for it" in out
    assert out.splitlines()[-1].startswith("1 waiting, 1 running, 1 succeeded, 1 failed, 1 refused; nobody works")


@pytest.mark.parametrize(
    ("flags", "ids"),
    [
        (["--phase", "running", "--phase", "Failed"], ["running", "failed"]),
        (["--queue", "night"], ["waits"]),
        (["--id", "*n*"], ["running", "done", "no"]),
        (["--id", "nothing-like-it"], []),
    ],
)
def test_the_list_can_be_narrowed(tasks: Cli, flags: list[str], ids: list[str]) -> None:
    story()
    _, out, _ = tasks("list", *flags, "--output", "json")
    assert [json.loads(line)["spec"]["id"] for line in out.splitlines()] == ids


def test_no_more_are_listed_than_asked_for(tasks: Cli) -> None:
    worked(*(record(f"t-{i}") for i in range(9)))
    _, out, _ = tasks("list", "--limit", "2")
    assert [line.split()[0] for line in out.splitlines()[1:3]] == ["t-7", "t-8"]
    assert out.splitlines()[-1].startswith("9 submitted (the last 2 shown; --limit shows more)")


def test_one_task_is_shown_whole(tasks: Cli) -> None:
    story()
    shown = yaml.safe_load(tasks("show", "failed")[1])
    assert (shown["phase"], shown["reason"], shown["exit_code"]) == ("Failed", "OOMKilled", 137)
    assert shown["spec"]["image"] == "pause:1"
    assert yaml.safe_load(tasks("show", "no")[1])["message"] == "there will never be room for it"


def test_unknown_tasks_are_told(tasks: Cli) -> None:
    story()
    for words in (["show", "x"], ["kill", "done", "x"], ["watch", "x"], ["forget", "x"]):
        code, out, err = tasks(*words)
        assert (code, out) == (1, "")
        assert err == "pyscheduler: there is no task 'x'; `pyscheduler tasks list` shows all\n"
    assert [r for r in waiting() if not isinstance(r, Submit)] == []


def test_killing_leaves_a_request_for_each_that_has_not_ended(tasks: Cli) -> None:
    story()
    assert tasks("kill", "running", "done")[1] == "1 to be killed, 1 had ended" + NOBODY
    assert tasks("kill", "--queue", "night")[1] == "1 to be killed" + NOBODY
    assert [request for request in waiting() if isinstance(request, Kill)] == [Kill("running"), Kill("waits")]
    assert tasks("kill", "--all")[1] == "2 to be killed" + NOBODY


def test_what_has_ended_can_be_forgotten(tasks: Cli) -> None:
    story()
    assert tasks("forget", "running")[2] == (
        "pyscheduler: task 'running' has not ended: `pyscheduler tasks kill` ends it\n"
    )
    assert tasks("forget", "--ended")[1] == "3 to be forgotten" + NOBODY
    assert [request for request in waiting() if isinstance(request, Forget)] == [Forget("done"), Forget("failed")]
    assert "no" not in tasks("list", "--output", "json")[1].replace("node", "")


def test_what_was_refused_may_be_submitted_again_otherwise(tasks: Cli) -> None:
    story()
    assert tasks("submit", "no", "--image", "smaller")[0] == 0
    assert Submit(TaskSpec(id="no", image="smaller")) in waiting()
    assert '"Refused"' not in tasks("list", "--output", "json")[1]


def test_watching_ends_when_all_have_and_says_how(tasks: Cli) -> None:
    worked(record("a", phase=TaskPhase.SUCCEEDED), record("b", phase=TaskPhase.FAILED, reason=Outcome.GONE))
    assert tasks("watch", "a")[:2] == (0, "a Succeeded\n1 succeeded\n")
    assert tasks("watch")[:2] == (1, "a Succeeded\nb Failed (Gone)\n1 succeeded, 1 failed\n")


def test_offers_need_somebody_who_made_them(tasks: Cli) -> None:
    worked()
    assert "nobody has worked it yet; `pyscheduler tasks run` does" in tasks("offers")[2]
    with RequestQueue(Path("tasks.db")) as box:
        box.set_meta("offer", "held: nothing\nfree: cpu 4")
    assert tasks("offers")[1] == ("held: nothing\nfree: cpu 4\nas of when it was last worked; nobody works it now\n")


def test_help_teaches(tasks: Cli) -> None:
    _, out, _ = tasks("--help")
    assert "pyscheduler tasks submit hello --image busybox:1.37 --cpu 100m -- echo hello" in out
    assert "docs/tasks.md" in out
    assert "deadline_seconds: 3600" in tasks("submit", "--help")[1]
