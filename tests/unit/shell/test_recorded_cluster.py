"""A scheduler of an embedded cluster is recorded: bindings with volumes, a failed attempt, a changed configuration."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from pyscheduler.clock import SystemClock
from pyscheduler.config.load import default, loads
from pyscheduler.embedded.client.kinds import CLAIMS, STORAGE_CLASSES
from pyscheduler.embedded.cluster import EmbeddedCluster
from pyscheduler.kube.connection import ConnectionOptions, connect
from pyscheduler.kube.paths import PODS
from pyscheduler.shell.metrics import Metrics
from pyscheduler.shell.recording.attempts import AttemptReader
from pyscheduler.shell.recording.file import RecordingReader, find_recordings
from pyscheduler.shell.recording.records import RecordKind
from pyscheduler.shell.recording.replay import Replay
from pyscheduler.shell.recording.writer import RecordingWriter
from pyscheduler.shell.scheduler import Connections, Scheduler, SchedulerOptions
from pyscheduler.testing import PodBuilder, pod
from tests.properties.recorded import first_difference
from tests.unit.hollow.live import wait_for

CLASS = {"metadata": {"name": "late"}, "provisioner": "x.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
CLAIM = {
    "metadata": {"name": "c", "namespace": "default"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "late",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
CHANGED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
"""

INPUTS = {
    RecordKind.EVENT,
    RecordKind.CYCLE,
    RecordKind.TOPOLOGY,
    RecordKind.REBUILD,
    RecordKind.PRE_BIND,
    RecordKind.RESPONSE,
}


async def _place(cluster: EmbeddedCluster, built: PodBuilder, condition: Any) -> None:
    body = {**built.manifest, "metadata": {"name": built.manifest["metadata"]["name"], "namespace": "default"}}
    await cluster.client.create(PODS, body)
    await wait_for(cluster.client, PODS, body["metadata"]["name"], condition)


def _is_bound(found: Any) -> bool:
    return bool(found["spec"].get("nodeName"))


def _is_rejected(found: Any) -> bool:
    return any(each["type"] == "PodScheduled" for each in found.get("status", {}).get("conditions", ()))


async def _record(directory: Path, metrics: Metrics) -> None:
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        recording = stack.enter_context(RecordingWriter(directory, 1 << 20, clock))
        cluster = await stack.enter_async_context(EmbeddedCluster(3))
        connection = await connect(cluster.kubeconfig, ConnectionOptions(qps=-1))
        stack.push_async_callback(connection.close)
        connections = Connections.to_server_of(connection)
        stack.push_async_callback(connections.close)
        options = SchedulerOptions(recording=recording)
        scheduler = Scheduler(default(), connections, clock, metrics, options=options)
        running = asyncio.create_task(scheduler.run())
        await cluster.client.create(STORAGE_CLASSES, CLASS)
        await cluster.client.create(CLAIMS, CLAIM)
        await _place(cluster, pod("plain").requests(cpu="1"), _is_bound)
        await _place(cluster, pod("large").requests(cpu="999"), _is_rejected)
        claim = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
        await _place(cluster, pod("stored").requests(cpu="1").spec(volumes=[claim]), _is_bound)
        await scheduler.reconfigure(loads(CHANGED))
        await _place(cluster, pod("later").requests(cpu="1"), _is_bound)
        assert metrics.recording.read() == {(): 1.0}
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert metrics.recorded_bytes.read() == {(): float(recording.bytes)}


async def test_recording_of_a_cluster_is_replayed_with_equal_decisions(tmp_path: Path) -> None:
    await _record(tmp_path, Metrics())
    (file,) = find_recordings(tmp_path)
    reader = RecordingReader(file)
    kinds = {record.kind for record in RecordingReader(file).records()}
    assert kinds >= INPUTS
    replay = Replay(reader.header, reader.records())
    assert first_difference(replay) is None
    assert not replay.unreplayed_plugins
    assert replay.machine.context.attempts >= 4
    results = {
        name: [each.result for each in AttemptReader(("default", name)).read(reader, RecordingReader(file).records())]
        for name in ("plain", "large", "stored", "later")
    }
    assert results["plain"] == results["stored"] == results["later"] == ["Scheduled"]
    assert set(results["large"]) == {"Unschedulable"}
