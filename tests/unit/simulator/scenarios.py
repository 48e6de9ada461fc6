"""Scenarios of the simulator's tests: jobs in a few words, played in virtual time."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyscheduler.cli.scenario_file import read_scenario
from pyscheduler.config.load import load
from pyscheduler.data import CONFIGURATIONS
from pyscheduler.simulator.report import JobResult, SimulationResult
from pyscheduler.simulator.simulation import Simulation

BATCH, DEFAULT = CONFIGURATIONS / "batch.yaml", CONFIGURATIONS / "default.yaml"
RUN_SECONDS = "pyscheduler.io/run-seconds"
MIN_COUNT = "pyscheduler.io/pod-group-min-count"
Json = dict[str, Any]


def pod_spec(cpu: object = "1", **fields: Any) -> Json:
    return {"containers": [{"name": "main", "image": "app:1", "resources": {"requests": {"cpu": str(cpu)}}}], **fields}


def bare_pod(name: str, cpu: object = "1", annotations: Json | None = None, **fields: Any) -> Json:
    metadata = {"name": name, "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(cpu, **fields)}


def job(name: str, pods: int = 1, *, seconds: float, gang: bool = True, cpu: object = "1", **fields: Any) -> Json:
    """Return a Job of pods with a declared run time that start together."""
    annotations = {RUN_SECONDS: f"{seconds:g}"} | ({MIN_COUNT: str(pods)} if gang else {})
    template = {"metadata": {"annotations": annotations}, "spec": pod_spec(cpu, **fields)}
    spec = {"parallelism": pods, "completions": pods, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def arrival(at: float, *objects: Json, **fields: Any) -> Json:
    return {"name": objects[0]["metadata"]["name"], "at": at, "objects": list(objects), **fields}


def scenario(*arrivals: Json, cpus: int = 8, nodes: int = 1, **fields: Any) -> Json:
    pools = [{"name": "n", "count": nodes, "capacity": {"cpu": cpus}}]
    head = {"apiVersion": "pyscheduler.io/v1", "kind": "Scenario", "nodePools": pools}
    return {**head, "arrivals": list(arrivals), **fields}


def play(document: Json, config: Path = BATCH) -> SimulationResult:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "scenario.yaml"
        file.write_text(json.dumps(document))
        return Simulation(load(config), read_scenario(file)).play(config.name)


def jobs_of(result: SimulationResult) -> dict[str, JobResult]:
    """Return the jobs by the name of their Job, or of the pod."""
    return {each.name.rpartition("/")[2]: each for each in result.jobs}


def starts(result: SimulationResult) -> dict[str, float | None]:
    return {name: each.started for name, each in jobs_of(result).items()}
