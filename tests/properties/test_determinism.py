"""Equal events give equal commands, which simulation, replay and bug reports depend on."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from itertools import count

import pytest
from hypothesis import given

from pyscheduler.api import Cycle
from pyscheduler.testing import Harness, node, pod
from tests.properties.described import describe
from tests.properties.evaluation_model import EvaluationWorld
from tests.properties.machine_model import STEPS, WHAT, MachineModel, Step
from tests.properties.probe_plugins import LEVELS, Class, NamedNodes
from tests.properties.profiles import assert_caught, quick


def commands_of(script: list[Step], seed: int = 0) -> list[str]:
    machine = MachineModel(seed)
    for step in script:
        machine.do(step)
    machine.heal()
    return [describe(command) for command in machine.harness.commands]


def check_repeatable(script: list[Step]) -> None:
    assert commands_of(script) == commands_of(script)


@quick(40)
@given(STEPS)
def test_equal_events_give_equal_commands(script: list[Step]) -> None:
    check_repeatable(script)


def test_property_catches_unseeded_randomness(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count()
    monkeypatch.setattr(Cycle, "random_bits", lambda self: next(calls))
    assert_caught(check_repeatable, STEPS, AssertionError)


CHILD = "from tests.properties.test_determinism import long_run; print(*long_run(), sep='\\n')"


def long_run() -> list[str]:
    """Return the commands of a machine after hundreds of steps, and the decisions of plugins of every kind."""
    draw = random.Random(36)
    commands = commands_of([(draw.choice(WHAT), draw.randrange(10), draw.randrange(12)) for _ in range(400)])
    return commands + _decisions(LEVELS, draw) + _decisions((NamedNodes,), draw)


def _decisions(classes: tuple[Class, ...], draw: random.Random) -> list[str]:
    model = EvaluationWorld(classes)
    model.do(("many", 0, 0, 0))
    for _ in range(200):
        model.do((draw.choice(("place", "node", "nominate", "attempt")), draw.randrange(8), draw.randrange(36), 1))
    return model.decisions


def _run_in_process(hash_seed: int) -> list[str]:
    """Run in a process with another hash seed, where sets have another order."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_commands_do_not_depend_on_set_order() -> None:
    first, second = (_run_in_process(hash_seed) for hash_seed in (1, 2))
    assert len(first) > 200, len(first)
    assert first == second


def _spread(seed: int) -> dict[str, str]:
    harness = Harness(seed=seed)
    harness.add(*(node(f"n{i}") for i in range(8)), node("small", cpu="1"))
    harness.add(pod("a").requests(cpu="2"))
    harness.run()
    return harness.assignments


def test_seed_changes_tie_break_only() -> None:
    chosen = [_spread(seed)["a"] for seed in range(20)]
    assert "small" not in chosen
    assert len(set(chosen)) > 3
    assert chosen == [_spread(seed)["a"] for seed in range(20)]
