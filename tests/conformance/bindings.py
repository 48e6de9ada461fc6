"""What DynamicResources writes to bind a pod, on each node that the pod fits: our side of the oracle's `bindings`.

Every binding starts with the cluster of the document: what Reserve and PreBind change is in no other one.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Coroutine, Mapping
from typing import Any

from pyscheduler.api import ApiError, Cycle, PluginMetric, Pod, Rejection, StatusError
from pyscheduler.cli.evaluate import Evaluator
from pyscheduler.core.context import Context
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.scheduling.profile_runtime import ProfileRuntime
from pyscheduler.core.scheduling.schedule_pod import (
    evaluate_nominated_node,
    find_nodes_that_pass_filters,
    run_pre_filter,
)
from pyscheduler.core.snapshot import load_snapshot
from pyscheduler.intree.dynamic_resources import DynamicResources
from tests.conformance.generator.generated_cluster import Manifest

MOST = 4
"""Nodes of each pod, the first ones by name."""
_KINDS = {"ResourceClaim", "DeviceClass"}


def bindings(evaluator: Evaluator, document: Manifest, answer: Mapping[str, Any]) -> Manifest:
    """Return what is written to bind the pod of a result to each of its first nodes; no entry where that is nothing."""
    if "total" not in answer or _KINDS.isdisjoint(o["kind"] for o in document["objects"]):
        return {}
    found = {name: _binding(evaluator, document, answer["pod"], name) for name in sorted(answer["total"])[:MOST]}
    return {name: binding for name, binding in found.items() if any(binding.values())}


def _binding(evaluator: Evaluator, document: Manifest, key: str, node_name: str) -> Manifest:
    machine = evaluator.machine(document.get("config"))
    sources = load_snapshot(machine, document["objects"])
    context = machine.context
    pod = context.pods.get(context.handle.pods.uid_of_key(key) or "") or context.shapes.pod(sources[key])
    profile = context.profiles[pod.scheduler_name]
    plugin = next((p for p in profile.reserve if isinstance(p, DynamicResources)), None)
    api = _RecordedWrites()
    if plugin is None:
        return api.binding()
    cycle = Cycle(0.0, profile.name, pod.uid, 1, context.settings.seed)
    _filter(context, cycle, pod)
    node = next(row for row in context.state.rows if row.name == node_name)
    try:
        rejection: Rejection | None = plugin.reserve(cycle, pod, node)
        if rejection is None:
            rejection = _result(plugin.pre_bind(cycle, pod, node_name, api))
        message = "; ".join(rejection.reasons) if rejection else ""
    except StatusError as error:
        message = str(error)
    except _WaitsForDriver:
        return {**api.binding(), "waits": True}
    return {**api.binding(), "message": message}


def _filter(context: Context, cycle: Cycle, pod: Pod) -> None:
    profile = context.profiles[pod.scheduler_name]
    runtime = ProfileRuntime.of(profile, context.state, context.queue.nominator, Instrument())
    pre = run_pre_filter(runtime, cycle, pod, None)
    find_nodes_that_pass_filters(runtime, cycle, pod, pre, None, evaluate_nominated_node(runtime, cycle, pod))


def _result(steps: Coroutine[Any, Any, Rejection | None]) -> Rejection | None:
    """Return the result of a coroutine that never waits."""
    try:
        steps.send(None)
    except StopIteration as end:
        result: Rejection | None = end.value
        return result
    raise AssertionError("PreBind waits for something else than its API client")


class _WaitsForDriver(Exception):
    """PreBind waits for conditions of a device."""


class _RecordedWrites:
    """API client of PreBind that records writes, returns objects as they were written, and cannot wait."""

    def __init__(self) -> None:
        self._claims: dict[str, Manifest] = {}
        self._extended: Manifest | None = None
        self._version = 1

    def binding(self) -> Manifest:
        """Return the last state of each written claim, in the order of the first writes, and the status of the pod."""
        claims = [_written(claim) for claim in self._claims.values()]
        return {"message": "", "waits": False, "claims": claims, "pod": self._extended}

    async def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        made = _copy(body)
        meta = made["metadata"]
        meta.update(name=f"{meta['generateName']}created", uid="uid:created")
        return self._stored(made)

    async def replace(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._stored(_copy(body))

    async def merge(self, path: str, patch: Mapping[str, Any]) -> dict[str, Any]:
        self._extended = _copy(patch["status"])["extendedResourceClaimStatus"]
        return {}

    def record(self, pod: Pod, reason: str, action: str, note: str) -> None:
        """Events are not compared."""

    def observe(self, metric: PluginMetric, labels: tuple[str, ...] = (), value: float = 1) -> None:
        """Metrics are not compared."""

    def _stored(self, claim: Manifest) -> Manifest:
        self._version += 1
        claim["metadata"]["resourceVersion"] = str(self._version)
        self._claims[claim["metadata"]["name"]] = claim
        return copy.deepcopy(claim)

    async def get(self, path: str) -> dict[str, Any]:
        raise ApiError(404, "NotFound", f"{path} was not written")

    async def bind(self, pod: Pod, node_name: str) -> None:
        raise AssertionError("DynamicResources binds no pods")

    async def delete(self, path: str) -> None:
        raise AssertionError("PreBind deletes nothing")

    async def sleep(self, seconds: float) -> None:
        raise _WaitsForDriver

    def timestamp(self) -> str:
        return "2026-01-01T00:00:00Z"


def _copy(body: Mapping[str, Any]) -> Manifest:
    copied: Manifest = json.loads(json.dumps(body))
    return copied


def _written(claim: Manifest) -> Manifest:
    """Return the fields of a claim that the scheduler writes, as the oracle has them."""
    meta, status = claim["metadata"], claim.get("status") or {}
    is_created = bool(meta.get("generateName"))
    return {
        "name": meta["name"],
        "generateName": meta.get("generateName", ""),
        "finalizers": meta.get("finalizers"),
        "annotations": meta.get("annotations"),
        "ownerReferences": meta.get("ownerReferences"),
        "requests": claim["spec"]["devices"]["requests"] if is_created else None,
        "allocation": status.get("allocation"),
        "reservedFor": status.get("reservedFor"),
    }
