"""The same events give the same commands: what simulation, replay and bug reports rest on."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from itertools import count

import pytest
from hypothesis import given

from pyscheduler.api import Cycle
from pyscheduler.core.commands import Bind, CallExtenders, CancelBinding, Command, Evict, GetPod, PatchStatus, Record
from pyscheduler.testing import Harness, node, pod
from tests.properties.evaluation_model import EvaluationWorld
from tests.properties.machine_model import STEPS, WHAT, MachineWorld, Step
from tests.properties.probe_plugins import LEVELS, Class, Narrow
from tests.properties.profiles import assert_caught, quick


def commands_of(script: list[Step], seed: int = 0) -> list[str]:
    world = MachineWorld(seed)
    for step in script:
        world.do(step)
    world.heal()
    return [_told(command) for command in world.harness.commands]


def _told(command: Command) -> str:
    match command:
        case Bind():
            return f"bind {command.pod.uid} to {command.node_name}, attempt {command.cycle.attempt}"
        case CancelBinding():
            return f"call off {command.uid}"
        case PatchStatus():
            return f"patch {command.pod.uid} {command.condition} {command.nominated_node_name}"
        case Evict():
            return f"evict {command.victim.uid} for {command.preemptor.uid}"
        case Record():
            return f"{command.reason} {command.regarding.uid} {command.note}"
        case GetPod():
            return f"get {command.pod.uid}"
        case CallExtenders():
            return f"ask {len(command.calls)} extenders about {command.pod.uid}"


def prove_repeatable(script: list[Step]) -> None:
    assert commands_of(script) == commands_of(script)


@quick(40)
@given(STEPS)
def test_the_same_events_give_the_same_commands(script: list[Step]) -> None:
    prove_repeatable(script)


def test_chance_from_anywhere_else_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count()
    monkeypatch.setattr(Cycle, "random_bits", lambda self: next(calls))
    assert_caught(prove_repeatable, STEPS, AssertionError)


CHILD = "from tests.properties.test_determinism import long_story; print(*long_story(), sep='\\n')"


def long_story() -> list[str]:
    """What a machine did in hundreds of steps, and what plugins of every kind were taken to say."""
    draw = random.Random(36)
    commands = commands_of([(draw.choice(WHAT), draw.randrange(10), draw.randrange(12)) for _ in range(400)])
    return commands + _decisions(LEVELS, draw) + _decisions((Narrow,), draw)


def _decisions(classes: tuple[Class, ...], draw: random.Random) -> list[str]:
    world = EvaluationWorld(classes)
    world.do(("many", 0, 0, 0))
    for _ in range(200):
        world.do((draw.choice(("place", "node", "nominate", "attempt")), draw.randrange(8), draw.randrange(36), 1))
    return world.decisions


def _in_a_process_of_its_own(hash_seed: int) -> list[str]:
    """Sets are in another order there."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_order_of_sets_decides_nothing() -> None:
    first, second = (_in_a_process_of_its_own(hash_seed) for hash_seed in (1, 2))
    assert len(first) > 200, len(first)
    assert first == second


def _spread(seed: int) -> dict[str, str]:
    harness = Harness(seed=seed)
    harness.add(*(node(f"n{i}") for i in range(8)), node("small", cpu="1"))
    harness.add(pod("a").requests(cpu="2"))
    harness.run()
    return harness.assignments


def test_another_seed_falls_on_another_of_the_best_nodes_only() -> None:
    chosen = [_spread(seed)["a"] for seed in range(20)]
    assert "small" not in chosen
    assert len(set(chosen)) > 3
    assert chosen == [_spread(seed)["a"] for seed in range(20)]
