"""Static validation of plugin classes. Each error is one line with the class, the method and the remedy.

Otherwise a wrong signature or a missing `async` would be found only when the first pod reaches the method.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType, MappingProxyType
from typing import Final

from pyscheduler.api import NodeFields, Plugin, Reads, ResourceKind, TimedPlugin
from pyscheduler.api.normalize import Normalizer
from pyscheduler.api.objects import PodSpec
from pyscheduler.config.fields import UnknownType, fields_of, is_record
from pyscheduler.core.framework.registry import POINTS, points_of
from pyscheduler.texts import text_of

_API: Final = "pyscheduler.api"
_LOOKS_LIKE: Final = 0.85
"""Similarity above which the name of a public method counts as a misspelt extension point method."""


class InvalidPluginClass(Exception):
    """Import path without a usable plugin class. The message is one line with the reason."""


def check_class(cls: type) -> str:
    """Return the name of a plugin class. InvalidPluginClass with all errors if it cannot be used."""
    where = f"{cls.__module__}:{cls.__qualname__}"
    if not issubclass(cls, Plugin) or not points_of(cls):
        raise InvalidPluginClass(
            f"{where} is not a plugin: inherit from FilterPlugin or another base class of pyscheduler.api"
        )
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    if missing:
        raise InvalidPluginClass(f"{where} does not define {', '.join(missing)}{_spelling_hint(cls, missing)}")
    name = getattr(cls, "name", None)
    if not isinstance(name, str) or not name or name == "*" or ":" in name:
        raise InvalidPluginClass(f'{where} has no name: give the class a line such as name = "{cls.__name__}"')
    _check_args(cls, where)
    faults = [*_attribute_faults(cls), *_inherited_faults(cls), *_method_faults(cls), *_stray_methods(cls)]
    if faults:
        raise InvalidPluginClass(f"{where}: {'; '.join(faults)}")
    return name


def _check_args(cls: type[Plugin], where: str) -> None:
    if not is_record(cls.Args):
        raise InvalidPluginClass(
            f"{where} has Args that are not a dataclass: put @dataclass(frozen=True) above the class Args"
        )
    try:
        fields_of(cls.Args)
    except UnknownType as e:
        raise InvalidPluginClass(f"{where} has Args that cannot be decoded: {e}") from None


def _spelling_hint(cls: type, missing: list[str]) -> str:
    methods = [name for base in cls.__mro__ if base.__module__ != Plugin.__module__ for name in vars(base)]
    pairs = ((name, difflib.get_close_matches(name, methods, n=1, cutoff=0.6)) for name in missing)
    hints = [f'"{close[0]}" looks like a misspelt "{name}"' for name, close in pairs if close]
    return f" ({', '.join(hints)})" if hints else ""


# -- attributes ------------------------------------------------------------------------------------------------------


def _is_tuple_of(kind: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, tuple | list) and all(isinstance(each, kind) for each in value)


def _is(*kinds: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kinds)


def _is_weight(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


ATTRIBUTES: Mapping[str, tuple[Callable[[object], bool], str]] = MappingProxyType(
    {
        "reads": (_is(Reads), "a member of Reads such as Reads.OWN_NODE"),
        "reads_in_dry_run": (_is(Reads, type(None)), "a member of Reads or None"),
        "reads_identity": (_is(bool), "True or False"),
        "score_reads": (_is(Reads, type(None)), "a member of Reads or None"),
        "hints_read_identity": (_is(bool), "True or False"),
        "skip_includes_reserve": (_is(bool), "True or False"),
        "pre_enqueue_field": (lambda value: value in ("", *PodSpec.__struct_fields__), 'a field of `pod.spec` or ""'),
        "reports_gating": (_is(bool), "True or False"),
        "counts_succeeded": (_is(bool), "True or False"),
        "makes_room": (_is(bool), "True or False"),
        "orders_groups": (_is(bool), "True or False"),
        "tracks_time": (_is(bool), "True or False"),
        "learns_run_times": (_is(bool), "True or False"),
        "reads_labels": (_is(bool), "True or False"),
        "reads_annotations": (_is(bool), "True or False"),
        "reads_claims": (_is(bool), "True or False"),
        "reads_match_fields": (_is(bool), "True or False"),
        "has_score_key": (_is(bool), "True or False"),
        "checks_resizes": (_is(bool), "True or False"),
        "node_fields": (_is(NodeFields), "a combination of NodeFields"),
        "pre_reads_nodes": (_is(bool), "True or False"),
        "skips_read_pods": (_is(bool), "True or False"),
        "pre_score_is_live": (_is(bool), "True or False"),
        "is_repeatable": (_is(bool), "True or False"),
        "binds_without_api": (_is(bool), "True or False"),
        "weight": (_is_weight, "a whole number above 0"),
        "normalizer": (_is(Normalizer, type(None)), "a Normalizer such as DefaultNormalizeScore(), or None"),
        "watches": (_is_tuple_of(ResourceKind), "a tuple of ResourceKinds"),
        "indexes": (_is_tuple_of(str), "a tuple of label keys"),
    }
)


def _attribute_faults(cls: type[Plugin]) -> Iterator[str]:
    for name, (is_right, expected) in ATTRIBUTES.items():
        value = getattr(cls, name, None)
        # A property may compute it from the args.
        if hasattr(cls, name) and not isinstance(value, property) and not is_right(value):
            yield f"{name} is {text_of(value, repr)}, expected {expected}"


_RESERVE = ("reserve", "pre_bind_pre_flight", "pre_bind")
_CACHED = ("pre_filter", "filter", "filter_all", "pre_score", "score", "score_all")
_NARROWS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "skip_includes_reserve": _RESERVE,
        "pre_enqueue_field": ("pre_enqueue",),
        "gate_key": ("pre_enqueue",),
        "gate_object": ("pre_enqueue",),
        "is_repeatable": ("post_filter", "post_filter_steps"),
        "pre_score_is_live": ("pre_score",),
        "node_fields": _CACHED,
        "node_fields_of": _CACHED,
    }
)
"""Members because of which the scheduler omits calls of a plugin, with the methods for which they are true."""
_NARROW_NOTHING = (False, "", None, NodeFields.ALL)


def _inherited_faults(cls: type[Plugin]) -> Iterator[str]:
    """Yield the members that are inherited with a value that may be wrong for an overridden method."""
    for name, methods in _NARROWS.items():
        owner = _definer(cls, name)
        if owner is None or _is_public_api(owner) or getattr(cls, name) in _NARROW_NOTHING:
            continue
        if name == "node_fields" and cls.node_fields_of is not Plugin.node_fields_of:
            continue  # not read then
        overriding = cls.__mro__[: cls.__mro__.index(owner)]
        for method in methods:
            if any(method in vars(base) for base in overriding):
                yield f"{method} is overridden, but {name} is inherited from {owner.__name__}: define it here too"
                break


def _definer(cls: type, name: str) -> type | None:
    """Return the class from which `cls` has a member, None if it has none."""
    return next((base for base in cls.__mro__ if name in vars(base)), None)


def _is_public_api(cls: type) -> bool:
    return cls.__module__.startswith(_API)


# -- methods ---------------------------------------------------------------------------------------------------------


def _public(cls: type) -> dict[str, FunctionType]:
    """Return the public methods defined in a class itself."""
    return {name: f for name, f in vars(cls).items() if isinstance(f, FunctionType) and not name.startswith("_")}


_BASES: Final[tuple[type[Plugin], ...]] = (Plugin, TimedPlugin, *dict.fromkeys(POINTS.values()))
_DECLARED: Mapping[str, type[Plugin]] = MappingProxyType({name: base for base in _BASES for name in _public(base)})
"""Extension point methods with the base class that declares each."""


def _method_faults(cls: type[Plugin]) -> Iterator[str]:
    methods: list[tuple[str, type[Plugin]]] = [("__init__", Plugin), *_DECLARED.items()]
    for name, base in methods:
        if issubclass(cls, base):
            method, declared = inspect.getattr_static(cls, name), inspect.getattr_static(base, name)
            if method is not declared and getattr(method, "__module__", "") != Plugin.__module__:
                yield from _differences(name, method, declared)


def _differences(name: str, method: object, declared: FunctionType) -> Iterator[str]:
    """Yield the differences from the overridden method that break its caller."""
    expected = list(inspect.signature(declared).parameters)
    if isinstance(method, staticmethod):
        expected = expected[1:]
    if isinstance(method, staticmethod | classmethod):
        method = method.__func__
    if not isinstance(method, FunctionType):
        return  # other callables: their parameters cannot be checked
    signature = inspect.signature(method)
    spread = any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values())
    must_be_async, is_async = inspect.iscoroutinefunction(declared), inspect.iscoroutinefunction(method)
    if must_be_async and inspect.isasyncgenfunction(method):
        yield f"{name} contains a yield, expected an async def that returns its result"
    elif must_be_async and not is_async and not spread:
        yield f"{name} is declared def, expected async def: it runs in the binding cycle"
    elif (is_async or inspect.isasyncgenfunction(method)) and not must_be_async:
        yield f"{name} is declared async def, expected def: it runs in the scheduling cycle and must not await"
    elif inspect.isgeneratorfunction(method) and not inspect.isgeneratorfunction(declared):
        yield f"{name} is a generator, expected a method that returns its result"
    try:
        signature.bind(*expected)
    except TypeError:
        yield f"{name}{_bare(signature)} has the wrong parameters, expected {name}({', '.join(expected)})"


def _bare(signature: inspect.Signature) -> inspect.Signature:
    """Return the signature without annotations and defaults; its text has the `*` before keyword-only parameters."""
    none = inspect.Parameter.empty
    parameters = [each.replace(annotation=none, default=none) for each in signature.parameters.values()]
    return inspect.Signature(parameters)


def _stray_methods(cls: type[Plugin]) -> Iterator[str]:
    """Yield the public methods that resemble extension point methods but are never called."""
    for name in _own_methods(cls):
        base = _DECLARED.get(name)
        if base is not None and not issubclass(cls, base):
            yield f"{name} is never called: inherit {base.__name__} too, or prefix the name of a helper with _"
        elif base is None and (close := _closest(name, _DECLARED)):
            yield f"{name} is never called: it looks like a misspelt {close}; prefix the name of a helper with _"


def _own_methods(cls: type) -> Iterable[str]:
    """Return the names of public methods that the plugin's own classes define."""
    bases = [base for base in cls.__mro__ if issubclass(base, Plugin) and not _is_public_api(base)]
    return dict.fromkeys(name for base in bases for name in _public(base))


def _closest(name: str, names: Iterable[str]) -> str:
    """Return the most similar name, ignoring case and underscores, or ""."""
    plain = {_plain(each): each for each in names}
    close = difflib.get_close_matches(_plain(name), plain, n=1, cutoff=_LOOKS_LIKE)
    return plain[close[0]] if close else ""


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
