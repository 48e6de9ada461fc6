"""Extender calls of the core, and extenders that bind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
import pytest

from pyscheduler.api import ApiWriter, Cycle, NodeObject, Pod, PodObject
from pyscheduler.api.preemption import Candidate
from pyscheduler.config.build import build_profiles
from pyscheduler.config.load import default
from pyscheduler.config.problems import ConfigError
from pyscheduler.config.types import ExtenderConfig, ExtenderTLS, KubeSchedulerConfiguration, ManagedResource
from pyscheduler.core.commands import Bind, CallExtenders
from pyscheduler.core.events import BindFailed, Bound, Event, ExtendersResponded
from pyscheduler.core.extenders.extender import (
    ExtenderCall,
    ExtenderCallFailed,
    ExtenderFilterResult,
    ExtenderPreemptionResult,
    ExtenderPrioritizeResult,
    ExtenderResult,
    FilterCall,
    PreemptCall,
    PrioritizeCall,
    Victims,
)
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.core.instrument import Instrument
from pyscheduler.kube.decode import ObjectDecoder, Refusals
from pyscheduler.kube.paths import NODES, PODS
from pyscheduler.shell.binding.cycle import run_binding
from pyscheduler.shell.extenders.extender_client import ExtenderBinder, ExtenderClients
from pyscheduler.shell.extenders.raw_objects import RawObjectCache, RawObjectCaches, required_scopes
from pyscheduler.testing import PodBuilder, node, pod
from tests.unit.kube.fake_api import event
from tests.unit.kube.virtual import VirtualClock

from .fake_extender import FakeExtender

SUBJECT = pod("a")
NOTHING = RawObjectCaches(RawObjectCache(), RawObjectCache())
ALL: dict[str, Any] = {
    "filter_verb": "filter",
    "prioritize_verb": "prioritize",
    "preempt_verb": "preempt",
    "bind_verb": "bind",
}


class ExtenderFixture:
    """Extender clients with raw objects of two nodes, and the emitted events."""

    def __init__(self, *configured: ExtenderConfig) -> None:
        self.raw_objects = RawObjectCaches(*(RawObjectCache(scope) for scope in required_scopes(configured)))
        self.extenders = ExtenderClients(
            KubeSchedulerConfiguration(extenders=configured), VirtualClock(), self.raw_objects
        )
        self.emitted: asyncio.Queue[Event] = asyncio.Queue()
        for name in ("n1", "n2"):
            self._show(NODES, "nodes", node(name).manifest)

    def _show(self, kind: Any, resource: str, manifest: Any) -> None:
        cache = self.raw_objects.of(kind)
        assert cache is not None
        decoder: ObjectDecoder[Any] = ObjectDecoder(resource, PodObject if kind is PODS else NodeObject, Refusals())
        cache.fill_from(decoder)
        decoder.line(event("ADDED", manifest))

    def show(self, built: PodBuilder) -> Pod:
        """Add a pod through the watch."""
        self._show(PODS, "pods", built.manifest)
        return built.build()

    async def call(self, subject: Pod, *calls: ExtenderCall) -> tuple[ExtenderResult, ...]:
        self.extenders.call_extenders(CallExtenders(7, subject, calls), self.emitted.put_nowait)
        async with asyncio.timeout(10):
            event_ = await self.emitted.get()
        assert isinstance(event_, ExtendersResponded)
        assert event_.id == 7
        return event_.results


@asynccontextmanager
async def extender_clients(*configured: ExtenderConfig) -> AsyncIterator[ExtenderFixture]:
    made = ExtenderFixture(*configured)
    yield made
    await made.extenders.close()


def sent(built: PodBuilder) -> dict[str, Any]:
    """Return the pod as it is sent."""
    return {key: value for key, value in built.manifest.items() if key not in ("kind", "apiVersion")}


# -- calls -------------------------------------------------------------------------------------------------------------


async def test_whole_nodes_are_sent_to_extenders_without_a_node_cache(extender: FakeExtender) -> None:
    extender.responses["filter"] = {"Nodes": {"items": [node("n2").manifest]}}
    async with extender_clients(ExtenderConfig(extender.url, **ALL)) as w:
        (known,) = w.extenders.known
        call = FilterCall(known, ("n1", "n2", "gone"))
        assert await w.call(w.show(SUBJECT), call) == (ExtenderFilterResult(("n2",)),)
    ((verb, body),) = extender.calls
    assert verb == "filter"
    assert body["Pod"] == sent(SUBJECT)
    assert [found["metadata"]["name"] for found in body["Nodes"]["items"]] == ["n1", "n2"]
    assert body["NodeNames"] is None


async def test_node_names_are_sent_to_node_cache_capable_extenders(extender: FakeExtender) -> None:
    extender.responses["filter"] = {"NodeNames": ["n2"]}
    extender.responses["prioritize"] = [{"Host": "n2", "Score": 3}]
    async with extender_clients(ExtenderConfig(extender.url, **ALL, node_cache_capable=True)) as w:
        (known,) = w.extenders.known
        subject = w.show(SUBJECT)
        assert len(w.raw_objects.nodes) == 0, "whole nodes are not sent"
        assert await w.call(subject, FilterCall(known, ("n1", "n2"))) == (ExtenderFilterResult(("n2",)),)
        assert await w.call(subject, PrioritizeCall(known, ("n1", "n2"))) == (ExtenderPrioritizeResult((("n2", 3),)),)
    body = {"Pod": sent(SUBJECT), "Nodes": None, "NodeNames": ["n1", "n2"]}
    assert extender.calls == [("filter", body), ("prioritize", body)]


@pytest.mark.parametrize("cached", [False, True], ids=["whole pods", "UIDs"])
async def test_victims_are_sent_whole_or_as_uids(extender: FakeExtender, cached: bool) -> None:
    extender.responses["preempt"] = {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "v"}], "NumPDBViolations": 1}}}
    async with extender_clients(ExtenderConfig(extender.url, **ALL, node_cache_capable=cached)) as w:
        (known,) = w.extenders.known
        running = pod("v").on("n1")
        victim = w.show(running)
        call = PreemptCall(known, {"n1": Candidate((victim,), 1)})
        assert await w.call(w.show(SUBJECT), call) == (ExtenderPreemptionResult({"n1": Victims(("v",), 1)}),)
    ((_, body),) = extender.calls
    whole = {"n1": {"Pods": [sent(running)], "NumPDBViolations": 1}}
    uids = {"n1": {"Pods": [{"UID": "v"}], "NumPDBViolations": 1}}
    assert body["NodeNameToVictims"] == (None if cached else whole)
    assert body["NodeNameToMetaVictims"] == (uids if cached else None)


async def test_running_pods_are_not_stored_if_no_extender_needs_them(extender: FakeExtender) -> None:
    async with extender_clients(ExtenderConfig(extender.url, **ALL, node_cache_capable=True)) as w:
        w.show(pod("v").on("n1"))
        w.show(SUBJECT)
        assert len(w.raw_objects.pods) == 1


async def test_extenders_are_called_concurrently_and_a_failure_keeps_its_position(extender: FakeExtender) -> None:
    extender.responses["prioritize"] = [{"Host": "n1", "Score": 1}]
    broken = ExtenderConfig(extender.url, prioritize_verb="broken", weight=1)
    async with extender_clients(broken, ExtenderConfig(extender.url, **ALL)) as w:
        calls = [PrioritizeCall(known, ("n1",)) for known in w.extenders.known]
        failed, ranked = await w.call(w.show(SUBJECT), *calls)
    assert failed == ExtenderCallFailed(f"failed broken with extender at URL {extender.url}/broken, code 404")
    assert ranked == ExtenderPrioritizeResult((("n1", 1),))


async def test_malformed_response_names_extender_and_verb(extender: FakeExtender) -> None:
    extender.responses["filter"] = b"<html>"
    async with extender_clients(ExtenderConfig(extender.url, **ALL)) as w:
        (answer,) = await w.call(w.show(SUBJECT), FilterCall(w.extenders.known[0], ("n1",)))
    assert isinstance(answer, ExtenderCallFailed)
    assert answer.message.startswith(
        f"failed filter with extender at URL {extender.url}/filter: cannot decode its response: "
    )


async def test_error_of_an_extender_is_returned_verbatim(extender: FakeExtender) -> None:
    extender.responses["filter"] = {"Error": "I am out of order"}
    async with extender_clients(ExtenderConfig(extender.url, **ALL)) as w:
        answers = await w.call(w.show(SUBJECT), FilterCall(w.extenders.known[0], ("n1",)))
    assert answers == (ExtenderCallFailed("I am out of order"),)


async def test_no_extender_is_called_for_a_deleted_pod(extender: FakeExtender) -> None:
    async with extender_clients(ExtenderConfig(extender.url, **ALL)) as w:
        answers = await w.call(SUBJECT.build(), FilterCall(w.extenders.known[0], ("n1",)))
    assert answers == (ExtenderCallFailed("pod default/a is gone"),)
    assert not extender.calls


async def test_unexpected_exception_is_returned_as_a_failure(extender: FakeExtender) -> None:
    async with extender_clients(ExtenderConfig(extender.url, **ALL)) as w:
        (answer,) = await w.call(w.show(SUBJECT), cast(Any, FilterCall(w.extenders.known[0], cast(Any, 7))))
    assert isinstance(answer, ExtenderCallFailed)
    assert "could not be called" in answer.message


async def test_stop_cancels_calls_in_flight(extender: FakeExtender) -> None:
    async with extender_clients(ExtenderConfig(extender.url, filter_verb="slow")) as w:
        command = CallExtenders(1, w.show(SUBJECT), (FilterCall(w.extenders.known[0], ("n1",)),))
        w.extenders.call_extenders(command, w.emitted.put_nowait)
        async with asyncio.timeout(10):
            await extender.called.wait()
            w.extenders.stop()
            await w.extenders.close()
        assert w.emitted.empty()


def test_invalid_tls_settings_raise_config_error() -> None:
    extenders = (
        ExtenderConfig("http://a"),
        ExtenderConfig("https://b", tls_config=ExtenderTLS(ca_file="/does/not/exist")),
    )
    with pytest.raises(ConfigError, match=r"^extenders\[1\]\.tlsConfig: the certificates cannot be used"):
        ExtenderClients(KubeSchedulerConfiguration(extenders=extenders), VirtualClock(), NOTHING)


# -- binding -----------------------------------------------------------------------------------------------------------


class Api:
    """Fake API server that records bindings."""

    def __init__(self) -> None:
        self.bound: list[str] = []

    async def bind(self, bound: Pod, node_name: str) -> None:
        self.bound.append(f"{bound.name} on {node_name}")


async def bind(configured: ExtenderConfig, built: PodBuilder = SUBJECT) -> tuple[Bound | BindFailed, list[str]]:
    """Run a binding cycle of the default profile; return its outcome and the bindings without the extender."""
    clock, handle, api = VirtualClock(), empty_handle(), Api()
    extenders = ExtenderClients(KubeSchedulerConfiguration(extenders=(configured,)), clock, NOTHING)
    (profile,) = extenders.with_binders(build_profiles(default(), handle), handle)
    subject = built.build()
    plan = msgspec.structs.replace(profile.plan, pre_bind=())
    command = Bind(subject, "n1", Cycle(0.0, profile.name, subject.uid), plan)
    outcome = await run_binding(command, cast(ApiWriter, api), clock, Instrument())
    await extenders.close()
    return outcome, api.bound


async def test_an_extender_binds_in_place_of_the_plugins(extender: FakeExtender) -> None:
    extender.responses["bind"] = {"Error": ""}
    outcome, bound = await bind(ExtenderConfig(extender.url, **ALL))
    assert isinstance(outcome, Bound)
    assert bound == []
    assert extender.calls == [
        ("bind", {"PodName": "a", "PodNamespace": "default", "PodUID": "a", "Node": "n1"}),
    ]


async def test_pods_without_managed_resources_are_bound_by_the_default_binder(extender: FakeExtender) -> None:
    configured = ExtenderConfig(extender.url, **ALL, managed_resources=(ManagedResource("example.com/fpga"),))
    outcome, bound = await bind(configured)
    assert isinstance(outcome, Bound)
    assert bound == ["a on n1"]
    assert not extender.calls


@pytest.mark.parametrize(
    ("response", "message"),
    [
        pytest.param({"Error": "no such device"}, "no such device", id="error in the response"),
        pytest.param(500, "failed bind with extender at URL {url}/bind, code 500", id="HTTP error"),
    ],
)
async def test_binding_fails_with_the_extenders_error(extender: FakeExtender, response: Any, message: str) -> None:
    extender.responses["bind"] = response
    outcome, bound = await bind(ExtenderConfig(extender.url, **ALL))
    assert isinstance(outcome, BindFailed)
    assert (outcome.message, outcome.rejected) == (message.format(url=extender.url), False)
    assert bound == []


@pytest.mark.parametrize("response", [500, {"Error": "no"}, b"<html>"])
async def test_plugins_bind_when_an_ignorable_extender_fails(extender: FakeExtender, response: Any) -> None:
    extender.responses["bind"] = response
    outcome, bound = await bind(ExtenderConfig(extender.url, **ALL, ignorable=True))
    assert isinstance(outcome, Bound)
    assert bound == ["a on n1"]


async def test_extender_binder_registers_no_events(extender: FakeExtender) -> None:
    configuration = KubeSchedulerConfiguration(extenders=(ExtenderConfig(extender.url, **ALL),))
    extenders = ExtenderClients(configuration, VirtualClock(), NOTHING)
    (profile,) = extenders.with_binders(build_profiles(default(), empty_handle()), empty_handle())
    binder = profile.plan.bind[0]
    assert isinstance(binder, ExtenderBinder)
    assert binder.events_to_register() == ()
    assert [plugin.name for plugin in profile.plan.bind] == ["Extender", "DefaultBinder"]
