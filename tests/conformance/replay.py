"""Our side of a sequence: a machine that gets one pending pod after the other, with kube-scheduler's order of nodes.

Commands take effect at once: a binding succeeds, a victim is deleted, a nomination is visible, a claim is written. A
placed pod starts later than all before it, so that victims have an order.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from pyscheduler.api import StatusError
from pyscheduler.api.objects import PodObject
from pyscheduler.config.build import build_profiles
from pyscheduler.config.load import from_value
from pyscheduler.core.commands import Bind, CallApi, Command, Evict, PatchStatus
from pyscheduler.core.context import Settings
from pyscheduler.core.events import BindFailed, Bound, ObjectChanged, ObjectGone, PodChanged, PodGone
from pyscheduler.core.machine import CycleStep, Machine
from pyscheduler.core.snapshot import load_snapshot
from pyscheduler.intree import DynamicResources
from pyscheduler.intree.resource_claims.objects import CLAIM
from tests.conformance.claim_store import ClaimStore
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
        self._store = ClaimStore(document["objects"], self._claim_changed, self._claim_gone)
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
        attempt: dict[str, Any] = {"pod": key_of(pod), "node": "", "message": "", "nominatedNode": "", "victims": []}
        if gate := self._gate(pod):
            return {**attempt, "message": gate, "devices": {}}
        for command in self._cycle(pod):
            self._note(command, pod, attempt)
        if attempt["victims"]:
            self._settle(pod, attempt)
        attempt["devices"] = self._store.take_written()
        return attempt

    def _gate(self, pod: Manifest) -> str:
        """Return the reason why the pod is gated, "" if it is not."""
        context = self._machine.context
        queued = context.queue.get(pod["metadata"]["uid"])
        assert queued is not None, f"{key_of(pod)} is not in the queue"
        for plugin in context.profiles[queued.pod.scheduler_name].pre_enqueue if queued.gating_plugin else ():
            if (rejection := plugin.pre_enqueue(queued.pod)) is not None:
                return rejection.message
        return ""

    def _cycle(self, pod: Manifest) -> list[Command]:
        commands = self._machine.cycle(self._now)
        assert commands is not None, f"{key_of(pod)} was not tried"
        while self._machine.next_step in (CycleStep.BACKLOG, CycleStep.RESUME):
            commands += self._machine.cycle(self._now) or []
        return commands

    def _note(self, command: Command, pod: Manifest, attempt: dict[str, Any]) -> None:
        match command:
            case Bind():
                assert command.pod.key == attempt["pod"], f"{command.pod.key} was tried instead of {attempt['pod']}"
                self._placed += 1
                if failed := self._pre_bind_devices(command):
                    for consequence in self._machine.handle(failed):
                        self._note(consequence, pod, attempt)
                    return
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
            case CallApi():
                self._store.run(command.call(self._store))

    def _pre_bind_devices(self, command: Bind) -> BindFailed | None:
        """Run PreBind of DynamicResources, as the oracle does; return its failure."""
        for plugin in command.plan.pre_bind:
            if isinstance(plugin, DynamicResources):
                self._store.suffix = str(self._placed)
                try:
                    self._store.run(plugin.pre_bind(command.cycle, command.pod, command.node_name, self._store))
                except StatusError as error:
                    text = f'running PreBind plugin "{plugin.name}": {error}'
                    return BindFailed(self._now, command.pod.uid, text, plugin.name)
        return None

    def _claim_changed(self, claim: Manifest) -> None:
        self._machine.handle(ObjectChanged(self._now, CLAIM, claim))

    def _claim_gone(self, namespace: str, name: str) -> None:
        self._machine.handle(ObjectGone(self._now, CLAIM, namespace, name))

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
