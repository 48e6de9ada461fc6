"""The tasks page: its example runs, and its tables equal the code's."""

from __future__ import annotations

import asyncio
import importlib
import os
import re
import shlex
from pathlib import Path

import click
import pytest
import yaml

from pyscheduler.backend import (
    OUTCOME_INFO,
    BackendSettings,
    KubernetesClient,
    KubernetesTaskBackend,
    RetryPolicy,
    TaskSpec,
)
from pyscheduler.backend.outcomes import Outcome
from pyscheduler.backend.state.cluster import WRITE_LIMITS
from pyscheduler.backend.state.shards import LIMITS
from pyscheduler.backend.state.sqlite import SqliteState
from pyscheduler.cli.task_file import read_tasks
from pyscheduler.cli.tasks import tasks
from tests.docs.pages import EXAMPLES, ROOT, commands, rows, text_of, words_in_code
from tests.e2e.plane import EMBEDDED
from tests.e2e.scheduler import Configured, scheduler
from tests.e2e.workloads import hollow_nodes
from tests.faults.soak import cluster

PAGE = "docs/tasks.md"


async def test_first_task_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    first_task = importlib.import_module("first_task")
    async with (
        cluster(EMBEDDED) as plane,
        hollow_nodes(plane, "n", 1),
        scheduler(plane, Configured("pyscheduler"), tmp_path),
    ):
        await first_task.main(str(plane.kubeconfig), os.fspath(tmp_path / "tasks.db"))
    assert capsys.readouterr().out.splitlines()[-1].startswith("hello Succeeded")


def test_tasks_file_is_read() -> None:
    ids = [spec.id for spec in read_tasks(str(EXAMPLES / "tasks.yaml"))]
    assert ids == ["orders-full", "orders-incremental", "with-a-volume"]


async def test_tasks_file_ends_on_the_cluster_of_the_page(tmp_path: Path) -> None:
    async with (
        cluster(EMBEDDED) as plane,
        hollow_nodes(plane, "n", 2),
        scheduler(plane, Configured("pyscheduler"), tmp_path),
        KubernetesClient("default", kubeconfig=plane.kubeconfig) as client,
        KubernetesTaskBackend(client, SqliteState(tmp_path / "tasks.db")) as backend,
    ):
        running = {spec.id for spec in read_tasks(str(EXAMPLES / "tasks.yaml"))}
        await backend.submit_all(read_tasks(str(EXAMPLES / "tasks.yaml")))
        async with asyncio.timeout(30):
            async for record in backend.updates():
                assert record.reason != Outcome.REFUSED, record.message
                running -= {record.id} if record.final else set()
                if not running:
                    break
    assert running == set()


def test_outcome_table_equals_the_code() -> None:
    documented = {words_in_code(row[0])[0]: (row[1], row[2]) for row in rows(PAGE, "How tasks end")}
    assert documented == {
        str(outcome): (str(meaning.kind), meaning.description) for outcome, meaning in OUTCOME_INFO.items()
    }


def test_numbers_equal_the_code() -> None:
    retry, text = RetryPolicy(), text_of(PAGE)
    assert f"`retry.infrastructure` ({retry.infrastructure} more" in text
    assert f"`retry.application` ({retry.application})" in text
    assert f"`retry.configuration` ({retry.configuration})" in text
    assert f"ConfigMaps of about {LIMITS.filled // 1024} KiB, at most {WRITE_LIMITS.writes_per_second:g} writes" in text
    assert f"({LIMITS.shards} ConfigMaps)" in text


def test_time_limits_equal_the_code() -> None:
    documented = {words_in_code(row[0])[0]: row[1] for row in rows(PAGE, "Time limits")}
    settings, spec = BackendSettings(), TaskSpec(id="t")
    for name, default in documented.items():
        value = getattr(settings, name, None) or getattr(spec, name, None)
        assert default == ("none" if value is None else f"{value:g}"), name


def test_permission_table_equals_the_manifest() -> None:
    documents = yaml.safe_load_all((ROOT / "manifests/examples/tasks/rights.yaml").read_text())
    [role] = [document for document in documents if document["kind"] == "Role"]
    granted = {resource: set(rule["verbs"]) for rule in role["rules"] for resource in rule["resources"]}
    documented = {name: set(row[1].split(", ")) for row in rows(PAGE, "Rights") for name in words_in_code(row[0])}
    assert documented == granted


@pytest.mark.parametrize("command", [c for c in commands(PAGE) if c.startswith("pyscheduler tasks ")])
def test_every_command_parses(command: str) -> None:
    _, _, name, *words = shlex.split(command)
    subcommand = tasks.commands[name]
    if isinstance(subcommand, click.Group):
        name, *words = words
        subcommand = subcommand.commands[name]
    assert subcommand.make_context(name, words, resilient_parsing=False).params
    for file in re.findall(r"--file (\S+)", command):
        assert (ROOT / file).exists()


def test_named_tests_exist() -> None:
    cells = [cell for row in rows(PAGE, "What users of launchers ask for") for cell in row]
    names = [word for cell in cells for word in words_in_code(cell) if word.endswith(".py") or "::" in word]
    assert len(names) > 20
    for name in names:
        file, _, test = name.partition("::")
        assert f"def {test}" in (ROOT / "tests" / file).read_text() or not test, name


def test_every_command_is_documented() -> None:
    documented = {word for row in rows(PAGE, "From the command line") for word in words_in_code(row[0])}
    assert documented == set(tasks.commands)
