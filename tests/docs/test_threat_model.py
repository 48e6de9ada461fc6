"""Every row of the threat model names an existing test, and its bounds equal the code's."""

from __future__ import annotations

import re
from functools import cache

import pytest
import yaml

from pyscheduler.api.cycle import EVALUATION_LIMIT, TIME_LIMIT
from pyscheduler.core.queue.inflight import MOST_EVENTS
from pyscheduler.intree._term_matcher import NODE_BLOCK, POD_BLOCK
from pyscheduler.shell.writers import recorder
from pyscheduler.truncation import MAX_NOTE
from tests.docs.pages import ROOT, rows, text_of, words_in_code
from tests.hostile import objects
from tests.hostile.test_largest import MOST_FOR_AN_ATTEMPT, MOST_FOR_AN_EVENT

PAGE = "docs/threat-model.md"
_TEST = re.compile(r"(?P<file>tests/[\w/]+\.py)::(?P<name>test_\w+)\Z")
NAMED = [match for word in words_in_code(text_of(PAGE)) if (match := _TEST.match(word))]


@cache
def names_in(file: str) -> set[str]:
    """Return the names of the tests in a file."""
    return set(re.findall(r"^\s*(?:async )?def (test_\w+)\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("named", [pytest.param(match, id=match["name"]) for match in NAMED])
def test_named_test_exists(named: re.Match[str]) -> None:
    assert named["name"] in names_in(named["file"])


@pytest.mark.parametrize("heading", ["One object", "Many objects"])
def test_every_abuse_has_a_bound_and_a_test(heading: str) -> None:
    table = list(rows(PAGE, heading))
    assert len(table) > 5
    for attack, bound, tests in table:
        assert attack
        assert bound
        assert any(_TEST.match(word) for word in words_in_code(tests)), attack


def test_every_test_of_abuse_is_named() -> None:
    abuses = {name for name in names_in("tests/hostile/test_abuse.py") if name.startswith("test_")}
    assert abuses <= {match["name"] for match in NAMED}


def test_bounds_equal_the_code() -> None:
    page = text_of(PAGE)
    assert f"may evaluate {EVALUATION_LIMIT:,} terms over nodes: {EVALUATION_LIMIT // 5_000} terms over 5,000" in page
    assert f"{NODE_BLOCK} nodes for requirements on nodes, {POD_BLOCK} for terms of pod" in page
    assert f"× blocks of {POD_BLOCK} nodes | {EVALUATION_LIMIT // -(-5_000 // POD_BLOCK):,} |" in page
    assert f"× blocks of {NODE_BLOCK} nodes | {EVALUATION_LIMIT // -(-5_000 // NODE_BLOCK):,}, more than" in page
    assert f"{MOST_FOR_AN_ATTEMPT:,} plain pods for an attempt over 5,000 nodes" in page
    assert f"{MOST_FOR_AN_EVENT} for an event while the pod is pending" in page
    assert f"its attempt ends after {TIME_LIMIT:g} s" in page
    assert f"{MOST_EVENTS:,} events are kept" in page
    assert f"{recorder.CAPACITY:,} wait at most, of {MAX_NOTE:,} bytes each" in page
    prices = [hostile.cost for hostile in objects.PODS.values()]
    assert f"at {max(prices):,} plain pods at most" in page


def test_probe_timeout_exceeds_the_limit_of_an_attempt() -> None:
    (deployment,) = yaml.safe_load_all((ROOT / "manifests/base/deployment.yaml").read_text(encoding="utf-8"))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["timeoutSeconds"] >= 5 * TIME_LIMIT, probe
    assert f"wait {5 * TIME_LIMIT:g} s for a response" in text_of(PAGE)
