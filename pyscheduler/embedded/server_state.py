"""Dependencies of the verbs: the store, the registry, the clock and the name generators. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pyscheduler.embedded.builtin import builtin_resources
from pyscheduler.embedded.crd import CustomResources
from pyscheduler.embedded.disruption import DisruptionController
from pyscheduler.embedded.gc import GarbageCollector
from pyscheduler.embedded.namespaces import NamespaceController
from pyscheduler.embedded.objects import timestamp
from pyscheduler.embedded.pod_group_protection import PodGroupProtection
from pyscheduler.embedded.quota.controller import QuotaController
from pyscheduler.embedded.resources import ResourceRegistry
from pyscheduler.embedded.store import Store


@dataclass
class ServerState:
    """Objects of the cluster, and the sources of time and randomness of the verbs."""

    now: Callable[[], float]
    """Seconds since 1970."""
    new_uid: Callable[[], str]
    new_suffix: Callable[[], str]
    """Five characters for generateName."""
    store: Store = field(default_factory=Store)
    registry: ResourceRegistry = field(default_factory=lambda: ResourceRegistry(builtin_resources()))

    def __post_init__(self) -> None:
        self.custom = CustomResources(self.store, self.registry)
        self.garbage = GarbageCollector(self.store)
        self.namespaces = NamespaceController(self.store)
        self.pod_groups = PodGroupProtection(self.store)
        self.quotas = QuotaController(self.store)
        self.budgets = DisruptionController(self.store, self.garbage.living)

    def timestamp(self) -> str:
        """Return the current time as a metav1.Time."""
        return timestamp(self.now())


@dataclass(frozen=True)
class WriteOptions:
    """The query parameters of a write."""

    dry_run: bool = False
    manager: str = ""
    """fieldManager; "" if the request has none, which turns field ownership tracking off."""
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
