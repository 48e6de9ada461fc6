"""Cluster of batch scenarios: the harness with the batch profile, controllers, and checks at every instant."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from pyscheduler.api.pod import Pod
from pyscheduler.api.resources import amounts
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.core.commands import Bind, Command, Evict
from pyscheduler.core.instrument import Instrument
from pyscheduler.testing import Harness
from tests.scenarios.batch.manifests import Gang, Manifest

CONFIG: Final = Path(__file__).parents[3] / "config" / "batch.yaml"
MAX_COMMANDS: Final = 10_000
"""Maximum number of commands at one instant."""
_ENDED: Final = ("Succeeded", "Failed")


def with_queue_args(**args: Any) -> str:
    """Return the batch configuration with arguments of the plugin Queues."""
    text, heading = CONFIG.read_text(encoding="utf-8"), "    pluginConfig:\n"
    assert heading in text
    return text.replace(heading, f"{heading}      - name: Queues\n        args: {json.dumps(args)}\n")


def pending(reason: str) -> pytest.MarkDecorator:
    """Return the mark of a scenario whose outcome is not reached yet."""
    return pytest.mark.xfail(reason=reason, raises=AssertionError, strict=True)


class Attempts(Instrument):
    """Counts the attempts, and lists the failures of plugins."""

    def __init__(self) -> None:
        self.count = 0
        self.failures: list[str] = []

    def attempted(self, profile: str, result: str, began: float) -> None:
        self.count += 1

    def plugin_failed(self, plugin: str, point: str, error: BaseException) -> None:
        self.failures.append(f"{plugin} {point}: {error}")


class Cluster(Harness):
    """Harness that fails at the first instant at which a group is partly bound or a node is over its allocatable.

    Pods end after their run time, given to `apply_all`. Evicted pods are created anew one second after they
    have ended, as by their controller.
    """

    def __init__(self, *objects: Manifest | Gang, config: str | Path | LoadedConfig = CONFIG) -> None:
        self.attempts = Attempts()
        super().__init__(config, instrument=self.attempts)
        self.epoch = self.now
        self.device_resources: frozenset[str] = frozenset()
        """Extended resources that devices provide: nodes do not list them."""
        self.started: dict[str, float] = {}
        """Time of each pod's first binding."""
        self._gangs: dict[str, Gang] = {}
        self._broken: set[str] = set()
        """Groups that are incomplete because of something else than this scheduler."""
        self._run_seconds: dict[str, float] = {}
        self._requests: dict[str, dict[str, int]] = {}
        self._manifests: dict[str, Manifest] = {}
        self._recreations: dict[str, float] = {}
        self._issued = (self.now, 0)
        """Last instant and number of commands issued in it."""
        self.apply_all(*objects)

    # -- objects -------------------------------------------------------------------------------------------------

    def apply_all(self, *objects: Manifest | Gang, runs: float = 0) -> None:
        """Create objects; their pods end `runs` seconds after they were bound."""
        for each in objects:
            if isinstance(each, Gang):
                self.declare(each)
            for manifest in each.manifests if isinstance(each, Gang) else (each,):
                self.apply(manifest)
                if runs and manifest["kind"] == "Pod":
                    self._run_seconds[_key(manifest)] = runs

    def submit(self, *objects: Manifest | Gang, runs: float = 0) -> None:
        """Create objects and schedule the pods that fit now."""
        self.apply_all(*objects, runs=runs)
        self.run()

    def declare(self, gang: Gang) -> None:
        """Check a group whose objects the test creates one by one."""
        self._gangs[gang.name] = gang

    def exempt(self, gang: Gang) -> None:
        """Allow the group to be partly bound from now on."""
        self._broken.add(gang.name)

    def end(self, name: str, phase: str = "Succeeded") -> None:
        """End a pod."""
        if phase == "Failed":
            self._break_group_of(f"default/{name}")
        self.apply({**self.pods[f"default/{name}"].manifest, "status": {"phase": phase}})

    def apply(self, manifest: Any) -> None:
        super().apply(manifest)
        if isinstance(manifest, dict) and manifest["kind"] == "Pod":
            self._manifests[_key(manifest)] = copy.deepcopy(manifest)

    def delete(self, kind: str, name: str, namespace: str = "default") -> None:
        if kind == "Pod":
            self._break_group_of(f"{namespace}/{name}")
        super().delete(kind, name, namespace)

    def delete_all(self, *gangs: Gang) -> None:
        """Delete the pods and PodGroups of groups."""
        for gang in gangs:
            for manifest in reversed(gang.manifests):
                if manifest["kind"] != "PriorityClass":
                    kind = f"{manifest['kind']}.{manifest['apiVersion'].partition('/')[0]}"
                    self.delete(kind if manifest["kind"] == "PodGroup" else "Pod", manifest["metadata"]["name"])

    # -- time ----------------------------------------------------------------------------------------------------

    @property
    def time(self) -> float:
        """Seconds since the scenario began."""
        return self.now - self.epoch

    def advance_to(self, time: float) -> None:
        """Advance to this time of the scenario."""
        self.advance(time - self.time)

    def run(self) -> None:
        super().run()
        self._check_instant()

    def _wake(self) -> None:
        for key, end in self._run_ends():
            if end <= self.now:
                del self._run_seconds[key]
                if key in self.pods:
                    self.end(key.partition("/")[2])
        for key in [key for key, at in self._recreations.items() if at <= self.now]:
            del self._recreations[key]
            self.apply(self._manifests[key])
        super()._wake()

    def _next_wake(self) -> float | None:
        ends = (end for _, end in self._run_ends())
        wakes = [super()._next_wake(), *ends, *self._recreations.values()]
        return min((wake for wake in wakes if wake is not None), default=None)

    def _run_ends(self) -> list[tuple[str, float]]:
        """Return the pods that run for a limited time, and the time at which they end."""
        started = [key for key in self._run_seconds if key in self.started]
        return [(key, self.epoch + self.started[key] + self._run_seconds[key]) for key in started]

    # -- results -------------------------------------------------------------------------------------------------

    def members(self, gang: Gang | str) -> int:
        """Return the number of bound pods of a group, or of those whose names have a prefix."""
        bound = self.bindings
        if isinstance(gang, Gang):
            return sum(key in bound for key in gang.keys)
        return sum(key.startswith(f"default/{gang}") for key in bound)

    def running(self, gang: Gang) -> int:
        """Return the number of pods of a group that are bound and have not ended."""
        bound = self.bindings
        return sum(key in bound and self.phase(key) not in _ENDED for key in gang.keys)

    def phase(self, key: str) -> str:
        """Return the phase of a pod, "" if it has none."""
        return str((self.pods[key].manifest.get("status") or {}).get("phase", ""))

    @property
    def evicted_names(self) -> list[str]:
        """Names of the evicted pods, in order."""
        return [key.partition("/")[2] for _, key in self.evictions]

    def reason(self, name: str) -> str:
        """Return the reason of a pod's PodScheduled condition, "" if it has none."""
        condition = self.condition("Pod", f"default/{name}", "PodScheduled") or {}
        return str(condition.get("reason", ""))

    def message(self, *names: str) -> str:
        """Return the messages of the PodScheduled conditions and of the events of pods, one a line."""
        conditions = [self.condition("Pod", f"default/{name}", "PodScheduled") or {} for name in names]
        notes = [note for name in names for _, note in self.events(name)]
        return "\n".join([*(str(condition.get("message", "")) for condition in conditions), *notes])

    # -- checks --------------------------------------------------------------------------------------------------

    def _execute(self, commands: Sequence[Command]) -> None:
        instant, issued = self._issued
        self._issued = (self.now, issued + len(commands) if instant == self.now else 0)
        assert issued < MAX_COMMANDS, f"the scheduler retries without end at {self.time}"
        super()._execute(commands)
        for command in commands:
            if isinstance(command, Bind):
                self._check_node(command.node_name)

    def accept_binding(self, pod: Pod, node_name: str) -> None:
        super().accept_binding(pod, node_name)
        self.started.setdefault(pod.key, self.time)

    def _evict(self, command: Evict) -> None:
        before = len(self.evictions)
        super()._evict(command)
        key = command.victim.key
        if len(self.evictions) > before and key in self._manifests:
            self._recreations[key] = self._ends.get(key, self.now) + 1

    def _check_instant(self) -> None:
        """Fail if a group is partly bound because of this scheduler."""
        for gang in self._gangs.values():
            if gang.name not in self._broken:
                bound = sum(self._is_bound(key) for key in gang.keys)
                assert bound == 0 or bound >= gang.minimum, f"{bound} of {gang.minimum} pods of {gang.name} are bound"

    def _is_bound(self, key: str) -> bool:
        pod = self.pods.get(key)
        if pod is None or "deletionTimestamp" in pod.manifest["metadata"]:
            return False
        return bool(pod.manifest["spec"].get("nodeName"))

    def _check_node(self, name: str) -> None:
        """Fail if the pods on a node request more than it has."""
        node = self.nodes.get(name)
        if node is None:
            return
        used: Counter[str] = Counter()
        for key, at in self.bindings.items():
            pod = self.pods[key].manifest
            if at == name and (pod.get("status") or {}).get("phase") not in _ENDED:
                used.update(self._requests_of(pod))
        room = amounts(node["status"]["allocatable"])
        listed = used.keys() - self.device_resources
        over = {resource: used[resource] for resource in listed if used[resource] > room.get(resource, 0)}
        assert not over, f"pods on {name} request {over}, it has {room}"

    def _requests_of(self, pod: Manifest) -> dict[str, int]:
        uid = pod["metadata"]["uid"]
        if uid not in self._requests:
            [container] = pod["spec"]["containers"]
            self._requests[uid] = dict(amounts(container["resources"].get("requests")))
        return self._requests[uid]

    def _break_group_of(self, key: str) -> None:
        self._broken |= {gang.name for gang in self._gangs.values() if key in gang.keys}


def _key(manifest: Manifest) -> str:
    meta = manifest["metadata"]
    return f"{meta.get('namespace', 'default')}/{meta['name']}"
