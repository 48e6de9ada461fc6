"""Wire format of extender requests and responses: JSON of k8s.io/kube-scheduler/extender/v1.

The types of that package have no JSON tags, so keys are the capitalised Go names. Go matches keys in any case and reads
null as the zero value; extenders rely on that, so it holds here too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import msgspec

from pyscheduler.api import Pod
from pyscheduler.api.preemption import Candidate
from pyscheduler.core.extenders.extender import (
    ExtenderFailed,
    ExtenderFilterResult,
    ExtenderPreemptionResult,
    ExtenderPrioritizeResult,
    Victims,
)

S = TypeVar("S", bound=msgspec.Struct)
Raw = msgspec.Raw
_encode = msgspec.json.Encoder().encode


class UnreadableResponse(ValueError):
    """The response cannot be decoded; the message names the problem."""


# -- requests ----------------------------------------------------------------------------------------------------------


class _NodeList(msgspec.Struct):
    metadata: dict[str, str]
    items: list[Raw]


class _Arguments(msgspec.Struct, rename="pascal"):
    """ExtenderArgs."""

    pod: Raw
    nodes: _NodeList | None = None
    node_names: Sequence[str] | None = None


class _MetaPod(msgspec.Struct):
    uid: str = msgspec.field(name="UID", default="")


class _SentVictims(msgspec.Struct, rename="pascal"):
    """Victims, or MetaVictims."""

    pods: list[Raw] | list[_MetaPod]
    violations: int = msgspec.field(name="NumPDBViolations")


class _PreemptionArguments(msgspec.Struct, rename="pascal"):
    """ExtenderPreemptionArgs."""

    pod: Raw
    node_name_to_victims: dict[str, _SentVictims] | None = None
    node_name_to_meta_victims: dict[str, _SentVictims] | None = None


class _BindingArguments(msgspec.Struct, rename="pascal"):
    """ExtenderBindingArgs."""

    pod_name: str
    pod_namespace: str
    pod_uid: str = msgspec.field(name="PodUID")
    node: str


def nodes_request(pod: bytes, nodes: Sequence[bytes]) -> bytes:
    """Return the body of filter and prioritize for an extender that needs whole nodes."""
    return _encode(_Arguments(Raw(pod), _NodeList({}, [Raw(node) for node in nodes])))


def names_request(pod: bytes, names: Sequence[str]) -> bytes:
    """Return the body of filter and prioritize for a nodeCacheCapable extender."""
    return _encode(_Arguments(Raw(pod), None, names))


def victims_request(pod: bytes, candidates: Mapping[str, Candidate], whole: Callable[[Pod], bytes | None]) -> bytes:
    """Return the body of preempt; `whole` returns the JSON of a pod, None if it no longer exists."""
    victims = {
        name: _SentVictims([Raw(sent) for pod in c.victims if (sent := whole(pod)) is not None], c.pdb_violations)
        for name, c in candidates.items()
    }
    return _encode(_PreemptionArguments(Raw(pod), victims))


def meta_victims_request(pod: bytes, candidates: Mapping[str, Candidate]) -> bytes:
    """Return the body of preempt for a nodeCacheCapable extender."""
    victims = {
        name: _SentVictims([_MetaPod(pod.uid) for pod in c.victims], c.pdb_violations) for name, c in candidates.items()
    }
    return _encode(_PreemptionArguments(Raw(pod), None, victims))


def binding_request(pod: Pod, node_name: str) -> bytes:
    """Return the body of bind."""
    return _encode(_BindingArguments(pod.name, pod.namespace, pod.uid, node_name))


# -- responses ---------------------------------------------------------------------------------------------------------


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""


class _Node(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


class _Nodes(msgspec.Struct):
    items: list[_Node] | None = None


class _FilterResult(msgspec.Struct, rename="pascal"):
    """ExtenderFilterResult."""

    nodes: _Nodes | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str | None = None


class _HostPriority(msgspec.Struct, rename="pascal"):
    host: str | None = None
    score: int | None = None


class _MetaVictims(msgspec.Struct, rename="pascal"):
    pods: list[Raw] | None = None
    violations: int | None = msgspec.field(name="NumPDBViolations", default=None)


class _PreemptionResult(msgspec.Struct, rename="pascal"):
    """ExtenderPreemptionResult."""

    node_name_to_meta_victims: dict[str, Raw] | None = None


class _BindingResult(msgspec.Struct, rename="pascal"):
    """ExtenderBindingResult."""

    error: str | None = None


def parse_filter_result(body: bytes, nodes: Sequence[str], url: str, names: bool) -> ExtenderFilterResult:
    """Parse the response to filter for `nodes`; `names` is True if the request held names only.

    ExtenderFailed with the extender's error, or if it returns a node that is not in `nodes`. UnreadableResponse.
    """
    result = _read(body, _FilterResult)
    if result.error:
        raise ExtenderFailed(result.error)
    returned: Sequence[str] = ()
    if names and result.node_names is not None:
        returned = result.node_names
    elif result.nodes is not None:
        returned = [node.metadata.name for node in result.nodes.items or ()]
    known = frozenset(nodes)
    for name in returned:
        if name not in known:
            raise ExtenderFailed(
                f'extender "{url}" claims a filtered node "{name}" which is not found in the input node list'
            )
    return ExtenderFilterResult(tuple(returned), result.failed_nodes or {}, result.failed_and_unresolvable_nodes or {})


def parse_host_priorities(body: bytes) -> ExtenderPrioritizeResult:
    """Parse the response to prioritize. UnreadableResponse."""
    hosts = [_read(raw, _HostPriority) for raw in _decoded(body, list[Raw] | None) or ()]
    return ExtenderPrioritizeResult(tuple((host.host or "", host.score or 0) for host in hosts))


def parse_preemption_result(body: bytes) -> ExtenderPreemptionResult:
    """Parse the response to preempt. UnreadableResponse."""
    nodes = _read(body, _PreemptionResult).node_name_to_meta_victims or {}
    return ExtenderPreemptionResult({name: _victims(raw) for name, raw in nodes.items()})


def _victims(raw: Raw) -> Victims:
    victims = _read(raw, _MetaVictims)
    return Victims(tuple(_read(pod, _MetaPod).uid for pod in victims.pods or ()), victims.violations or 0)


def parse_binding_result(body: bytes) -> None:
    """Check the response to bind. ExtenderFailed with the extender's error; UnreadableResponse."""
    error = _read(body, _BindingResult).error
    if error:
        raise ExtenderFailed(error)


def _read(body: bytes | Raw, cls: type[S]) -> S:
    """Decode an object: keys match in any case, unknown keys are ignored, null is an empty object."""
    fields, values = _fields(cls), dict[str, Any]()
    for key, raw in (_decoded(body, dict[str, Raw] | None) or {}).items():
        field = fields.get(key.lower())
        if field is not None:
            values[field.name] = _decoded(raw, field.type)
    return cls(**values)


@cache
def _fields(cls: type[msgspec.Struct]) -> Mapping[str, msgspec.structs.FieldInfo]:
    """Return the fields of a type by their lower-case keys."""
    return {field.encode_name.lower(): field for field in msgspec.structs.fields(cls)}


def _decoded(body: bytes | Raw, kind: Any) -> Any:
    try:
        return _decoder(kind)(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise UnreadableResponse(str(problem)) from None


@cache
def _decoder(kind: Any) -> Callable[[bytes | Raw], Any]:
    return msgspec.json.Decoder(kind).decode
