"""The contract of state stores, for each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyscheduler.backend.state.cluster import ClusterState, WriteLimits
from pyscheduler.backend.state.memory import MemoryState
from pyscheduler.backend.state.sqlite import SqliteState
from pyscheduler.core.leader_election import LeaseTimings
from tests.tasks.fake_objects import FakeObjects
from tests.tasks.state_contract import Again, StateContract

QUICK = LeaseTimings(lease_duration=0.4, renew_deadline=0.3, retry_period=0.05)
UNLIMITED = WriteLimits(writes_per_second=1e6, burst=1)


class TestInMemory(StateContract):
    """Kept as long as the object is."""

    @pytest.fixture
    def again(self) -> Again:
        state = MemoryState()
        return lambda: state


class TestInAFile(StateContract):
    """Kept on the disk."""

    @pytest.fixture
    def again(self, tmp_path: Path) -> Again:
        return lambda: SqliteState(tmp_path / "tasks.db")


class TestInTheCluster(StateContract):
    """Kept by an API server, which is in memory here."""

    @pytest.fixture
    def again(self) -> Again:
        server = FakeObjects()
        return lambda: ClusterState(server.client(), "tasks", write_limits=UNLIMITED, terms=QUICK)
