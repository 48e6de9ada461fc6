"""PodKinds: values of a count by kind of pods."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pyscheduler.api import PodCount, PodKinds, PodSignature
from pyscheduler.core.state.signatures import PodSignatures
from pyscheduler.testing import pod


@dataclass(frozen=True)
class PriorityCount(PodCount):
    """Priority of a pod."""

    terminating: bool = True

    def of(self, signature: PodSignature) -> int:
        return signature.priority


@pytest.mark.parametrize(("terminating", "values"), [(True, [3, 3, 5, 0]), (False, [3, 0, 5, 0])])
def test_values_by_kind_end_with_that_of_no_pod(terminating: bool, values: list[int]) -> None:
    kinds, signatures, count = PodKinds(), PodSignatures(), PriorityCount(terminating)
    running, ending, another = pod("a").priority(3), pod("b").priority(3).deleting(), pod("c").priority(5)
    assert [kinds.number(each.build(signatures)) for each in (running, ending, running)] == [0, 1, 0]
    assert kinds.values(count).tolist() == [*values[:2], 0]
    assert kinds.number(another.build(signatures)) == 2
    assert kinds.values(count).tolist() == values
    assert kinds.values(count)[-1] == 0
