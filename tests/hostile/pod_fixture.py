"""A machine that gets JSON as from watches, and measures the CPU time of each step."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from typing import Any

from pyscheduler.api import NodeObject, PodObject
from pyscheduler.core.commands import Bind
from pyscheduler.core.events import Bound, NodeChanged, PodChanged, PodGone, Tick
from pyscheduler.core.invariants import validate
from pyscheduler.kube.decode import ObjectDecoder, Refusals
from pyscheduler.testing import Harness, PodBuilder, node, pod

Json = dict[str, Any]


class HostilePodFixture:
    """Some nodes with pods. Bindings succeed at once, and come back as watch events."""

    def __init__(self, config: str | None = None, nodes: int = 100) -> None:
        self.harness = Harness(config)
        self.harness.complete_bindings = self.harness.complete_evictions = False
        self.skipped: list[str] = []
        """Resource of each invalid object."""
        self.assignments: dict[str, str] = {}
        """Node of every pod bound here, by name."""
        self.attempts = 0
        self.longest = 0.0
        """CPU seconds of the longest attempt."""
        self.refusals = refusals = Refusals(self.skipped.append)
        self._pods = ObjectDecoder("pods", PodObject, refusals)
        self._nodes = ObjectDecoder("nodes", NodeObject, refusals)
        self._sent: dict[str, bytes] = {}
        for i in range(nodes):
            self.handle_node(node(f"n{i}", cpu="64", pods="1000").zone(f"z{i % 3}").manifest)

    def handle_pod(self, raw: bytes) -> None:
        """Handle a watch event of a new or changed pod."""
        item = self._pods.line(b'{"type":"ADDED","object":' + raw + b"}").item
        if item.object is None:
            return
        self._sent[item.identity.uid] = raw
        try:
            self.harness.handle_event(PodChanged(self.harness.now, item.object))
        except Exception as problem:  # as in the shell
            self.refusals.report("pods", item.identity.namespace, item.identity.name, problem)

    def handle_node(self, manifest: Json) -> None:
        """Handle a watch event of a node."""
        item = self._nodes.line(b'{"type":"ADDED","object":' + json.dumps(manifest).encode() + b"}").item
        if item.object is None:
            return
        try:
            self.harness.handle_event(NodeChanged(self.harness.now, item.object))
        except Exception as problem:
            self.refusals.report("nodes", "", item.identity.name, problem)

    def handle_pods(self, *pods: PodBuilder) -> None:
        """Handle watch events of pods."""
        for each in pods:
            self.handle_pod(json.dumps(each.manifest).encode())

    def delete_pod(self, name: str, namespace: str = "default") -> None:
        """Handle a watch event of a deleted pod."""
        self.assignments.pop(name, None)
        self.harness.handle_event(PodGone(self.harness.now, namespace, name, ""))

    def run(self, most: int = 10**6) -> None:
        """Run attempts while the queue has pods, and bind."""
        for _ in range(most):
            began = time.process_time()
            commands = self.harness.machine.cycle(self.harness.now)
            self.longest = max(self.longest, time.process_time() - began)
            if commands is None:
                break
            self.attempts += 1
            for command in commands:
                if isinstance(command, Bind):
                    self._bound(command)
            self.harness.commands += commands

    def advance(self, seconds: int) -> None:
        """Advance the time second by second."""
        for _ in range(seconds):
            self.harness.now += 1.0
            self.harness.handle_event(Tick(self.harness.now))
            self.run()

    def _bound(self, command: Bind) -> None:
        uid = command.pod.uid
        self.assignments[command.pod.name] = command.node_name
        self.harness.handle_event(Bound(self.harness.now, uid))
        node_name = f'"spec": {{"nodeName": "{command.node_name}", '.encode()
        self.handle_pod(self._sent.pop(uid).replace(b'"spec": {', node_name, 1))

    def clear_history(self) -> None:
        """Drop the commands and manifests that are recorded for tests only."""
        self.harness.commands.clear()
        self.harness.pending_bindings.clear()
        self._sent.clear()

    def check_invariants(self) -> None:
        """Check the machine's invariants."""
        validate(self.harness.machine.context)


def plain(name: str) -> PodBuilder:
    """Return a pod without constraints."""
    return pod(name).requests(cpu="10m").label("app", "web")


def cpu(work: Callable[[], None]) -> float:
    """Return the CPU seconds of the work, without the garbage collector, which would scan the whole test process."""
    gc.disable()
    try:
        began = time.process_time()
        work()
        return time.process_time() - began
    finally:
        gc.enable()
