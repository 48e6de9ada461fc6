"""Expiry of Events after one hour, as in kube-apiserver, so that a server that runs for days stays small."""

from __future__ import annotations

from pyscheduler.embedded.objects import dig, seconds
from pyscheduler.embedded.server_state import ServerState

EVENT_SECONDS = 3600.0


def delete_expired_events(state: ServerState) -> int:
    """Remove the Events last written more than an hour ago; return their number."""
    oldest = state.now() - EVENT_SECONDS
    old = [version.key for version in state.store.scan("events") if _last_written(version.object) < oldest]
    for key in old:
        state.store.remove("events", key)
    return len(old)


def _last_written(event: dict[str, object]) -> float:
    times = (
        dig(event, "series", "lastObservedTime"),
        dig(event, "lastTimestamp"),
        dig(event, "metadata", "creationTimestamp"),
    )
    return max((found for found in map(seconds, times) if found is not None), default=0.0)
