"""API versions are in the order of priority of Kubernetes."""

from __future__ import annotations

import random

import pytest

from pyscheduler.embedded.versions import version_priority


@pytest.mark.parametrize(
    "expected",
    [
        pytest.param(["v2", "v1", "v2beta1", "v1beta1", "v3alpha1"], id="GA before beta before alpha"),
        pytest.param(["v1alpha10", "v1alpha2", "v1alpha1"], id="minor versions are numbers"),
        pytest.param(["v10", "v2", "v1"], id="major versions are numbers"),
        pytest.param(["v2beta1", "v1beta2"], id="major before minor"),
        pytest.param(
            ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"],
            id="example of the documentation of CustomResourceDefinitions",
        ),
        pytest.param(["v1alpha1", "v0", "v01", "v1alpha", "v1gamma1"], id="other names last, by name"),
    ],
)
def test_versions_are_sorted_by_priority(expected: list[str]) -> None:
    versions = random.Random(0).sample(expected, len(expected))
    assert sorted(versions, key=version_priority) == expected
