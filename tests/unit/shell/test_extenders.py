"""From what the machine wants to know to calls and back, and extenders that bind."""

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
from pyscheduler.config.types import Extender, ExtenderTLS, KubeSchedulerConfiguration, ManagedResource
from pyscheduler.core.commands import Bind, CallExtenders
from pyscheduler.core.events import BindFailed, Bound, Event, ExtendersResponded
from pyscheduler.core.extender import (
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
from pyscheduler.core.framework.handle import CoreHandle
from pyscheduler.core.instrument import Instrument
from pyscheduler.shell.binding.cycle import run_binding
from pyscheduler.shell.extenders.extender_client import ExtenderBinder, ExtenderClients
from pyscheduler.shell.extenders.raw_objects import RawObjectCache, RawObjectCaches, required_scopes
from pyscheduler.shell.kube.decode import Refusals
from pyscheduler.shell.kube.paths import NODES, PODS
from pyscheduler.testing import PodBuilder, node, pod

from .fake_api import event
from .fake_extender import FakeExtender
from .virtual import VirtualClock

SUBJECT = pod("a")
NOTHING = RawObjectCaches(RawObjectCache(), RawObjectCache())
ALL: dict[str, Any] = {
    "filter_verb": "filter",
    "prioritize_verb": "prioritize",
    "preempt_verb": "preempt",
    "bind_verb": "bind",
}


class ExtenderFixture:
    """Extenders that know a pod and a few nodes, and what they have told."""

    def __init__(self, *configured: Extender) -> None:
        self.kept = RawObjectCaches(*(RawObjectCache(keep) for keep in required_scopes(configured)))
        self.extenders = ExtenderClients(KubeSchedulerConfiguration(extenders=configured), VirtualClock(), self.kept)
        self.told: asyncio.Queue[Event] = asyncio.Queue()
        self.extenders.emit = self.told.put_nowait
        for name in ("n1", "n2"):
            self._show(NODES, "nodes", node(name).manifest)

    def _show(self, kind: Any, resource: str, manifest: Any) -> None:
        kept = self.kept.of(kind)
        assert kept is not None
        kept.decoder(resource, PodObject if kind is PODS else NodeObject, Refusals()).line(event("ADDED", manifest))

    def show(self, built: PodBuilder) -> Pod:
        """The watch brings a pod."""
        self._show(PODS, "pods", built.manifest)
        return built.build()

    async def ask(self, subject: Pod, *calls: ExtenderCall) -> tuple[ExtenderResult, ...]:
        self.extenders.consult(CallExtenders(7, subject, calls))
        async with asyncio.timeout(10):
            told = await self.told.get()
        assert isinstance(told, ExtendersResponded)
        assert told.id == 7
        return told.answers


@asynccontextmanager
async def world(*configured: Extender) -> AsyncIterator[ExtenderFixture]:
    made = ExtenderFixture(*configured)
    yield made
    await made.extenders.close()


def sent(built: PodBuilder) -> dict[str, Any]:
    """The pod as it is sent."""
    return {key: value for key, value in built.manifest.items() if key not in ("kind", "apiVersion")}


# -- asking ------------------------------------------------------------------------------------------------------------


async def test_whole_nodes_are_sent_to_extenders_that_do_not_know_them(extender: FakeExtender) -> None:
    extender.says["filter"] = {"Nodes": {"items": [node("n2").manifest]}}
    async with world(Extender(extender.url, **ALL)) as w:
        (known,) = w.extenders.known
        call = FilterCall(known, ("n1", "n2", "gone"))
        assert await w.ask(w.show(SUBJECT), call) == (ExtenderFilterResult(("n2",)),)
    ((verb, body),) = extender.asked
    assert verb == "filter"
    assert body["Pod"] == sent(SUBJECT)
    assert [found["metadata"]["name"] for found in body["Nodes"]["items"]] == ["n1", "n2"]
    assert body["NodeNames"] is None


async def test_names_are_sent_to_those_that_do(extender: FakeExtender) -> None:
    extender.says["filter"] = {"NodeNames": ["n2"]}
    extender.says["prioritize"] = [{"Host": "n2", "Score": 3}]
    async with world(Extender(extender.url, **ALL, node_cache_capable=True)) as w:
        (known,) = w.extenders.known
        subject = w.show(SUBJECT)
        assert len(w.kept.nodes) == 0, "nobody is sent whole nodes"
        assert await w.ask(subject, FilterCall(known, ("n1", "n2"))) == (ExtenderFilterResult(("n2",)),)
        assert await w.ask(subject, PrioritizeCall(known, ("n1", "n2"))) == (ExtenderPrioritizeResult((("n2", 3),)),)
    body = {"Pod": sent(SUBJECT), "Nodes": None, "NodeNames": ["n1", "n2"]}
    assert extender.asked == [("filter", body), ("prioritize", body)]


@pytest.mark.parametrize("knows", [False, True], ids=["whole pods", "UIDs"])
async def test_victims_are_sent_as_the_extender_knows_them(extender: FakeExtender, knows: bool) -> None:
    extender.says["preempt"] = {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "v"}], "NumPDBViolations": 1}}}
    async with world(Extender(extender.url, **ALL, node_cache_capable=knows)) as w:
        (known,) = w.extenders.known
        running = pod("v").on("n1")
        victim = w.show(running)
        call = PreemptCall(known, {"n1": Candidate((victim,), 1)})
        assert await w.ask(w.show(SUBJECT), call) == (ExtenderPreemptionResult({"n1": Victims(("v",), 1)}),)
    ((_, body),) = extender.asked
    whole = {"n1": {"Pods": [sent(running)], "NumPDBViolations": 1}}
    uids = {"n1": {"Pods": [{"UID": "v"}], "NumPDBViolations": 1}}
    assert body["NodeNameToVictims"] == (None if knows else whole)
    assert body["NodeNameToMetaVictims"] == (uids if knows else None)


async def test_pods_that_run_are_not_kept_where_nobody_is_sent_them(extender: FakeExtender) -> None:
    async with world(Extender(extender.url, **ALL, node_cache_capable=True)) as w:
        w.show(pod("v").on("n1"))
        w.show(SUBJECT)
        assert len(w.kept.pods) == 1


async def test_several_are_asked_at_once_and_one_that_fails_is_told_of_in_its_place(extender: FakeExtender) -> None:
    extender.says["prioritize"] = [{"Host": "n1", "Score": 1}]
    broken = Extender(extender.url, prioritize_verb="broken", weight=1)
    async with world(broken, Extender(extender.url, **ALL)) as w:
        calls = [PrioritizeCall(known, ("n1",)) for known in w.extenders.known]
        failed, ranked = await w.ask(w.show(SUBJECT), *calls)
    assert failed == ExtenderCallFailed(f"failed broken with extender at URL {extender.url}/broken, code 404")
    assert ranked == ExtenderPrioritizeResult((("n1", 1),))


async def test_an_answer_that_is_none_names_extender_and_verb(extender: FakeExtender) -> None:
    extender.says["filter"] = b"<html>"
    async with world(Extender(extender.url, **ALL)) as w:
        (answer,) = await w.ask(w.show(SUBJECT), FilterCall(w.extenders.known[0], ("n1",)))
    assert isinstance(answer, ExtenderCallFailed)
    assert answer.message.startswith(
        f"failed filter with extender at URL {extender.url}/filter: cannot decode its response: "
    )


async def test_what_an_extender_says_is_wrong_is_told_in_its_words(extender: FakeExtender) -> None:
    extender.says["filter"] = {"Error": "I am out of order"}
    async with world(Extender(extender.url, **ALL)) as w:
        answers = await w.ask(w.show(SUBJECT), FilterCall(w.extenders.known[0], ("n1",)))
    assert answers == (ExtenderCallFailed("I am out of order"),)


async def test_of_a_pod_that_is_gone_nobody_is_asked(extender: FakeExtender) -> None:
    async with world(Extender(extender.url, **ALL)) as w:
        answers = await w.ask(SUBJECT.build(), FilterCall(w.extenders.known[0], ("n1",)))
    assert answers == (ExtenderCallFailed("pod default/a is gone"),)
    assert not extender.asked


async def test_a_bug_of_ours_is_an_answer_too(extender: FakeExtender) -> None:
    async with world(Extender(extender.url, **ALL)) as w:
        (answer,) = await w.ask(w.show(SUBJECT), cast(Any, FilterCall(w.extenders.known[0], cast(Any, 7))))
    assert isinstance(answer, ExtenderCallFailed)
    assert "could not be called" in answer.message


async def test_when_the_scheduler_stops_nobody_waits_for_answers(extender: FakeExtender) -> None:
    async with world(Extender(extender.url, filter_verb="slow")) as w:
        w.extenders.consult(CallExtenders(1, w.show(SUBJECT), (FilterCall(w.extenders.known[0], ("n1",)),)))
        async with asyncio.timeout(10):
            await extender.called.wait()
            w.extenders.stop()
            await w.extenders.close()
        assert w.told.empty()


def test_tls_that_cannot_be_used_is_an_error_of_the_configuration() -> None:
    extenders = (Extender("http://a"), Extender("https://b", tls_config=ExtenderTLS(ca_file="/does/not/exist")))
    with pytest.raises(ConfigError, match=r"^extenders\[1\]\.tlsConfig: the certificates cannot be used"):
        ExtenderClients(KubeSchedulerConfiguration(extenders=extenders), VirtualClock(), NOTHING)


# -- binding -----------------------------------------------------------------------------------------------------------


class Api:
    """An API server that notes what is bound there."""

    def __init__(self) -> None:
        self.bound: list[str] = []

    async def bind(self, bound: Pod, node_name: str) -> None:
        self.bound.append(f"{bound.name} on {node_name}")


async def bind(configured: Extender, built: PodBuilder = SUBJECT) -> tuple[Bound | BindFailed, list[str]]:
    """How a binding cycle of the default profile ends, and what was bound without the extender."""
    clock, handle, api = VirtualClock(), CoreHandle(), Api()
    extenders = ExtenderClients(KubeSchedulerConfiguration(extenders=(configured,)), clock, NOTHING)
    (profile,) = extenders.with_binders(build_profiles(default(), handle), handle)
    subject = built.build()
    plan = msgspec.structs.replace(profile.plan, pre_bind=())
    command = Bind(subject, "n1", Cycle(0.0, profile.name, subject.uid), plan)
    outcome = await run_binding(command, cast(ApiWriter, api), clock, Instrument())
    await extenders.close()
    return outcome, api.bound


async def test_an_extender_binds_in_place_of_the_plugins(extender: FakeExtender) -> None:
    extender.says["bind"] = {"Error": ""}
    outcome, bound = await bind(Extender(extender.url, **ALL))
    assert isinstance(outcome, Bound)
    assert bound == []
    assert extender.asked == [
        ("bind", {"PodName": "a", "PodNamespace": "default", "PodUID": "a", "Node": "n1"}),
    ]


async def test_pods_that_are_not_its_business_are_bound_as_ever(extender: FakeExtender) -> None:
    configured = Extender(extender.url, **ALL, managed_resources=(ManagedResource("example.com/fpga"),))
    outcome, bound = await bind(configured)
    assert isinstance(outcome, Bound)
    assert bound == ["a on n1"]
    assert not extender.asked


@pytest.mark.parametrize(
    ("said", "told"),
    [
        pytest.param({"Error": "no such device"}, "no such device", id="it says no"),
        pytest.param(500, "failed bind with extender at URL {url}/bind, code 500", id="it fails"),
    ],
)
async def test_where_it_fails_the_binding_fails_in_its_words(extender: FakeExtender, said: Any, told: str) -> None:
    extender.says["bind"] = said
    outcome, bound = await bind(Extender(extender.url, **ALL))
    assert isinstance(outcome, BindFailed)
    assert (outcome.message, outcome.rejected) == (told.format(url=extender.url), False)
    assert bound == []


@pytest.mark.parametrize("said", [500, {"Error": "no"}, b"<html>"])
async def test_where_one_that_is_ignorable_fails_the_plugins_bind(extender: FakeExtender, said: Any) -> None:
    extender.says["bind"] = said
    outcome, bound = await bind(Extender(extender.url, **ALL, ignorable=True))
    assert isinstance(outcome, Bound)
    assert bound == ["a on n1"]


async def test_it_asks_for_no_events(extender: FakeExtender) -> None:
    configuration = KubeSchedulerConfiguration(extenders=(Extender(extender.url, **ALL),))
    extenders = ExtenderClients(configuration, VirtualClock(), NOTHING)
    (profile,) = extenders.with_binders(build_profiles(default(), CoreHandle()), CoreHandle())
    binder = profile.plan.bind[0]
    assert isinstance(binder, ExtenderBinder)
    assert binder.events_to_register() == ()
    assert [plugin.name for plugin in profile.plan.bind] == ["Extender", "DefaultBinder"]
