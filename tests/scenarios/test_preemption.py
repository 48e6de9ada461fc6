"""Preemption: victims, nominations and retries of preemptors."""

from __future__ import annotations

from typing import Any

from pyscheduler.core.commands import Evict, PatchStatus
from pyscheduler.core.instrument import Instrument
from pyscheduler.intree.default_preemption import DefaultPreemption
from pyscheduler.testing import Harness, PodBuilder, node, pod
from tests.scenarios.test_concurrent_events import config

(PDB,) = DefaultPreemption.watches
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"


def low(name: str, on: str = "n1", cpu: str = "1") -> PodBuilder:
    return pod(name).requests(cpu=cpu).on(on)


def high(name: str = "high", cpu: str = "2", priority: int = 100) -> PodBuilder:
    return pod(name).requests(cpu=cpu).priority(priority)


def budget(name: str, allowed: int, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed},
    }


def test_pods_of_the_lowest_priority_are_evicted_and_the_preemptor_is_bound() -> None:
    harness = Harness()
    harness.add(node("n1", cpu="4"), *(low(f"low{i}").priority(i) for i in range(4)), high())
    harness.run()
    assert harness.evicted() == ["low1", "low0"], "victims are evicted in descending priority"
    harness.advance(5)
    assert harness.assignments == {"low2": "n1", "low3": "n1", "high": "n1"}
    assert [reason for reason, _ in harness.events("high")] == ["FailedScheduling", "Scheduled"]
    assert harness.pending_message("high") == (
        "0/1 nodes are available: 1 Insufficient cpu. "
        "preemption: found a potential placement for pod on node n1, preempting 2 victims"
    )


def test_nomination_precedes_the_eviction_and_the_victim_gets_an_event() -> None:
    harness = Harness()
    harness.complete_evictions = False
    harness.add(node("n1", cpu="1"), low("victim"), high(cpu="1"))
    harness.run()
    patch, evict = (c for c in harness.commands if isinstance(c, PatchStatus | Evict))
    assert isinstance(patch, PatchStatus)
    assert (patch.pod.name, patch.nominated_node_name) == ("high", "n1")
    assert isinstance(evict, Evict)
    assert evict.message == "default-scheduler: preempting to accommodate a higher priority pod"
    record = evict.then
    assert record is not None
    assert (record.type, record.reason, record.action) == ("Normal", "Preempted", "Preempting")
    assert record.note == "Preempted by pod high on node n1"
    assert (record.regarding.name, record.related and record.related.name) == ("victim", "high")


def test_preemptor_is_gated_until_all_its_victims_are_deleted_or_terminating() -> None:
    harness = Harness()
    harness.complete_evictions = False
    harness.add(node("n1", cpu="2"), low("a"), low("b"), high())
    harness.run()
    assert sorted(harness.evicted()) == ["a", "b"]
    harness.delete_pod("a")
    harness.advance(20)
    assert len(harness.evicted()) == 2, "no pod is evicted twice"
    assert len(harness.events("high")) == 1
    assert harness.machine.context.queue.pending_counts()["gated"] == 1
    harness.delete_pod("b")
    harness.advance(1)
    assert harness.assignments == {"high": "n1"}


def test_no_further_pod_is_evicted_while_victims_terminate() -> None:
    harness = Harness()
    harness.graceful = True
    harness.add(node("n1", cpu="2"), node("n2", cpu="2"), low("a", cpu="2"), low("b", "n2", cpu="2").priority(1))
    harness.add(high())
    harness.run()
    assert harness.evicted() == ["a"]
    harness.advance(340)
    assert harness.evicted() == ["a"]
    assert harness.pending_message("high") == (
        "0/2 nodes are available: 2 Insufficient cpu. "
        "preemption: not eligible due to a terminating pod on the nominated node."
    )
    harness.delete_pod("a")
    harness.advance(20)
    assert harness.assignments == {"b": "n2", "high": "n1"}


def test_no_further_pod_is_evicted_while_victims_terminate_before_the_nomination_is_written() -> None:
    harness = Harness()
    harness.graceful, harness.apply_patches = True, False
    harness.add(node("n1", cpu="2"), low("a", cpu="2"), high())
    harness.run()
    harness.add(node("n2", cpu="2"), low("b", "n2", cpu="2").priority(-1))
    harness.advance(20)
    assert harness.evicted() == ["a"], "b would be the better victim if none had been evicted yet"
    harness.delete_pod("a")
    harness.advance(20)
    assert harness.assignments == {"b": "n2", "high": "n1"}


def test_lost_patch_of_a_nomination_is_sent_again() -> None:
    harness = Harness()
    harness.graceful, harness.apply_patches = True, False
    harness.add(node("n1", cpu="2"), low("a", cpu="2"), high())
    harness.run()
    harness.apply_patches = True
    assert harness.nominated("high") == ""
    harness.advance(340)
    assert harness.nominated("high") == "n1"


def test_cleared_nomination_does_not_return_with_an_older_status() -> None:
    harness = Harness()
    harness.add(node("n1", cpu="1"), low("placed"), high(cpu="1", priority=0).nominated("n1"))
    harness.apply_patches = False
    harness.run()
    assert [c.nominated_node_name for c in harness.commands if isinstance(c, PatchStatus)] == [""]
    harness.add(high(cpu="1", priority=0).nominated("n1").label("note", "changed"))
    assert "high" not in harness.machine.context.queue.nominator


def test_nomination_that_was_not_written_ends_when_its_pod_is_deleted() -> None:
    harness = Harness()
    harness.graceful, harness.apply_patches = True, False
    harness.add(node("n1", cpu="1"), low("a"), high(cpu="1"))
    harness.run()
    harness.delete_pod("a")
    harness.add(high("later", cpu="1", priority=50))
    harness.delete_pod("high")
    harness.advance(20)
    assert harness.assignments == {"later": "n1"}


def test_nomination_ends_when_another_scheduler_binds_its_pod() -> None:
    harness = Harness()
    harness.graceful = True
    harness.add(node("n1", cpu="1"), low("a"), high(cpu="1"))
    harness.run()
    harness.delete_pod("a")
    harness.add(high("later", cpu="1", priority=50))
    harness.run()
    harness.add(high(cpu="1").on("nowhere"))
    harness.advance(20)
    assert harness.assignments == {"high": "nowhere", "later": "n1"}


def test_nominated_pod_takes_precedence_over_pods_of_the_same_priority() -> None:
    harness = Harness()
    harness.graceful = True
    harness.add(node("n1", cpu="2"), low("victim", cpu="2"), high())
    harness.run()
    harness.delete_pod("victim")
    harness.add(high("rival"), low("small").priority(0).spec(nodeName=""))
    harness.advance(20)
    assert harness.assignments == {"high": "n1"}


def test_pods_with_a_disruption_budget_are_not_evicted_if_others_can_be() -> None:
    harness = Harness()
    harness.add_object(PDB, budget("guard", 0, app="guarded"))
    harness.add(node("n1", cpu="1"), node("n2", cpu="1"))
    harness.add(low("guarded").label("app", "guarded"), low("other", "n2").priority(50), high(cpu="1"))
    harness.run()
    assert harness.evicted() == ["other"]


def test_failed_eviction_is_retried() -> None:
    harness = Harness()
    errors = ["etcd is down", "etcd is still down"]
    harness.eviction_error = lambda _: errors.pop() if errors else ""
    harness.add(node("n1", cpu="1"), low("victim"), high(cpu="1"))
    harness.run()
    assert harness.evicted() == ["victim"] * 3
    harness.advance(5)
    assert harness.assignments == {"high": "n1"}
    assert harness.events("victim") == [("Preempted", "Preempted by pod high on node n1")]


def test_victim_that_waits_in_permit_is_rejected_and_not_deleted() -> None:
    harness = Harness(config("Relay"))
    harness.advance(3)
    harness.add(node("n1", cpu="1"), pod("waiting").requests(cpu="1").label("calls", "none"))
    harness.run()
    assert "waiting" in {w.pod.name for w in harness.handle.waiting_pods}
    harness.add(high(cpu="1"))
    harness.run()
    assert harness.evicted() == []
    note = "Preempted by pod high on node n1 (in kube-scheduler memory)."
    assert ("Preempted", note) in harness.events("waiting")
    assert harness.events("waiting")[-1] == ("FailedScheduling", "waiting on permit for pod: preempted")
    harness.advance(20)
    assert harness.assignments == {"high": "n1"}
    assert "waiting" in {queued.pod.name for queued in harness.machine.context.queue.pending()}


def test_victim_in_pre_bind_is_not_deleted_but_its_binding_is_cancelled() -> None:
    harness = Harness(config("Slow"))
    harness.add(node("n1", cpu="1"), pod("slow").requests(cpu="1").label("slow"))
    harness.run()
    harness.add(high(cpu="1"))
    harness.run()
    assert ("Preempted", "Preempted by pod high on node n1 (in kube-scheduler memory).") in harness.events("slow")
    assert harness.events("slow")[-1] == ("FailedScheduling", "preempted by DefaultPreemption")
    harness.advance(5)
    assert harness.assignments == {"high": "n1"}
    assert "slow" in {queued.pod.name for queued in harness.machine.context.queue.pending()}


def test_nominations_of_lower_priority_to_the_node_are_cleared() -> None:
    harness = Harness()
    harness.graceful = True
    nominator = harness.machine.context.queue.nominator
    harness.add(node("n1", cpu="4"), low("first", cpu="2"), low("second", cpu="2").priority(50))
    harness.add(high("middle", priority=10))
    harness.run()
    assert nominator.node_of == {"middle": "n1"}
    harness.add(high("top", cpu="4"))
    harness.run()
    assert harness.evicted() == ["first", "second"], "terminating pods are not evicted again"
    assert nominator.node_of == {"top": "n1"}


def test_nomination_is_cleared_and_the_reasons_reported_if_no_node_can_be_preempted() -> None:
    harness = Harness()
    harness.add(node("n1", cpu="2"), node("n2", cpu="1"), low("equal", cpu="2").priority(100))
    harness.add(high().nominated("n1"))
    harness.run()
    assert harness.pending_message("high") == (
        "0/2 nodes are available: 2 Insufficient cpu. "
        f"preemption: 0/2 nodes are available: 1 {NO_VICTIMS}, 1 {NOT_HELPFUL}."
    )
    assert [c.nominated_node_name for c in harness.commands if isinstance(c, PatchStatus)] == [""]
    assert len(harness.machine.context.queue.nominator) == 0


def test_attempts_and_victims_are_counted() -> None:
    class Counting(Instrument):
        attempts = 0
        victims: tuple[int, ...] = ()

        def preemption_attempted(self) -> None:
            self.attempts += 1

        def preempted(self, victims: int) -> None:
            self.victims += (victims,)

    counted = Counting()
    harness = Harness(instrument=counted)
    harness.add(node("n1", cpu="2"), low("a"), low("b"), high(), high("lowest", priority=-1))
    harness.run()
    assert counted.victims == (2,)
    assert counted.attempts == 2


def test_message_of_a_pod_with_preemption_policy_never() -> None:
    harness = Harness()
    harness.add(node("n1", cpu="1"), low("a"), high(cpu="1").spec(preemptionPolicy="Never"))
    harness.run()
    assert harness.evicted() == []
    assert harness.pending_message("high").endswith("preemption: not eligible due to preemptionPolicy=Never.")


def test_the_same_events_choose_the_same_victims() -> None:
    def victims() -> list[str]:
        harness = Harness(seed=3)
        for i in range(120):
            harness.add(node(f"n{i}", cpu="1"), low(f"low{i}", f"n{i}"))
        harness.add(*(high(f"high{i}", "1") for i in range(5)))
        harness.run()
        return harness.evicted()

    assert victims() == victims()
    assert len(set(victims())) == 5
