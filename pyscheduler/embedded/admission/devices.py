"""Defaults of resource.k8s.io/v1: allocation mode and count of requests, the operator of tolerations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.resources import Lookup, Rules

EXACT_COUNT = "ExactCount"


def default_claim(claim: Json, _lookup: Lookup) -> None:
    """Set the defaults of a ResourceClaim."""
    _default_spec(claim.get("spec"))


def default_template(template: Json, _lookup: Lookup) -> None:
    """Set the defaults of the claims that a ResourceClaimTemplate makes."""
    spec = template.get("spec")
    _default_spec(spec.get("spec") if isinstance(spec, dict) else None)


def _default_spec(spec: Any) -> None:
    for request in _requests(spec):
        if request.setdefault("allocationMode", EXACT_COUNT) == EXACT_COUNT:
            request.setdefault("count", 1)
        for toleration in request.get("tolerations") or ():
            toleration.setdefault("operator", "Equal")


def _requests(spec: Any) -> Iterator[Json]:
    """Yield the requests of a claim's spec, with all alternatives."""
    devices = (spec or {}).get("devices") or {}
    for request in devices.get("requests") or ():
        if request.get("exactly"):
            yield request["exactly"]
        yield from request.get("firstAvailable") or ()


CLAIM = Rules(default_claim)
CLAIM_TEMPLATE = Rules(default_template)
