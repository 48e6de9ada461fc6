"""Abuses of the threat model at any size: floods of distinct pod signatures, and bursts of one tenant.

`make hostile` runs them at full size, a million signatures and 100,000 pods, which takes an hour; `make slow` at a size
that takes seconds. The bounds are equal.
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

from pyscheduler.cli.progress_bar import ProgressBar
from pyscheduler.testing import PodBuilder, pod
from tests.hostile.pod_fixture import HostilePodFixture, plain

ALIVE = 200
"""Pods that exist at the same time during the flood of signatures."""
NODES = 100
SLOWER = 2.0
"""Maximum cost of the last tenths of a flood, as a multiple of the first ones."""
TENTHS = 3
"""Number of tenths of which the cheapest counts: other processes slow the processor down for a while."""
LEFT_BYTES = 48 << 20
"""Bytes that a flood may leave from its second tenth on, at any length."""
MAX_SIGNATURES = 20_000
"""Maximum of signatures remembered for deleted pods: some have cached results, others wait for their removal."""
TIMES_PLAIN = 3.0
"""Maximum cost of a pod of a burst, and of another tenant's pod during it, in plain pods."""


class FloodResult(NamedTuple):
    """Results of a flood of signatures: CPU seconds per pod, bytes of memory."""

    early: float
    late: float
    grown: int
    remembered: int
    """Signatures remembered after all of their pods are deleted."""


class BurstResult(NamedTuple):
    """Results of a burst, in CPU seconds."""

    pods: int
    plain: float
    """Per pod, before the burst or after it, whichever is more: the machine may become slower meanwhile."""
    queueing: float
    """Per pod of the burst, until it is queued."""
    tried: float
    """Per attempt until the pod of another tenant behind the burst was scheduled."""
    attempts: int
    """Number of attempts before that."""
    urgent: int
    """Number of attempts before another tenant's pod of a higher priority was scheduled."""
    after: int
    """Number of attempts before another tenant's pod created after the burst was scheduled."""
    longest: float
    """Longest attempt."""


def _template() -> bytes:
    """Return a pod template that differs from all others once `@` is replaced by a number."""
    made = plain("p@").label("key-@", "value-@").annotation("turn", "@").requests(cpu="#m", memory="1024@")
    made = made.tolerates("key-@", operator="Exists").node_selector(**{"topology.kubernetes.io/zone": "z%"})
    return json.dumps(made.manifest).encode()


_TEMPLATE = _template()


def pod_with_signature(i: int) -> bytes:
    """Return the i-th pod as JSON."""
    text = _TEMPLATE.replace(b"@", b"%d" % i)
    return text.replace(b"#", b"%d" % (i % 97 + 1)).replace(b"%", b"%d" % (i % 3))


def flood(count: int, progress: ProgressBar, report: Callable[[str], None] = lambda _: None) -> FloodResult:
    """Create and delete pods of `count` signatures, a few at a time; `report` receives figures of each tenth."""
    cluster = HostilePodFixture(nodes=NODES)
    tenth = count // 10
    spent: list[float] = []
    memory: list[int] = []
    began = time.process_time()
    for i in range(count):
        cluster.handle_pod(pod_with_signature(i))
        if i >= ALIVE:
            cluster.delete_pod(f"p{i - ALIVE}")
        if i % 20 == 19:
            cluster.run()
            progress.show("signatures", i + 1, count)
        if (i + 1) % tenth == 0:
            spent.append((time.process_time() - began) / tenth)
            cluster.clear_history()
            memory.append(_memory())
            progress.clear()
            report(f"{i + 1} signatures: {spent[-1] * 1e6:.0f} µs for each, {memory[-1] >> 20} MiB")
            began = time.process_time()
    for each in list(cluster.harness.machine.context.pods.values()):
        cluster.delete_pod(each.name)
    cluster.check_invariants()
    early, late = min(spent[1 : 1 + TENTHS]), min(spent[-TENTHS:])
    return FloodResult(early, late, memory[-1] - memory[1], len(cluster.harness.machine.context.shapes))


def burst(count: int, fits: bool, progress: ProgressBar) -> BurstResult:
    """Create `count` pods of one tenant at once, and some of another tenant behind, during and after them."""
    cluster = HostilePodFixture(nodes=NODES if not fits else max(NODES, count // 900))
    before = _cost(cluster, [plain(f"warm-{i}") for i in range(200)]) / 200
    amount = "1m" if fits else "1000"
    pods = [pod(f"burst-{i}").requests(cpu=amount).label("app", "burst") for i in range(count)]
    progress.show("pods of a burst", 0, count)
    began = time.process_time()
    cluster.handle_pods(*pods)
    queueing = (time.process_time() - began) / count
    gc.collect()
    gc.freeze()  # as the scheduler does: the collector does not scan long-lived objects during an attempt
    cluster.handle_pods(plain("behind"), plain("urgent").priority(10))
    cluster.attempts, cluster.longest = 0, 0.0
    urgent = _until_bound(cluster, "urgent", progress, count)
    began = time.process_time()
    attempts = _until_bound(cluster, "behind", progress, count)
    tried = (time.process_time() - began) / max(attempts, 1)
    cluster.run()
    cluster.handle_pods(plain("after"))
    after = _until_bound(cluster, "after", progress, count)
    longest = cluster.longest
    plain_cost = max(before, _cost(cluster, [plain(f"late-{i}") for i in range(200)]) / 200)
    cluster.clear_history()
    gc.unfreeze()
    return BurstResult(count, plain_cost, queueing, tried, urgent + attempts, urgent, after, longest)


def check_flood(found: FloodResult) -> None:
    """Raise AssertionError if a flood exceeds its bounds."""
    assert found.late < SLOWER * found.early, found
    assert found.grown < LEFT_BYTES, found
    assert found.remembered < MAX_SIGNATURES, found


def check_burst(found: BurstResult) -> None:
    """Raise AssertionError if a burst exceeds the bounds of other tenants."""
    assert found.urgent == 1, found
    assert found.attempts <= found.pods + 2, found
    assert found.after == 1, found
    assert found.queueing < TIMES_PLAIN * found.plain, found
    assert found.tried < TIMES_PLAIN * found.plain, found
    assert found.longest < 0.5, found


def _until_bound(cluster: HostilePodFixture, name: str, progress: ProgressBar, expected: int) -> int:
    """Run attempts until the pod is bound; return their number."""
    before = cluster.attempts
    while name not in cluster.assignments:
        tried = cluster.attempts
        progress.show(f"attempts until the pod {name} is bound", tried - before, expected)
        cluster.run(most=1)
        assert cluster.attempts > tried, f"{name} is not tried"
    return cluster.attempts - before


def _cost(cluster: HostilePodFixture, pods: list[PodBuilder]) -> float:
    began = time.process_time()
    for each in pods:
        cluster.handle_pods(each)
        cluster.run()
    return time.process_time() - began


def _memory() -> int:
    """Return the resident bytes."""
    gc.collect()
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * 4096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", type=int, default=1_000_000)
    parser.add_argument("--burst", type=int, default=100_000)
    options = parser.parse_args()
    for fits in (True, False):
        with ProgressBar("hostile") as progress:
            found = burst(options.burst, fits, progress)
        _print(f"a burst of pods that fit {'somewhere' if fits else 'nowhere'}: {found}")
        check_burst(found)
    with ProgressBar("hostile") as progress:
        shapes = flood(options.shapes, progress, _print)
    _print(f"{options.shapes} signatures: {shapes}")
    check_flood(shapes)


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
