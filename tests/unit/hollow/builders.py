"""Pods as a hollow kubelet decodes them, built with the public builders."""

from __future__ import annotations

from typing import Any

import msgspec

from pyscheduler.embedded.hollow.pod_types import HollowPod
from pyscheduler.embedded.hollow.status import PodPlacement
from pyscheduler.testing import PodBuilder, pod

PLACE = PodPlacement(seen=100.0, pod_ip="10.128.0.1", host_ip="10.64.0.1")


def hollow(builder: PodBuilder | None = None, *, policy: str = "Always", **annotations: float | str) -> HollowPod:
    """Return the pod with a restart policy and `pyscheduler.io` annotations, `run_seconds=5` and the like."""
    built = (builder or pod("p")).spec(restartPolicy=policy)
    for name, value in annotations.items():
        built = built.annotation(f"pyscheduler.io/{name.replace('_', '-')}", str(value))
    return msgspec.convert(built.manifest, HollowPod)


def with_status(of: HollowPod, status: dict[str, Any]) -> HollowPod:
    """Return the pod with that status patch applied."""
    obj = msgspec.to_builtins(of)
    obj["status"] = {**(obj.get("status") or {}), **_without_nulls(status)}
    return msgspec.convert(obj, HollowPod)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    return [_without_nulls(v) for v in value] if isinstance(value, list) else value
