"""Comparison with Kubernetes' evaluation on new random device selectors."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from tests.cel import oracle
from tests.cel.compare import compare
from tests.cel.generator import Generator
from tests.controlplane.build import BuildError, ToolchainMissing

CASES = 1000


@pytest.fixture(scope="module")
def program(request: pytest.FixtureRequest) -> Path:
    """Path of the built oracle. Without Go the test is skipped, or fails under CI."""
    if request.config.getoption("--control-plane", default="embedded") != "real":
        pytest.skip("needs Kubernetes' code: pytest tests/cel --control-plane=real")
    try:
        return oracle.program()
    except ToolchainMissing as error:
        if os.environ.get("CI", "").lower() not in {"true", "1"}:
            pytest.skip(str(error))
        pytest.fail(str(error), pytrace=False)
    except BuildError as error:
        pytest.fail(str(error), pytrace=False)


def test_new_random_selectors_agree_with_kubernetes(program: Path) -> None:
    seed = Random().randrange(10**9)
    generator = Generator(Random(seed))
    cases = [generator.case() for _ in range(CASES)]
    differences = (compare(case, theirs) for case, theirs in zip(cases, oracle.evaluate(program, cases), strict=True))
    found = next((difference for difference in differences if difference), None)
    assert not found, f"seed {seed}: {found}"
