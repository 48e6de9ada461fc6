"""Comparison with the real kube-scheduler's framework on new random cases."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.generator import Case, draw, draw_sequence
from tests.conformance.oracle import Oracle, program
from tests.conformance.run import outcomes
from tests.controlplane.build import BuildError, ToolchainMissing

CASES, SEQUENCES = 150, 8


@pytest.fixture(scope="module")
def oracle_program(request: pytest.FixtureRequest) -> Path:
    """Path of the built oracle. Without Go the test is skipped, or fails under CI."""
    if request.config.getoption("--control-plane", default="embedded") != "real":
        pytest.skip("needs the real kube-scheduler: pytest tests/e2e tests/conformance --control-plane=real")
    try:
        return program()
    except ToolchainMissing as error:
        if os.environ.get("CI", "").lower() not in {"true", "1"}:
            pytest.skip(str(error))
        pytest.fail(str(error), pytrace=False)
    except BuildError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.mark.parametrize(
    ("option", "make", "number"), [("cases", draw, CASES), ("sequences", draw_sequence, SEQUENCES)]
)
def test_new_random_cases_agree_with_kube_scheduler(
    option: str, make: Callable[[int], Case], number: int, oracle_program: Path
) -> None:
    """The failure message has the command that repeats it."""
    first = random.SystemRandom().randrange(10**9)
    with Oracle(oracle_program) as oracle, Oracle(oracle_program) as second:
        for outcome in outcomes((make(seed) for seed in range(first, first + number)), oracle, second):
            seed = outcome.case.document["id"]
            differences = "\n".join(str(difference) for difference in outcome.found)
            assert not outcome.found, f"python -m tests.conformance --{option} 1 --seed {seed}\n{differences}"
