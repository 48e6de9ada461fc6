"""Calls that go wrong: whatever becomes of them, the cluster ends as if nothing had been."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.e2e.story import alive
from tests.e2e.workloads import placed
from tests.faults.fault_actions import (
    GONE,
    INTERNAL,
    TOO_MANY,
    UNAVAILABLE,
    breaks_off,
    first,
    hangs_up,
    loses_the_answer,
    passes,
    refuses,
    says_500_though_done,
    stalls,
)
from tests.faults.fault_namespace import NODES, FaultNamespace
from tests.faults.proxy import Exchange, Fault, Rule
from tests.faults.request_matchers import (
    Matcher,
    ProxiedRequest,
    events,
    evictions,
    lists,
    pod_statuses,
    watches,
    within,
)
from tests.faults.scheduler_under_test import PATIENCE

pytestmark = pytest.mark.asyncio(loop_scope="session")

OUTAGE = 1.0
"""Seconds."""
URGENT = "system-cluster-critical"
HOSTNAME = "kubernetes.io/hostname"
SPREAD = 60
"""Pods."""
FAULTS: dict[str, Fault] = {
    "reset before it arrives": hangs_up,
    "reset in mid-body": breaks_off,
    "answer lost": loses_the_answer,
    "stalled on the way there": stalls(PATIENCE + 0.5),
    "stalled on the way back": stalls(PATIENCE + 0.5, after=True),
    "429 with Retry-After": refuses(TOO_MANY, 1),
    "500": refuses(INTERNAL),
    "500 though done": says_500_though_done,
    "503": refuses(UNAVAILABLE),
}
KINDS = (
    "pods",
    "nodes",
    "namespaces",
    "services",
    "persistentvolumes",
    "persistentvolumeclaims",
    "storageclasses",
    "csinodes",
    "replicasets",
)
"""Kinds that are listed, one for each fault."""


@contextmanager
def each_fault(world: FaultNamespace, *matches: Matcher, times: int = 1) -> Iterator[list[Rule]]:
    """One call after the other meets with another fault, each so many times; with several matches, each has them."""
    with ExitStack() as stack:
        every = itertools.product(matches, FAULTS.values())
        yield [stack.enter_context(world.proxy.rule(match, fault, times)) for match, fault in every]


async def all_met(rules: Iterable[Rule]) -> None:
    for rule in rules:
        await rule.met()


async def test_connection_refused(world: FaultNamespace) -> None:
    await world.flood(20, prefix="before")
    async with world.proxy.refusing():
        await world.flood(20, prefix="meanwhile")
        await asyncio.sleep(OUTAGE)
    await world.many_bound(40)


async def test_bindings(world: FaultNamespace) -> None:
    with each_fault(world, world.bindings, times=2) as rules:
        await world.flood(40)
        await world.many_bound(40)
        await all_met(rules)


async def test_lists(world: FaultNamespace) -> None:
    """All watches have to start over from lists, and each of them goes wrong in another way."""
    begun: set[str] = set()

    def first_time(asked: ProxiedRequest) -> bool:
        return asked.is_watch and asked.path not in begun and not begun.add(asked.path)  # type: ignore[func-returns-value]

    with ExitStack() as stack:
        stack.enter_context(world.proxy.rule(first_time, refuses(GONE)))
        by_kind = zip(KINDS, FAULTS.values(), strict=True)
        rules = [stack.enter_context(world.proxy.rule(lists(kind), fault, times=1)) for kind, fault in by_kind]
        before = world.proxy.watches
        assert world.proxy.cut(watches()) == before.total()
        await all_met(rules)
        await world.flood(10)
        await world.many_bound(10)
        await world.all_watched(before)


async def test_many_bindings_in_flight_that_fail_leave_pods_evenly_spread(world: FaultNamespace) -> None:
    """Nodes are chosen while bindings of other pods are in flight; some of these fail later."""
    own = {"matchLabels": {"app": world.namespace}}
    evenly = {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": own}
    failing, let_go = itertools.cycle([hangs_up, passes, loses_the_answer, passes]), asyncio.Event()

    async def late(exchange: Exchange) -> None:
        is_first = not let_go.is_set()
        await let_go.wait()
        await (next(failing) if is_first else passes)(exchange)

    with world.proxy.rule(world.bindings, late) as rule:
        for i in range(SPREAD):
            await world.pod(f"p-{i}", cpu="50m", labels={"app": world.namespace}, topologySpreadConstraints=[evenly])
        await rule.met(30)
        assert len({request.pod for request in rule.struck[:30]}) > 16, "few pods, again and again"
        let_go.set()
        where = await world.bound(*(f"p-{i}" for i in range(SPREAD)))
    on_each = Counter(where.values())
    assert len(on_each) == NODES
    assert max(on_each.values()) - min(on_each.values()) <= 1


async def test_preemption(world: FaultNamespace) -> None:
    """Nominations and evictions go wrong in all ways, and nobody has to go in vain."""
    everywhere, urgent = NODES * 4, ("a", "b", "c", "d", "e")
    await world.flood(everywhere, prefix="low", cpu="1")
    await world.many_bound(everywhere)
    with each_fault(world, within(world.namespace, pod_statuses), within(world.namespace, evictions)) as rules:
        for name in urgent:
            await world.pod(name, cpu="2", priorityClassName=URGENT)
        await world.bound(*urgent)
        await all_met(rules[len(FAULTS) :])
    left = await world.plane.api.until(world.pods, lambda found: len(alive(found)) == len(found["items"]))
    assert len(placed(left)) == everywhere - len(urgent)


async def test_events_that_nobody_takes(world: FaultNamespace) -> None:
    with world.proxy.rule(within(world.namespace, events), refuses(INTERNAL)) as rule:
        await world.flood(20)
        await world.many_bound(20)
        await rule.met(1)


async def test_409_somebody_else_binds_it_first(world: FaultNamespace) -> None:
    async def elsewhere(asked: ProxiedRequest) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": world.hollow.names[0]}
        name = asked.pod.partition("/")[2]
        await world.plane.api.create(asked.path, {"metadata": {"name": name}, "target": target})

    with world.proxy.rule(world.bindings, first(elsewhere), times=3) as rule:
        await world.flood(6)
        await rule.met(3)
        found = await world.bound(*(f"p-{i}" for i in range(6)))
    stolen = {found[asked.pod.partition("/")[2]] for asked in rule.struck}
    assert stolen == {world.hollow.names[0]}


@pytest.mark.parametrize("again", [False, True], ids=["for good", "and made again"])
async def test_404_a_pod_deleted_between_decision_and_binding(world: FaultNamespace, again: bool) -> None:
    async def delete(asked: ProxiedRequest) -> None:
        name = asked.pod.partition("/")[2]
        await world.plane.api.delete(f"{world.pods}/{name}", gracePeriodSeconds=0)
        if again:
            await world.pod(name)

    with world.proxy.rule(world.bindings, first(delete), times=3) as rule:
        await world.flood(6)
        await rule.met(3)
        await world.many_bound(6 if again else 3)
