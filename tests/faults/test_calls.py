"""Faults of API calls: in the end the cluster is as without the fault."""

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
    act_first,
    forward,
    lose_response,
    reject,
    reset_before_request,
    reset_mid_response,
    respond_500_after_success,
    stall,
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
from tests.faults.scheduler_under_test import CALL_TIMEOUT

pytestmark = pytest.mark.asyncio(loop_scope="session")

OUTAGE = 1.0
"""Duration in seconds."""
URGENT = "system-cluster-critical"
HOSTNAME = "kubernetes.io/hostname"
SPREAD = 60
"""Number of pods with a spread constraint."""
FAULTS: dict[str, Fault] = {
    "reset before it arrives": reset_before_request,
    "reset in mid-body": reset_mid_response,
    "response lost": lose_response,
    "request delayed": stall(CALL_TIMEOUT + 0.5),
    "response delayed": stall(CALL_TIMEOUT + 0.5, after=True),
    "429 with Retry-After": reject(TOO_MANY, 1),
    "500": reject(INTERNAL),
    "500 after success": respond_500_after_success,
    "503": reject(UNAVAILABLE),
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
"""Resources to list, one for each fault."""


@contextmanager
def each_fault(ns: FaultNamespace, *matches: Matcher, times: int = 1) -> Iterator[list[Rule]]:
    """Apply every fault to `times` calls of each matcher, one fault after the other."""
    with ExitStack() as stack:
        every = itertools.product(matches, FAULTS.values())
        yield [stack.enter_context(ns.proxy.rule(match, fault, times)) for match, fault in every]


async def all_met(rules: Iterable[Rule]) -> None:
    for rule in rules:
        await rule.wait_matched()


async def test_pods_are_bound_after_connection_refused(ns: FaultNamespace) -> None:
    await ns.create_pods(20, prefix="before")
    async with ns.proxy.refusing():
        await ns.create_pods(20, prefix="meanwhile")
        await asyncio.sleep(OUTAGE)
    await ns.wait_for_bound(40)


async def test_pods_are_bound_when_bindings_fail(ns: FaultNamespace) -> None:
    with each_fault(ns, ns.bindings, times=2) as rules:
        await ns.create_pods(40)
        await ns.wait_for_bound(40)
        await all_met(rules)


async def test_watches_resume_when_lists_fail(ns: FaultNamespace) -> None:
    """All watches must relist, and each list has another fault."""
    begun: set[str] = set()

    def first_time(request: ProxiedRequest) -> bool:
        return request.is_watch and request.path not in begun and not begun.add(request.path)  # type: ignore[func-returns-value]

    with ExitStack() as stack:
        stack.enter_context(ns.proxy.rule(first_time, reject(GONE)))
        by_kind = zip(KINDS, FAULTS.values(), strict=True)
        rules = [stack.enter_context(ns.proxy.rule(lists(kind), fault, times=1)) for kind, fault in by_kind]
        before = ns.proxy.watches
        assert ns.proxy.cut(watches()) == before.total()
        await all_met(rules)
        await ns.create_pods(10)
        await ns.wait_for_bound(10)
        await ns.wait_for_watches(before)


async def test_pods_stay_evenly_spread_when_bindings_in_flight_fail(ns: FaultNamespace) -> None:
    """Nodes are chosen while bindings of other pods are in flight; some of these fail later."""
    own = {"matchLabels": {"app": ns.namespace}}
    evenly = {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": own}
    failing, released = itertools.cycle([reset_before_request, forward, lose_response, forward]), asyncio.Event()

    async def late(exchange: Exchange) -> None:
        is_first = not released.is_set()
        await released.wait()
        await (next(failing) if is_first else forward)(exchange)

    with ns.proxy.rule(ns.bindings, late) as rule:
        for i in range(SPREAD):
            await ns.create_pod(f"p-{i}", cpu="50m", labels={"app": ns.namespace}, topologySpreadConstraints=[evenly])
        await rule.wait_matched(30)
        assert len({request.pod for request in rule.matched[:30]}) > 16, "the faults must affect different pods"
        released.set()
        where = await ns.nodes_of(*(f"p-{i}" for i in range(SPREAD)))
    on_each = Counter(where.values())
    assert len(on_each) == NODES
    assert max(on_each.values()) - min(on_each.values()) <= 1


async def test_preemption_evicts_no_more_than_needed_when_calls_fail(ns: FaultNamespace) -> None:
    """Nominations and evictions meet every fault, but no pod is evicted needlessly."""
    everywhere, urgent = NODES * 4, ("a", "b", "c", "d", "e")
    await ns.create_pods(everywhere, prefix="low", cpu="1")
    await ns.wait_for_bound(everywhere)
    with each_fault(ns, within(ns.namespace, pod_statuses), within(ns.namespace, evictions)) as rules:
        for name in urgent:
            await ns.create_pod(name, cpu="2", priorityClassName=URGENT)
        await ns.nodes_of(*urgent)
        await all_met(rules[len(FAULTS) :])
    left = await ns.plane.api.until(ns.pods, lambda found: len(alive(found)) == len(found["items"]))
    assert len(placed(left)) == everywhere - len(urgent)


async def test_pods_are_bound_when_events_are_rejected(ns: FaultNamespace) -> None:
    with ns.proxy.rule(within(ns.namespace, events), reject(INTERNAL)) as rule:
        await ns.create_pods(20)
        await ns.wait_for_bound(20)
        await rule.wait_matched(1)


async def test_binding_of_another_client_is_kept_after_409(ns: FaultNamespace) -> None:
    async def elsewhere(request: ProxiedRequest) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": ns.hollow.names[0]}
        name = request.pod.partition("/")[2]
        await ns.plane.api.create(request.path, {"metadata": {"name": name}, "target": target})

    with ns.proxy.rule(ns.bindings, act_first(elsewhere), times=3) as rule:
        await ns.create_pods(6)
        await rule.wait_matched(3)
        found = await ns.nodes_of(*(f"p-{i}" for i in range(6)))
    stolen = {found[request.pod.partition("/")[2]] for request in rule.matched}
    assert stolen == {ns.hollow.names[0]}


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "deleted and created again"])
async def test_room_is_freed_when_a_pod_is_deleted_before_its_binding(ns: FaultNamespace, again: bool) -> None:
    async def delete(request: ProxiedRequest) -> None:
        name = request.pod.partition("/")[2]
        await ns.plane.api.delete(f"{ns.pods}/{name}", gracePeriodSeconds=0)
        if again:
            await ns.create_pod(name)

    with ns.proxy.rule(ns.bindings, act_first(delete), times=3) as rule:
        await ns.create_pods(6)
        await rule.wait_matched(3)
        await ns.wait_for_bound(6 if again else 3)
