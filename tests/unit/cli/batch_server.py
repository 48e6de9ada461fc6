"""API server in memory for the commands of pod groups and queues: lists, gets and patches, with forbidden kinds."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from pyscheduler.api import ApiError
from tests.scenarios.batch.manifests import Gang, Manifest

SCHEDULER: Final = "pyscheduler"
_PLURALS: Final = {
    "Job": "jobs",
    "Pod": "pods",
    "Node": "nodes",
    "PodGroup": "podgroups",
    "Queue": "queues",
    "ElasticQuota": "elasticquotas",
    "PriorityClass": "priorityclasses",
}
_CLUSTER: Final = ("nodes", "queues", "priorityclasses")


def stored(*objects: Manifest | Gang) -> list[Manifest]:
    """Return the manifests as an API server stores them: with namespaces, UIDs and times, the first one the oldest."""
    manifests = [m for each in objects for m in (each.manifests if isinstance(each, Gang) else (each,))]
    return [_stored(manifest, i) for i, manifest in enumerate(manifests)]


def _stored(manifest: Manifest, i: int) -> Manifest:
    meta = {"uid": f"uid-{i}", "creationTimestamp": f"2026-01-01T00:{i // 60:02}:{i % 60:02}Z", **manifest["metadata"]}
    if _PLURALS[manifest["kind"]] not in _CLUSTER:
        meta.setdefault("namespace", "default")
    if manifest["kind"] != "Pod":
        return {**manifest, "metadata": meta}
    spec = {"schedulerName": SCHEDULER, **manifest["spec"]}
    return {**manifest, "metadata": meta, "spec": spec, "status": {"phase": "Pending", **manifest.get("status", {})}}


def bound(pod: Manifest, node: str = "n1", phase: str = "Running") -> Manifest:
    """Return a pod on a node."""
    return {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": {**pod.get("status", {}), "phase": phase}}


def rejected(pod: Manifest, reason: str, message: str) -> Manifest:
    """Return a pod with the condition that the scheduler writes."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return {**pod, "status": {"phase": "Pending", "conditions": [condition]}}


class BatchServer:
    """Connection to an API server in memory."""

    def __init__(self, objects: Iterable[Manifest], forbidden: Iterable[str] = ()) -> None:
        """`forbidden` are plurals, or plural@ for all namespaces at once."""
        self.objects = list(objects)
        self.forbidden = set(forbidden)
        self.status_subresource = True
        self.listed: list[str] = []
        """Paths of the lists that were requested."""
        self.patches: list[tuple[str, Any]] = []
        self.closed = False

    async def request(
        self, method: str, path: str, body: bytes | None = None, content_type: str = "", *, retries: bool = True
    ) -> bytes:
        """Return the response; ApiError as the real connection."""
        url = urlsplit(path)
        parts = url.path.strip("/").split("/")
        group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
        version = "/".join(parts[1 : len(parts) - len(rest)])
        if not rest:
            return _json({"resources": [{"name": name} for name in self._resources(version)]})
        namespace = ""
        if rest[0] == "namespaces":
            namespace, rest = rest[1], rest[2:]
        if namespace and rest[0] in _CLUSTER:
            raise ApiError(404, "", "404 page not found")
        self._check(rest[0], namespace, group)
        if len(rest) == 1:
            self.listed.append(url.path)
            selector = parse_qs(url.query).get("fieldSelector", [""])[0]
            return _json({"metadata": {}, "items": self._items(rest[0], version, namespace, selector)})
        return self._one(method, rest, version, body)

    async def close(self) -> None:
        self.closed = True

    def _resources(self, version: str) -> set[str]:
        names = {_PLURALS[each["kind"]] for each in self.objects if each["apiVersion"] == version}
        if not names:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        return names

    def _check(self, plural: str, namespace: str, group: str) -> None:
        if plural in self.forbidden or (not namespace and f"{plural}@" in self.forbidden):
            resource = f"{plural}.{group}".rstrip(".")
            raise ApiError(403, "Forbidden", f'User "eve" cannot access resource "{resource}"')

    def _items(self, plural: str, version: str, namespace: str, selector: str) -> list[Manifest]:
        return [
            each
            for each in self.objects
            if _PLURALS[each["kind"]] == plural
            and each["apiVersion"] == version
            and namespace in ("", each["metadata"].get("namespace"))
            and not (selector.endswith("!=Failed") and each["status"]["phase"] == "Failed")
        ]

    def _one(self, method: str, rest: list[str], version: str, body: bytes | None) -> bytes:
        found = [each for each in self._items(rest[0], version, "", "") if each["metadata"]["name"] == rest[1]]
        if not found or (rest[2:] and not self.status_subresource):
            raise ApiError(404, "NotFound", f'{rest[0]} "{rest[1]}" not found')
        if method == "PATCH":
            change = json.loads(body or b"{}")
            self._check(f"{rest[0]}/status", "", "scheduling.volcano.sh")
            self.patches.append(("/".join(rest), change))
            found[0].update(change)
        return _json(found[0])


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
