"""What the scheduler asks of the API server, and which calls a rule is about."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_POD = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)(/\w+)?")


@dataclass(frozen=True)
class ProxiedRequest:
    """A call. `target` is the path with its query, as it was sent; names of headers are in lower case."""

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
        """The pod that it is about, as namespace/name; "" for none."""
        found = _POD.fullmatch(self.path)
        return f"{found[1]}/{found[2]}" if found else ""


Matcher = Callable[[ProxiedRequest], bool]


def within(namespace: str, kind: Matcher) -> Matcher:
    """Calls of one kind that are about the objects of one namespace."""
    return lambda asked: kind(asked) and f"/namespaces/{namespace}/" in asked.path


def anything(asked: ProxiedRequest) -> bool:
    return True


def calls(asked: ProxiedRequest) -> bool:
    """Whatever is answered at once."""
    return not asked.is_watch


def bindings(asked: ProxiedRequest) -> bool:
    return asked.method == "POST" and asked.path.endswith("/binding")


def pod_statuses(asked: ProxiedRequest) -> bool:
    """Conditions and nominations."""
    return asked.method == "PATCH" and bool(asked.pod) and asked.path.endswith("/status")


def evictions(asked: ProxiedRequest) -> bool:
    return asked.method == "DELETE" and bool(asked.pod)


def events(asked: ProxiedRequest) -> bool:
    return asked.path.endswith("/events")


def leases(asked: ProxiedRequest) -> bool:
    return "/leases" in asked.path


def writes(asked: ProxiedRequest) -> bool:
    return asked.method != "GET"


def lists(plural: str) -> Matcher:
    return lambda asked: _collection(asked, plural) and not asked.is_watch


def watches(plural: str = "") -> Matcher:
    """Watches of one kind, or of all."""
    return lambda asked: asked.is_watch and (not plural or _collection(asked, plural))


def _collection(asked: ProxiedRequest, plural: str) -> bool:
    return asked.method == "GET" and asked.path.endswith(f"/{plural}")
