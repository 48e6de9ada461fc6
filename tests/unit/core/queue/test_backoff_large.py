"""Large pods back off for longer, are not popped early, and are requeued without hints."""

from __future__ import annotations

from pyscheduler.api.pod import LARGE
from pyscheduler.core.queue import Backoff
from pyscheduler.testing import Harness, PodBuilder, node, pod


def large(name: str) -> PodBuilder:
    terms = [{"matchExpressions": [{"key": f"{name}-{i}", "operator": "Exists"}]} for i in range(6_000)]
    return pod(name).requests(cpu="1").node_affinity(*terms)


def test_backoff_of_a_large_pod_is_one_second_longer_per_64_kib() -> None:
    harness = Harness()
    harness.add(node("n1"), large("big"), pod("small").requests(cpu="1000"))
    harness.run()
    waits = {queued.pod.name: Backoff().seconds(queued) for _, queued in harness.machine.context.queue.known()}
    size = next(queued.pod.size for _, queued in harness.machine.context.queue.known() if queued.pod.name == "big")
    assert waits == {"big": 1.0 + size // LARGE, "small": 1.0}


def test_any_registered_event_requeues_a_large_pod_after_its_whole_backoff() -> None:
    harness = Harness()
    harness.add(node("n1"), large("big"))
    harness.run()
    pending = harness.machine.context.pods["big"]
    wait = 1 + pending.size // LARGE
    assert wait > 2
    harness.add(node("n1").label("another", "label"))
    attempts = harness.machine.context.attempts
    harness.advance(wait - 1)
    assert harness.machine.context.attempts == attempts
    harness.advance(3)
    assert harness.machine.context.attempts == attempts + 1
