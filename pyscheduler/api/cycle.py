"""State of one scheduling attempt: its time, its random numbers and typed storage for plugins.

Counterpart of kube-scheduler's CycleState. That one maps strings to values that are cast at run time; here each plugin
owns a `StateKey[T]`, so a type checker infers the type of what is read back.
"""

from __future__ import annotations

import random  # noqa: TID251 - the generator below is seeded from data
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")


EVALUATION_LIMIT = 2_000_000
"""Limit of term evaluations in one attempt: 400 terms over 5,000 nodes."""
TIME_LIMIT = 1.0
"""Time limit of an attempt for a large pod, in seconds. It depends on the machine, so it is the last resort."""


class AttemptLimitExceeded(Exception):
    """Error of an attempt that exceeds a limit. The pod is unschedulable; the text is reported to users unchanged."""


class StateKey(Generic[T]):
    """Key of one plugin's state in a cycle. `name` identifies it in error messages."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class CallObserver(Protocol):
    """Wrapper around plugin calls, for example to measure their duration."""

    def __call__(self, plugin: str, point: str, call: Callable[..., T], *args: Any) -> T:
        """Return `call(*args)` for a plugin at an extension point. Exceptions propagate."""


class Cycle:
    """One attempt to schedule one pod.

    `now` is in seconds on the scheduler's clock, `attempt` counts from 1 for each pod, `profile` is the scheduler name.
    `seed` comes from the configuration and makes ties reproducible.
    """

    __slots__ = (
        "_deadline",
        "_evaluations",
        "_state",
        "attempt",
        "call_observer",
        "is_resize",
        "now",
        "profile",
        "seed",
        "skipped",
        "timer",
        "uid",
    )

    def __init__(
        self,
        now: float,
        profile: str,
        uid: str,
        attempt: int = 1,
        seed: int = 0,
        call_observer: CallObserver | None = None,
        timer: Callable[[], float] | None = None,
    ) -> None:
        """`timer` limits the attempt to `TIME_LIMIT` seconds from now on this clock; None sets no limit."""
        self.now = now
        self.profile = profile
        self.uid = uid
        self.attempt = attempt
        self.seed = seed
        self.skipped: frozenset[str] = frozenset()
        """Names of the plugins for which Filter is skipped in this attempt because their PreFilter returned SKIP."""
        self.is_resize = False
        """True if the pod has a node, and the attempt is to make room there for its deferred in-place resize."""
        self.call_observer = call_observer
        """Wrapper for plugin calls in this attempt; None, the usual case, calls plugins directly."""
        self.timer = timer
        """Clock, in seconds, that is read between plugin calls; None, the usual case, reads no clock."""
        self._deadline = 0.0 if timer is None else timer() + TIME_LIMIT
        self._evaluations = 0
        self._state: dict[StateKey[Any], Any] = {}

    def check_time(self, plugin: str, point: str) -> None:
        """Raise AttemptLimitExceeded if the time limit is exceeded.

        `plugin` and `point` name the last call in the message.
        """
        if self.timer is not None and self.timer() > self._deadline:
            late = f"an attempt takes longer than {TIME_LIMIT:g} s"
            raise AttemptLimitExceeded(f"{late}: stopped after plugin {plugin} at {point}")

    def charge_evaluations(self, terms: int, nodes: int, what: str, block: int = 1, unit: str = "nodes") -> None:
        """Count `terms` times `nodes` evaluations; raise AttemptLimitExceeded above `EVALUATION_LIMIT` per attempt.

        `what` names the terms in the message. Terms that are evaluated over columns cost one evaluation for each
        `block` of nodes. `unit` names what the terms are evaluated over, if not nodes.
        """
        self._evaluations += terms * -(-nodes // block)
        if self._evaluations > EVALUATION_LIMIT:
            limit = f"the limit of {EVALUATION_LIMIT} evaluations per attempt"
            raise AttemptLimitExceeded(f"{what} with {terms} terms over {nodes} {unit} exceeds {limit}")

    def __setitem__(self, key: StateKey[T], value: T) -> None:
        """Store `value` under `key`, replacing an earlier value."""
        self._state[key] = value

    def __getitem__(self, key: StateKey[T]) -> T:
        """Return the state stored under `key`. KeyError with the key's name if the plugin has not written it."""
        try:
            value: T = self._state[key]
        except KeyError:
            raise KeyError(f"no state {key.name!r} in this cycle: it is written in pre_filter or pre_score") from None
        return value

    def __contains__(self, key: StateKey[Any]) -> bool:
        return key in self._state

    def at(self, now: float) -> Cycle:
        """Return a copy of this cycle with a later `now` and shared state: writes to either are visible in both."""
        later = Cycle(now, self.profile, self.uid, self.attempt, self.seed)
        later.skipped, later.is_resize = self.skipped, self.is_resize
        later._state = self._state
        return later

    def update_state(self, state: Mapping[StateKey[Any], Any]) -> None:
        """Add state that was computed earlier for the same pod signature."""
        self._state.update(state)

    def state(self) -> dict[StateKey[Any], Any]:
        """Return a shallow copy of all state, for `update_state` or `restore`."""
        return dict(self._state)

    def restore(self, state: Mapping[StateKey[Any], Any]) -> None:
        """Replace all state with the result of an earlier `state()`; later writes are dropped."""
        self._state = dict(state)

    def random_bits(self) -> int:
        """Return a 64-bit number that depends only on (seed, pod UID, attempt). Cheap enough to break ties with."""
        text = f"{self.seed}/{self.uid}/{self.attempt}".encode()
        return int.from_bytes(blake2b(text, digest_size=8).digest())

    def rng(self) -> random.Random:
        """Return a generator seeded with `random_bits()`, so that a replayed attempt draws equal numbers."""
        return random.Random(self.random_bits())
