"""Calls of PodGroup and Quota plugins with their results checked: a wrong one would fail elsewhere, or be ignored.

The functions raise InvalidReturnValue. Their callers guard them, as all code of plugins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from pyscheduler.api.events import ClusterEvent
from pyscheduler.api.outcome import Rejection
from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import EvictionUnit, PodGroup, PodGroupKey
from pyscheduler.api.pod_group_plugins import PodGroupPlugin, QuotaPlugin
from pyscheduler.api.resources import Amounts
from pyscheduler.api.return_values import InvalidReturnValue
from pyscheduler.api.steps import Steps
from pyscheduler.core.framework.plugin_calls import run_step
from pyscheduler.core.framework.result_checks import check_quota_result, check_texts, check_units
from pyscheduler.texts import text_of

_KEY = "a PodGroupKey of strs or None"
_FOR_EACH_GROUP = (QuotaPlugin.min_run_seconds, QuotaPlugin.seconds_of_turns)
"""They return one number for each of the groups in their second argument, or none."""


def group_of(plugin: PodGroupPlugin, pod: Pod) -> PodGroupKey | None:
    """Return the group that the pod declares."""
    return _checked_key(plugin.group_of, plugin.group_of(pod))


def subgroup_of(method: Callable[[Pod], PodGroupKey | None], pod: Pod) -> PodGroupKey | None:
    """Return the subgroup that a pod is in."""
    return _checked_key(method, method(pod))


def role_of(plugin: PodGroupPlugin, pod: Pod) -> str:
    """Return the role of the pod in its group."""
    role: object = plugin.role_of(pod)
    if not isinstance(role, str):
        raise InvalidReturnValue(plugin.role_of, role, "a str")
    return role


def pod_group_of(plugin: PodGroupPlugin, key: PodGroupKey, members: Collection[Pod]) -> PodGroup | Rejection:
    """Return the requirements of the group, or the reason why none of its pods can be scheduled."""
    group: object = plugin.pod_group(key, members)
    if not isinstance(group, PodGroup | Rejection):
        raise InvalidReturnValue(plugin.pod_group, group, "PodGroup or Rejection")
    if isinstance(group, PodGroup) and group.key != key:
        shown = f"the PodGroup {text_of(group.key, repr)}"
        raise InvalidReturnValue(plugin.pod_group, group, f"that with the key {key!r}", shown=shown)
    return group


def changed_groups(plugin: PodGroupPlugin, event: ClusterEvent) -> dict[PodGroupKey, None]:
    """Return the groups that a changed object gives other requirements."""
    keys = dict.fromkeys(plugin.changed_groups(event))
    for key in keys:
        if not isinstance(key, PodGroupKey):
            raise InvalidReturnValue(plugin.changed_groups, keys, "PodGroupKeys", shown=f"a {type(key).__name__}")
        check_texts(plugin.changed_groups, key, len(key), _KEY)
    return keys


def call_quota(plugin: QuotaPlugin, method: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Return what a method of a Quota plugin returns; `method` is that of the base class."""
    own = getattr(plugin, method.__name__)
    result = own(*args)
    check_quota_result(method.__name__, own, result)
    if method in _FOR_EACH_GROUP and result and len(result) != len(args[1]):
        shown = f"{len(result)} times"
        raise InvalidReturnValue(own, result, f"one for each of {len(args[1])} groups, or none", shown=shown)
    if method is QuotaPlugin.surplus:
        check_units(own, result, (unit for unit, _ in args[-1]))
    return result


def reclaim_in_steps(
    plugin: QuotaPlugin,
    group: PodGroup,
    request: Amounts,
    free: Amounts,
    units: Sequence[tuple[EvictionUnit, PodGroup]],
) -> Steps[Sequence[EvictionUnit] | str]:
    """Return the units to evict in other queues, or why there are none."""
    if _overrides_reclaim_only(type(plugin)):
        result = plugin.reclaim(group, request, free, units)
    else:
        steps = plugin.reclaim_steps(group, request, free, units)
        while (end := run_step(steps)) is None:
            yield
        result = end.value
    check_quota_result("reclaim", plugin.reclaim, result)
    if not isinstance(result, str):
        check_units(plugin.reclaim, result, (unit for unit, _ in units))
    return result


def _overrides_reclaim_only(plugin: type[QuotaPlugin]) -> bool:
    """Return True if a subclass overrides `reclaim`, but not the `reclaim_steps` of its base class."""
    methods = ("reclaim", "reclaim_steps")
    first = next(each for each in plugin.__mro__ if any(name in vars(each) for name in methods))
    return "reclaim_steps" not in vars(first)


def _checked_key(method: Callable[..., Any], key: object) -> PodGroupKey | None:
    if key is not None and not isinstance(key, PodGroupKey):
        raise InvalidReturnValue(method, key, _KEY)
    if key is not None:
        check_texts(method, key, len(key), _KEY)
    return key
