"""A machine that is fed bytes, as watches bring them, and what each thing costs it in CPU time."""

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
from pyscheduler.shell.kube.decode import ObjectDecoder, Refusals
from pyscheduler.testing import Harness, PodBuilder, node, pod

Json = dict[str, Any]


class HostilePodFixture:
    """Some nodes with pods on them. Bindings succeed at once, and come back as another event of the watch."""

    def __init__(self, config: str | None = None, nodes: int = 100) -> None:
        self.harness = Harness(config)
        self.harness.complete_bindings = self.harness.complete_evictions = False
        self.skipped: list[str] = []
        """The resource of each object that could not be read."""
        self.assignments: dict[str, str] = {}
        """The node of every pod bound here, by name."""
        self.attempts = 0
        self.longest = 0.0
        """CPU seconds of the longest attempt."""
        self.refusals = refusals = Refusals(self.skipped.append)
        self._pods = ObjectDecoder("pods", PodObject, refusals)
        self._nodes = ObjectDecoder("nodes", NodeObject, refusals)
        self._sent: dict[str, bytes] = {}
        for i in range(nodes):
            self.see_node(node(f"n{i}", cpu="64", pods="1000").zone(f"z{i % 3}").manifest)

    def see_pod(self, raw: bytes) -> None:
        """The watch shows a pod, new or changed."""
        item = self._pods.line(b'{"type":"ADDED","object":' + raw + b"}").item
        if item.object is None:
            return
        self._sent[item.identity.uid] = raw
        try:
            self.harness.handle_event(PodChanged(self.harness.now, item.object))
        except Exception as problem:  # as the shell does it
            self.refusals.report("pods", item.identity.namespace, item.identity.name, problem)

    def see_node(self, manifest: Json) -> None:
        """The watch shows a node."""
        item = self._nodes.line(b'{"type":"ADDED","object":' + json.dumps(manifest).encode() + b"}").item
        if item.object is None:
            return
        try:
            self.harness.handle_event(NodeChanged(self.harness.now, item.object))
        except Exception as problem:
            self.refusals.report("nodes", "", item.identity.name, problem)

    def see(self, *pods: PodBuilder) -> None:
        """The watch shows some pods."""
        for each in pods:
            self.see_pod(json.dumps(each.manifest).encode())

    def gone(self, name: str, namespace: str = "default") -> None:
        """The watch shows that a pod is no more."""
        self.assignments.pop(name, None)
        self.harness.handle_event(PodGone(self.harness.now, namespace, name, ""))

    def run(self, most: int = 10**6) -> None:
        """Make attempts while there are pods to be tried, and bind."""
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
        """Let time pass, second by second."""
        for _ in range(seconds):
            self.harness.now += 1.0
            self.harness.handle_event(Tick(self.harness.now))
            self.run()

    def _bound(self, command: Bind) -> None:
        uid = command.pod.uid
        self.assignments[command.pod.name] = command.node_name
        self.harness.handle_event(Bound(self.harness.now, uid))
        node_name = f'"spec": {{"nodeName": "{command.node_name}", '.encode()
        self.see_pod(self._sent.pop(uid).replace(b'"spec": {', node_name, 1))

    def clear_history(self) -> None:
        """Drop the commands and manifests that are recorded for tests only."""
        self.harness.commands.clear()
        self.harness.pending_bindings.clear()
        self._sent.clear()

    def sound(self) -> None:
        """The machine's memory is not contradictory."""
        validate(self.harness.machine.context)


def plain(name: str) -> PodBuilder:
    """A pod without any wishes."""
    return pod(name).requests(cpu="10m").label("app", "web")


def cpu(work: Callable[[], None]) -> float:
    """How many CPU seconds it takes, without the garbage collector, which would look through the whole test process."""
    gc.disable()
    try:
        began = time.process_time()
        work()
        return time.process_time() - began
    finally:
        gc.enable()
