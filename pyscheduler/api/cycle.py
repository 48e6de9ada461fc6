"""One scheduling attempt as plugins see it: its time, its chance, and a typed place for what they computed.

Kube-scheduler's CycleState is keyed by strings and cast back at run time; here each plugin owns a `StateKey[T]`, so
that a type checker knows what comes out.
"""

from __future__ import annotations

import random  # noqa: TID251 - the generator below is seeded from data, it is not a source of chance
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")


EVALUATION_LIMIT = 2_000_000
"""Evaluations that one attempt may take: 400 terms over 5,000 nodes."""
TIME_LIMIT = 1.0
"""Seconds that an attempt for a large pod may take; the last resort, since it depends on the machine."""


class AttemptLimitExceeded(Exception):
    """The pod requires more than an attempt may cost: it is unschedulable, and users read this text as it stands."""


class StateKey(Generic[T]):
    """The place of one plugin's state in a cycle. `name` is what errors call it."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class CallObserver(Protocol):
    """Whoever times the calls of plugins."""

    def __call__(self, plugin: str, point: str, call: Callable[..., T], *args: Any) -> T:
        """Make the call and give its answer; what it raises is raised."""


class Cycle:
    """One attempt to place one pod: `now` in seconds, `attempt` from 1, `profile` the scheduler name."""

    __slots__ = (
        "_deadline",
        "_evaluations",
        "_state",
        "attempt",
        "call_observer",
        "now",
        "profile",
        "seed",
        "skipped",
        "timer",
        "uid",
    )

    def __init__(self, now: float, profile: str, uid: str, attempt: int = 1, seed: int = 0) -> None:
        self.now = now
        self.profile = profile
        self.uid = uid
        self.attempt = attempt
        self.seed = seed
        self.skipped: frozenset[str] = frozenset()
        """The plugins that left their Filter out of this attempt: what their PreFilter answered with SKIP."""
        self.call_observer: CallObserver | None = None
        """Through whom the scheduler calls plugins in this attempt; None, in most: directly."""
        self.timer: Callable[[], float] | None = None
        """Seconds on a clock that is read between plugins; None, in most attempts: none is."""
        self._deadline = 0.0
        self._evaluations = 0
        self._state: dict[StateKey[Any], Any] = {}

    def limit_time(self, timer: Callable[[], float] | None) -> None:
        """Have the attempt end once `TIME_LIMIT` is over on this clock."""
        self.timer = timer
        self._deadline = 0.0 if timer is None else timer() + TIME_LIMIT

    def check_time(self, plugin: str, point: str) -> None:
        """Raise AttemptLimitExceeded if the time limit is over; `plugin` has been called at the extension point last."""
        if self.timer is not None and self.timer() > self._deadline:
            late = f"an attempt takes longer than {TIME_LIMIT:g} s"
            raise AttemptLimitExceeded(f"{late}: stopped after plugin {plugin} at {point}")

    def charge_evaluations(self, terms: int, nodes: int, what: str, block: int = 1) -> None:
        """Charge the attempt for evaluating so many terms over so many nodes. AttemptLimitExceeded beyond `EVALUATION_LIMIT`.

        `what` names the terms in the message. A `block` of nodes costs as much as one, where terms are evaluated over
        columns together.
        """
        self._evaluations += terms * -(-nodes // block)
        if self._evaluations > EVALUATION_LIMIT:
            limit = f"the limit of {EVALUATION_LIMIT} evaluations per attempt"
            raise AttemptLimitExceeded(f"{what} with {terms} terms over {nodes} nodes exceeds {limit}")

    def __setitem__(self, key: StateKey[T], value: T) -> None:
        self._state[key] = value

    def __getitem__(self, key: StateKey[T]) -> T:
        """The state under `key`. KeyError with its name if the plugin has not written it."""
        try:
            value: T = self._state[key]
        except KeyError:
            raise KeyError(f"no state {key.name!r} in this cycle: it is written in pre_filter or pre_score") from None
        return value

    def __contains__(self, key: StateKey[Any]) -> bool:
        return key in self._state

    def at(self, now: float) -> Cycle:
        """The attempt at a later time: state that is written here or there is seen in both."""
        later = Cycle(now, self.profile, self.uid, self.attempt, self.seed)
        later.skipped = self.skipped
        later._state = self._state
        return later

    def update_state(self, state: Mapping[StateKey[Any], Any]) -> None:
        """Take over state computed earlier for the same signature."""
        self._state.update(state)

    def state(self) -> dict[StateKey[Any], Any]:
        """A copy of all state, to be adopted by a later cycle."""
        return dict(self._state)

    def restore(self, state: Mapping[StateKey[Any], Any]) -> None:
        """Put back what `state()` gave earlier: what was written since is forgotten."""
        self._state = dict(state)

    def random_bits(self) -> int:
        """A 64-bit number that is the same for the same (seed, pod UID, attempt): cheap, for breaking ties."""
        text = f"{self.seed}/{self.uid}/{self.attempt}".encode()
        return int.from_bytes(blake2b(text, digest_size=8).digest())

    def rng(self) -> random.Random:
        """A generator seeded from `random_bits()`: the same attempt draws the same numbers when it is replayed."""
        return random.Random(self.random_bits())
