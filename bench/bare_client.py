"""Upper limit of speed: bind pods to nodes round robin, without decisions, limited by API server and Python only.

It is a separate process, like the schedulers it is compared with, and shares no code with them, only the way of
calling: aiohttp on 16 kept-alive connections and uvloop. A pod that cannot be bound yet because it is gated is retried
after the others. When all pods are bound it waits to be terminated, so that its CPU time can be read. Run as `python -m
bench.bare_client KUBECONFIG SCHEDULER_NAME [--events]`.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import ssl
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import uvloop
import yaml

CONNECTIONS = 16
_CONFLICT = 409
_GATED_PAUSE = 0.02
"""Seconds that a connection pauses after a pod that cannot be bound yet."""
_JSON = {"Content-Type": "application/json"}
_encode = msgspec.json.Encoder().encode


class PodMeta(msgspec.Struct):
    """Fields of a pod that a binding needs; of a node, only its name."""

    name: str
    uid: str = ""
    namespace: str = ""


class _Named(msgspec.Struct):
    metadata: PodMeta


class _List(msgspec.Struct):
    items: list[_Named]


_decode = msgspec.json.Decoder(_List).decode


@dataclass(frozen=True)
class BindingJob:
    """Scheduler name of the pods to bind, and True to write an Event for each."""

    scheduler_name: str
    events: bool

    @property
    def pending(self) -> str:
        """URL of the list of pods without a node."""
        selector = f"spec.schedulerName={self.scheduler_name},spec.nodeName="
        return f"/api/v1/pods?fieldSelector={selector}"

    def binding(self, pod: PodMeta, node: str) -> tuple[str, bytes]:
        """Return path and body of the binding request."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding", _encode(body)

    def event(self, pod: PodMeta, node: str, wall: float) -> tuple[str, bytes]:
        """Return path and body of the Event's request; `wall` is seconds since 1970."""
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"namespace": pod.namespace, "name": f"{pod.name}.{int(wall * 1e9):x}"},
            "eventTime": datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": self.scheduler_name,
            "reportingInstance": f"{self.scheduler_name}-0",
            "action": "Binding",
            "reason": "Scheduled",
            "regarding": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": pod.namespace,
                "name": pod.name,
                "uid": pod.uid,
            },
            "note": f"Successfully assigned {pod.namespace}/{pod.name} to {node}",
            "type": "Normal",
        }
        return f"/apis/events.k8s.io/v1/namespaces/{pod.namespace}/events", _encode(body)


async def bind_all(session: aiohttp.ClientSession, job: BindingJob) -> None:
    """Bind every pending pod of the job, to the nodes round robin."""
    nodes = await _names(session, "/api/v1/nodes")
    pods = await _names(session, job.pending)
    work = deque((pod, nodes[number % len(nodes)].name) for number, pod in enumerate(pods))
    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(_bind(session, job, work))


async def _bind(session: aiohttp.ClientSession, job: BindingJob, work: deque[tuple[PodMeta, str]]) -> None:
    while work:
        pod, node = work.popleft()
        if not await _post(session, *job.binding(pod, node)):
            work.append((pod, node))
            await asyncio.sleep(_GATED_PAUSE)
        elif job.events:
            await _post(session, *job.event(pod, node, time.time()))


async def _post(session: aiohttp.ClientSession, path: str, body: bytes) -> bool:
    """Create an object; return False if it is the binding of a gated pod."""
    async with session.post(path, data=body, headers=_JSON) as response:
        content = await response.read()
        if response.status == _CONFLICT and b"schedulingGates" in content:
            return False
        if response.status >= 300:
            raise SystemExit(f"error: POST {path}: {response.status} {content[:300].decode(errors='replace')}")
        return True


async def _names(session: aiohttp.ClientSession, path: str) -> list[PodMeta]:
    async with session.get(path) as response:
        return [item.metadata for item in _decode(await response.read()).items]


def session_of(kubeconfig: Path) -> aiohttp.ClientSession:
    """Return a client that authenticates with the token of the kubeconfig's only user."""
    document: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    return aiohttp.ClientSession(
        cluster["server"],
        connector=aiohttp.TCPConnector(limit=CONNECTIONS, ssl=ssl.create_default_context(cadata=authority)),
        headers={"Authorization": f"Bearer {user['token']}"},
        cookie_jar=aiohttp.DummyCookieJar(),
    )


async def run(kubeconfig: Path, job: BindingJob) -> None:
    """Bind everything, then wait to be terminated."""
    async with session_of(kubeconfig) as session:
        await bind_all(session, job)
        await asyncio.Event().wait()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="bench.bare_client", description="Bind pods to nodes in turn.")
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("scheduler_name")
    parser.add_argument("--events", action="store_true", help="write one Event for each pod as well")
    given = parser.parse_args(arguments)
    uvloop.run(run(given.kubeconfig, BindingJob(given.scheduler_name, given.events)))


if __name__ == "__main__":
    main()
