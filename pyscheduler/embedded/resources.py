"""What a kind is, as data: one `Resource` per served kind and version, and the `Registry` that finds them.

Nothing else in the server names kinds in code paths; behaviour that differs by kind hangs on the Resource (defaults,
checks, columns, field selectors), and a CustomResourceDefinition is served by adding one more Resource.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pyscheduler.embedded.objects import Json, Key
from pyscheduler.embedded.status import Cause

if TYPE_CHECKING:
    from pyscheduler.embedded.history import Version
    from pyscheduler.embedded.schema.nodes import Node

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
BASE_FIELDS = {"metadata.name": "metadata.name", "metadata.namespace": "metadata.namespace"}


class Lookup(Protocol):
    """What admission may ask of the cluster."""

    def get(self, bucket: str, key: Key) -> Version | None:
        """The present version of an object."""

    def scan(self, bucket: str, namespace: str = "") -> Iterator[Version]:
        """All present versions, of one namespace or of all."""


Admit = Callable[[Json, Lookup], None]
"""Fills in defaults in a fresh object, in place. ApiError where the request is refused."""
Check = Callable[[Json], list[Cause]]
CheckChange = Callable[[Json, Json], list[Cause]]
"""Asks of (new, old) what is wrong with the change."""


def _nothing(obj: Json, lookup: Lookup) -> None:
    pass


@dataclass(frozen=True)
class Rules:
    """How objects of a kind are admitted."""

    default: Admit = _nothing
    """Defaults that hold for every write."""
    on_create: Admit = _nothing
    """What admission adds to a new object only."""
    on_status: Admit = _nothing
    """Defaults that hold for writes of the status subresource."""
    check: Check = lambda _obj: []
    check_change: CheckChange = lambda _new, _old: []
    check_status_change: CheckChange = lambda _new, _old: []
    """As `check_change`, for writes of the status subresource."""
    name_form: str = "subdomain"
    """Which names are valid: subdomain (RFC 1123), label, path (anything without slashes)."""


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
    """Whether metadata.generation counts changes of the desired state."""
    spec_parts: tuple[str, ...] = ("spec",)
    """The top-level parts whose change counts as a new generation; empty for all but metadata and status."""
    unconditional_update: bool = True
    create_on_update: bool = False
    starts_with_status: bool = False
    """Whether a new object may bring its status along."""
    returns_deleted: bool = False
    """Whether DELETE answers with the object instead of a Status."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """Field selectors beyond metadata.name and metadata.namespace: label to path in the stored object."""
    rules: Rules = Rules()
    model: str = ""
    """Name of the OpenAPI model that describes the kind, "" where there is none."""
    schema: Node | None = None
    """A schema of its own (custom resources), used instead of the model."""
    bucket: str = ""
    """Where its objects are stored; versions of one kind share a bucket."""
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
        """`plural.group`, as messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def has_status(self) -> bool:
        """Whether status is written through its own subresource only."""
        return "status" in self.subresources


class Registry:
    """All resources that are served, in the order in which discovery lists them."""

    def __init__(self, resources: Iterable[Resource] = ()) -> None:
        self._by_path: dict[tuple[str, str, str], Resource] = {}
        self._by_bucket: dict[str, Resource] = {}
        for resource in resources:
            self.add(resource)

    def add(self, resource: Resource) -> None:
        """Serve `resource`; a former one at the same path is replaced."""
        self._by_path[resource.group, resource.version, resource.plural] = resource
        self._by_bucket.setdefault(resource.bucket, resource)
        if resource.to_stored is None:
            self._by_bucket[resource.bucket] = resource

    def drop(self, group: str, plural: str) -> None:
        """Stop serving a resource in all its versions."""
        for path in [p for p in self._by_path if (p[0], p[2]) == (group, plural)]:
            self._by_bucket.pop(self._by_path.pop(path).bucket, None)

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource at /apis/group/version/plural (/api for the group "")."""
        return self._by_path.get((group, version, plural))

    def stored_in(self, bucket: str) -> Resource:
        """The resource whose form the objects of `bucket` are stored in."""
        return self._by_bucket[bucket]

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource of a kind, as an ownerReference names it."""
        return next((r for r in self._by_path.values() if r.kind == kind and r.api_version == api_version), None)

    def groups(self) -> dict[str, dict[str, list[Resource]]]:
        """Group to version to resources."""
        tree: dict[str, dict[str, list[Resource]]] = {}
        for resource in self._by_path.values():
            tree.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
        return tree

    def __iter__(self) -> Iterator[Resource]:
        return iter(tuple(self._by_path.values()))
