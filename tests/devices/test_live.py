"""Comparison with kube-scheduler's allocator on new random documents."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.controlplane.build import BuildError, ToolchainMissing
from tests.devices import ours
from tests.devices.compare import difference, is_too_long
from tests.devices.generator import draw
from tests.devices.oracle import Allocators, program

DOCUMENTS = 300


@pytest.fixture(scope="module")
def allocator_program(request: pytest.FixtureRequest) -> Path:
    """Path of the built command. Without Go the test is skipped, or fails under CI."""
    if request.config.getoption("--control-plane", default="embedded") != "real":
        pytest.skip("needs kube-scheduler's allocator: pytest tests/devices --control-plane=real")
    try:
        return program()
    except ToolchainMissing as error:
        if os.environ.get("CI", "").lower() not in {"true", "1"}:
            pytest.skip(str(error))
        pytest.fail(str(error), pytrace=False)
    except BuildError as error:
        pytest.fail(str(error), pytrace=False)


def test_new_random_documents_agree_with_kube_scheduler(allocator_program: Path) -> None:
    """The failure message has the command that repeats it."""
    first = random.SystemRandom().randrange(10**9)
    with Allocators(allocator_program) as allocators:
        for document, theirs in allocators.results(draw(first + number) for number in range(DOCUMENTS)):
            result = ours.allocate(document)
            if theirs.get("timedOut") or (result.get("timedOut") and is_too_long(document, theirs)):
                continue
            found = difference(theirs, result)
            assert not found, f"python -m tests.devices --cases 1 --seed {document['id']}\n{found}"
