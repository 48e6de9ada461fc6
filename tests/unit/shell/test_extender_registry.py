"""Changes of the configured extenders at runtime."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from pyscheduler.api import ResourceKind
from pyscheduler.config.build import build_profiles
from pyscheduler.config.load import default
from pyscheduler.config.problems import ConfigError
from pyscheduler.config.types import ExtenderConfig, ExtenderTLS, KubeSchedulerConfiguration
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.core.framework.profile import Profile
from pyscheduler.kube.paths import NODES, PODS
from pyscheduler.kube.reflector import Reflector
from pyscheduler.shell.extenders import registry as module
from pyscheduler.shell.extenders.raw_objects import CacheScope
from pyscheduler.shell.extenders.registry import RETIRING, ExtenderRegistry
from tests.unit.kube.virtual import SteppedClock

NAMES: dict[str, Any] = {"filter_verb": "filter", "node_cache_capable": True}


class Watch:
    """Fake reflector that counts relists; with answers=False a relist never ends."""

    def __init__(self, kind: ResourceKind, answers: bool = True) -> None:
        self.kind, self.name, self.problem = kind, kind.plural, "no route to host"
        self.listed = 0
        self._answers = answers

    async def list_again(self) -> None:
        self.listed += 1
        if not self._answers:
            await SteppedClock().sleep(1)


def watches(*each: Watch) -> list[Reflector[Any]]:
    return cast(list[Reflector[Any]], list(each))


def configured(**given: Any) -> KubeSchedulerConfiguration:
    return KubeSchedulerConfiguration(extenders=(ExtenderConfig("http://e", **given),) if given else ())


@asynccontextmanager
async def extenders(clock: SteppedClock | None = None, **given: Any) -> AsyncIterator[ExtenderRegistry]:
    made = ExtenderRegistry(configured(**given), clock or SteppedClock())
    yield made
    await made.close()


def scopes(registry: ExtenderRegistry) -> list[CacheScope]:
    return [each.scope for each in registry.raw_objects]


async def test_objects_for_a_new_extender_are_listed_again() -> None:
    pods, nodes = Watch(PODS), Watch(NODES)
    async with extenders() as registry:
        assert (registry.known, scopes(registry)) == ((), [CacheScope.NONE, CacheScope.NONE])
        await registry.change(configured(**NAMES), watches(nodes, pods), tuple)
        assert [known.url for known in registry.known] == ["http://e"]
        assert (pods.listed, nodes.listed) == (1, 0), "nodeCacheCapable"
        await registry.change(configured(filter_verb="f"), watches(nodes, pods), tuple)
        assert (pods.listed, nodes.listed) == (1, 1)
        assert scopes(registry) == [CacheScope.PENDING, CacheScope.ALL]


async def test_raw_objects_that_no_extender_needs_are_dropped() -> None:
    pods, nodes = Watch(PODS), Watch(NODES)
    async with extenders(filter_verb="f", preempt_verb="p") as registry:
        assert scopes(registry) == [CacheScope.ALL, CacheScope.ALL]
        await registry.change(configured(**NAMES), watches(nodes, pods), tuple)
        assert scopes(registry) == [CacheScope.PENDING, CacheScope.NONE]
        await registry.change(configured(), watches(nodes, pods), tuple)
        assert (registry.known, scopes(registry)) == ((), [CacheScope.NONE, CacheScope.NONE])
        assert (pods.listed, nodes.listed) == (0, 0)


async def test_change_fails_when_the_objects_cannot_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LISTING", 0.01)
    async with extenders() as registry:
        with pytest.raises(
            ConfigError, match=r"extenders: cannot list objects for requests: pods \(no route to host\)"
        ):
            await registry.change(configured(**NAMES), watches(Watch(PODS, answers=False)), tuple)
        assert (registry.known, scopes(registry)) == ((), [CacheScope.NONE, CacheScope.NONE])


async def test_invalid_tls_settings_keep_the_previous_extenders() -> None:
    async with extenders(**NAMES) as registry:
        with pytest.raises(ConfigError, match=r"extenders\[0\]\.tlsConfig: the certificates cannot be used"):
            await registry.change(configured(filter_verb="f", tls_config=ExtenderTLS(ca_file="/no")), (), tuple)
        assert scopes(registry) == [CacheScope.PENDING, CacheScope.NONE]


async def test_removed_extender_finishes_its_bindings_before_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, closed = SteppedClock(), list[str]()

    async def close(self: Any) -> None:
        closed.append(self.url)

    monkeypatch.setattr("pyscheduler.shell.extenders.client.Client.close", close)
    async with extenders(clock, bind_verb="b") as registry:
        binding_profiles: list[Profile] = [
            *registry.with_binders(build_profiles(default(), empty_handle()), empty_handle())
        ]
        await registry.change(configured(), (), lambda: binding_profiles)
        await clock.until_asleep(1)
        await clock.advance(5 * RETIRING)
        assert closed == []
        binding_profiles.clear()
        await clock.until_asleep(1)
        await clock.advance(RETIRING)
        assert closed == ["http://e"]
