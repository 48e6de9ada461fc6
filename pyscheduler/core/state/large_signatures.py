"""Signatures of large pending pods: stored compressed, and decoded for each attempt.

A decoded pod is 3 to 20 times as large as its JSON, and a tenant may create many that fit nowhere. So a pending pod of
more than LARGE bytes has a compressed signature; the last few decoded ones are cached, so that one attempt decodes its
pod once. The signature of a large pod on a node stays decoded, as every attempt reads its labels and terms.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from pyscheduler.api.objects import OwnerReference, PodSpec
from pyscheduler.api.pod import Pod, PodSignature, PodSignatureGroup
from pyscheduler.api.resize import Resized

CACHE_SIZE: Final = 2
"""Number of cached decoded signatures: 2 MB of JSON (500,000 empty terms) can be 50 MB decoded."""
_FASTEST: Final = 1


class Content(NamedTuple):
    """Fields of a pod that scheduling depends on, except its name."""

    namespace: str
    owner: OwnerReference | None
    spec: PodSpec
    resized: Resized | None
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


class LargeSignature:
    """A compressed pod signature; `signature` decodes it unless it is in use or cached."""

    __slots__ = (
        "__weakref__",
        "_compressed",
        "_digest",
        "_store",
        "id",
        "namespace",
        "priority",
        "size",
    )

    def __init__(self, id: int, content: Content, packed: bytes, digest: bytes, store: LargeSignatures) -> None:
        self.id = id
        self.size = len(packed)
        self.namespace = content.namespace
        self.priority = content.spec.priority or 0
        self._compressed = zlib.compress(packed, _FASTEST)
        self._digest = digest
        self._store = store

    @property
    def signature(self) -> PodSignature:
        """Return the decoded signature; it has the same id each time."""
        return self._store.decoded(self._digest) or self._store.decode(self._digest, self.id, self._compressed)

    def __del__(self) -> None:
        self._store.drop(self._digest)


class LargeSignatures:
    """Large signatures in use, each weakly referenced until its last pod is gone."""

    def __init__(self, new_id: Callable[[], int]) -> None:
        self._new_id = new_id
        self._known: WeakValueDictionary[bytes, LargeSignature] = WeakValueDictionary()
        self._live: WeakValueDictionary[bytes, PodSignature] = WeakValueDictionary()
        """Decoded signatures that are referenced by pods on nodes, an attempt or `_cache`."""
        self._cache: OrderedDict[bytes, PodSignature] = OrderedDict()
        self._pack = msgspec.msgpack.Encoder().encode
        self._unpack: Callable[[bytes], Content] = msgspec.msgpack.Decoder(Content).decode

    def __len__(self) -> int:
        return len(self._known)

    def of(self, content: Content) -> LargeSignature:
        """Return the signature of the content. Raises QuantityError if an amount cannot be parsed."""
        packed = self._pack(content)
        digest = blake2b(packed, digest_size=16).digest()
        known = self._known.get(digest)
        if known is None:
            signature = self._live.get(digest) or self._build(digest, self._new_id(), content, len(packed))
            known = self._known[digest] = LargeSignature(signature.id, content, packed, digest, self)
            self._add_to_cache(digest, signature)
        return known

    def decoded(self, digest: bytes) -> PodSignature | None:
        """Return the decoded signature, or None if it has to be decoded."""
        return self._live.get(digest)

    def decode(self, digest: bytes, id: int, compressed: bytes) -> PodSignature:
        """Decode a signature and cache it."""
        packed = zlib.decompress(compressed)
        signature = self._build(digest, id, self._unpack(packed), len(packed))
        self._add_to_cache(digest, signature)
        return signature

    def drop(self, digest: bytes) -> None:
        """Remove a decoded signature from the cache."""
        self._cache.pop(digest, None)

    def _build(self, digest: bytes, id: int, content: Content, size: int) -> PodSignature:
        template = PodSignatureGroup(id, content.namespace, content.owner, content.spec, content.resized, size)
        signature = self._live[digest] = PodSignature(id, template, content.labels, content.annotations)
        return signature

    def _add_to_cache(self, digest: bytes, signature: PodSignature) -> None:
        self._cache[digest] = signature
        if len(self._cache) > CACHE_SIZE:
            self._cache.popitem(last=False)


class LargePod(Pod):
    """A pending pod with a compressed signature."""

    __slots__ = ("_large",)

    def __init__(self, uid: str, name: str, large: LargeSignature) -> None:
        self._large = large
        super().__init__(uid, name, large.signature)

    # A plain attribute in Pod for speed, since every attempt reads it.
    @property
    def signature(self) -> PodSignature:
        return self._large.signature

    @signature.setter
    def signature(self, _: PodSignature) -> None:
        """Ignore the decoded signature that `Pod.__init__` sets."""

    @property
    def priority(self) -> int:
        return self._large.priority

    @property
    def size(self) -> int:
        return self._large.size
