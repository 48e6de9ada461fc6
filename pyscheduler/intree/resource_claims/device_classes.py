"""DeviceClasses, and the extended resources that they provide (KEP-5004)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from pyscheduler.api import Handle
from pyscheduler.api.devices import DeviceClass
from pyscheduler.api.resources import is_extended
from pyscheduler.intree._object_index import ObjectIndex
from pyscheduler.intree.resource_claims.objects import DEVICE_CLASS, reader

CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Prefix of the resource name by which a container may request a device of any class."""


class DeviceClasses:
    """DeviceClasses by name and by extended resource. The plugin of the handle must watch DEVICE_CLASS."""

    def __init__(self, handle: Handle) -> None:
        self._index = ObjectIndex(handle, DEVICE_CLASS, reader(handle, DEVICE_CLASS, DeviceClass), _no_values)
        self._by_name: dict[str, DeviceClass] = {}
        self._by_resource: dict[str, str] = {}
        self._version = -1

    @property
    def version(self) -> int:
        """Number that changes with any DeviceClass."""
        return self._index.version

    @property
    def by_name(self) -> Mapping[str, DeviceClass]:
        """DeviceClasses by name."""
        self._refresh()
        return self._by_name

    def of_resource(self, resource: str) -> str | None:
        """Return the name of the class that provides an extended resource, None if there is none.

        Of several classes the newest one, and of equally old ones the first by name.
        """
        if self._index.version != self._version:
            self._refresh()
        if not self._by_name:
            return None
        if resource.startswith(CLASS_PREFIX):
            name = resource.removeprefix(CLASS_PREFIX)
            return name if name in self._by_name else None
        return self._by_resource.get(resource) if is_extended(resource) else None

    def provided(self, requested: Mapping[str, int]) -> list[str]:
        """Return the requested resources that a class provides."""
        return [name for name, amount in requested.items() if amount and "/" in name and self.of_resource(name)]

    def _refresh(self) -> None:
        version = self._index.version
        if version == self._version:
            return
        parsed = self._index.parsed.values()
        self._by_name = {each.metadata.name: each for each in parsed}
        by_name = sorted(parsed, key=lambda each: each.metadata.name)
        newest_first = sorted(by_name, key=lambda each: each.metadata.creation_timestamp or "", reverse=True)
        self._by_resource = {}
        for each in newest_first:
            if each.spec.extended_resource_name:
                self._by_resource.setdefault(each.spec.extended_resource_name, each.metadata.name)
        self._version = version


def _no_values(_: DeviceClass) -> Iterable[Hashable]:
    return ()
