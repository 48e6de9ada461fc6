"""Opening of a state for one backend: the check that it belongs to it, and the backend's Lease.

The Lease `pyscheduler-tasks-NAME` excludes a second backend of the same name in the namespace, with whatever state:
each would take the other's pods for orphans, and both would run the same task. Its holder is the state at its place,
not the process: stores admit one process each, so the next process on a state takes the Lease over at once. A copy of
the state has another place and waits until the Lease has expired.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Callable
from random import Random
from typing import Final

import msgspec

from pyscheduler.api import ApiError
from pyscheduler.backend.backoff import ExponentialBackoff
from pyscheduler.backend.client import PodsApi
from pyscheduler.backend.context import BackendContext
from pyscheduler.backend.errors import is_retriable, retry_after
from pyscheduler.backend.state import SavedState, StateProblem, StateStore
from pyscheduler.backend.state.identity import StateIdentity
from pyscheduler.backend.state.lease import StateLease

UNAUTHORIZED_SECONDS: Final = 30.0
"""Time after which rejected credentials end the start: an API server rejects all until its authenticators are ready."""
_UNAUTHORIZED: Final = 401
_PART: Final = "cluster"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_log = logging.getLogger(__name__)


async def bind_state(
    store: StateStore, saved: SavedState, client: PodsApi, backend: str, context: BackendContext
) -> StateIdentity:
    """Return the identity of the state, written to it if this is its first use. StateProblem if it has another one.

    Nothing may be done before the cluster is known: its identity is read until it responds. ApiError if it rejects the
    credentials for `UNAUTHORIZED_SECONDS`.
    """
    cluster_uid, namespace_uid = await _uids(client, context)
    current = StateIdentity(
        namespace=client.namespace, backend=backend, cluster_uid=cluster_uid, namespace_uid=namespace_uid
    )
    if saved.identity is None:
        bound = _with_id(current, context.rng)
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


async def acquire_lease(client: PodsApi, identity: StateIdentity, place: str, wall: Callable[[], float]) -> StateLease:
    """Acquire the Lease of the backend's name. StateInUse if a backend with another state has it; StateProblem."""
    lease = StateLease(client, lease_name(identity.backend), wall, identity=lease_holder(identity, place))
    await lease.acquire(renew=False)
    return lease


def lease_name(backend: str) -> str:
    """Return the name of a backend's Lease; label values may have capitals and underscores."""
    if _NAME.fullmatch(backend):
        return f"pyscheduler-tasks-{backend}"
    return f"pyscheduler-tasks-{hashlib.sha256(backend.encode()).hexdigest()[:10]}"


def lease_holder(identity: StateIdentity, place: str) -> str:
    """Return the holder of the Lease while a process runs the state that is kept at this place."""
    return f"{identity.state}-{hashlib.sha256(place.encode()).hexdigest()[:10]}" if place else identity.state


def _with_id(identity: StateIdentity, rng: Random) -> StateIdentity:
    return msgspec.structs.replace(identity, state=f"state-{rng.getrandbits(64):016x}")


async def _uids(client: PodsApi, context: BackendContext) -> tuple[str, str]:
    """Return the uids of kube-system and of the client's namespace, "" for one that RBAC forbids. ApiError."""
    backoff, loop = ExponentialBackoff(context.rng), asyncio.get_running_loop()
    began = loop.time()
    while True:
        try:
            uids = await client.namespace_uid("kube-system"), await client.namespace_uid(client.namespace)
        except ApiError as problem:
            if not is_retriable(problem):
                raise
            seconds = loop.time() - began
            if problem.status == _UNAUTHORIZED and seconds >= UNAUTHORIZED_SECONDS:
                text = f"the API server has rejected the credentials for {seconds:.0f} s: {problem}"
                raise ApiError(problem.status, problem.reason, text) from None
            pause = backoff.next_delay(retry_after(problem))
            _log.warning("reading the identity of the cluster failed, retrying in %.1f s: %s", pause, problem)
            context.problems.report(_PART, f"it cannot be identified: {problem}")
            await asyncio.sleep(pause)
        else:
            context.problems.clear(_PART)
            return uids
