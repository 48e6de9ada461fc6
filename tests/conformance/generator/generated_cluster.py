"""A cluster under generation: its objects and the random generator.

It does not depend on features, which are in files of their own. All draw from one seeded generator, so that the seed
alone identifies a case.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeVar

Manifest = dict[str, Any]
T = TypeVar("T")

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
OLD_REGION = "failure-domain.beta.kubernetes.io/region"
RACK = "rack"

_START = datetime(2026, 3, 1, tzinfo=UTC)
_DAY = 86_400


class GeneratedCluster:
    """A cluster under generation. Every object gets its own UID and creation timestamp."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.namespaces: list[str] = []
        self.apps: list[str] = []
        """Values of the pods' label `app`; with few values, many pods match each other's selectors."""
        self.nodes: list[Manifest] = []
        self.assigned: list[Manifest] = []
        self.pending: list[Manifest] = []
        self.others: list[Manifest] = []
        """All objects other than nodes and pods."""
        self.errors = True
        """True if attempts may fail with errors of plugins."""
        self.room: Manifest = {}
        """Allocatable resources of every node, if all nodes are equal."""
        self.used: set[str] = set()
        """The features that the case really has, as `group:detail`."""
        self._serial = 0
        self._started: set[int] = set()

    def objects(self) -> list[Manifest]:
        """Return all objects, namespaces first."""
        return [*self.others, *self.nodes, *self.assigned, *self.pending]

    def mark(self, feature: str) -> None:
        self.used.add(feature)

    def used_kinds(self, group: str) -> list[str]:
        """Return the details of the group that the case has so far."""
        return sorted(feature.partition(":")[2] for feature in self.used if feature.startswith(f"{group}:"))

    # random choices

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def one(self, *options: T) -> T:
        return self.rng.choice(options)

    def some(self, options: Sequence[T], least: int = 0, most: int | None = None) -> list[T]:
        """Return a sample, in the order of `options`."""
        upper = len(options) if most is None else min(most, len(options))
        if upper < least:
            return list(options)
        chosen = set(self.rng.sample(range(len(options)), self.rng.randint(least, upper)))
        return [option for number, option in enumerate(options) if number in chosen]

    def number(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    # objects

    def serial(self) -> int:
        self._serial += 1
        return self._serial

    def metadata(self, name: str, namespace: str = "") -> Manifest:
        number = self.serial()
        meta: Manifest = {"name": name, "uid": f"uid-{number}", "creationTimestamp": stamp(number)}
        return {**meta, "namespace": namespace} if namespace else meta

    def add(self, api_version: str, kind: str, metadata: Manifest, **fields: Any) -> Manifest:
        """Add an object that is neither a node nor a pod."""
        made = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}
        self.others.append(made)
        return made

    def has(self, kind: str, name: str, namespace: str = "") -> bool:
        return any(
            o["kind"] == kind and o["metadata"]["name"] == name and o["metadata"].get("namespace", "") == namespace
            for o in self.others
        )

    def start_time(self) -> str:
        """Return a unique start time, to the second: kube-scheduler does not order pods with equal ones."""
        second = self.rng.randrange(_DAY)
        while second in self._started:
            second = self.rng.randrange(_DAY)
        self._started.add(second)
        return stamp(_DAY + second)

    def twin(self, pod: Manifest, name: str) -> Manifest:
        """Return a pod from the same template."""
        made = copy.deepcopy(pod)
        old = made["metadata"]
        fresh = self.metadata(name, old["namespace"])
        made["metadata"] = {**old, **fresh}
        made["metadata"].pop("deletionTimestamp", None)
        made["status"] = {"phase": "Pending"}
        return made


def stamp(seconds: int) -> str:
    """Return the time in RFC 3339, as the API server writes it."""
    return (_START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def put(manifest: Manifest, path: str, value: Any) -> None:
    """Set the value at a dotted path; if there is a list, append to it."""
    *parents, last = path.split(".")
    for key in parents:
        manifest = manifest.setdefault(key, {})
    manifest[last] = [*manifest.get(last, ()), *value] if isinstance(value, list) else value


def containers(pod: Manifest) -> list[Manifest]:
    found: list[Manifest] = pod["spec"]["containers"]
    return found


def is_assigned(pod: Manifest) -> bool:
    return bool(pod["spec"].get("nodeName"))


def key_of(pod: Manifest) -> str:
    """Return `namespace/name`."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
