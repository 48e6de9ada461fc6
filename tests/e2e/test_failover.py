"""Two replicas, one lease: the leader stops during its work, and the other continues.

A bound pod keeps its node, so a second binding would show as a logged rejection, an extra Event, or a changed node.
Leases are short here; the printed gaps grow with leaseDuration and retryPeriod.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from tests.e2e.client import ApiError, Json
from tests.e2e.plane import Plane
from tests.e2e.scheduler import Configured, SchedulerProcess, replica
from tests.e2e.workloads import hollow_nodes, placed, pod, pod_spec

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

PODS = 300
RATE = 50
"""Bindings a second, so that the leader stops during its work."""
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
NAME = "pyscheduler"
SLACK = 6.0
"""Seconds of tolerance for a busy machine, too few to hide a wait for a lease."""


@dataclass(frozen=True)
class Times:
    """Durations of leaderElection, in seconds."""

    lease: float = 15.0
    deadline: float = 10.0
    retry: float = 0.5


SHORT = Times()


def configuration(name: str, times: Times, rate: float = RATE) -> str:
    """Return the configuration of a scheduler of that name with the Lease of the manifests."""
    document = yaml.safe_load(Configured(name).document())
    document["clientConnection"] = {"qps": rate, "burst": 1}
    document["leaderElection"] = {
        "leaderElect": True,
        "resourceName": NAME,
        "resourceNamespace": "kube-system",
        "leaseDuration": f"{times.lease}s",
        "renewDeadline": f"{times.deadline}s",
        "retryPeriod": f"{times.retry}s",
    }
    return yaml.safe_dump(document)


@dataclass
class Sightings:
    """Times and nodes of bindings, from a watch of the pods."""

    nodes: dict[str, str] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)

    def see(self, seen: Json) -> None:
        uid, node = seen["metadata"]["uid"], seen["spec"].get("nodeName")
        if node and uid not in self.nodes:
            self.times.append(time.monotonic())
            self.nodes[uid] = node
        elif self.nodes.get(uid, node) != node:
            self.moved.append(uid)

    def gap(self, since: float) -> float:
        """Return the longest time without a binding, from just before `since`."""
        before = [t for t in self.times if t < since]
        times = before[-1:] + [t for t in self.times if t >= since]
        return max(b - a for a, b in pairwise(times))


@asynccontextmanager
async def sightings(plane: Plane, namespace: str) -> AsyncIterator[Sightings]:
    """Watch the namespace's pods."""
    seen, path = Sightings(), f"/api/v1/namespaces/{namespace}/pods"
    version = (await plane.api.get(path))["metadata"]["resourceVersion"]

    async def watch() -> None:
        async for event in plane.api.watch(path, resourceVersion=version):
            assert event["type"] in ("ADDED", "MODIFIED"), event
            seen.see(event["object"])

    watching = asyncio.create_task(watch())
    yield seen
    assert not watching.done(), "the watch must see it all"
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def until(holds: Callable[[], object], seconds: float = 60.0) -> None:
    for _ in range(int(seconds / 0.005)):
        if holds():
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"that did not come to be in {seconds:g} s")


async def create_pods(plane: Plane, namespace: str, count: int) -> None:
    path, spec = f"/api/v1/namespaces/{namespace}/pods", pod_spec(namespace, namespace, cpu="10m")
    names = iter(range(count))

    async def some() -> None:
        for i in names:
            await plane.api.create(path, pod(f"p-{i}", spec))

    # A few at a time: leases are short, and a flood would cost the leader its lease.
    await asyncio.gather(*(some() for _ in range(4)))


async def holder(plane: Plane) -> str:
    """Return the holder of the lease, "" if there is none."""
    try:
        lease = await plane.api.get(f"{LEASES}/{NAME}")
    except ApiError:
        return ""
    return str(lease["spec"].get("holderIdentity") or "")


async def without_lease(plane: Plane) -> None:
    """Delete the lease of earlier tests, also one that was released and has no holder."""
    with contextlib.suppress(ApiError):
        await plane.api.delete(f"{LEASES}/{NAME}")


@asynccontextmanager
async def pair(plane: Plane, leading: str, following: str, folder: Path) -> AsyncIterator[list[SchedulerProcess]]:
    """Run a leader and a standby with these configurations."""
    await without_lease(plane)
    folders = [folder / "a", folder / "b"]
    for each, text in zip(folders, (leading, following), strict=True):
        each.mkdir()
        (each / "config.yaml").write_text(text)
    async with replica(plane, folders[0] / "config.yaml", folders[0]) as first:
        await until_held(plane)
        async with replica(plane, folders[1] / "config.yaml", folders[1]) as second:
            yield [first, second]


async def until_held(plane: Plane, other_than: str = "", seconds: float = 60.0) -> str:
    deadline = time.monotonic() + seconds
    while (found := await holder(plane)) in ("", other_than):
        assert time.monotonic() < deadline, f"the lease is still {found}'s"
        await asyncio.sleep(0.05)
    return found


async def hand_over(plane: Plane, namespace: str, folder: Path, number: signal.Signals, times: Times) -> float:
    """Stop the leader during its work and check the outcome; return the seconds until the other binds."""
    text = configuration(namespace, times)
    async with (
        hollow_nodes(plane, namespace, 10),
        sightings(plane, namespace) as seen,
        pair(plane, text, text, folder) as (leader, follower),
    ):
        creating = asyncio.create_task(create_pods(plane, namespace, PODS))
        await until(lambda: len(seen.nodes) >= PODS // 4)
        ended = time.monotonic()
        leader.process.send_signal(number)
        await creating
        code = await leader.process.wait()
        assert code == (0 if number == signal.SIGTERM else -signal.SIGKILL)
        await until(lambda: len(seen.nodes) == PODS, times.lease + times.retry + 60)
        gap = seen.gap(ended)
        assert seen.moved == []
        await _check_events_are_unique(plane, namespace)
        for each in (leader, follower):
            assert "already assigned" not in each.log.read_text()
            assert "Binding failed" not in each.log.read_text()
    return gap


async def _check_events_are_unique(plane: Plane, namespace: str) -> None:
    """Check that no pod has two Scheduled Events. A killed leader may not have written those of its bindings."""
    path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    events = await plane.api.until(path, lambda found: len(_scheduled(found)) >= PODS // 2)
    assert set(_scheduled(events).values()) == {1}


def _scheduled(events: Json) -> Counter[str]:
    """Return the number of Scheduled Events by pod."""
    return Counter(e["regarding"]["uid"] for e in events["items"] if e["reason"] == "Scheduled" for _ in _times(e))


def _times(event: Json) -> Iterator[None]:
    """Yield once per occurrence of an Event."""
    yield from [None] * (event.get("series") or {}).get("count", 1)


def report_gap(how: str, gap: float) -> float:
    """Print the gap, shown by `pytest -s`, and return it."""
    sys.stdout.write(f"\n{how}: {gap:.2f} s without a binding, with {SHORT}\n")
    return gap


async def test_standby_takes_over_when_the_lease_of_a_killed_leader_expires(
    control_plane: Plane, namespace: str, tmp_path: Path
) -> None:
    gap = report_gap("kill -9", await hand_over(control_plane, namespace, tmp_path, signal.SIGKILL, SHORT))
    assert SHORT.lease - SHORT.retry - SLACK < gap < SHORT.lease + SHORT.retry + SLACK


async def test_stopped_leader_releases_the_lease_at_once(control_plane: Plane, namespace: str, tmp_path: Path) -> None:
    gap = report_gap("SIGTERM", await hand_over(control_plane, namespace, tmp_path, signal.SIGTERM, SHORT))
    assert gap < SHORT.retry + SLACK


async def test_frozen_leader_binds_nothing_when_it_resumes(
    control_plane: Plane, namespace: str, tmp_path: Path
) -> None:
    # The standby has another scheduler name: only the frozen one could bind these pods.
    texts = configuration(namespace, SHORT), configuration(f"{namespace}-other", SHORT)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    async with (
        hollow_nodes(control_plane, namespace, 10),
        sightings(control_plane, namespace) as seen,
        pair(control_plane, *texts, tmp_path) as (frozen, _),
    ):
        creating = asyncio.create_task(create_pods(control_plane, namespace, PODS))
        await until(lambda: len(seen.nodes) >= PODS // 4)
        was = await holder(control_plane)
        frozen.process.send_signal(signal.SIGSTOP)
        await creating
        await until_held(control_plane, other_than=was)
        before = placed(await control_plane.api.get(pods))
        assert PODS // 4 <= len(before) < PODS
        requests = await binding_requests(control_plane)
        frozen.process.send_signal(signal.SIGCONT)
        assert await asyncio.wait_for(frozen.process.wait(), 60) == 1
        await asyncio.sleep(1)  # its last calls have arrived by then
        assert await binding_requests(control_plane) == requests
        assert placed(await control_plane.api.get(pods)) == before
        assert "Leaderelection lost" in frozen.log.read_text()


async def binding_requests(plane: Plane) -> float:
    """Return the number of binding requests to the API server; the embedded one does not count."""
    metrics = await plane.api.text("/metrics") if plane.real else ""
    lines = (line for line in metrics.splitlines() if line.startswith("apiserver_request_total{"))
    return sum(float(line.rpartition(" ")[2]) for line in lines if 'subresource="binding"' in line)


async def test_new_leader_is_reported_in_an_event_on_the_lease(
    control_plane: Plane, namespace: str, tmp_path: Path
) -> None:
    text = configuration(namespace, SHORT)
    async with pair(control_plane, text, text, tmp_path):
        leads = f"{await holder(control_plane)} became leader"
        events = await control_plane.api.until(
            "/api/v1/namespaces/kube-system/events",
            lambda found: any(e["message"] == leads for e in found["items"]),
        )
        (event,) = (e for e in events["items"] if e["message"] == leads)
        subject = event["involvedObject"]
        assert (event["reason"], subject["kind"], subject["name"]) == ("LeaderElection", "Lease", NAME)
        assert event["source"]["component"] == namespace
