"""Identity of the backend that a state belongs to: it is written at the first use and compared at each later one.

Otherwise a forgotten `--namespace`, or another kubeconfig, would run all tasks of the state a second time.
"""

from __future__ import annotations

import msgspec


class StateIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Cluster, namespace and name of a backend. A uid that RBAC did not let it read is ""."""

    namespace: str
    backend: str
    cluster_uid: str = ""
    """Uid of the namespace kube-system, which exists as long as the cluster."""
    namespace_uid: str = ""
    state: str = ""
    """Random id of the state, the holder of the backend's Lease: the next process on the same state need not wait."""

    def difference(self, other: StateIdentity) -> str:
        """Return what differs from `other`, "" if nothing does; uids are compared where both were read."""
        if self.namespace != other.namespace:
            return f"namespace {self.namespace!r}, not {other.namespace!r}"
        if self.backend != other.backend:
            return f"the name {self.backend!r}, not {other.backend!r}"
        for what, uid, other_uid in self._uids(other):
            if uid and other_uid:
                other_one = f"another cluster, where {what} has the uid {uid}, not {other_uid}"
                return other_one if uid != other_uid else ""
        return ""

    def known_with(self, other: StateIdentity) -> StateIdentity:
        """Return this identity with the uids that only `other` has."""
        return msgspec.structs.replace(
            self,
            cluster_uid=self.cluster_uid or other.cluster_uid,
            namespace_uid=self.namespace_uid or other.namespace_uid,
        )

    def _uids(self, other: StateIdentity) -> tuple[tuple[str, str, str], ...]:
        namespace = f"namespace {self.namespace}"
        return (
            ("namespace kube-system", self.cluster_uid, other.cluster_uid),
            (namespace, self.namespace_uid, other.namespace_uid),
        )
