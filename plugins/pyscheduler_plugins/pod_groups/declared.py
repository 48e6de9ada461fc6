"""Common parts of the readers of PodGroup objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec

from pyscheduler.api import COMPOSITE_API, Pod, PodGroup, PodGroupKey, Rejection, ResourceKind
from pyscheduler.api.objects import ApiObject, LabelSelector
from pyscheduler_plugins.pod_groups.hyper_nodes import NetworkTopology

Count = Annotated[int, msgspec.Meta(ge=1)]
Object = Mapping[str, Any]
T = TypeVar("T")


class _MatchPolicy(ApiObject, frozen=True):
    label_key: str


class SubGroupPolicy(ApiObject, frozen=True):
    """PodGroup.spec.subGroupPolicy[]."""

    name: Annotated[str, msgspec.Meta(pattern="^[^/]+$")]
    sub_group_size: Count | None = None
    min_sub_groups: Annotated[int, msgspec.Meta(ge=0)] | None = None
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] | None = None
    match_policy: tuple[_MatchPolicy, ...] | None = None
    """`matchLabelKeys` of Volcano 1.13."""
    network_topology: NetworkTopology | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """Labels of which each combination of values is a subgroup."""
        return self.match_label_keys or tuple(each.label_key for each in self.match_policy or ())


class Declared(NamedTuple):
    """Requirements in a PodGroup object, without what other objects decide."""

    group: PodGroup
    priority_class: str = ""
    """Name of the PriorityClass that gives `group` its priority; "" if `group` has all."""
    network_topology: NetworkTopology | None = None
    """HyperNodes among which the group is placed, which are other objects too."""
    sub_group_policies: tuple[SubGroupPolicy, ...] = ()
    """Policies that divide the pods of the group."""


class PodGroupApi(NamedTuple):
    """API in which users declare pod groups."""

    group: str
    """API group."""
    kinds: Sequence[ResourceKind]
    """Versions of its PodGroup, the newest first."""
    name_of: Callable[[Pod], str]
    """Returns the name of the PodGroup that a pod refers to, "" if there is none."""
    read: Callable[[Object], Declared | Rejection]
    """Returns the requirements in a PodGroup, or the reason why they cannot be met."""
    condition_types: Mapping[str, str] = MappingProxyType({})
    """Type of the condition that has whether the group is scheduled, by version; Scheduled in others."""
    failure_condition_type: str = ""
    """Type of the condition that is True if the group cannot be scheduled; "" if the other one is False then."""


class Metadata(ApiObject, frozen=True):
    """Fields of metadata that a pod group takes over."""

    name: str
    namespace: str = ""
    uid: str | None = None
    creation_timestamp: str | None = None

    def key(self, api: str) -> PodGroupKey:
        """Return the key of the group in an API group."""
        return PodGroupKey(self.namespace, self.name, api)


def decode(obj: Object, kind: type[T], api: str) -> T | Rejection:
    """Return the object as a struct, or a Rejection that names the object and the invalid field."""
    try:
        return msgspec.convert(obj, kind)
    except msgspec.ValidationError as error:
        meta = obj.get("metadata") or {}
        key = PodGroupKey(str(meta.get("namespace", "")), str(meta.get("name", "")), api)
        return invalid(key, *_field_error(error))


def _field_error(error: msgspec.ValidationError) -> tuple[str, str]:
    """Return the field and the reason of a decoding error, in the words of the API server."""
    why, _, path = str(error).replace("`", "").partition(" - at $.")
    text, _, missing = why.partition("missing required field ")
    if missing:
        return ".".join(filter(None, (path, missing))), "Required value"
    return path, f"Invalid value: {text[:1].lower()}{text[1:]}"


def invalid(key: PodGroupKey, field: str, why: str) -> Rejection:
    """Return the Rejection of a group with an invalid or unsupported field."""
    return Rejection(f"{described(key)}: {field}: {why}", resolvable=False)


def is_of_controller(key: PodGroupKey) -> bool:
    """Return True for the pods of a controller, which only annotations declare: the API of the key is its UID then."""
    return "/" in key.name  # not in the name of an object


def described(key: PodGroupKey) -> str:
    """Return the key and API group of a pod group for messages."""
    if key.api == COMPOSITE_API:
        api, _, kind = COMPOSITE_API.partition("/")
        return f"{kind} {key} ({api})"
    return f"PodGroup {key} ({key.api})" if key.api and not is_of_controller(key) else f"pod group {key} of annotations"
