"""The examples of docs/queues.md are what the code computes."""

from __future__ import annotations

import re

import pytest

from pyscheduler.api.resources import amount
from pyscheduler.api.steps import exhaust
from pyscheduler_plugins.queues.bundles import RunningPod, bundles_of
from pyscheduler_plugins.queues.drf import next_queue
from pyscheduler_plugins.queues.hierarchy import link_queues
from pyscheduler_plugins.queues.queue import Queue
from pyscheduler_plugins.queues.reclaim import find_victims
from pyscheduler_plugins.queues.tree import JobUsage, QueueTree
from pyscheduler_plugins.queues.usage import DecayedUsage
from tests.docs.pages import rows, text_of
from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import VOLCANO, gang, node, pod

PAGE = "docs/queues.md"
SHARES = re.findall(r"^(\d+) cpus[^\n]*\n\n((?:\|.*\n)+)", text_of(PAGE).split("### Hierarchy")[0], re.M)


def cpu(text: str) -> dict[str, int]:
    return {} if text == "-" else {"cpu": amount("cpu", text)}


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|\n").split("|")]


@pytest.mark.parametrize(("capacity", "table"), SHARES)
def test_shares(capacity: str, table: str) -> None:
    examples = [cells(line) for line in table.splitlines()[2:]]
    queues = [Queue(name=r[0], weight=int(r[1]), capability=cpu(r[3]), guarantee=cpu(r[4])) for r in examples]
    tree = QueueTree(link_queues(queues), cpu(capacity))
    for name, _, request, *_ in examples:
        tree.set_usage(name, name, JobUsage({}, cpu(request)))
    assert [tree.deserved(name) for name, *_ in examples] == [cpu(share) for *_, share in examples]


def test_all_tables_of_shares_are_checked() -> None:
    assert [capacity for capacity, _ in SHARES] == ["100", "60", "10"]


def test_shares_in_a_hierarchy() -> None:
    examples = list(rows(PAGE, "Hierarchy"))
    tree = QueueTree(link_queues(Queue(name=n, parent=p, weight=int(w)) for n, p, w, _ in examples), cpu("40"))
    for name, *_ in examples:
        if not tree.children(name):
            tree.set_usage(name, name, JobUsage({}, cpu("40")))
    assert [tree.deserved(name) for name, *_ in examples] == [cpu(share) for *_, share in examples]


def test_quotas() -> None:
    tree = QueueTree(link_queues([Queue(name="a", capability=cpu("2500m"))]), cpu("100"))
    examples = list(rows(PAGE, "Quotas"))
    assert len(examples) == 3
    for allocated, request, allowed in examples:
        tree.set_usage("job", "a", JobUsage(cpu(allocated)))
        assert (not tree.allows("a", cpu(request))) == (allowed == "yes")


def test_reclaim() -> None:
    examples = list(rows(PAGE, "Reclaim"))
    assert len(examples) == 3
    reasons = []
    for running, guarantee, evicted in examples:
        count, minimum = map(int, re.findall(r"\d+", running))
        queues = [
            Queue(name="A", deserved=cpu("10"), guarantee=cpu(guarantee)),
            Queue(name="B", deserved=cpu("10")),
        ]
        tree = QueueTree(link_queues(queues), cpu("20"))
        tree.set_usage("J", "A", JobUsage(cpu(str(count))))
        tree.set_usage("K", "B", JobUsage(cpu("8"), cpu("2")))
        bundles = bundles_of("J", "A", [RunningPod(str(i), cpu("1")) for i in range(count)], minimum)
        found = exhaust(find_victims(tree, "B", cpu("2"), {}, bundles))
        assert sum(len(bundle.pods) for bundle in found.victims) == int(evicted)
        reasons.append(found.reason)
    assert f"`{reasons[1]}`" in " ".join(text_of(PAGE).split())


def test_backfill() -> None:
    cluster = Cluster(*(node(f"slot{i}") for i in range(8)))
    starts = {}
    for name, since, count, seconds, start, _ in rows(PAGE, "Backfill"):
        cluster.advance_to(int(since))
        members = [pod(f"{name}-{i}", runs=int(seconds)) for i in range(int(count))]
        cluster.submit(gang(name, int(count), members, api=VOLCANO), runs=int(seconds))
        starts[f"default/{name}-0"] = int(start)
    messages = ""
    for time in range(90, 160):
        cluster.advance_to(time)
        messages += cluster.message("b2-0")
    assert {key: cluster.started[key] for key in starts} == starts
    [message] = re.findall(r"A message of `b2` is `([^`]*)`", text_of(PAGE))
    assert message in messages
    assert cluster.reason("h-0") == ""
    assert "`RoomReserved`" in text_of(PAGE)


def test_dominant_resource_fairness() -> None:
    examples = {
        name: (parent, task, int(count)) for name, parent, task, count in rows(PAGE, "Dominant resource fairness")
    }
    names = {"cpu": "cpu", "GiB": "memory"}
    requests = {q: {names[unit]: 1 for unit in re.findall(r"1 (\w+)", task)} for q, (_, task, _) in examples.items()}
    queues = [Queue(name="eng"), *[Queue(name=q, parent=parent) for q, (parent, *_) in examples.items()]]
    tree = QueueTree(link_queues(queues), {"cpu": 10, "memory": 10})
    free, running = {"cpu": 10, "memory": 10}, dict.fromkeys(examples, 0)
    while (queue := next_queue(tree, requests, free)) is not None:
        running[queue] += 1
        tree.set_usage(queue, queue, JobUsage(dict.fromkeys(requests[queue], running[queue])))
        free = {r: n - requests[queue].get(r, 0) for r, n in free.items()}
    assert running == {queue: count for queue, (_, _, count) in examples.items()}


def test_usage_over_time() -> None:
    hours, averages = re.findall(r"^\| (?:hours|average) \|(.*)\|$", text_of(PAGE), re.M)
    usage = DecayedUsage(0.0).record(0.0, {"cpu": 8}, 3600.0)
    computed = [usage.advance(3600.0 * int(hour), 3600.0).average.get("cpu", 0) for hour in hours.split("|")]
    assert computed == [float(average) for average in averages.split("|")]
