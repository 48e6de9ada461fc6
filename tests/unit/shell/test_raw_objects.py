"""Objects kept in JSON for extenders: the newest version of those that may be sent, as the API server wrote them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pyscheduler.api import PodObject
from pyscheduler.config.types import Extender
from pyscheduler.shell.extenders.raw_objects import CacheScope, RawObjectCache, required_scopes
from pyscheduler.shell.kube.decode import ObjectDecoder, Refusals
from pyscheduler.shell.kube.reflector import Gone, Upsert
from pyscheduler.testing import pod

from .fake_api import event


def keeping(kept: RawObjectCache) -> ObjectDecoder[PodObject]:
    return kept.decoder("pods", PodObject, Refusals())


def page(*items: Any) -> bytes:
    return msgspec.json.encode({"metadata": {"resourceVersion": "7"}, "items": items})


def read(kept: RawObjectCache, name: str) -> Any:
    body = kept.get(name, "default")
    return None if body is None else msgspec.json.decode(body)


def test_a_list_is_kept_whole_but_for_what_only_servers_read() -> None:
    kept, listed = RawObjectCache(CacheScope.ALL), pod("a").spec(dnsPolicy="Default").manifest
    managed = {**listed, "metadata": {**listed["metadata"], "managedFields": [{"manager": "kubectl"}]}}
    found = keeping(kept).page(page(managed, pod("b").manifest))
    assert [item.identity.name for item in found.items] == ["a", "b"]
    assert read(kept, "a") == {"metadata": listed["metadata"], "spec": listed["spec"]}
    assert kept.get("a") is None, "its namespace is part of its name"


def test_a_watch_brings_it_up_to_date() -> None:
    kept = RawObjectCache(CacheScope.ALL)
    decoder = keeping(kept)
    for manifest in (pod("a").manifest, pod("a").label("app", "web").manifest):
        decoded = decoder.line(event("MODIFIED", manifest)).item.object
        assert decoded is not None
    assert read(kept, "a")["metadata"]["labels"] == {"app": "web"}


def test_what_is_no_longer_wanted_is_let_go_of() -> None:
    kept = RawObjectCache(CacheScope.PENDING)
    decoder = keeping(kept)
    decoder.line(event("ADDED", pod("a").manifest))
    assert len(kept) == 1
    decoder.line(event("MODIFIED", pod("a").on("n1").manifest))
    assert len(kept) == 0


def test_what_is_gone_is_let_go_of_before_others_hear_of_it() -> None:
    kept, heard = RawObjectCache(CacheScope.ALL), list[tuple[str, int]]()

    def hear(change: Upsert[Any] | Gone) -> None:
        heard.append((type(change).__name__, len(kept)))

    emit = kept.following(hear)
    item = keeping(kept).line(event("ADDED", pod("a").manifest)).item
    emit(Upsert(item.object))
    emit(Gone("default", "a", "a"))
    assert heard == [("Upsert", 1), ("Gone", 0)]


def test_what_cannot_be_read_is_not_kept() -> None:
    kept = RawObjectCache(CacheScope.ALL)
    broken = {"metadata": {"name": "a", "namespace": "default"}, "spec": {"containers": 7}}
    assert [item.object for item in keeping(kept).page(page(broken)).items] == [None]
    assert len(kept) == 0


def test_nothing_is_kept_unless_somebody_wants_it() -> None:
    kept = RawObjectCache()
    decoder = keeping(kept)
    assert [item.identity.name for item in decoder.page(page(pod("a").manifest)).items] == ["a"]
    assert decoder.line(event("ADDED", pod("b").manifest)).item.object is not None
    assert len(kept) == 0


@pytest.mark.parametrize(
    ("keep", "left"),
    [(CacheScope.ALL, ["a", "b"]), (CacheScope.PENDING, ["a"]), (CacheScope.NONE, [])],
    ids=lambda each: str(each),
)
def test_less_is_kept_than_before(keep: CacheScope, left: list[str]) -> None:
    kept = RawObjectCache(CacheScope.ALL)
    list(keeping(kept).page(page(pod("a").manifest, pod("b").on("n1").manifest)).items)
    kept.narrow(keep)
    assert [name for name in ("a", "b") if kept.get(name, "default")] == left
    assert kept.keep is keep


@pytest.mark.parametrize(
    ("extenders", "needs"),
    [
        pytest.param([], (CacheScope.NONE, CacheScope.NONE), id="nobody"),
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
def test_what_extenders_need(extenders: list[dict[str, Any]], needs: tuple[CacheScope, CacheScope]) -> None:
    assert required_scopes([Extender("http://e", **given) for given in extenders]) == needs
