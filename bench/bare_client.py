"""The ceiling: binds pods to nodes in turn, without deciding anything, and so shows what API server and Python allow.

A process of its own, like the schedulers it is compared with. It shares no code with them, only the way it calls:
aiohttp on 16 kept-alive connections and uvloop. A pod that may not be bound yet, since it is gated, comes again behind
the others. When all is done it waits to be ended, so that its CPU time can be
read. Run as `python -m bench.bare_client KUBECONFIG SCHEDULER_NAME [--events]`.
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
"""Seconds for which a connection rests after a pod that may not be bound yet."""
_JSON = {"Content-Type": "application/json"}
_encode = msgspec.json.Encoder().encode


class PodMeta(msgspec.Struct):
    """What a binding needs to know of a pod; of a node, its name."""

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
    """Whose pods are bound, and whether each gets an Event as well."""

    scheduler_name: str
    events: bool

    @property
    def pending(self) -> str:
        """Where the pods without a node are listed."""
        selector = f"spec.schedulerName={self.scheduler_name},spec.nodeName="
        return f"/api/v1/pods?fieldSelector={selector}"

    def binding(self, pod: PodMeta, node: str) -> tuple[str, bytes]:
        """Path and body of the call that binds."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding", _encode(body)

    def event(self, pod: PodMeta, node: str, wall: float) -> tuple[str, bytes]:
        """Path and body of the call that tells of it; `wall` is seconds since 1970."""
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
    """Bind every pending pod of the job, to one node after the other."""
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
    """Make an object; whether it may be made now: not so the binding of a pod that is gated."""
    async with session.post(path, data=body, headers=_JSON) as answer:
        content = await answer.read()
        if answer.status == _CONFLICT and b"schedulingGates" in content:
            return False
        if answer.status >= 300:
            raise SystemExit(f"error: POST {path}: {answer.status} {content[:300].decode(errors='replace')}")
        return True


async def _names(session: aiohttp.ClientSession, path: str) -> list[PodMeta]:
    async with session.get(path) as answer:
        return [item.metadata for item in _decode(await answer.read()).items]


def session_of(kubeconfig: Path) -> aiohttp.ClientSession:
    """A client that proves who it is with the token of the kubeconfig's only user."""
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
    """Bind everything, then wait to be ended."""
    async with session_of(kubeconfig) as session:
        await bind_all(session, job)
        await asyncio.Event().wait()


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="bench.bare_client", description="Bind pods to nodes in turn.")
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("scheduler_name")
    parser.add_argument("--events", action="store_true", help="write one Event for each pod as well")
    given = parser.parse_args(arguments)
    uvloop.run(run(given.kubeconfig, BindingJob(given.scheduler_name, given.events)))


if __name__ == "__main__":
    main()
