"""What a tenant who may create pods can do with many of them, and that the others' pods are scheduled all the same."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from pyscheduler.config.gates import parse
from pyscheduler.config.load import default
from pyscheduler.core.commands import Evict
from pyscheduler.core.queue.inflight import MOST_EVENTS
from pyscheduler.intree.gang_scheduling import POD_GROUP
from pyscheduler.testing import Harness, NodeBuilder, PodBuilder, node, pod
from pyscheduler_plugins.pod_group import POD_GROUP as OUR_POD_GROUP
from pyscheduler_plugins.pod_group import POD_GROUP_LABEL
from tests.hostile.pod_fixture import HostilePodFixture, cpu, plain

GANGS = default(parse(["GenericWorkload=true,GangScheduling=true"]))
OUR_GANGS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {multiPoint: {enabled: [{name: Gang}]}}
"""
HIGH = 10**9
MANY = 1_000


def hopeless(name: str) -> PodBuilder:
    """A pod that fits nowhere."""
    return pod(name).requests(cpu="1000")


def world(*nodes: NodeBuilder, pods: Iterable[PodBuilder] = ()) -> Harness:
    made = Harness()
    made.add(*(nodes or (node("n1", pods="1000"),)))
    made.add(*pods)
    return made


def attempts(of: Harness) -> int:
    return of.machine.context.attempts


def attempts_until_bound(of: Harness, name: str, most: int = 10_000) -> int:
    """How many attempts there are before the pod is bound."""
    for done in range(most):
        if name in of.assignments:
            return done
        commands = of.machine.cycle(of.now)
        assert commands is not None, f"{name} is not tried"
        of._carry_out(commands)
    raise AssertionError(f"{name} is not bound after {most} attempts")


# -- many pods -----------------------------------------------------------------------------------------------------


def test_pods_that_fit_nowhere_are_tried_once_and_then_wait() -> None:
    them = world(pods=(hopeless(f"h{i}") for i in range(MANY)))
    them.run()
    assert attempts(them) == MANY
    them.advance(60)
    assert attempts(them) == MANY, "nothing has happened that could help them"
    them.add(pod("neighbour"))
    assert attempts_until_bound(them, "neighbour") == 1


def test_hopeless_pods_of_the_highest_priority_are_ahead_once() -> None:
    them = world(pods=(hopeless(f"h{i}").priority(HIGH) for i in range(MANY)))
    them.add(pod("neighbour"))
    assert attempts_until_bound(them, "neighbour") == MANY + 1
    them.add(pod("another"))
    assert attempts_until_bound(them, "another") == 1


def test_who_wakes_his_hopeless_pods_again_and_again_gets_one_try_for_each_event() -> None:
    them = world(pods=(hopeless(f"h{i}").priority(HIGH) for i in range(100)))
    them.run()
    for second in range(60):
        # A pod that runs and ends makes room, which wakes everybody who lacks some.
        them.add(pod(f"bait-{second}"), pod(f"neighbour-{second}"))
        them.run()
        assert f"neighbour-{second}" in them.assignments
        them.delete_pod(f"bait-{second}")
        while (commands := them.machine.cycle(them.now)) is not None:
            them._carry_out(commands)
        them.now += 1.0
    # While the scheduler has nothing else to do, they need not sit out their backoff.
    assert attempts(them) <= 100 * 61 + 2 * 60


def test_a_pod_that_is_updated_in_a_loop_is_tried_no_more_often_for_it() -> None:
    them = world(pods=[hopeless("h")])
    them.run()
    for i in range(MANY):
        them.add(hopeless("h").label("turn", str(i)).annotation("turn", str(i)))
        them.run()
    assert attempts(them) == 1


def test_a_gated_pod_that_is_updated_in_a_loop_is_never_tried() -> None:
    them = world(pods=[pod("gated").gate("mine")])
    for i in range(MANY):
        them.add(pod("gated").gate("mine").label("turn", str(i)))
        them.run()
    assert attempts(them) == 0


def test_pods_that_are_made_and_deleted_in_a_loop_leave_nothing_in_the_queue() -> None:
    them = world()
    for i in range(MANY):
        them.add(hopeless(f"h{i}"))
        them.run()
        them.delete_pod(f"h{i}")
    queue = them.machine.context.queue
    assert (len(queue), queue.attempted, len(queue.nominator)) == (0, 0, 0)


# -- priority and nominations --------------------------------------------------------------------------------------


def test_a_pod_whose_policy_is_never_evicts_nobody() -> None:
    them = world(node("n1", cpu="1"), pods=[pod("neighbour").requests(cpu="1").on("n1")])
    them.add(*(pod(f"p{i}").requests(cpu="1").priority(HIGH).spec(preemptionPolicy="Never") for i in range(50)))
    them.run()
    assert them.evicted() == []


def test_a_flood_of_high_priority_evicts_no_more_than_it_needs() -> None:
    neighbours = [pod(f"neighbour-{i}").requests(cpu="1").on("n1") for i in range(10)]
    them = world(node("n1", cpu="10"), node("n2", cpu="2"), pods=neighbours)
    them.add(*(pod(f"p{i}").requests(cpu="1").priority(HIGH) for i in range(5)))
    them.run()
    them.advance(60)
    assert len(them.evicted()) == 3
    assert sum(name.startswith("p") for name in them.assignments) == 5


def test_the_same_victims_are_not_evicted_again_by_each_of_many_preemptors() -> None:
    neighbours = [pod(f"neighbour-{i}").requests(cpu="1").on("n1") for i in range(4)]
    them = world(node("n1", cpu="4"), pods=neighbours)
    them.graceful = True
    them.add(*(pod(f"p{i}").requests(cpu="4").priority(HIGH + i) for i in range(200)))
    them.run()
    them.advance(30)
    evicted = [c.victim.uid for c in them.commands if isinstance(c, Evict)]
    assert sorted(evicted) == sorted(set(evicted)), "each is evicted once"


def test_a_nomination_of_ones_own_making_holds_back_no_higher_pod_and_no_other_node() -> None:
    them = world(node("n1", cpu="4"), node("n2", cpu="4"))
    them.add(*(hopeless(f"h{i}").nominated("n1") for i in range(200)))
    them.run()
    them.add(pod("higher").requests(cpu="4").priority(1), pod("equal").requests(cpu="4"))
    them.run()
    assert sorted(them.assignments) == ["equal", "higher"]


def test_nominations_go_with_their_pods() -> None:
    them = world(pods=(hopeless(f"h{i}").nominated(f"nowhere-{i}") for i in range(200)))
    them.run()
    for i in range(200):
        them.delete_pod(f"h{i}")
    assert not list(them.machine.context.queue.nominator.nodes())


# -- gangs ---------------------------------------------------------------------------------------------------------


def test_gangs_that_can_never_be_whole_hold_no_place() -> None:
    them = Harness(GANGS)
    them.add(node("n1", pods="1000"))
    for i in range(300):
        spec = {"schedulingPolicy": {"gang": {"minCount": 10**9}}}
        them.add_object(POD_GROUP, {"metadata": {"namespace": "default", "name": f"g{i}"}, "spec": spec})
        them.add(pod(f"m{i}").requests(cpu="100m").spec(schedulingGroup={"podGroupName": f"g{i}"}))
    them.run()
    assert not list(them.handle.waiting_pods())
    them.add(pod("neighbour").requests(cpu="4"))
    them.run()
    assert them.assignments == {"neighbour": "n1"}


def test_our_gangs_that_can_never_be_whole_hold_no_place_either() -> None:
    them = Harness(OUR_GANGS)
    them.add(node("n1", pods="1000"))
    for i in range(300):
        them.add_object(
            OUR_POD_GROUP, {"metadata": {"namespace": "default", "name": f"g{i}"}, "spec": {"minMember": 10**9}}
        )
        them.add(pod(f"m{i}").requests(cpu="100m").label(POD_GROUP_LABEL, f"g{i}"))
    them.run()
    assert not list(them.handle.waiting_pods())
    them.add(pod("neighbour").requests(cpu="4"))
    them.run()
    assert them.assignments == {"neighbour": "n1"}


@pytest.mark.parametrize(
    "spec",
    [None, [], "gang", {"minMember": "many"}, {"minMember": -1}, {"minMember": None}, {"minMember": 1e400}, {}],
    ids=str,
)
def test_a_pod_group_that_makes_no_sense_harms_its_own_pods_only(spec: object) -> None:
    them = Harness(OUR_GANGS)
    them.add(node("n1"))
    them.add_object(OUR_POD_GROUP, {"metadata": {"namespace": "default", "name": "g"}, "spec": spec})
    them.add(pod("member").label(POD_GROUP_LABEL, "g"), pod("neighbour"))
    them.run()
    assert "neighbour" in them.assignments


def test_what_happens_while_a_gang_waits_is_not_kept_without_end() -> None:
    them = Harness(GANGS)
    them.add(node("n1", cpu="2", pods="1000"), node("n2", cpu="100", pods="1000").taint("theirs"))
    spec = {"schedulingPolicy": {"gang": {"minCount": 3}}}
    them.add_object(POD_GROUP, {"metadata": {"namespace": "default", "name": "g"}, "spec": spec})
    them.add(*(pod(f"m{i}").requests(cpu="1").spec(schedulingGroup={"podGroupName": "g"}) for i in range(3)))
    them.run()
    assert len(list(them.handle.waiting_pods())) == 2
    for i in range(3 * MOST_EVENTS):
        them.add(pod("busy").on("n2").label("turn", str(i)))
    assert sum(them.machine.context.queue.in_flight_counts().values()) <= MOST_EVENTS + 2
    them.advance(1_000)
    assert not list(them.handle.waiting_pods()) or len(list(them.handle.waiting_pods())) == 2


# -- selectors against selectors -----------------------------------------------------------------------------------


def test_pods_full_of_terms_do_not_make_their_neighbours_dear() -> None:
    calm, them = HostilePodFixture(), HostilePodFixture()
    for i in range(30):
        terms = (
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {f"k{i}-{j}": "v"}}}
            for j in range(300)
        )
        them.see(plain(f"hostile-{i}").pod_anti_affinity(*terms))
        them.run()

    def neighbours(of: HostilePodFixture) -> None:
        for i in range(200):
            of.see(plain(f"neighbour-{i}"))
            of.run()

    undisturbed = cpu(lambda: neighbours(calm))
    assert cpu(lambda: neighbours(them)) < 10 * undisturbed + 0.5
    assert sum(name.startswith("neighbour") for name in them.assignments) == 200
