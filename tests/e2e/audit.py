"""Requests of each user in the API server's audit log, and the rights that roles grant."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from tests.controlplane.arguments import Options
from tests.e2e.client import Json

_FORBIDDEN = 403
_SECONDS, _POLL_SECONDS = 20.0, 0.2


class Right(NamedTuple):
    """A verb on a resource; `resource` includes the subresource after a slash, as in roles."""

    group: str
    resource: str
    verb: str


class AuditedRequest(NamedTuple):
    """A request for an object or a collection, and the code of its response."""

    right: Right
    name: str
    code: int


class AuditLog:
    """The log of an API server that is started with `options`."""

    def __init__(self, folder: Path) -> None:
        self._log, policy = folder / "audit.log", folder / "audit-policy.yaml"
        rules = [{"level": "Metadata"}]
        stages = ["RequestReceived"]  # of a watch there is a line when it starts, and one when it ends
        document = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": stages, "rules": rules}
        policy.write_text(yaml.safe_dump(document))
        flags = (f"--audit-policy-file={policy}", f"--audit-log-path={self._log}")
        self.options = Options(extra={"kube-apiserver": flags})

    def of(self, user: str) -> list[AuditedRequest]:
        """Return a user's requests for resources so far."""
        lines = self._log.read_text().splitlines(keepends=True)
        events = [json.loads(line) for line in lines if line.endswith("\n")]  # the last one may be half written
        return [
            _audited_request(event) for event in events if event["user"]["username"] == user and "objectRef" in event
        ]

    async def all_of(self, user: str, expected: set[Right]) -> list[AuditedRequest]:
        """Return a user's requests once these rights were used, or after a timeout: lines follow responses."""
        deadline = time.monotonic() + _SECONDS
        while True:
            requests = self.of(user)
            if expected <= used(requests) or time.monotonic() > deadline:
                return requests
            await asyncio.sleep(_POLL_SECONDS)


def _audited_request(event: Json) -> AuditedRequest:
    about = event["objectRef"]
    resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
    right = Right(about.get("apiGroup", ""), resource, event["verb"])
    return AuditedRequest(right, about.get("name", ""), event.get("responseStatus", {}).get("code", 0))


def forbidden(requests: Iterable[AuditedRequest]) -> set[AuditedRequest]:
    """Return the requests that were rejected with 403."""
    return {request for request in requests if request.code == _FORBIDDEN}


def used(requests: Iterable[AuditedRequest]) -> set[Right]:
    """Return the rights that the requests used."""
    return {request.right for request in requests if request.code != _FORBIDDEN}


def granted(roles: Iterable[Json]) -> set[Right]:
    """Return every right in the rules of roles."""
    return {right for role in roles for rule in role["rules"] for right in _of_rule(rule)}


def _of_rule(rule: Json) -> Iterator[Right]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                yield Right(group, resource, verb)
