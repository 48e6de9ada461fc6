"""Everything a verb works on: the store, the kinds, the clock and the source of names. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pyscheduler.embedded.builtin import builtin_resources
from pyscheduler.embedded.crd import CustomResources
from pyscheduler.embedded.disruption import DisruptionController
from pyscheduler.embedded.gc import GarbageCollector
from pyscheduler.embedded.namespaces import NamespaceController
from pyscheduler.embedded.objects import timestamp
from pyscheduler.embedded.resources import Registry
from pyscheduler.embedded.store import Store


@dataclass
class ServerState:
    """The cluster's objects and the sources of time and chance that verbs may use."""

    now: Callable[[], float]
    """Seconds since 1970."""
    new_uid: Callable[[], str]
    new_suffix: Callable[[], str]
    """Five characters for generateName."""
    store: Store = field(default_factory=Store)
    registry: Registry = field(default_factory=lambda: Registry(builtin_resources()))

    def __post_init__(self) -> None:
        self.custom = CustomResources(self.store, self.registry)
        self.garbage = GarbageCollector(self.store)
        self.namespaces = NamespaceController(self.store)
        self.budgets = DisruptionController(self.store, self.garbage.living)

    def timestamp(self) -> str:
        """Now, as objects write it."""
        return timestamp(self.now())


@dataclass(frozen=True)
class WriteOptions:
    """The query parameters of a write."""

    dry_run: bool = False
    manager: str = ""
    """fieldManager; "" where the client named none, and then field ownership is not tracked."""
    force: bool = False
    validation: str = "Ignore"
    """fieldValidation: Strict, Warn or Ignore."""
    warn: Callable[[str], None] = lambda _text: None


@dataclass(frozen=True)
class DeleteOptions:
    """The body and query parameters of a delete."""

    dry_run: bool = False
    grace_seconds: int | None = None
    propagation: str = "Background"
    uid: str = ""
    resource_version: str = ""
