"""Queues as declared by Volcano's Queue and scheduler-plugins' ElasticQuota objects.

An invalid object is reported by the path of its first invalid field, in the words of the API server.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from pyscheduler.api import ResourceKind
from pyscheduler.api.quantity import QuantityError
from pyscheduler.api.resources import Amounts, amount
from pyscheduler_plugins.queues.delays import Delays, InvalidDelay, delay_annotations, read_delays
from pyscheduler_plugins.queues.quantities import format_amount

QUEUE = ResourceKind("scheduling.volcano.sh", "v1beta1", "queues", "Queue", namespaced=False, optional=True)
ELASTIC_QUOTA = ResourceKind("scheduling.x-k8s.io", "v1alpha1", "elasticquotas", "ElasticQuota", optional=True)

ROOT = "root"
"""Parent of the queues without one. A Queue object of this name limits all queues."""
ELASTIC_QUOTA_POOL = "elasticquotas.scheduling.x-k8s.io"
"""Parent of the queues of all ElasticQuotas."""
MAX_WEIGHT = 65_535

_MIN_PRIORITY, _MAX_PRIORITY = -(2**31), 2**31 - 1


Declaration = tuple[object, ...]
"""All of an object that its queue depends on."""


class QueueState(enum.StrEnum):
    """State of a queue (status.state)."""

    OPEN = "Open"
    CLOSING = "Closing"
    """No job is started; running ones continue."""
    CLOSED = "Closed"
    """No job is started, and none runs."""


class DequeueStrategy(enum.StrEnum):
    """Order in which the jobs of a queue are tried (spec.dequeueStrategy)."""

    FIFO = "fifo"
    """No job is started before the first one."""
    TRAVERSE = "traverse"
    """A job that does not fit is skipped."""


class Queue(Struct, frozen=True, kw_only=True):
    """A queue, whichever API declares it. Resources that an amount does not list are not limited by it."""

    name: str
    parent: str = ROOT
    namespace: str = ""
    """Namespace of the pods that the queue is for (ElasticQuota); "" if pods name their queue."""
    weight: int = 1
    capability: Amounts = field(default_factory=dict)
    """Upper limit of what the queue may allocate, its quota."""
    deserved: Amounts = field(default_factory=dict)
    """Amounts that the queue may reclaim from others; by weight for resources that are not listed."""
    guarantee: Amounts = field(default_factory=dict)
    """Amounts below which nothing is reclaimed from the queue. Until it requests them, other queues borrow them."""
    reclaimable: bool = True
    priority: int = 0
    dequeue_strategy: DequeueStrategy = DequeueStrategy.TRAVERSE
    state: QueueState = QueueState.OPEN
    delays: Delays = Delays()


class _InvalidField(ValueError):
    """Invalid field of an object; the message begins with its path."""


def read_queue(queue: Mapping[str, Any]) -> Queue | str:
    """Return a Volcano Queue, or the reason why it is invalid."""
    try:
        spec, status = _mapping(queue, "spec"), _mapping(queue, "status")
        capability, deserved = _amounts(spec, "capability"), _amounts(spec, "deserved")
        guarantee = _amounts(_mapping(spec, "guarantee", "spec."), "resource", "spec.guarantee.")
        _check_order("spec.guarantee.resource", guarantee, "deserved", deserved)
        return Queue(
            name=_name(queue),
            parent=_string(spec, "parent") or ROOT,
            weight=_integer(spec, "weight", 1, 0, MAX_WEIGHT),
            capability=capability,
            deserved=_limited(deserved, capability),
            guarantee=_limited(guarantee, capability),
            reclaimable=_boolean(spec, "reclaimable", True),
            priority=_integer(spec, "priority", 0, _MIN_PRIORITY, _MAX_PRIORITY),
            dequeue_strategy=_strategy(spec),
            state=_state(status),
            delays=read_delays(_mapping(queue, "metadata")),
        )
    except (_InvalidField, InvalidDelay) as error:
        return str(error)


def read_elastic_quota(quota: Mapping[str, Any]) -> Queue | str:
    """Return the queue of an ElasticQuota, or the reason why the object is invalid.

    `min` is guaranteed and may be reclaimed, `max` is the upper limit.
    """
    try:
        metadata = _mapping(quota, "metadata")
        name, namespace, delays = _name(quota), _string(metadata, "namespace", "metadata."), read_delays(metadata)
        spec = _mapping(quota, "spec")
        least, most = _amounts(spec, "min"), _amounts(spec, "max")
        _check_order("spec.min", least, "max", most)
    except (_InvalidField, InvalidDelay) as error:
        return str(error)
    if not namespace:
        return "metadata.namespace: Required value"
    return Queue(
        name=f"{namespace}/{name}",
        parent=ELASTIC_QUOTA_POOL,
        namespace=namespace,
        capability=most,
        deserved=least,
        guarantee=dict(least),
        delays=delays,
    )


def elastic_quota_pool(quotas: Iterable[Queue]) -> Queue:
    """Return the parent of these queues: together they are limited to the sum of their `min`, as in scheduler-plugins.

    A resource that no quota lists in `min` is not limited.
    """
    total: Amounts = {}
    for quota in quotas:
        for resource, least in quota.deserved.items():
            total[resource] = total.get(resource, 0) + least
    return Queue(name=ELASTIC_QUOTA_POOL, capability=total)


def declaration(obj: Mapping[str, Any]) -> Declaration:
    """Return what is read of an object, and its UID, which changes if it is created anew."""
    status, metadata = obj.get("status"), obj["metadata"]
    state = status.get("state") if isinstance(status, Mapping) else None
    return obj.get("spec"), state, metadata.get("uid"), delay_annotations(metadata)


def _name(an_object: Mapping[str, Any]) -> str:
    name = _string(_mapping(an_object, "metadata"), "name", "metadata.")
    if not name:
        raise _InvalidField("metadata.name: Required value")
    return name


def _invalid(path: str, value: Any, detail: str) -> _InvalidField:
    return _InvalidField(f"{path}: Invalid value: {json.dumps(value, default=str)}: {detail}")


def _mapping(of: Mapping[str, Any], key: str, prefix: str = "") -> Mapping[str, Any]:
    value = of.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _invalid(prefix + key, value, "must be an object")
    return value


def _string(of: Mapping[str, Any], key: str, prefix: str = "spec.") -> str:
    value = of.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _invalid(prefix + key, value, "must be a string")
    return value


def _integer(spec: Mapping[str, Any], key: str, default: int, least: int, most: int) -> int:
    value = spec.get(key)
    if value is None:
        return default
    if type(value) is not int or not least <= value <= most:
        raise _invalid(f"spec.{key}", value, f"must be an integer from {least} to {most}")
    return value


def _boolean(spec: Mapping[str, Any], key: str, default: bool) -> bool:
    value = spec.get(key)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise _invalid(f"spec.{key}", value, "must be true or false")
    return value


def _amounts(of: Mapping[str, Any], key: str, prefix: str = "spec.") -> Amounts:
    read: Amounts = {}
    for resource, quantity in _mapping(of, key, prefix).items():
        path = f"{prefix}{key}[{resource}]"
        if isinstance(quantity, bool) or not isinstance(quantity, str | int | float):
            raise _invalid(path, quantity, "must be a quantity")
        try:
            read[resource] = amount(resource, quantity)
        except QuantityError as error:
            raise _invalid(path, quantity, str(error)) from error
        if read[resource] < 0:
            raise _invalid(path, quantity, "must be greater than or equal to 0")
    return read


def _limited(amounts: Amounts, capability: Amounts) -> Amounts:
    """Return amounts that are at most the capability, so that a quota can be lowered by one field."""
    return {resource: min(value, capability.get(resource, value)) for resource, value in amounts.items()}


def _strategy(spec: Mapping[str, Any]) -> DequeueStrategy:
    value = _string(spec, "dequeueStrategy")
    try:
        return DequeueStrategy(value or DequeueStrategy.TRAVERSE)
    except ValueError:
        supported = ", ".join(f'"{each}"' for each in DequeueStrategy)
        text = f"spec.dequeueStrategy: Unsupported value: {json.dumps(value)}: supported values: {supported}"
        raise _InvalidField(text) from None


def _state(status: Mapping[str, Any]) -> QueueState:
    """Return the state of the status, which a controller writes: Open if there is none yet, or an unknown one."""
    value = status.get("state")
    return QueueState(value) if value in tuple(QueueState) else QueueState.OPEN


def _check_order(path: str, lower: Amounts, name: str, upper: Amounts) -> None:
    for resource, value in lower.items():
        if resource in upper and value > upper[resource]:
            limit = format_amount(resource, upper[resource])
            shown = format_amount(resource, value)
            raise _InvalidField(f"{path}[{resource}]: Invalid value: {shown}: must be at most {name}, which is {limit}")
