"""Contract of state stores, run for each implementation."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyscheduler.backend.state.cluster import ClusterTaskState, WriteLimits
from pyscheduler.backend.state.memory import MemoryState
from pyscheduler.backend.state.sqlite import SqliteState
from pyscheduler.core.leader_election import LeaseTimings
from tests.tasks.fake_objects import FakeObjects
from tests.tasks.state_contract import OpenStore, StateContract

SHORT_LEASE = LeaseTimings(lease_duration=4.0, renew_deadline=3.0, retry_period=0.05)
UNLIMITED = WriteLimits(writes_per_second=1e6, burst=1)


class TestMemoryState(StateContract):
    """State in memory."""

    @pytest.fixture
    def open_store(self) -> OpenStore:
        state = MemoryState()
        return lambda: state


class TestSqliteState(StateContract):
    """State in a SQLite file."""

    @pytest.fixture
    def open_store(self, tmp_path: Path) -> OpenStore:
        return lambda: SqliteState(tmp_path / "tasks.db")


class TestClusterState(StateContract):
    """State in ConfigMaps of an in-memory API server."""

    @pytest.fixture
    def open_store(self) -> OpenStore:
        server = FakeObjects()
        return lambda: ClusterTaskState(server.client(), "tasks", write_limits=UNLIMITED, terms=SHORT_LEASE)
