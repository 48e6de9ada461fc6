"""Abuses of the threat model at any size: shapes without end, and one tenant's burst beside a neighbour's few pods.

`make hostile` runs them at full size, a million shapes and 100,000 pods, which takes an hour; `make slow` at a size
that takes seconds. The bounds are the same.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pyscheduler.testing import PodBuilder, pod
from tests.hostile.pod_fixture import HostilePodFixture, plain

ALIVE = 200
"""Pods that there are at the same time, in the flood of shapes."""
NODES = 100
SLOWER = 2.0
"""How many times as dear the last tenth of a flood may be as the second."""
LEFT_BYTES = 48 << 20
"""What a flood may leave from its second tenth on, whatever its length."""
MOST_SHAPES = 20_000
"""Those that are remembered for the sake of pods that are gone: answers are kept of some, others wait to be counted."""
TIMES_PLAIN = 3.0
"""How many plain pods one of a burst may cost, and a neighbour's beside it."""


class Shapes(NamedTuple):
    """What a flood of shapes came to; seconds of CPU for each pod, bytes of memory."""

    early: float
    late: float
    grown: int
    kept: int
    """Shapes that are remembered when all of their pods are gone."""


class Burst(NamedTuple):
    """What a burst came to; seconds of CPU."""

    pods: int
    plain: float
    """For a pod when there is nobody else."""
    taken_in: float
    """For each pod of the burst, until the queue has it."""
    tried: float
    """For each attempt until the neighbour behind the burst had its turn."""
    attempts: int
    """How many there were before that."""
    urgent: int
    """How many before a neighbour's pod of a higher priority had its turn."""
    after: int
    """How many before a neighbour had its turn who came when the burst had been tried."""
    longest: float
    """The longest attempt."""


def _template() -> bytes:
    """A pod like no other, once `@` has become a number: labels, requests, a toleration, a node selector."""
    made = plain("p@").label("key-@", "value-@").annotation("turn", "@").requests(cpu="#m", memory="1024@")
    made = made.tolerates("key-@", operator="Exists").node_selector(**{"topology.kubernetes.io/zone": "z%"})
    return json.dumps(made.manifest).encode()


_TEMPLATE = _template()


def shape(i: int) -> bytes:
    """The i-th, as it comes off the wire."""
    text = _TEMPLATE.replace(b"@", b"%d" % i)
    return text.replace(b"#", b"%d" % (i % 97 + 1)).replace(b"%", b"%d" % (i % 3))


def flood(count: int, told: Callable[[str], None] = lambda _: None) -> Shapes:
    """So many shapes come and go, a few at a time; `told` is how far it has come."""
    world = HostilePodFixture(nodes=NODES)
    tenth = count // 10
    spent: list[float] = []
    memory: list[int] = []
    began = time.process_time()
    for i in range(count):
        world.see_pod(shape(i))
        if i >= ALIVE:
            world.gone(f"p{i - ALIVE}")
        if i % 20 == 19:
            world.run()
        if (i + 1) % tenth == 0:
            spent.append((time.process_time() - began) / tenth)
            world.clear_history()
            memory.append(_memory())
            told(f"{i + 1} shapes: {spent[-1] * 1e6:.0f} µs for each, {memory[-1] >> 20} MiB")
            began = time.process_time()
    for each in list(world.harness.machine.context.pods.values()):
        world.gone(each.name)
    world.sound()
    return Shapes(spent[1], spent[-1], memory[-1] - memory[1], len(world.harness.machine.context.shapes))


def burst(count: int, fits: bool) -> Burst:
    """One tenant makes so many pods at once, and a neighbour some behind, beside and after them."""
    world = HostilePodFixture(nodes=NODES if not fits else max(NODES, count // 900))
    plain_cost = _cost(world, [plain(f"warm-{i}") for i in range(200)]) / 200
    amount = "1m" if fits else "1000"
    pods = [pod(f"burst-{i}").requests(cpu=amount).label("app", "burst") for i in range(count)]
    began = time.process_time()
    world.see(*pods)
    taken_in = (time.process_time() - began) / count
    gc.collect()
    gc.freeze()  # as the scheduler does it: what lives long is not looked through in the middle of an attempt
    world.see(plain("behind"), plain("urgent").priority(10))
    world.attempts, world.longest = 0, 0.0
    urgent = _until_bound(world, "urgent")
    began = time.process_time()
    attempts = _until_bound(world, "behind")
    tried = (time.process_time() - began) / max(attempts, 1)
    world.run()
    world.see(plain("after"))
    after = _until_bound(world, "after")
    world.clear_history()
    gc.unfreeze()
    return Burst(count, plain_cost, taken_in, tried, urgent + attempts, urgent, after, world.longest)


def check_flood(found: Shapes) -> None:
    """AssertionError if a flood costs more than it may."""
    assert found.late < SLOWER * found.early, found
    assert found.grown < LEFT_BYTES, found
    assert found.kept < MOST_SHAPES, found


def check_burst(found: Burst) -> None:
    """AssertionError if neighbours pay more for a burst than they may."""
    assert found.urgent == 1, found
    assert found.attempts <= found.pods + 2, found
    assert found.after == 1, found
    assert found.taken_in < TIMES_PLAIN * found.plain, found
    assert found.tried < TIMES_PLAIN * found.plain, found
    assert found.longest < 0.5, found


def _until_bound(world: HostilePodFixture, name: str) -> int:
    """Make attempts until the pod is bound; how many."""
    before = world.attempts
    while name not in world.assignments:
        tried = world.attempts
        world.run(most=1)
        assert world.attempts > tried, f"{name} is not tried"
    return world.attempts - before


def _cost(world: HostilePodFixture, pods: list[PodBuilder]) -> float:
    began = time.process_time()
    for each in pods:
        world.see(each)
        world.run()
    return time.process_time() - began


def _memory() -> int:
    """Resident bytes."""
    gc.collect()
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * 4096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", type=int, default=1_000_000)
    parser.add_argument("--burst", type=int, default=100_000)
    options = parser.parse_args()
    for fits in (True, False):
        found = burst(options.burst, fits)
        _say(f"a burst of pods that fit {'somewhere' if fits else 'nowhere'}: {found}")
        check_burst(found)
    shapes = flood(options.shapes, _say)
    _say(f"{options.shapes} shapes: {shapes}")
    check_flood(shapes)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
