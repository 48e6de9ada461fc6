"""Opening of a state for one backend: the check that it belongs to it, and the backend's Lease.

The Lease `pyscheduler-tasks-NAME` excludes a second backend of the same name in the namespace, with whatever state:
each would take the other's pods for orphans, and both would run the same task. Its holder is the id of the state, not
of the process: stores admit one process each, so the next process on a state takes the Lease over at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import re
from collections.abc import Callable

import msgspec

from pyscheduler.api import ApiError
from pyscheduler.backend.backoff import ExponentialBackoff
from pyscheduler.backend.client import PodsApi
from pyscheduler.backend.errors import is_retriable, retry_after
from pyscheduler.backend.state import SavedState, StateProblem, StateStore
from pyscheduler.backend.state.identity import StateIdentity
from pyscheduler.backend.state.lease import StateLease

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_log = logging.getLogger(__name__)


async def bind_state(
    store: StateStore, saved: SavedState, client: PodsApi, backend: str, rng: random.Random
) -> StateIdentity:
    """Return the identity of the state, written to it if this is its first use. StateProblem if it has another one.

    Nothing may be done before the cluster is known: it is asked again until it responds.
    """
    cluster_uid, namespace_uid = await _uids(client, rng)
    current = StateIdentity(
        namespace=client.namespace, backend=backend, cluster_uid=cluster_uid, namespace_uid=namespace_uid
    )
    if saved.identity is None:
        bound = _with_id(current, rng)
    else:
        different = current.difference(saved.identity)
        if different:
            raise StateProblem(f"{store} is the state of another backend: this one has {different}; use another state")
        bound = saved.identity.known_with(current)
    if bound != saved.identity:
        await store.bind(bound)
    if not (bound.cluster_uid or bound.namespace_uid):
        _log.warning("the cluster of %s cannot be checked: RBAC forbids reading namespace %s", store, client.namespace)
    return bound


async def acquire_lease(client: PodsApi, identity: StateIdentity, wall: Callable[[], float]) -> StateLease:
    """Acquire the Lease of the backend's name. StateInUse if a backend with another state has it; StateProblem."""
    lease = StateLease(client, lease_name(identity.backend), wall, identity=identity.state)
    await lease.acquire(renew=False)
    return lease


def lease_name(backend: str) -> str:
    """Return the name of a backend's Lease; label values may have capitals and underscores."""
    if _NAME.fullmatch(backend):
        return f"pyscheduler-tasks-{backend}"
    return f"pyscheduler-tasks-{hashlib.sha256(backend.encode()).hexdigest()[:10]}"


def _with_id(identity: StateIdentity, rng: random.Random) -> StateIdentity:
    return msgspec.structs.replace(identity, state=f"state-{rng.getrandbits(64):016x}")


async def _uids(client: PodsApi, rng: random.Random) -> tuple[str, str]:
    """Return the uids of kube-system and of the client's namespace, "" for one that RBAC forbids. ApiError."""
    backoff = ExponentialBackoff(rng)
    while True:
        try:
            return await client.namespace_uid("kube-system"), await client.namespace_uid(client.namespace)
        except ApiError as problem:
            if not is_retriable(problem):
                raise
            pause = backoff.next_delay(retry_after(problem))
            _log.warning("reading the identity of the cluster failed, retrying in %.1f s: %s", pause, problem)
            await asyncio.sleep(pause)
