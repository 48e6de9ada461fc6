"""A plugin that raised: the bug becomes a value that names the plugin, and the loop goes on."""

from __future__ import annotations

_TEXTS = {
    "PreFilterExtensionAddPod": 'running AddPod on PreFilter plugin "{plugin}": {error}',
    "PreFilterExtensionRemovePod": 'running RemovePod on PreFilter plugin "{plugin}": {error}',
    "Filter": 'running "{plugin}" filter plugin: {error}',
    "Score": 'running Score plugins: plugin "{plugin}" failed with: {error}',
    "NormalizeScore": 'running Normalize on Score plugins: plugin "{plugin}" failed with: {error}',
}


class PluginFailed(Exception):
    """A plugin raised at an extension point. Its text is what kube-scheduler's error statuses say."""

    def __init__(self, plugin: str, point: str, error: BaseException) -> None:
        what = str(error) or type(error).__name__
        text = _TEXTS.get(point, 'running {point} plugin "{plugin}": {error}')
        super().__init__(text.format(point=point, plugin=plugin, error=what))
        self.plugin = plugin
        self.point = point
        self.error = error
