"""Cost of a recording for each pod: `python -m bench.recording --nodes 5000`.

Two machines, one of them recorded, place the same pods in turn. The fastest quarter of the rounds is reported, so that
other programs on the machine disturb little.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import click
import msgspec

from bench.decide.objects import node, pod
from pyscheduler.api.objects import NodeObject, PodObject
from pyscheduler.clock import SystemClock
from pyscheduler.config.build import build_profiles
from pyscheduler.config.load import default
from pyscheduler.core.commands import Bind
from pyscheduler.core.context import Settings
from pyscheduler.core.events import Bound, NodeChanged, PodChanged
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.machine import Machine
from pyscheduler.shell.recording.file import Header
from pyscheduler.shell.recording.machine import RecordedMachine
from pyscheduler.shell.recording.writer import RecordingWriter

_PODS: Final = 256
"""Pods of a round."""
_replace = msgspec.structs.replace


class _InPlaceWriter(RecordingWriter):
    """Writer whose records wait until `write` encodes them in the calling thread."""

    def start(self, header: Header) -> None:  # noqa: ARG002
        self.is_active, self.queue = True, deque()

    def write(self) -> int:
        """Encode and compress all records; return the number of bytes."""
        written = 0
        while self.queue:
            written += len(self._take_batch())
        return written


def _pods(number: int) -> list[PodObject]:
    found = []
    for i in range(number * _PODS, (number + 1) * _PODS):
        template = pod({}, 0, {"app": "web", "pod-template-hash": "7f9c6d5b8"})
        uid = f"3f1d{i:04x}-aa11-4c0b-9d1e-{i * 2654435761 % (1 << 48):012x}"
        metadata = {**template["metadata"], "name": f"web-7f9c6d5b8-{i:05x}", "uid": uid}
        found.append(msgspec.json.decode(msgspec.json.encode({**template, "metadata": metadata}), type=PodObject))
    return found


def _place(machine: Machine, pods: Sequence[PodObject], now: float) -> float:
    """Place pods; return the microseconds of each."""
    began = time.thread_time()
    for each in pods:
        now += 0.0001
        machine.handle(PodChanged(now, each))
        for command in machine.cycle(now) or ():
            if isinstance(command, Bind):
                machine.handle(Bound(now, command.pod.uid))
                bound = _replace(each, spec=_replace(each.spec, node_name=command.node_name))
                machine.handle(PodChanged(now, bound))
    return (time.thread_time() - began) / len(pods) * 1e6


@click.command(help=__doc__)
@click.option("--nodes", type=click.IntRange(min=1), default=5000, show_default=True, help="Nodes of the cluster.")
@click.option("--rounds", type=click.IntRange(min=4), default=60, show_default=True, help="Rounds of 256 pods.")
def measure(nodes: int, rounds: int) -> None:
    config = default()
    build = partial(build_profiles, config)
    recording = _InPlaceWriter(Path(), 0, SystemClock())
    machines = Machine(build), RecordedMachine(recording, config, build, Instrument(), Settings())
    for machine in machines:
        for i in range(nodes):
            machine.handle(NodeChanged(1.0, msgspec.convert(node(i), NodeObject)))
    recording.write()
    times: list[list[float]] = [[], [], []]
    size = 0
    for number in range(rounds):
        pods = _pods(number)
        for machine, found in zip(machines, times, strict=False):
            found.append(_place(machine, pods, float(number + 2)))
        began = time.thread_time()
        size += recording.write()
        times[2].append((time.thread_time() - began) / _PODS * 1e6)
    plain, recorded, writing = (sorted(found)[len(found) // 4] for found in times)
    print(f"{nodes} nodes, per pod with its three events and one attempt:")
    print(f"  without recording  {plain:6.1f} µs")
    print(f"  recorded           {recorded:6.1f} µs")
    print(f"  writing thread     {writing:6.1f} µs")
    print(f"  file               {size / _PODS / rounds:6.0f} bytes")


if __name__ == "__main__":
    measure()
