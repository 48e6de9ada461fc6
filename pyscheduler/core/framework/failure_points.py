"""Points at which failures of plugins are counted: extension points, and the other calls of their plugins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyscheduler.api.timed import TimedPlugin
from pyscheduler.core.framework.profile import Profile

_CALLS: Mapping[str, tuple[str, ...]] = {
    "PreEnqueue": ("GateKey", "GateObject"),
    "PreFilter": ("PreFilterExtensionAddPod", "PreFilterExtensionRemovePod"),
    "Score": ("NormalizeScore",),
    "PlacementScore": ("NormalizePlacementScore",),
    "Reserve": ("Unreserve",),
    "Permit": ("Affected",),
    "PreBind": ("PreBindPreFlight",),
}
"""Further calls of the plugins of an extension point."""


def failure_points(profile: Profile) -> Iterator[tuple[str, str]]:
    """Yield (plugin, point) for each point at which a plugin of the profile may fail; some twice."""
    for extension_point, plugins in profile.points.items():
        for point in (extension_point, *_CALLS.get(extension_point, ())):
            yield from ((plugin.name, point) for plugin in plugins)
    yield from ((plugin.name, "SignPod") for plugin in profile.signers)
    yield from ((plugin.name, "AdvanceTo") for plugin in profile.plugins if isinstance(plugin, TimedPlugin))
    for name, event in profile.events_to_register:
        if event.hint is not None:
            yield name, "QueueingHint"
        if event.pre_hint is not None:
            yield name, "PreQueueingHint"
