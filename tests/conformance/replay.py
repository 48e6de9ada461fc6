"""Our side of a sequence: a machine that gets one pending pod after the other, with kube-scheduler's order of nodes.

Commands take effect at once: a binding succeeds, a victim is deleted, a nomination is visible. A placed pod starts
later than all before it, so that victims have an order.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from pyscheduler.api.objects import PodObject
from pyscheduler.config.build import build_profiles
from pyscheduler.config.load import from_value
from pyscheduler.core.commands import Bind, Command, Evict, PatchStatus
from pyscheduler.core.context import Settings
from pyscheduler.core.events import Bound, PodChanged, PodGone
from pyscheduler.core.machine import CycleStep, Machine
from pyscheduler.core.snapshot import load_snapshot
from tests.conformance.generator.generated_cluster import Manifest, is_assigned, key_of

_NOW = 1000.0


def schedule(document: Manifest) -> dict[str, Any]:
    """Return the attempts of the document's sequence, in the oracle's form."""
    return {"id": document["id"], "attempts": _Replay(document).attempts()}


class _Replay:
    def __init__(self, document: Manifest) -> None:
        loaded = from_value(document["config"])
        self._machine = Machine(partial(build_profiles, loaded), None, Settings(loaded.python.seed))
        self._sequence = document["sequence"]
        pods = {key_of(o): o for o in document["objects"] if o["kind"] == "Pod"}
        self._coming: dict[str, Manifest] = {key: pods[key] for key in self._sequence}
        load_snapshot(self._machine, [o for o in document["objects"] if not _is_pending(o)])
        self._now = _NOW
        self._placed = 0
        self._nominated: dict[str, str] = {}

    def attempts(self) -> list[dict[str, Any]]:
        made = []
        for key in self._sequence:
            pod = self._coming[key]
            attempt = self._attempt(pod)
            made.append(attempt)
            if attempt["victims"]:
                made.append(self._attempt(pod))
            if not made[-1]["node"] and not self._nominated.get(key):
                self._machine.handle(PodGone(self._now, *_identity(pod)))  # otherwise the queue would retry it
            elif not made[-1]["node"]:
                # A nominated pod counts while it is gated, and is not retried in place of a later one.
                self._show({**pod, "spec": {**pod["spec"], "schedulingGates": [{"name": "example.com/tried"}]}})
        return made

    def _attempt(self, pod: Manifest) -> dict[str, Any]:
        self._now += 1000.0  # longer than any backoff
        self._show(pod)
        self._machine.context.queue.activate([self._machine.context.pods[pod["metadata"]["uid"]]], self._now)
        commands = self._machine.cycle(self._now)
        assert commands is not None, f"{key_of(pod)} was not tried"
        while self._machine.next_step in (CycleStep.BACKLOG, CycleStep.RESUME):
            commands += self._machine.cycle(self._now) or []
        attempt = {"pod": key_of(pod), "node": "", "message": "", "nominatedNode": "", "victims": []}
        for command in commands:
            self._note(command, pod, attempt)
        if attempt["victims"]:
            self._settle(pod, attempt)
        return attempt

    def _note(self, command: Command, pod: Manifest, attempt: dict[str, Any]) -> None:
        match command:
            case Bind():
                assert command.pod.key == attempt["pod"], f"{command.pod.key} was tried instead of {attempt['pod']}"
                self._placed += 1
                attempt["node"] = command.node_name
                self._machine.handle(Bound(self._now, command.pod.uid))
                placed = {**pod, "spec": {**pod["spec"], "nodeName": command.node_name}}
                self._show({**placed, "status": {"phase": "Running", "startTime": _start(self._placed)}})
            case PatchStatus():
                attempt["message"] = command.condition.message if command.condition else ""
                if command.nominated_node_name is not None:
                    attempt["nominatedNode"] = command.nominated_node_name
                    self._nominated[key_of(pod)] = command.nominated_node_name
            case Evict():
                attempt["victims"].append(command.victim.key)

    def _settle(self, pod: Manifest, attempt: dict[str, Any]) -> None:
        """Delete the victims and show the nomination."""
        self._show(pod)
        for key in attempt["victims"]:
            namespace, name = key.split("/")
            self._machine.handle(PodGone(self._now, namespace, name, uid=""))

    def _show(self, pod: Manifest) -> None:
        if key_of(pod) in self._nominated and "nodeName" not in pod["spec"]:
            pod = {**pod, "status": {**pod["status"], "nominatedNodeName": self._nominated[key_of(pod)]}}
        self._machine.handle(PodChanged(self._now, msgspec.convert(pod, PodObject)))


def _is_pending(manifest: Manifest) -> bool:
    return manifest["kind"] == "Pod" and not is_assigned(manifest)


def _identity(pod: Manifest) -> tuple[str, str, str]:
    meta = pod["metadata"]
    return meta["namespace"], meta["name"], meta["uid"]


def _start(number: int) -> str:
    """Return a start time after the pods that run already and before now, like the oracle's firstStart."""
    return f"2026-04-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z"
