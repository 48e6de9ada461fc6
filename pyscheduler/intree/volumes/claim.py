"""Claims to be bound with a pod. Most claims are copies of a few templates, so each distinct spec is parsed once."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from pyscheduler.api import Selector
from pyscheduler.api.match import SelectorError
from pyscheduler.intree.volumes.objects import ClaimFields, Object, field, items
from pyscheduler.intree.volumes.parsing import Amount, amount, read_label_selector, volume_kind

_MAX_CACHED = 1024
"""Maximum number of cached requests."""


class ClaimRequest(msgspec.Struct, frozen=True, eq=False):
    """The volume that claims of one template request. Interned by `ClaimRequests`."""

    storage_class: str
    size: Amount
    states_size: bool
    kind: tuple[str, str]
    """volumeMode and volumeAttributesClassName, which must equal those of the volume."""
    access_modes: frozenset[str]
    selector: Selector | None
    selector_problem: str
    """Error text of an invalid selector, "" if it is valid."""


class DelayedClaim(NamedTuple):
    """A claim without a volume, which is bound once a node is selected."""

    source: Object
    namespace: str
    name: str
    selected_node: str | None
    """Node that was selected for the claim's provisioning; None if none was yet."""
    request: ClaimRequest

    @property
    def key(self) -> str:
        """`namespace/name`, as in messages."""
        return f"{self.namespace}/{self.name}"


class ClaimRequests:
    """Requests by storage class and spec."""

    def __init__(self) -> None:
        self._requests: dict[tuple[str, bytes], ClaimRequest] = {}
        self._pack = msgspec.msgpack.Encoder().encode

    def delayed_claim(self, claim: ClaimFields) -> DelayedClaim:
        """Return a claim that is bound with its pod."""
        source, storage_class = claim.source, claim.storage_class
        key = (storage_class, self._pack(source.get("spec")))
        request = self._requests.get(key)
        if request is None:
            if len(self._requests) >= _MAX_CACHED:
                self._requests.clear()
            request = self._requests[key] = _read_request(source, storage_class)
        return DelayedClaim(source, claim.namespace, claim.name, claim.selected_node, request)


def _read_request(source: Object, storage_class: str) -> ClaimRequest:
    size = field(source, "spec", "resources", "requests", "storage")
    selector, problem = None, ""
    try:
        selector = read_label_selector(field(source, "spec", "selector"))
    except SelectorError as error:
        problem = str(error)
    modes = frozenset(map(str, items(source, "spec", "accessModes")))
    return ClaimRequest(storage_class, amount(size), size is not None, volume_kind(source), modes, selector, problem)
