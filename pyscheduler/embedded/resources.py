"""Descriptions of the served kinds: one `Resource` per kind and version, and the `ResourceRegistry` that looks them up.

The server has no code paths per kind; behaviour that differs by kind belongs to its Resource (defaults, checks,
columns, field selectors), and a CustomResourceDefinition adds one more Resource.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from pyscheduler.embedded.objects import Json, Key
from pyscheduler.embedded.status import Cause
from pyscheduler.embedded.store_index import Index

if TYPE_CHECKING:
    from pyscheduler.embedded.history import Version
    from pyscheduler.embedded.schema.nodes import Node

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
BASE_FIELDS = {"metadata.name": "metadata.name", "metadata.namespace": "metadata.namespace"}


IndexT = TypeVar("IndexT", bound=Index)


class Lookup(Protocol):
    """Read access of admission to stored objects."""

    def get(self, bucket: str, key: Key) -> Version | None:
        """Return the current version of an object, None if it does not exist."""

    def scan(self, bucket: str, namespace: str = "") -> Iterator[Version]:
        """Yield the current versions of all objects of one namespace, or of all namespaces."""

    def index(self, kind: type[IndexT]) -> IndexT:
        """Return the index of a class, which follows every change of its bucket."""


Admit = Callable[[Json, Lookup], None]
"""Set defaults in a new object, in place. ApiError if the request is rejected."""
AdmitUpdate = Callable[[Json, Json, Lookup], None]
"""Complete a new state from the old one, in place: (new, old, lookup). ApiError if the request is rejected."""
Check = Callable[[Json], list[Cause]]
CheckChange = Callable[[Json, Json], list[Cause]]
"""Return the invalid changes between (new, old)."""


def _no_defaults(obj: Json, lookup: Lookup) -> None:
    pass


def _no_update(new: Json, old: Json, lookup: Lookup) -> None:
    pass


@dataclass(frozen=True)
class Rules:
    """Defaulting and validation of one kind."""

    default: Admit = _no_defaults
    """Defaults set on every write."""
    on_create: Admit = _no_defaults
    """Defaults set on a new object only."""
    on_update: AdmitUpdate = _no_update
    """Changes of a new state before its defaults."""
    on_status: Admit = _no_defaults
    """Defaults set on writes of the status subresource."""
    check: Check = lambda _obj: []
    check_change: CheckChange = lambda _new, _old: []
    check_status_change: CheckChange = lambda _new, _old: []
    """`check_change` for writes of the status subresource."""
    name_form: str = "subdomain"
    """Form of valid names: subdomain (RFC 1123), label, path (anything without slashes)."""


class ScalePaths(NamedTuple):
    """Paths of the scale subresource in the object; "" for a selector that is a label selector in the spec."""

    replicas: str
    status_replicas: str
    selector: str = ""


_WORKLOAD_SCALE = ScalePaths("spec.replicas", "status.replicas")


@dataclass(frozen=True)
class Resource:
    """One resource of one API version."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()
    generation: bool = False
    """True if metadata.generation counts changes of the desired state."""
    spec_parts: tuple[str, ...] = ("spec",)
    """Top-level parts that count in metadata.generation; empty: all but metadata and status."""
    unconditional_update: bool = True
    create_on_update: bool = False
    starts_with_status: bool = False
    """True if a new object may set its status."""
    returns_deleted: bool = False
    """True if DELETE returns the object instead of a Status."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """Field selectors beyond metadata.name and metadata.namespace: label to path in the stored object."""
    rules: Rules = Rules()
    schema: Node | None = None
    """Schema of a custom resource; those of built-in kinds are published."""
    openapi: Mapping[str, Any] | None = None
    """OpenAPI v3 schema from which `schema` was read."""
    scale: ScalePaths = _WORKLOAD_SCALE
    bucket: str = ""
    """Name of the store's bucket; all versions of a kind share one."""
    singular: str = ""
    to_stored: Callable[[Json], Json] | None = None
    from_stored: Callable[[Json], Json] | None = None
    printer_columns: tuple[Mapping[str, Any], ...] = ()
    custom: bool = False
    verbs: tuple[str, ...] = ALL_VERBS

    def __post_init__(self) -> None:
        object.__setattr__(self, "bucket", self.bucket or self.group_resource)
        object.__setattr__(self, "singular", self.singular or self.kind.lower())
        object.__setattr__(self, "fields", {**BASE_FIELDS, **self.fields})

    @property
    def api_version(self) -> str:
        """`group/version`, or the bare version for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """`plural.group`, as in messages."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def has_status(self) -> bool:
        """True if status is written through its subresource only."""
        return "status" in self.subresources


class ResourceRegistry:
    """All served resources, in discovery order."""

    def __init__(self, resources: Iterable[Resource] = ()) -> None:
        self._by_path: dict[tuple[str, str, str], Resource] = {}
        self._by_bucket: dict[str, Resource] = {}
        for resource in resources:
            self.add(resource)

    def add(self, resource: Resource) -> None:
        """Serve `resource`, replacing any at the same path."""
        self._by_path[resource.group, resource.version, resource.plural] = resource
        self._by_bucket.setdefault(resource.bucket, resource)
        if resource.to_stored is None:
            self._by_bucket[resource.bucket] = resource

    def drop(self, group: str, plural: str) -> None:
        """Stop serving all versions of a resource."""
        for path in [p for p in self._by_path if (p[0], p[2]) == (group, plural)]:
            self._by_bucket.pop(self._by_path.pop(path).bucket, None)

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """Return the resource at /apis/group/version/plural (/api for the group ""), None if it is not served."""
        return self._by_path.get((group, version, plural))

    def stored_in(self, bucket: str) -> Resource:
        """Return the resource with the API version in which the objects of `bucket` are stored."""
        return self._by_bucket[bucket]

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource with this apiVersion and kind, as in an ownerReference, None if it is not served."""
        return next((r for r in self._by_path.values() if r.kind == kind and r.api_version == api_version), None)

    def groups(self) -> dict[str, dict[str, list[Resource]]]:
        """Return the resources by group and version."""
        tree: dict[str, dict[str, list[Resource]]] = {}
        for resource in self._by_path.values():
            tree.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
        return tree

    def __iter__(self) -> Iterator[Resource]:
        return iter(tuple(self._by_path.values()))
