"""Dumps of queue and cache."""

from __future__ import annotations

from logging import INFO
from typing import Any

import pytest

from pyscheduler.shell.serving.dumps import Dumps
from pyscheduler.shell.serving.http import BadRequest
from pyscheduler.shell.serving.messages import ServerRequest
from pyscheduler.testing import Harness, node, pod


class HarnessClock:
    """Clock with a harness's time."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness

    def now(self) -> float:
        return self._harness.now

    def wall(self) -> float:
        return self._harness.now + 1_800_000_000 - 1000

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError


@pytest.fixture
def harness() -> Harness:
    harness = Harness()
    harness.complete_bindings = False
    harness.add(node("n1", cpu="2"), node("n2", cpu="2").unschedulable())
    harness.add(pod("placed").requests(cpu="500m").on("n1"), pod("gated").gate("later"))
    harness.add(pod("large").requests(cpu="8").priority(5), pod("bound").requests(cpu="250m"))
    harness.run()
    return harness


@pytest.fixture
def dumps(harness: Harness) -> Dumps:
    return Dumps(harness.machine.context, HarnessClock(harness))


def query(**parameters: str) -> ServerRequest:
    return ServerRequest("/debug", {key: [value] for key, value in parameters.items()}, {})


def names(page: dict[str, Any]) -> list[str]:
    return [entry["pod"].removeprefix("default/") for entry in page["pods"]]


def test_the_queue(harness: Harness, dumps: Dumps) -> None:
    harness.now += 2.5
    page = dumps.queue(query())
    assert page["counts"] == {"active": 0, "backoff": 0, "unschedulable": 1, "gated": 1, "inflight": 0}
    assert (page["offset"], page["more"], "next" in page) == (0, 0, False)
    assert page["pods"] == [
        {
            "pod": "default/large",
            "tier": "unschedulable",
            "priority": 5,
            "attempts": 1,
            "waitingSeconds": 2.5,
            "rejectedBy": ("NodeResourcesFit", "NodeUnschedulable"),
            "uid": "large",
        },
        {
            "pod": "default/gated",
            "tier": "gated",
            "priority": 0,
            "attempts": 0,
            "waitingSeconds": 2.5,
            "rejectedBy": ("SchedulingGates",),
            "gatedBy": "SchedulingGates",
            "uid": "gated",
        },
    ]


def test_pod_in_backoff_has_its_end(harness: Harness, dumps: Dumps) -> None:
    harness.add(node("n1", cpu="9"))  # makes room, but the pod is in backoff
    (entry,) = dumps.queue(query(tier="backoff"))["pods"]
    assert (entry["pod"], entry["backoffUntil"]) == ("default/large", "2027-01-15T08:00:02Z")


def test_pages_of_the_queue(harness: Harness, dumps: Dumps) -> None:
    harness.add(*(pod(f"p{n}").gate("later") for n in range(5)))
    page = dumps.queue(query(tier="gated", limit="2", offset="1"))
    assert (names(page), page["more"], page["next"]) == (["p0", "p1"], 3, "?offset=3&limit=2")
    assert dumps.queue(query(limit="3"))["more"] == 4
    assert names(dumps.queue(query(pod="default/p4"))) == ["p4"]
    assert names(dumps.queue(query(pod="default/none"))) == []


def test_unknown_tier_is_rejected(dumps: Dumps) -> None:
    with pytest.raises(BadRequest, match="unknown tier='lost'; choose active, backoff, unschedulable, gated"):
        dumps.queue(query(tier="lost"))


def test_the_cache(dumps: Dumps) -> None:
    page = dumps.cache(query())
    assert page["counts"] == {"nodes": 2, "pods": 4, "assumed": 1, "nominated": 0}
    assert page["nodes"][0]["node"] == "n1"
    assert page["nodes"][0]["allocatable"]["cpu"] == "2000m"
    assert page["nodes"][0]["requested"] == {"cpu": "750m", "pods": 2}
    assert page["nodes"][0]["pods"] == ["default/placed", "default/bound"]
    assert page["nodes"][1]["unschedulable"]
    assert page["assumed"] == [{"pod": "default/bound", "node": "n1", "stage": "binding"}]


def test_cache_page_has_dry_run_while_an_attempt_has_paused_in_one(harness: Harness, dumps: Dumps) -> None:
    state = harness.machine.context.state
    with state.dry_run():
        state.remove(next(iter(state.rows[0].pods)))
        page = dumps.cache(query(node="n1"))
        assert (page["dryRun"], page["nodes"][0]["pods"]) == (True, ["default/bound"])
    assert "dryRun" not in dumps.cache(query())


def test_nominated_pods(harness: Harness, dumps: Dumps) -> None:
    harness.graceful = True
    harness.add(pod("urgent").requests(cpu="1600m").priority(10))
    harness.run()
    assert dumps.cache(query(node="n1"))["nominated"] == [{"pod": "default/urgent", "node": "n1"}]
    assert dumps.queue(query(pod="default/urgent"))["pods"][0]["nominatedNode"] == "n1"


def test_pages_of_the_cache(dumps: Dumps) -> None:
    page = dumps.cache(query(limit="1"))
    assert ([n["node"] for n in page["nodes"]], page["more"], page["next"]) == (["n1"], 1, "?offset=1&limit=1")
    assert [n["node"] for n in dumps.cache(query(node="n2"))["nodes"]] == ["n2"]
    assert dumps.cache(query(node="n3"))["nodes"] == []


async def test_log_contains_queue_and_cache(dumps: Dumps, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(INFO, "pyscheduler")
    await dumps.log()
    lines = [(r.getMessage(), r.fields) for r in caplog.records]  # type: ignore[attr-defined]
    assert [fields["pod"] for text, fields in lines if text == "Pod in the queue"] == ["default/large", "default/gated"]
    assert [fields["node"] for text, fields in lines if text == "Node in the cache"] == ["n1", "n2"]
    assert [fields["node"] for text, fields in lines if text == "Pod assumed"] == ["n1"]
