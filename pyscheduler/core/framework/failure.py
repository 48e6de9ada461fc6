"""A plugin that raised: the bug becomes a value that names the plugin, and the loop goes on."""

from __future__ import annotations


class PluginFailed(Exception):
    """A plugin raised at an extension point. Its text is what kube-scheduler's error statuses say."""

    def __init__(self, plugin: str, point: str, error: BaseException) -> None:
        super().__init__(f'running {point} plugin "{plugin}": {str(error) or type(error).__name__}')
        self.plugin = plugin
        self.point = point
        self.error = error
