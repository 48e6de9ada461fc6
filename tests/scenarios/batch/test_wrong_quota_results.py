"""Wrong results of a Quota plugin are reported once per call; they neither evict pods nor stop the loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import msgspec
import pytest

from pyscheduler.api import EvictionUnit
from pyscheduler.testing import pod as builder
from pyscheduler_plugins.queues.plugin import Queues
from tests.scenarios.batch.cluster import CONFIG, Cluster
from tests.scenarios.batch.manifests import VOLCANO, Manifest, annotated, gang, in_queue, node, pod, queue

Units = Sequence[EvictionUnit]


class WrongQueues(Queues):
    """Queues with the results that a test sets."""

    name = "WrongQueues"
    change: ClassVar[Callable[[Units], Any]]
    seconds: ClassVar[Any] = None

    def reclaim_steps(self, *args: Any) -> Any:
        found = yield from super().reclaim_steps(*args)
        return found if isinstance(found, str) else type(self).change(found)

    def surplus(self, *args: Any) -> Any:
        return type(self).change(super().surplus(*args))

    def seconds_until_turn(self, *args: Any) -> Any:
        return self.seconds

    def over_quota(self) -> Any:
        found = super().over_quota()
        return found if self.seconds is None else dict.fromkeys(found, self.seconds)


def cluster(change: Callable[[Units], Any], *objects: Any, seconds: Any = None) -> Cluster:
    """Return a cluster with the plugin."""
    WrongQueues.change, WrongQueues.seconds = change, seconds
    name = '"tests.scenarios.batch.test_wrong_quota_results:WrongQueues"'
    return Cluster(*objects, config=CONFIG.read_text().replace("name: Queues", f"name: {name}"))


def changed(**fields: Any) -> Callable[[Units], Any]:
    return lambda units: [msgspec.structs.replace(unit, **fields) for unit in units]


def limited(cpu: int) -> Manifest:
    """Return a queue with a quota, above which its pods are evicted after a minute."""
    return annotated(queue("a", capability={"cpu": cpu}), quota_eviction_seconds="60")


OTHER = "an EvictionUnit that is not in `units`"
WRONG = [
    pytest.param(changed(started=math.nan), OTHER, id="start is NaN"),
    pytest.param(changed(priority=-1.5), OTHER, id="negative priority"),
    pytest.param(changed(rank="high"), OTHER, id="rank is a str"),
    pytest.param(changed(pods=None), OTHER, id="no pods"),
    pytest.param(changed(pods=("a0",)), OTHER, id="pods are names"),
    pytest.param(changed(pods=(builder("unknown").build(),)), OTHER, id="unknown pod"),
    pytest.param(lambda units: [*units, *units], "a repeated EvictionUnit", id="repeated"),
]


@pytest.mark.parametrize(("change", "shown"), WRONG)
def test_wrong_units_to_reclaim_evict_no_pod(change: Callable[[Units], Any], shown: str) -> None:
    made = cluster(change, node("n", 4), queue("a", weight=1), queue("b", weight=1))
    made.submit(*(in_queue("a", pod(f"a{i}")) for i in range(4)))
    made.submit(gang("b", 2, api=VOLCANO, queue="b"))
    made.advance(60)
    assert made.evictions == []
    assert set(made.attempts.failures) == {
        f"WrongQueues Quota: reclaim returned {shown}, expected some of those in `units`, each once"
    }
    assert "plugin WrongQueues failed" in made.message("b0")
    assert made.attempts.count < 20


@pytest.mark.parametrize(("change", "shown"), WRONG)
def test_wrong_surplus_units_evict_no_pod(change: Callable[[Units], Any], shown: str) -> None:
    made = cluster(change, node("n", 4), limited(4))
    made.submit(*(in_queue("a", pod(f"a{i}")) for i in range(4)))
    made.apply(limited(2))
    made.advance(300)
    assert made.evictions == []
    assert set(made.attempts.failures) == {
        f"WrongQueues Quota: surplus returned {shown}, expected some of those in `units`, each once"
    }


@pytest.mark.parametrize("seconds", [-1, -math.inf, 10**400, math.nan], ids=["-1", "-inf", "10**400", "nan"])
def test_wrong_times_neither_stop_the_loop_nor_retry_at_once(seconds: Any) -> None:
    made = cluster(list, node("n", 4), limited(4), seconds=seconds)
    made.submit(*(in_queue("a", pod(f"a{i}")) for i in range(4)))
    made.apply(limited(2))
    made.submit(gang("b", 3, api=VOLCANO))
    made.advance(300)
    assert made.evictions == []
    assert {text.partition(" returned ")[0] for text in made.attempts.failures} == {
        "WrongQueues Quota: over_quota",
        "WrongQueues Quota: seconds_until_turn",
    }
    assert made.attempts.count < 50
