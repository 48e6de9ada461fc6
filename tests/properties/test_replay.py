"""A recording of random events replays to the same commands, and another decision is found."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api import Cycle
from tests.properties.machine_model import WHAT, MachineModel, Step
from tests.properties.pod_group_model import RECONFIGURED
from tests.properties.profiles import assert_caught, quick
from tests.properties.recorded import MemoryRecording, first_difference, recorded_harnesses
from tests.properties.state_steps import scripts
from tests.properties.test_pod_groups import check_reconfigured

INPUTS = tuple(what for what in WHAT if what not in ("mood", "settle"))
"""Steps that reach the scheduler through the machine: the others change a plugin from outside."""
STEPS = scripts(st.tuples(st.sampled_from(INPUTS), st.integers(0, 9), st.integers(0, 11)), longest=40)


def recording_of(script: list[Step]) -> MemoryRecording:
    with recorded_harnesses() as recordings:
        model = MachineModel(seed=7)
        for step in script:
            model.do(step)
        model.heal()
    (recording,) = recordings
    return recording


def check_replay(script: list[Step]) -> None:
    assert first_difference(recording_of(script).replay()) is None


@quick(40)
@given(STEPS)
def test_replay_returns_the_recorded_commands(script: list[Step]) -> None:
    check_replay(script)


def check_groups_replay(script: list[Step]) -> None:
    with recorded_harnesses() as recordings:
        check_reconfigured(script)
    assert recordings
    assert [first_difference(recording.replay()) for recording in recordings] == [None] * len(recordings)


@quick(15)
@given(RECONFIGURED)
def test_pod_groups_and_changed_configurations_are_replayed(script: list[Step]) -> None:
    check_groups_replay(script)


def test_property_catches_unseeded_randomness(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count()
    monkeypatch.setattr(Cycle, "random_bits", lambda self: next(calls))
    assert_caught(check_replay, STEPS, AssertionError)
