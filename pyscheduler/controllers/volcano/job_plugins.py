"""Plugins of Volcano Jobs, with their arguments, which have the syntax of Go's flags.

Volcano logs an invalid argument and ignores those after it. Here the Job does not run, and the error has the path.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final

import msgspec
from msgspec.structs import FieldInfo

_Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
_Path = Annotated[str, msgspec.Meta(pattern="^/[^:]*$")]
_Seconds = Annotated[int, msgspec.Meta(ge=0)]

SSH_PATH: Final = "/root/.ssh"
_FLAG: Final = re.compile(r"--?([A-Za-z][\w-]*)(?:=(.*))?", re.DOTALL)


class ArgumentError(ValueError):
    """A plugin or an argument is not supported; the text begins with its path."""


class _Arguments(msgspec.Struct, frozen=True, rename="kebab"):
    """Arguments of a plugin: a flag for each field."""

    roles: ClassVar[tuple[str, ...]] = ()
    """Fields with the name of a task. A name other than the default must be that of a task."""
    required: ClassVar[tuple[str, ...]] = ()
    """Roles that must have a task."""


class Env(_Arguments, frozen=True):
    """Index of each pod."""


class Svc(_Arguments, frozen=True):
    """Host names of the pods."""

    publish_not_ready_addresses: bool = True
    disable_network_policy: bool = False
    inject_hosts_env: bool = True


class Ssh(_Arguments, frozen=True):
    """Keys with which the pods log in to each other."""

    ssh_key_file_path: _Path = SSH_PATH
    ssh_private_key: str = ""
    ssh_public_key: str = ""
    ssh_port: _Port = 22
    no_root: bool = False
    """Without effect, as in Volcano since 1.1."""


class Mpi(_Arguments, frozen=True):
    """Hosts of the workers, for mpiexec in the master."""

    roles: ClassVar = ("master", "worker")
    required: ClassVar = ("master",)
    master: str = "master"
    worker: str = "worker"
    port: _Port = 22


class PyTorch(_Arguments, frozen=True):
    """Address of the master, and ranks, for torch.distributed."""

    roles: ClassVar = ("master", "worker")
    master: str = "master"
    worker: str = "worker"
    port: _Port = 23456
    wait_master_enabled: bool = False
    wait_master_timeout: _Seconds = 300
    wait_master_image: str = "busybox:1.36.1"


class TensorFlow(_Arguments, frozen=True):
    """TF_CONFIG."""

    roles: ClassVar = ("ps", "worker", "chief", "evaluator")
    ps: str = "ps"
    worker: str = "worker"
    chief: str = "chief"
    evaluator: str = "evaluator"
    port: _Port = 2222


class Ray(_Arguments, frozen=True, rename="camel"):
    """Commands of a Ray cluster, and the Service of its head."""

    roles: ClassVar = ("head", "worker")
    required: ClassVar = ("head",)
    head: str = "head"
    head_container: str = "head"
    worker: str = "worker"
    worker_container: str = "worker"
    port: _Port = 6379
    dashboard_port: _Port = 8265
    client_port: _Port = 10001


_TYPES: Final[Mapping[str, type[_Arguments]]] = {
    "env": Env,
    "svc": Svc,
    "ssh": Ssh,
    "mpi": Mpi,
    "pytorch": PyTorch,
    "tensorflow": TensorFlow,
    "ray": Ray,
}
PLUGINS: Final = tuple(_TYPES)
_IMPLIED: Final[Mapping[str, tuple[str, ...]]] = {
    "mpi": ("svc", "ssh"),
    "pytorch": ("svc",),
    "tensorflow": ("svc",),
    "ray": ("svc",),
}


class JobPlugins(msgspec.Struct, frozen=True):
    """Plugins of a Job; None for those that it does not have."""

    env: Env | None = None
    svc: Svc | None = None
    ssh: Ssh | None = None
    mpi: Mpi | None = None
    pytorch: PyTorch | None = None
    tensorflow: TensorFlow | None = None
    ray: Ray | None = None

    @property
    def names(self) -> list[str]:
        """Names of the plugins that the Job has."""
        return [name for name in PLUGINS if getattr(self, name) is not None]


def read_plugins(plugins: Mapping[str, Sequence[str] | None], tasks: Collection[str]) -> JobPlugins:
    """Return `spec.plugins` with the plugins that others imply. `tasks` are names of tasks.

    ArgumentError for a plugin or an argument that is not supported.
    """
    for name in plugins:
        if name not in _TYPES:
            raise ArgumentError(f"spec.plugins.{name}: is not supported: supported values: {', '.join(PLUGINS)}")
    wanted = {implied: () for name in plugins for implied in _IMPLIED.get(name, ())} | dict(plugins)
    return JobPlugins(**{name: _read(name, arguments or (), tasks) for name, arguments in wanted.items()})


def _read(plugin: str, texts: Sequence[str], tasks: Collection[str]) -> Any:
    """Return the arguments of a plugin."""
    plugin_type, path = _TYPES[plugin], f"spec.plugins.{plugin}"
    fields = {field.encode_name: field for field in msgspec.structs.fields(plugin_type)}
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    for place, field, text in _flags(path, texts, fields):
        try:
            values[field.name] = msgspec.convert(text, field.type, strict=False)
        except msgspec.ValidationError as error:
            raise ArgumentError(f"{place}: Invalid value: --{field.encode_name}={text}: {error}") from None
        places[field.name] = place
    arguments = plugin_type(**values)
    for role in plugin_type.roles:
        task = getattr(arguments, role)
        if task not in tasks and (role in plugin_type.required or task != getattr(plugin_type(), role)):
            raise ArgumentError(f"{places.get(role, path)}: Not found: --{role}={task} must be the name of a task")
    if isinstance(arguments, Ssh) and bool(arguments.ssh_private_key) != bool(arguments.ssh_public_key):
        raise ArgumentError(f"{path}: Required value: --ssh-private-key and --ssh-public-key belong together")
    return arguments


def _flags(
    path: str, arguments: Sequence[str], fields: Mapping[str, FieldInfo]
) -> Iterator[tuple[str, FieldInfo, str]]:
    """Yield path, field and value of each flag: `--flag=value`, `--flag value`, or `--flag` of a bool.

    Errors do not quote the values of other arguments, which may be keys.
    """
    rest = enumerate(arguments)
    for i, argument in rest:
        place = f"{path}[{i}]"
        matched = _FLAG.fullmatch(argument)
        if matched is None:
            raise ArgumentError(f"{place}: Invalid value: must have the form --flag=value")
        flag, value = matched.groups()
        field = fields.get(flag)
        if field is None:
            supported = ", ".join(f"--{name}" for name in fields) or "none"
            raise ArgumentError(f"{place}: --{flag} is not supported: supported values: {supported}")
        if value is None:
            following = (i, "true") if field.type is bool else next(rest, None)
            if following is None:
                raise ArgumentError(f"{place}: Required value: --{flag} needs a value")
            value = following[1]
        yield place, field, value
