"""Requests of the scheduler to the API server, and matchers for rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_POD = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)(/\w+)?")


@dataclass(frozen=True)
class ProxiedRequest:
    """Request through the proxy. `target` is the path with its query; names of headers are in lower case."""

    method: str
    target: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") in ("1", "true")

    @property
    def pod(self) -> str:
        """Pod in the path as namespace/name, "" if there is none."""
        match = _POD.fullmatch(self.path)
        return f"{match[1]}/{match[2]}" if match else ""


Matcher = Callable[[ProxiedRequest], bool]


def within(namespace: str, kind: Matcher) -> Matcher:
    """Match calls of one kind for objects of one namespace."""
    return lambda request: kind(request) and f"/namespaces/{namespace}/" in request.path


def anything(request: ProxiedRequest) -> bool:
    return True


def calls(request: ProxiedRequest) -> bool:
    """Match all requests except watches."""
    return not request.is_watch


def bindings(request: ProxiedRequest) -> bool:
    return request.method == "POST" and request.path.endswith("/binding")


def pod_statuses(request: ProxiedRequest) -> bool:
    """Match patches of pod conditions and nominations."""
    return request.method == "PATCH" and bool(request.pod) and request.path.endswith("/status")


def evictions(request: ProxiedRequest) -> bool:
    return request.method == "DELETE" and bool(request.pod)


def events(request: ProxiedRequest) -> bool:
    return request.path.endswith("/events")


def leases(request: ProxiedRequest) -> bool:
    return "/leases" in request.path


def writes(request: ProxiedRequest) -> bool:
    return request.method != "GET"


def lists(plural: str) -> Matcher:
    return lambda request: _collection(request, plural) and not request.is_watch


def watches(plural: str = "") -> Matcher:
    """Match watches of one resource, or of all."""
    return lambda request: request.is_watch and (not plural or _collection(request, plural))


def _collection(request: ProxiedRequest, plural: str) -> bool:
    return request.method == "GET" and request.path.endswith(f"/{plural}")
