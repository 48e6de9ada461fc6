"""Helpers of the job pattern tests: nodes with a scheduler, and the shipped manifests."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pyscheduler.embedded.hollow import HollowNodes, node_templates
from pyscheduler.embedded.hollow.pod_lifecycle import RUN_SECONDS
from pyscheduler.embedded.objects import timestamp
from tests.e2e.client import ApiClient, ApiError, Json
from tests.e2e.plane import Plane
from tests.e2e.scheduler import ROOT, Configured, scheduler
from tests.e2e.workloads import hollow

EXAMPLES = ROOT / "manifests" / "examples" / "jobs"
PLUGINS: Json = {
    "queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": "QoSSort"}]},
    "multiPoint": {"enabled": [{"name": "Gang"}]},
}
_PATHS = {
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Pod": "/api/v1/namespaces/{}/pods",
    "Service": "/api/v1/namespaces/{}/services",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "CronJob": "/apis/batch/v1/namespaces/{}/cronjobs",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "PodGroup": "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{}/podgroups",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
}
HOUR = 3600
SECONDS = 60.0
"""Seconds that a step may take; mostly a Job's backoff of ten seconds."""

Change = Callable[[Json], None]


@asynccontextmanager
async def crew(plane: Plane, name: str, nodes: int = 3, cpu: str = "4") -> AsyncIterator[HollowNodes]:
    """Run hollow nodes in two zones."""
    templates = node_templates(nodes, cpu=cpu, zones=("zone-a", "zone-b"), prefix=f"{name}-")
    async with hollow(plane, templates) as running:
        yield running


@asynccontextmanager
async def crew_with_scheduler(
    plane: Plane, name: str, folder: Path, nodes: int = 3, cpu: str = "4"
) -> AsyncIterator[HollowNodes]:
    """Run nodes with a scheduler for pods of `pyscheduler`, as in the examples."""
    async with crew(plane, name, nodes, cpu) as running, scheduler(plane, Configured("pyscheduler", PLUGINS), folder):
        yield running


def documents(file: str, items: Mapping[str, str] | None = None) -> list[Json]:
    """Return the objects of an example, with `items` for its `$NAMES`."""
    text = (EXAMPLES / file).read_text()
    for name, value in (items or {}).items():
        text = text.replace(f"${name}", value)
    return [document for document in yaml.safe_load_all(text) if document]


@dataclass(frozen=True)
class Bench:
    """A namespace, and the calls of the tests."""

    api: ApiClient
    namespace: str

    def at(self, kind: str, name: str = "") -> str:
        """Return the path of a kind, or of one object."""
        return _PATHS[kind].format(self.namespace) + (f"/{name}" if name else "")

    async def apply(self, file: str, change: Change | None = None, items: Mapping[str, str] | None = None) -> None:
        """Create the objects of an example in this namespace; `change` may alter each of them."""
        for document in documents(file, items):
            if change is not None:
                change(document)
            await self.create(document)

    async def create(self, document: Json) -> None:
        """Create an object; one without a namespace may be there already."""
        try:
            await self.api.create(self.at(document["kind"]), document)
        except ApiError as error:
            if error.reason != "AlreadyExists" or document["kind"] != "PriorityClass":
                raise

    async def job(self, name: str, holds: Callable[[Json], object], seconds: float = SECONDS) -> Json:
        """Wait until a predicate of a Job is true; return the Job."""
        return await self.api.until(self.at("Job", name), holds, seconds)

    async def complete(self, name: str, seconds: float = SECONDS) -> Json:
        """Wait until a Job is Complete; return it."""
        return await self.job(name, lambda job: "Complete" in ended(job), seconds)

    async def failed(self, name: str, seconds: float = SECONDS) -> Json:
        """Wait until a Job is Failed; return it."""
        return await self.job(name, lambda job: "Failed" in ended(job), seconds)

    async def pods(self, of: str = "", holds: Callable[[list[Json]], object] | None = None) -> list[Json]:
        """Wait until a predicate of a Job's pods is true, of all pods if none is named; return them."""
        query = {"labelSelector": f"batch.kubernetes.io/job-name={of}"} if of else {}
        wanted = holds if holds is not None else lambda _: True
        found = await self.api.until(self.at("Pod"), lambda found: wanted(found["items"]), SECONDS, **query)
        items: list[Json] = found["items"]
        return items

    async def reasons(self, kind: str, name: str, *expected: str) -> set[str]:
        """Wait for Events with all expected reasons about an object, in any order; return the reasons."""
        return {event["reason"] for event in await self.events(kind, name, *expected)}

    async def events(self, kind: str, name: str, *expected: str) -> list[Json]:
        """Wait for Events with all expected reasons about an object; return them."""
        selector = f"involvedObject.kind={kind},involvedObject.name={name}"
        path = f"/api/v1/namespaces/{self.namespace}/events"
        found = await self.api.until(
            path, lambda found: set(expected) <= {e["reason"] for e in found["items"]}, SECONDS, fieldSelector=selector
        )
        items: list[Json] = found["items"]
        return items

    async def end(self, pods: list[Json]) -> None:
        """End the runs of `endless` pods."""
        for pod in pods:
            await self.patch("Pod", pod["metadata"]["name"], {"metadata": {"annotations": {RUN_SECONDS: "0"}}})

    async def hold(self, cron_job: str) -> None:
        """Set the last run of a suspended CronJob to an hour ago."""
        last = {"status": {"lastScheduleTime": timestamp(time.time() - HOUR)}}
        await self.patch("CronJob", cron_job, last, "/status")

    async def due(self, cron_job: str, minutes: int) -> str:
        """Make its run of so many minutes ago due; return the name of the Job that it will start."""
        schedule, at = ago(minutes)
        # The controller handles a change of the schedule when it is due next; of another field at once.
        await self.patch("CronJob", cron_job, {"spec": {"schedule": schedule, "suspend": True}})
        await self.patch("CronJob", cron_job, {"spec": {"suspend": False}})
        return f"{cron_job}-{at // 60}"

    async def gone(self, kind: str, name: str) -> None:
        """Wait until the object does not exist."""
        await self.api.until(
            self.at(kind), lambda found: name not in {item["metadata"]["name"] for item in found["items"]}, SECONDS
        )

    async def patch(self, kind: str, name: str, patch: Json, part: str = "") -> Json:
        """Apply a merge patch to an object or its subresource."""
        return await self.api.patch(self.at(kind, name) + part, patch)


def suspended(document: Json) -> None:
    """Change the document of a CronJob: suspended until a test resumes it."""
    if document["kind"] == "CronJob":
        document["spec"]["suspend"] = True


def endless(document: Json) -> None:
    """Let pods of a Job or CronJob run until the test ends them."""
    spec = document["spec"].get("jobTemplate", document)["spec"]
    spec["template"]["metadata"]["annotations"][RUN_SECONDS] = "3600"


def ended(job: Json) -> list[str]:
    """Return the types of a Job's conditions that are True, in order."""
    return [c["type"] for c in job.get("status", {}).get("conditions", ()) if c["status"] == "True"]


def condition_reasons(job: Json) -> dict[str, str]:
    """Return the reason of each condition that is True, by type."""
    return {c["type"]: c["reason"] for c in job["status"].get("conditions", ()) if c["status"] == "True"}


def counts(job: Json) -> dict[str, Any]:
    """Return the counters of a Job's status, and its uncounted pods."""
    names = ("active", "ready", "terminating", "succeeded", "failed", "completedIndexes", "failedIndexes")
    kept = {name: job["status"][name] for name in names if name in job["status"]}
    return kept | {"uncounted": job["status"].get("uncountedTerminatedPods")}


def phases(pods: list[Json]) -> list[str]:
    """Return the phases of pods, sorted."""
    return sorted(pod["status"]["phase"] for pod in pods)


def in_phase(phase: str, count: int) -> Callable[[list[Json]], bool]:
    """Return a predicate: so many of the pods are in that phase."""
    return lambda pods: phases(pods).count(phase) == count


def not_terminating(pods: list[Json]) -> list[Json]:
    """Return the pods that are not terminating."""
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def nodes_of(pods: list[Json]) -> set[str]:
    """Return the nodes of pods."""
    return {pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}


def index(pod: Json) -> str:
    """Return a pod's completion index."""
    return str(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"])


def ago(minutes: int) -> tuple[str, int]:
    """Return a daily schedule with its last time so many minutes ago, and that time in seconds since 1970."""
    at = (int(time.time()) // 60 - minutes) * 60
    clock = time.gmtime(at)
    return f"{clock.tm_min} {clock.tm_hour} * * *", at
