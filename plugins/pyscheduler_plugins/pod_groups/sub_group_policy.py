"""Volcano's subGroupPolicy: the pods of one PodGroup are divided by labels into subgroups.

Each policy has the pods that its selector matches, divided by the values of `matchLabelKeys`. A subgroup is scheduled
with at least `subGroupSize` pods or not at all, within one HyperNode if it has a `networkTopology`; `minSubGroups` of
each policy are needed. A pod is in the first policy that matches. Pods that match none count for `minMember` only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from pyscheduler.api import Pod, PodGroup, PodGroupKey, Rejection, TopologyConstraint
from pyscheduler.api.match import Selector, label_selector
from pyscheduler.api.objects import LabelSelector
from pyscheduler_plugins.pod_groups.declared import SubGroupPolicy, invalid
from pyscheduler_plugins.pod_groups.hyper_nodes import NetworkTopology

_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_MAX_POLICIES: Final = 100
_MAX_TERMS: Final = 1000
"""Maximum number of labels, requirements and values in all policies: each pod of the group is compared with them."""
Topology = tuple[TopologyConstraint, ...]


class _Policy(msgspec.Struct, frozen=True):
    key: PodGroupKey
    policy: SubGroupPolicy
    selector: Selector | None
    topology: Topology

    def subgroup_of(self, pod: Pod) -> PodGroupKey | None:
        """Return the subgroup of a pod, None if the policy does not match it."""
        if self.selector is not None and not self.selector.matches(pod.labels):
            return None
        values = [pod.labels.get(key, "") for key in self.policy.keys]
        if not all(values):
            return None
        # The value of a label has no comma.
        return self.key._replace(name=f"{self.key.name}/{','.join(values) or 0}")

    def with_parts(self, keys: Collection[PodGroupKey]) -> PodGroup:
        """Return these subgroups of the policy as one that needs the minimum of them."""
        needed, size = self.policy.min_sub_groups or 0, self.policy.sub_group_size or 1
        parts = tuple(PodGroup(key, size, topology=self.topology) for key in sorted(keys))
        return PodGroup(self.key, needed * size, subgroups=parts, min_subgroups=needed)


def with_subgroups(
    group: PodGroup,
    policies: Sequence[SubGroupPolicy],
    members: Collection[Pod],
    topology_of: Callable[[NetworkTopology], Topology | str],
) -> PodGroup | Rejection:
    """Return a group with the subgroups of its pods, or a Rejection of an invalid policy.

    `topology_of` returns the topology for a field, or what is wrong with it.
    """
    if len(policies) > _MAX_POLICIES:
        return invalid(group.key, "spec.subGroupPolicy", f"Too many: must have at most {_MAX_POLICIES} items")
    if sum(map(_terms, policies)) > _MAX_TERMS:
        text = f"Too many: must have at most {_MAX_TERMS} labels, requirements and values"
        return invalid(group.key, "spec.subGroupPolicy", text)
    compiled: list[_Policy] = []
    for i, policy in enumerate(policies):
        found = _compile(group, f"spec.subGroupPolicy[{i}]", policy, topology_of)
        if isinstance(found, Rejection):
            return found
        if any(found.key == other.key for other in compiled):
            return invalid(group.key, f"spec.subGroupPolicy[{i}].name", f'Duplicate value: "{policy.name}"')
        compiled.append(found)

    def found_of(pod: Pod) -> tuple[_Policy, PodGroupKey] | None:
        return next(((each, key) for each in compiled if (key := each.subgroup_of(pod)) is not None), None)

    def subgroup_of(pod: Pod) -> PodGroupKey | None:
        found = found_of(pod)
        return None if found is None else found[1]

    keys: dict[PodGroupKey, set[PodGroupKey]] = {policy.key: set() for policy in compiled}
    for pod in members:
        if (matching := found_of(pod)) is not None:
            keys[matching[0].key].add(matching[1])
    subgroups = tuple(policy.with_parts(keys[policy.key]) for policy in compiled)
    return replace(
        group,
        min_count=max(group.min_count, sum(each.min_count for each in subgroups)),
        subgroups=subgroups,
        min_subgroups=len(subgroups),
        subgroup_of=subgroup_of,
    )


def _terms(policy: SubGroupPolicy) -> int:
    selector = policy.label_selector or LabelSelector()
    expressions = selector.match_expressions or ()
    values = sum(len(requirement.values or ()) for requirement in expressions)
    return len(policy.keys) + len(selector.match_labels or ()) + len(expressions) + values


def _compile(
    group: PodGroup, path: str, policy: SubGroupPolicy, topology_of: Callable[[NetworkTopology], Topology | str]
) -> _Policy | Rejection:
    if policy.label_selector is None and not policy.keys:
        return invalid(group.key, path, "labelSelector or matchLabelKeys is required")
    for requirement in (policy.label_selector and policy.label_selector.match_expressions) or ():
        if requirement.operator not in _OPERATORS:
            text = f'Invalid value: "{requirement.operator}" is not one of {", ".join(_OPERATORS)}'
            return invalid(group.key, f"{path}.labelSelector.matchExpressions.operator", text)
    topology = () if policy.network_topology is None else topology_of(policy.network_topology)
    if isinstance(topology, str):
        return invalid(group.key, f"{path}.networkTopology", topology)
    key = group.key._replace(name=f"{group.key.name}/{policy.name}")
    return _Policy(key, policy, label_selector(policy.label_selector), topology)
