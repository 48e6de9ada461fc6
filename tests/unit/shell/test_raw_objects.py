"""Cache of raw JSON objects for extenders."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pyscheduler.api import PodObject
from pyscheduler.config.types import ExtenderConfig
from pyscheduler.kube.decode import ObjectDecoder, Refusals
from pyscheduler.shell.extenders.raw_objects import CacheScope, RawObjectCache, required_scopes
from pyscheduler.testing import pod
from tests.unit.kube.fake_api import event


def keeping(cache: RawObjectCache) -> ObjectDecoder[PodObject]:
    decoder = ObjectDecoder("pods", PodObject, Refusals())
    cache.fill_from(decoder)
    return decoder


def page(*items: Any) -> bytes:
    return msgspec.json.encode({"metadata": {"resourceVersion": "7"}, "items": items})


def read(cache: RawObjectCache, name: str) -> Any:
    body = cache.get(name, "default")
    return None if body is None else msgspec.json.decode(body)


def test_listed_objects_are_stored_without_managed_fields() -> None:
    cache, listed = RawObjectCache(CacheScope.ALL), pod("a").spec(dnsPolicy="Default").manifest
    managed = {**listed, "metadata": {**listed["metadata"], "managedFields": [{"manager": "kubectl"}]}}
    found = keeping(cache).page(page(managed, pod("b").manifest))
    assert [item.identity.name for item in found.items] == ["a", "b"]
    assert read(cache, "a") == {"metadata": listed["metadata"], "spec": listed["spec"]}
    assert cache.get("a") is None, "the namespace is part of the key"


def test_watch_event_updates_the_object() -> None:
    cache = RawObjectCache(CacheScope.ALL)
    decoder = keeping(cache)
    for manifest in (pod("a").manifest, pod("a").label("app", "web").manifest):
        decoded = decoder.line(event("MODIFIED", manifest)).item.object
        assert decoded is not None
    assert read(cache, "a")["metadata"]["labels"] == {"app": "web"}


def test_object_that_leaves_the_scope_is_dropped() -> None:
    cache = RawObjectCache(CacheScope.PENDING)
    decoder = keeping(cache)
    decoder.line(event("ADDED", pod("a").manifest))
    assert len(cache) == 1
    decoder.line(event("MODIFIED", pod("a").on("n1").manifest))
    assert len(cache) == 0


def test_deleted_object_is_dropped() -> None:
    cache, manifest = RawObjectCache(CacheScope.ALL), pod("a").manifest
    keeping(cache).line(event("ADDED", manifest))
    cache.drop("uid of b", "b", "default")
    cache.drop("uid of a former a", "a", "default")
    assert len(cache) == 1
    cache.drop(manifest["metadata"]["uid"], "a", "default")
    assert len(cache) == 0


def test_widening_the_scope_stores_objects_from_then_on() -> None:
    cache = RawObjectCache()
    decoder = keeping(cache)
    decoder.line(event("ADDED", pod("a").manifest))
    cache.scope = CacheScope.ALL
    decoder.line(event("ADDED", pod("b").manifest))
    assert [name for name in ("a", "b") if cache.get(name, "default")] == ["b"]


def test_undecodable_object_is_not_stored() -> None:
    cache = RawObjectCache(CacheScope.ALL)
    broken = {"metadata": {"name": "a", "namespace": "default"}, "spec": {"containers": 7}}
    assert [item.object for item in keeping(cache).page(page(broken)).items] == [None]
    assert len(cache) == 0


def test_nothing_is_stored_with_an_empty_scope() -> None:
    cache = RawObjectCache()
    decoder = keeping(cache)
    assert [item.identity.name for item in decoder.page(page(pod("a").manifest)).items] == ["a"]
    assert decoder.line(event("ADDED", pod("b").manifest)).item.object is not None
    assert len(cache) == 0


@pytest.mark.parametrize(
    ("scope", "left"),
    [(CacheScope.ALL, ["a", "b"]), (CacheScope.PENDING, ["a"]), (CacheScope.NONE, [])],
    ids=lambda each: str(each),
)
def test_narrowing_the_scope_drops_objects(scope: CacheScope, left: list[str]) -> None:
    cache = RawObjectCache(CacheScope.ALL)
    list(keeping(cache).page(page(pod("a").manifest, pod("b").on("n1").manifest)).items)
    cache.narrow(scope)
    assert [name for name in ("a", "b") if cache.get(name, "default")] == left
    assert cache.scope is scope


@pytest.mark.parametrize(
    ("extenders", "needs"),
    [
        pytest.param([], (CacheScope.NONE, CacheScope.NONE), id="no extender"),
        pytest.param([{"bind_verb": "b"}], (CacheScope.PENDING, CacheScope.NONE), id="one that binds"),
        pytest.param([{"filter_verb": "f"}], (CacheScope.PENDING, CacheScope.ALL), id="one that is sent nodes"),
        pytest.param(
            [{"filter_verb": "f", "node_cache_capable": True}], (CacheScope.PENDING, CacheScope.NONE), id="names"
        ),
        pytest.param(
            [{"preempt_verb": "p"}, {"bind_verb": "b"}],
            (CacheScope.ALL, CacheScope.NONE),
            id="one that is sent victims",
        ),
    ],
)
def test_required_scopes(extenders: list[dict[str, Any]], needs: tuple[CacheScope, CacheScope]) -> None:
    assert required_scopes([ExtenderConfig("http://e", **given) for given in extenders]) == needs
