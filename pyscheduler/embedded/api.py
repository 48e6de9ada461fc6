"""API server without HTTP: every verb is a method that returns when garbage collection has finished.

The HTTP handlers call these methods and nothing else. Controllers, hollow nodes and tests in the same process may call
them too: they are synchronous, take microseconds and raise `ApiError` with the Status that a client would receive.
Returned objects are shared with the store: treat them as read-only.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from typing import Any

from pyscheduler.embedded.bootstrap import bootstrap_objects, namespace_objects
from pyscheduler.embedded.history import Version
from pyscheduler.embedded.objects import Json, Key
from pyscheduler.embedded.resources import Resource
from pyscheduler.embedded.server_state import DeleteOptions, ServerState, WriteOptions
from pyscheduler.embedded.status import no_such_path
from pyscheduler.embedded.store import DEFAULT_HISTORY, Store
from pyscheduler.embedded.verbs import create, delete, patch, pods, read, restore, scale, update

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_PLAIN_WRITE = WriteOptions()
_PLAIN_DELETE = DeleteOptions()
_EVERYTHING = read.ListOptions()


class Api:
    """All verbs on one `ServerState`."""

    def __init__(
        self,
        now: Callable[[], float] = time.time,
        new_uid: Callable[[], str] | None = None,
        new_suffix: Callable[[], str] | None = None,
        history: int = DEFAULT_HISTORY,
        rng: random.Random | None = None,
    ) -> None:
        """`rng` generates UIDs and the suffixes of generateName, unless there are functions for these."""
        rng = rng or random.Random()

        def random_uid() -> str:
            return str(uuid.UUID(int=rng.getrandbits(128), version=4))

        def random_suffix() -> str:
            return "".join(rng.choices(_SUFFIX_LETTERS, k=5))

        self.state = ServerState(now, new_uid or random_uid, new_suffix or random_suffix, Store(history))
        self._running_controllers = False
        self._seed()

    def resource(self, plural: str, group: str = "", version: str = "v1") -> Resource:
        """Return the description of a served resource. ApiError 404 if it is not served."""
        found = self.state.registry.find(group, version, plural)
        if found is None:
            raise no_such_path()
        return found

    def get(self, resource: Resource, namespace: str, name: str) -> Version:
        """Return one object. ApiError 404 if it does not exist."""
        return update.find(self.state, resource, namespace, name)

    def list(self, resource: Resource, namespace: str = "", options: read.ListOptions = _EVERYTHING) -> read.ListPage:
        """Return the objects of one namespace, or of all namespaces ("")."""
        return read.list_page(self.state, resource, namespace, options)

    def create(self, resource: Resource, namespace: str, body: Json, options: WriteOptions = _PLAIN_WRITE) -> Version:
        """Create an object and return it. The server takes ownership of `body`. ApiError if it is invalid or exists."""
        version = create.create(self.state, resource, namespace, body, options)
        self.run_controllers()
        return version

    def restore(self, resource: Resource, obj: Json) -> Version:
        """Store a decoded object of a snapshot or dump as it is; `run_controllers` follows the last one.

        The server takes ownership of `obj`. ApiError if it is invalid.
        """
        return restore.restore(self.state, resource, obj)

    def update(
        self,
        resource: Resource,
        where: tuple[str, str, str],
        body: Json,
        options: WriteOptions = _PLAIN_WRITE,
    ) -> tuple[Version, bool]:
        """Replace the object or its status at (namespace, name, subresource); return it and whether it was created."""
        result = update.update(self.state, resource, where, body, options)
        self.run_controllers()
        return result

    def patch(
        self,
        resource: Resource,
        where: tuple[str, str, str],
        change: tuple[str, Any],
        options: WriteOptions = _PLAIN_WRITE,
    ) -> tuple[Version, bool]:
        """Patch the object or its status at (namespace, name, subresource) with (media type, body).

        Return the object and whether it was created.
        """
        result = patch.patch(self.state, resource, where, change, options)
        self.run_controllers()
        return result

    def delete(
        self, resource: Resource, namespace: str, name: str, options: DeleteOptions = _PLAIN_DELETE
    ) -> tuple[Version, bool]:
        """Delete an object; return its remaining or last state and True if it is gone."""
        result = delete.delete(self.state, resource, namespace, name, options)
        self.run_controllers()
        remaining = self.state.store.get(resource.bucket, result[0].key)
        return (remaining, False) if remaining is not None else (result[0], True)

    def delete_collection(
        self, resource: Resource, namespace: str, selection: read.ListOptions, options: DeleteOptions
    ) -> read.ListPage:
        """Delete all objects that match `selection` and return them."""
        page = read.list_page(self.state, resource, namespace, selection)
        for version in page.items:
            if self.state.store.get(resource.bucket, version.key) is not None:
                delete.delete(self.state, resource, *version.key, options)
        self.run_controllers()
        return page

    def bind(self, namespace: str, name: str, binding: Any, *, dry_run: bool = False) -> None:
        """Assign a pod to a node."""
        pods.bind(self.state, self.resource("pods"), namespace, name, binding, dry_run=dry_run)

    def evict(self, namespace: str, name: str, eviction: Any) -> None:
        """Delete a pod within its disruption budget."""
        self.sync_disruption_budgets()
        pods.evict(self.state, self.resource("pods"), namespace, name, eviction)
        self.run_controllers()

    def scale(self, resource: Resource, namespace: str, name: str) -> Json:
        """Return the Scale subresource of a workload."""
        return scale.scale_of(resource, self.get(resource, namespace, name))

    def update_scale(
        self, resource: Resource, where: tuple[str, str], body: Any, options: WriteOptions = _PLAIN_WRITE
    ) -> Json:
        """Set the replicas of the workload at (namespace, name) and return its Scale."""
        return scale.scale_of(resource, scale.update_scale(self.state, resource, where, body, options))

    def sync_disruption_budgets(self) -> None:
        """Update the status of all disruption budgets with changed pods."""
        self.state.budgets.recount((self.state.now(), self.state.timestamp()))

    def run_controllers(self) -> None:
        """Run garbage collection, protection of PodGroups and namespace deletion until nothing is left to do."""
        if self._running_controllers:
            return
        self._running_controllers = True
        try:
            again = True
            while again:
                self.state.garbage.collect(self._delete_object, self._remove_finalizer)
                again = self.state.pod_groups.sync(self._remove_finalizer)
                again |= self.state.namespaces.sync(_NamespaceDeleter(self))
            if self.state.budgets.changed:
                self.sync_disruption_budgets()
            self.state.quotas.sync()
        finally:
            self._running_controllers = False

    def _delete_object(self, place: tuple[str, Key], foreground: bool) -> None:
        bucket, key = place
        options = DeleteOptions(propagation="Foreground") if foreground else _PLAIN_DELETE
        delete.delete(self.state, self.state.registry.stored_in(bucket), *key, options)

    def _remove_finalizer(self, place: tuple[str, Key], finalizer: str) -> None:
        delete.remove_finalizer(self.state, *place, finalizer)

    def _seed(self) -> None:
        for obj in bootstrap_objects(self.state.timestamp()):
            self._create_own(obj)
        self.run_controllers()

    def _create_own(self, obj: Json) -> None:
        """Store an object that the server itself creates, with its status; its namespace exists, if it has one."""
        resource = self.state.registry.of_kind(obj["apiVersion"], obj["kind"])
        if resource is None:
            raise no_such_path()
        status = obj.get("status")
        create.prepare(self.state, resource, obj)
        if status is not None:  # which clients cannot set
            obj["status"] = status
        meta = obj["metadata"]
        self.state.store.put(resource.bucket, (meta.get("namespace", ""), meta["name"]), obj)


class _NamespaceDeleter:
    """`NamespaceDeleter` on top of the verbs."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def delete(self, bucket: str, key: Key) -> None:
        self._api._delete_object((bucket, key), False)

    def remove_namespace(self, name: str) -> None:
        version = self._api.state.store.get("namespaces", ("", name))
        if version is not None and not version.object["metadata"].get("finalizers"):
            self._api.state.store.remove("namespaces", ("", name))

    def fill_namespace(self, namespace: str) -> None:
        for obj in namespace_objects(namespace):
            self._api._create_own(obj)
