"""New objects of kinds without a controller have an Event, whatever their name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyscheduler.embedded.uncontrolled import UncontrolledKinds

from .builders import Cluster, Json

SIGNING = "certificatesigningrequests.certificates.k8s.io"
PEM = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0="
REQUEST = {"request": PEM, "signerName": "example.com/x", "usages": ["client auth"]}


async def events_about(cluster: Cluster, name: str) -> tuple[list[Json], list[Any]]:
    """Return the Events after the creation of a request of this name, and the errors in the event loop."""
    errors: list[Any] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: errors.append(context))
    uncontrolled = UncontrolledKinds(cluster.api)
    uncontrolled.start()
    cluster.create(SIGNING, {"metadata": {"name": name}, "spec": {**REQUEST}})
    await asyncio.sleep(0)
    uncontrolled.stop()
    return [version.object for version in cluster.api.state.store.scan("events")], errors


@pytest.mark.parametrize("name", ["a", "x" * 250, "node:A"], ids=["short", "long", "no name for an Event"])
async def test_object_has_an_event(name: str) -> None:
    (event,), errors = await events_about(Cluster(), name)
    assert (event["involvedObject"]["name"], event["reason"], errors) == (name, "NoController", [])


async def test_rejected_event_is_dropped() -> None:
    cluster = Cluster()
    cluster.create("resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"count/events": "0"}}})
    assert await events_about(cluster, "a") == ([], [])
