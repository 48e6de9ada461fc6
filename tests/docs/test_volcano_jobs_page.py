"""The manifests of docs/volcano-jobs.md are valid, and its tables are what the controller supports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from pyscheduler.controllers.volcano.job_plugins import PLUGINS, read_plugins
from pyscheduler.controllers.volcano.job_spec import ACTIONS, EVENTS, JobSpec, Volume, read_spec
from pyscheduler.controllers.volcano.pod_group_status import pod_group_status
from pyscheduler.controllers.volcano.queue_status import queue_status
from pyscheduler.embedded.server_state import WriteOptions
from pyscheduler.testing import Harness
from tests.docs.pages import ROOT, Block, blocks, rows, text_of, words_in_code
from tests.unit.controllers.volcano.jobs import JobCluster, task
from tests.unit.embedded.builders import Cluster

PAGE = "docs/volcano-jobs.md"
CONFIG = (ROOT / "config" / "batch.yaml").read_text(encoding="utf-8")
CRDS = "customresourcedefinitions.apiextensions.k8s.io"


def stored_job() -> dict[str, Any]:
    """Return the Job of the page as the API server stores it."""
    cluster = Cluster()
    crd = yaml.safe_load((ROOT / "manifests" / "crds" / "volcano-jobs.yaml").read_text(encoding="utf-8"))
    cluster.create(CRDS, crd)
    [text] = [block.text for block in blocks(PAGE) if block.source]
    resource = cluster.api.state.registry.of_kind("batch.volcano.sh/v1alpha1", "Job")
    assert resource is not None
    job: dict[str, Any] = cluster.api.create(resource, "default", yaml.safe_load(text), WriteOptions()).object
    return job


def scheduled(job: JobCluster, cpus: int) -> Harness:
    """Return a scheduler that has tried the Job's PodGroup and pods, on one node."""
    allocatable = {"cpu": str(cpus), "memory": "64Gi", "pods": "110"}
    cluster = Harness(CONFIG)
    cluster.apply(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": allocatable}}
    )
    assert job.group is not None
    cluster.apply(job.group)
    for name in job.pods:
        cluster.apply(job.created[name])
    cluster.run()
    cluster.advance(5)
    return cluster


def test_manifest_runs_to_completion() -> None:
    made = JobCluster(stored_job())
    made.run()
    assert list(scheduled(made, 1).bindings.values()) == ["n"]
    made.set("Running")
    made.run()
    assert set(made.pods) == {"training-ps-0", "training-worker-0", "training-worker-1"}
    assert scheduled(made, 2).bindings == {}
    assert len(scheduled(made, 3).bindings) == 3
    made.set("Running")
    assert made.run() == "Running"
    made.set("Succeeded")
    assert made.run() == "Completed"


def test_message_of_a_pending_job_is_that_of_its_pods() -> None:
    made = JobCluster(stored_job())
    made.job["spec"]["tasks"][1]["dependsOn"] = None
    made.run()
    cluster = scheduled(made, 2)
    [message] = {
        str(found["message"]) for key in cluster.pods if (found := cluster.condition("Pod", key, "PodScheduled"))
    }
    documented = text_of(PAGE).split("such as `", 1)[1].split("`", 1)[0]
    assert documented.replace("1 of 3", "2 of 3").replace("node n2", "node n") in message


def test_supported_values() -> None:
    documented = {
        words_in_code(field)[0]: tuple(words_in_code(values)) for field, values in rows(PAGE, "What is supported")
    }
    assert documented == {"policies[].event": EVENTS, "policies[].action": ACTIONS, "plugins": PLUGINS}


def test_arguments_of_plugins() -> None:
    documented = {words_in_code(name)[0]: words_in_code(flags) for name, flags, _ in rows(PAGE, "Plugins")}
    for name in PLUGINS:
        supported = problem_of(name, "--other").split("supported values: ")[1]
        assert documented.pop(name) == ([] if supported == "none" else supported.split(", "))
    assert documented == {}


def test_default_arguments() -> None:
    documented = {words_in_code(name)[0]: set(words_in_code(flags)) for name, flags in rows(PAGE, "Default arguments")}
    plugins = read_plugins(dict.fromkeys(PLUGINS), ("master", "head"))
    for name, flags in documented.items():
        values = getattr(plugins, name)
        fields = {field.encode_name: getattr(values, field.name) for field in msgspec.structs.fields(values)}
        texts = {flag: str(value).lower() if isinstance(value, bool) else value for flag, value in fields.items()}
        assert flags == {f"--{flag}={text}" for flag, text in texts.items() if text != ""}
    assert {*documented, "env"} == set(PLUGINS)


@pytest.mark.parametrize("block", [each for each in blocks(PAGE) if each.text.startswith("spec:")])
def test_parts_of_a_spec_are_valid(block: Block) -> None:
    spec = yaml.safe_load(block.text)["spec"]
    assert isinstance(read_spec({"spec": {**spec, "tasks": [task("head", 1)]}}), JobSpec)


def test_fields_of_a_volume() -> None:
    documented = {words_in_code(field)[0] for field, _ in rows(PAGE, "Volumes")}
    assert documented == {field.encode_name for field in msgspec.structs.fields(Volume)}


def problem_of(plugin: str, argument: str) -> str:
    problem = read_spec({"spec": {"tasks": [task("a", 1)], "plugins": {plugin: [argument]}}})
    assert isinstance(problem, str)
    return problem


def test_message_of_an_invalid_argument() -> None:
    assert f"`{problem_of('mpi', '--prot=22')}`" in text_of(PAGE)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "manifests" / "examples" / "volcano").iterdir()), ids=lambda path: path.stem
)
def test_examples_are_valid(path: Path) -> None:
    assert isinstance(read_spec(yaml.safe_load(path.read_text(encoding="utf-8"))), JobSpec)


@pytest.mark.parametrize(
    ("row", "status"),
    [(0, pod_group_status({}, [], queue_is_open=True)), (1, queue_status({}, [], {}))],
    ids=["PodGroup", "Queue"],
)
def test_fields_of_a_status(row: int, status: dict[str, Any]) -> None:
    assert set(words_in_code(list(rows(PAGE, "Statuses"))[row][1])) == set(status)


def test_columns_of_jobs() -> None:
    crd = yaml.safe_load((ROOT / "manifests" / "crds" / "volcano-jobs.yaml").read_text(encoding="utf-8"))
    columns = crd["spec"]["versions"][0]["additionalPrinterColumns"]
    assert [column["name"].upper() for column in columns] == ["STATUS", "MINAVAILABLE", "RUNNINGS", "AGE", "QUEUE"]
    assert all(f"{column['name'].upper()}" in text_of(PAGE) for column in columns)
