"""File of a recording: a line that names the format, a header, then batches of records, each compressed.

A batch is written by one call. Length and checksum before it show whether it is complete, because the process or the
machine may end at any time.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final, Self

import msgspec

from pyscheduler import __version__
from pyscheduler.config.gates import FeatureGates
from pyscheduler.config.load import loads
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.config.show import show
from pyscheduler.core.context import Settings
from pyscheduler.shell.recording.records import RecordedInput, decode_batch

FORMAT: Final = 1
SUFFIX: Final = ".recording"
_MAGIC: Final = b"pyscheduler recording %d\n"
_BATCH_HEADER: Final = Struct("<II")
"""Length and CRC-32 of the compressed bytes."""
_LEVEL: Final = 1
"""Compression level of zlib: 6 takes three times as long for 15 % less."""
_MAX_BATCH: Final = 1 << 30


class RecordingProblem(Exception):
    """A recording that cannot be read or replayed; the text is one line."""


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the machine was built from."""

    version: str = __version__
    config: str
    """Both documents of the configuration."""
    gates: dict[str, bool]
    emulated_version: str
    seed: int
    initial_backoff: float
    max_backoff: float
    max_in_unschedulable: float
    slice_pods: int
    epoch: float
    """Unix time at which the machine's clock was 0."""
    preempts_for_resizes: bool
    has_timer: bool
    """True if attempts for large pods were limited by a clock."""

    @classmethod
    def of(cls, config: LoadedConfig, settings: Settings, *, has_timer: bool) -> Self:
        """Return the header of a machine."""
        return cls(
            config=config_text(config),
            gates=dict(config.gates.settings),
            emulated_version=config.gates.version,
            seed=settings.seed,
            initial_backoff=settings.initial_backoff,
            max_backoff=settings.max_backoff,
            max_in_unschedulable=settings.max_in_unschedulable,
            slice_pods=settings.slice_pods,
            epoch=settings.epoch,
            preempts_for_resizes=settings.preempts_for_resizes,
            has_timer=has_timer,
        )

    def load(self, text: str) -> LoadedConfig:
        """Return a configuration with the feature gates of the recording. ConfigError if a plugin is missing."""
        return loads(text, "the recording's configuration", FeatureGates(self.gates, self.emulated_version))


def config_text(config: LoadedConfig) -> str:
    """Return a configuration as text, without the TLS settings of extenders, which may have private keys."""
    replace = msgspec.structs.replace
    extenders = tuple(replace(each, tls_config=None) for each in config.configuration.extenders)
    return show(replace(config, configuration=replace(config.configuration, extenders=extenders)))


def encode_header(header: Header) -> bytes:
    """Return the first bytes of a file."""
    return _MAGIC % FORMAT + compress_batch(msgspec.msgpack.encode(header))


def compress_batch(data: bytes) -> bytes:
    """Return compressed data with its length and checksum."""
    packed = zlib.compress(data, _LEVEL)
    return _BATCH_HEADER.pack(len(packed), zlib.crc32(packed)) + packed


class RecordingReader:
    """Reader of one file, from its beginning. RecordingProblem if it is no recording."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_torn = False
        """True after the last complete batch, if more follows that is incomplete."""
        try:
            self._file = path.open("rb")
            self.size = os.fstat(self._file.fileno()).st_size
            magic = self._file.readline(64)
            if magic != _MAGIC % FORMAT:
                raise RecordingProblem(f"{path}: {_not_readable(magic)}")
            data = self._read_batch()
        except OSError as error:
            raise RecordingProblem(f"{path}: cannot be read: {error.strerror}") from None
        if data is None:
            raise RecordingProblem(f"{path}: the recording ends in its header: nothing was recorded")
        try:
            self.header = msgspec.msgpack.decode(data, type=Header)
        except msgspec.MsgspecError as error:
            raise RecordingProblem(f"{path}: the header cannot be read: {error}") from None

    @property
    def position(self) -> int:
        """Number of bytes that have been read."""
        return self._file.tell()

    def records(self) -> Iterator[RecordedInput]:
        """Yield the records up to the last complete batch."""
        while (data := self._read_batch()) is not None:
            try:
                batch = decode_batch(data)
            except msgspec.MsgspecError as error:
                raise RecordingProblem(f"{self.path}: a batch cannot be read: {error}") from None
            yield from batch

    def _read_batch(self) -> bytes | None:
        """Return the next batch; None at the end."""
        head = self._file.read(_BATCH_HEADER.size)
        if len(head) == _BATCH_HEADER.size:
            length, checksum = _BATCH_HEADER.unpack(head)
            packed = self._file.read(length) if length < _MAX_BATCH else b""
            if len(packed) == length and zlib.crc32(packed) == checksum:
                return zlib.decompress(packed)
        self.is_torn = bool(head)
        return None


def _not_readable(magic: bytes) -> str:
    if magic.startswith(_MAGIC.partition(b"%")[0]):
        return f"the recording has another format than {FORMAT}: replay it with the version that made it"
    return "is not a recording of `pyscheduler run --record`"


def find_recordings(path: Path) -> list[Path]:
    """Return the recordings in a directory, the oldest first, or the file itself. RecordingProblem if there is none."""
    if not path.is_dir():
        return [path]
    try:
        found = sorted(each for each in path.glob(f"*{SUFFIX}") if each.stat().st_size)
    except OSError as error:
        raise RecordingProblem(f"{path}: cannot be read: {error.strerror}") from None
    if not found:
        raise RecordingProblem(f"{path}: there is no recording in this directory (*{SUFFIX})")
    return found
