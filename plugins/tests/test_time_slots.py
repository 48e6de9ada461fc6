"""TimeSlots: nodes that batch pods use at some times of the day."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from pyscheduler.testing import Harness, NodeBuilder, PodBuilder, assert_cache_agrees, assert_forms_agree, node, pod
from pyscheduler_plugins.job_budgets import JOB_NAME, MAX_UNAVAILABLE, MIN_AVAILABLE
from pyscheduler_plugins.time_slots import ALL_ZONES, DAYS, PREEMPTABLE, ZONE, Slots, TimeSlotsArgs, Zone

HOUR = 3600.0
MIDNIGHT = 24 * HOUR
"""Start of 1970-01-02, a Friday, in UTC."""
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins:
      multiPoint: {enabled: [{name: TimeSlots}]}
    pluginConfig:
      - name: TimeSlots
        args: {zones: [{name: night, slots: [22:00-06:00]}, {name: noon, slots: [12:00-13:00]}]}
"""


def at(hour: float, *nodes: NodeBuilder) -> Harness:
    """Return a cluster at an hour of the first day."""
    harness = Harness(CONFIG)
    harness.now = hour * HOUR
    harness.add(*nodes)
    return harness


def revocable(name: str, zone: str = "night") -> NodeBuilder:
    return node(name).label(ZONE, zone)


def batch(name: str, zones: str = ALL_ZONES) -> PodBuilder:
    return pod(name).annotation(ZONE, zones)


def run(harness: Harness, *pods: PodBuilder) -> dict[str, str]:
    harness.add(*pods)
    harness.run()
    return dict(harness.assignments)


@pytest.mark.parametrize(
    ("hour", "made", "is_bound"),
    [
        pytest.param(23, batch("a"), True, id="within the slot"),
        pytest.param(3, batch("a"), True, id="after midnight"),
        pytest.param(22, batch("a"), True, id="at its start"),
        pytest.param(6, batch("a"), False, id="at its end"),
        pytest.param(12.5, batch("a"), False, id="in the slot of another zone"),
        pytest.param(23, pod("a"), False, id="pod does not allow zones"),
        pytest.param(23, batch("a", "noon, night"), True, id="pod names the zone"),
        pytest.param(23, batch("a", "noon"), False, id="pod names another zone"),
        pytest.param(23, pod("a").annotation(PREEMPTABLE, "true"), True, id="preemptable pod"),
        pytest.param(23, batch("a", "").annotation(PREEMPTABLE, "true"), False, id="preemptable pod without zones"),
    ],
)
def test_node_is_open_within_its_slots_to_pods_that_allow_it(hour: float, made: PodBuilder, is_bound: bool) -> None:
    assert run(at(hour, revocable("n")), made) == ({"a": "n"} if is_bound else {})


def test_node_of_an_unknown_zone_is_never_open() -> None:
    assert run(at(23, revocable("n", "weekend")), batch("a")) == {}


def test_pods_prefer_nodes_that_are_open_for_a_while_only() -> None:
    nodes = [node("always"), revocable("night"), node("more")]
    assert run(at(23, *nodes), batch("a"))["a"] == "night"
    assert run(at(23, *nodes), pod("a"))["a"] != "night"
    assert run(at(7, *nodes), batch("a"))["a"] != "night"


def test_waiting_pod_starts_when_the_slot_does() -> None:
    harness = at(20, revocable("n"))
    assert run(harness, batch("a")) == {}
    condition = harness.condition("Pod", "default/a", "PodScheduled") or {}
    assert "1 node(s) were in a revocable zone outside of its time slots" in condition["message"]
    harness.advance(2 * HOUR - 1)
    assert harness.assignments == {}
    harness.advance(1)
    assert harness.assignments == {"a": "n"}


def test_pods_are_evicted_at_the_end_of_the_slot() -> None:
    harness = at(23, revocable("n"), node("always"))
    run(harness, batch("a"), pod("b"))
    assert harness.assignments == {"a": "n", "b": "always"}
    harness.advance(7 * HOUR - 1)
    assert harness.evictions == []
    harness.advance(1)
    assert harness.evictions == [(MIDNIGHT + 6 * HOUR, "default/a")]
    assert ("TimeElapsed", "the time slot of revocable zone night has ended") in harness.events("a")


@pytest.mark.parametrize("made", [pod("a"), batch("a").priority(2_000_000_000)], ids=["not allowed", "critical"])
def test_other_pods_on_the_node_stay(made: PodBuilder) -> None:
    harness = at(23)
    harness.add(revocable("n"), made.on("n"))
    harness.advance(24 * HOUR)
    assert harness.evictions == []


def test_pods_that_a_restarted_scheduler_finds_outside_of_the_slot_are_evicted() -> None:
    harness = at(23, revocable("n"))
    run(harness, batch("a"))
    harness.now = MIDNIGHT + 7 * HOUR
    harness.restart()
    harness.advance(60)
    assert [key for _, key in harness.evictions] == ["default/a"]


def test_eviction_that_failed_is_repeated_every_minute() -> None:
    harness = at(23, revocable("n"))
    run(harness, batch("a"))
    harness.eviction_error = lambda _pod: "unavailable"
    harness.advance(7 * HOUR + 90)
    assert "default/a" in harness.bindings
    harness.eviction_error = lambda _pod: ""
    harness.advance(30)
    assert harness.bindings == {}


def of_job(name: str, budget: str, amount: str) -> PodBuilder:
    return batch(name).label(JOB_NAME, "job").annotation(budget, amount)


@pytest.mark.parametrize(
    ("budget", "amount", "evicted_each_minute"),
    [
        pytest.param(MIN_AVAILABLE, "3", [1, 0], id="one fewer than run"),
        pytest.param(MIN_AVAILABLE, "50%", [2, 0], id="half"),
        pytest.param(MIN_AVAILABLE, "9", [0, 0], id="more than run"),
        pytest.param(MAX_UNAVAILABLE, "1", [1, 0], id="one"),
        pytest.param(MAX_UNAVAILABLE, "30%", [2, 0], id="rounded up"),
        pytest.param(MAX_UNAVAILABLE, "0", [0, 0], id="none"),
        pytest.param(MAX_UNAVAILABLE, "100%", [4, 0], id="all"),
    ],
)
def test_budget_of_a_job_limits_evictions(budget: str, amount: str, evicted_each_minute: list[int]) -> None:
    """Evicted pods are created anew by their controller, and wait for the next slot."""
    harness = at(5, revocable("n"))
    run(harness, *(of_job(f"a{i}", budget, amount) for i in range(4)))
    harness.advance(HOUR)
    counts = [len(harness.evictions)]
    harness.add(*(of_job(f"b{i}", budget, amount) for i in range(counts[0])))
    harness.run()
    harness.advance(90)
    counts.append(len(harness.evictions) - counts[0])
    assert counts == evicted_each_minute


@pytest.mark.parametrize(
    ("budget", "amount"), [(MAX_UNAVAILABLE, "1"), (MAX_UNAVAILABLE, "25%"), (MIN_AVAILABLE, "60%")]
)
def test_terminating_pod_of_a_job_is_not_available(budget: str, amount: str) -> None:
    harness = at(5, revocable("n"))
    harness.graceful = True
    run(harness, *(of_job(f"a{i}", budget, amount) for i in range(4)))
    harness.advance(HOUR + 300)
    assert len(harness.evictions) == 1


def test_eviction_goes_on_when_the_replacement_has_a_node() -> None:
    harness = at(5, revocable("n"))
    run(harness, *(of_job(f"a{i}", MAX_UNAVAILABLE, "1") for i in range(2)))
    harness.advance(HOUR)
    assert len(harness.evictions) == 1
    harness.add(node("always"), of_job("b", MAX_UNAVAILABLE, "1"))
    harness.run()
    harness.advance(60)
    assert (len(harness.evictions), harness.assignments) == (2, {"b": "always"})


def test_budget_of_one_job_is_not_that_of_another_one() -> None:
    harness = at(5, revocable("n"))
    run(harness, of_job("a", MAX_UNAVAILABLE, "0"), batch("b"), batch("c").annotation(MAX_UNAVAILABLE, "0"))
    harness.advance(HOUR)
    assert [key for _, key in harness.evictions] == ["default/b", "default/c"]


@pytest.mark.parametrize("amount", ["", "-1", "half", "1.5", "101", "5 %", "\u0663"])
def test_invalid_budget_is_named_in_the_event(amount: str) -> None:
    harness = at(5, revocable("n"))
    run(harness, of_job("a", MAX_UNAVAILABLE, amount))
    harness.advance(HOUR)
    text = " ".join(note for _, note in harness.events("a"))
    is_valid = amount == "101"
    assert ("annotation volcano.sh/jdb-max-unavailable: Invalid value" in text) is not is_valid
    assert [key for _, key in harness.evictions] == ["default/a"]


def test_slot_of_one_zone_does_not_retry_pods_forever() -> None:
    """Outside of slots the plugin looks for pods every minute, without another attempt for those that wait."""
    harness = at(20, revocable("n"))
    run(harness, batch("a"))
    before = len(harness.commands)
    harness.advance(4 * 60)  # after five minutes, all pods are retried
    assert len(harness.commands) == before


@pytest.mark.parametrize("hour", [12, 21, 23])
@pytest.mark.parametrize("zones", ["*", "night", "noon, weekend", ""])
def test_forms_agree(hour: float, zones: str) -> None:
    harness = at(hour)
    harness.run()
    nodes = [node("n"), *(revocable(f"n{i}", zone) for i, zone in enumerate(("night", "noon", "weekend", "")))]
    [plugin] = [p for p in harness.machine.context.profiles["default-scheduler"].filter if p.name == "TimeSlots"]
    for incoming in (batch("a", zones), pod("a").annotation(PREEMPTABLE, "true"), pod("a")):
        assert_forms_agree(plugin, incoming.build(), [each.build() for each in nodes])


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "uncached"])
def test_cached_results_follow_the_time(cached: bool) -> None:
    uncached = "\n---\napiVersion: pyscheduler.io/v1\nkind: PySchedulerConfiguration\nresultCache: false\n"
    harness = Harness(CONFIG + ("" if cached else uncached))
    harness.now = 20 * HOUR
    harness.add(node("n"), revocable("night"), revocable("noon", "noon"))
    placed = []
    for i in range(9):
        harness.add(batch(f"a{i}"), pod(f"b{i}"))
        harness.run()
        placed.append(harness.assignments.get(f"a{i}"))
        assert harness.assignments.get(f"b{i}") == "n"
        for name in (f"a{i}", f"b{i}"):
            if f"default/{name}" in harness.bindings:
                harness.delete("Pod", name)
        harness.advance(2 * HOUR)
    assert placed == ["n", "night", "night", "night", "night", "n", "n", "n", "noon"]


def seconds(text: str, time_zone: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(time_zone)).timestamp()


@pytest.mark.parametrize(
    ("slot", "days", "moment", "active", "change"),
    [
        pytest.param("22:00-06:00", DAYS, "2026-03-28T23:00", True, "2026-03-29T06:00", id="night without 02:00"),
        pytest.param("22:00-06:00", DAYS, "2026-10-24T21:00", False, "2026-10-24T22:00", id="before it begins"),
        pytest.param("22:00-06:00", ("Fri",), "2026-11-28T05:00", True, "2026-11-28T06:00", id="begun on Friday"),
        pytest.param("22:00-06:00", ("Fri",), "2026-11-28T23:00", False, "2026-12-04T22:00", id="not on Saturday"),
        pytest.param("00:00-00:00", ("Sun",), "2026-11-29T12:00", True, "2026-11-30T00:00", id="a whole day"),
    ],
)
def test_slots_follow_the_clock_of_the_time_zone(
    slot: str, days: tuple[str, ...], moment: str, active: bool, change: str
) -> None:
    slots, now = Slots(Zone("z", (slot,), days), ZoneInfo("Europe/Berlin")), seconds(moment, "Europe/Berlin")
    assert slots.is_active(now) is active
    assert slots.next_change(now) == seconds(change, "Europe/Berlin")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"zones": (Zone("*", ("1:00-2:00",)),)}, 'zones[0].name: Invalid value: "*": must be the name of a zone'),
        ({"zones": (Zone("a", ("00:00-01:00",)),) * 2}, 'zones[1].name: Duplicate value: "a"'),
        ({"zones": (Zone("a", ()),)}, "zones[0].slots: Required value"),
        (
            {"zones": (Zone("a", ("00:00-01:00", "25:00-26:00")),)},
            'zones[0].slots[1]: Invalid value: "25:00-26:00": must be two times such as 22:00-06:00',
        ),
        (
            {"zones": (Zone("a", ("00:00-01:00",), ("Monday",)),)},
            'zones[0].days[0]: Unsupported value: "Monday": supported values: "Mon", "Tue", "Wed", ',
        ),
        ({"time_zone": "Mars/Base"}, 'timeZone: Invalid value: "Mars/Base": '),
        ({"eviction_period_seconds": 0}, "evictionPeriodSeconds: must be greater than 0, not 0"),
    ],
)
def test_invalid_argument_is_reported_by_its_path(args: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        TimeSlotsArgs(**args)
    assert str(error.value).startswith(message)


def test_cached_results_follow_the_time_and_the_zones_of_nodes() -> None:
    harness = at(21, node("always"), revocable("n"), revocable("m", "noon"))
    pods = [pod("plain"), batch("any"), batch("noon", "noon")]
    for _ in range(17):  # to the start and the end of both slots
        assert_cache_agrees(harness, *pods)
        harness.advance(HOUR)
    harness.add(revocable("n", "noon"))
    assert_cache_agrees(harness, *pods)
