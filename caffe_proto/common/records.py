"""Dataclasses that look at their fields where a class is made, and at no more.

Python compiles up to five methods of each dataclass, used or not, which was a third of the time of a small conversion.
Here all classes share their methods, but for ``__init__``: it is compiled once a class has some instances.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import KW_ONLY, MISSING, Field, asdict, field, fields, is_dataclass, replace
from functools import cache, cached_property, partial
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["KW_ONLY", "MISSING", "Field", "asdict", "dataclass", "field", "fields", "is_dataclass", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, eq=True, kw_only=False):
        """As Python's, for classes without ``InitVar`` whose bases are plain, or dataclasses of this module."""

        def record(cls):
            own = _own_fields(cls, kw_only)
            made = _Init(frozen)
            content = {**_facts(cls, own), **_methods(cls, frozen, slots, eq), "__init__": made}
            made.cls = _with_slots(cls, own, content) if slots else _filled(cls, own, content)
            return made.cls

        return record if cls is None else record(cls)


@dataclasses.dataclass(init=False, repr=False, eq=False)
class _OfPython:
    """One that Python has made: what its functions know dataclasses and fields by is taken from here."""

    field: object


_PARAMETERS = vars(_OfPython)["__dataclass_params__"]
_FIELD: Any = fields(_OfPython)[0]


def _own_fields(cls: Any, kw_only: bool) -> dict[str, Any]:
    """The fields that a class itself has. Annotations are texts, by ``from __future__ import annotations``."""
    own = {}
    for name, kind in vars(cls).get("__annotations__", {}).items():
        if kind.endswith("KW_ONLY"):
            kw_only = True
        elif not kind.startswith("ClassVar"):
            default = vars(cls).get(name, MISSING)
            each: Any = default if isinstance(default, Field) else field(default=default)
            own[name], each.name, each.type, each._field_type = each, name, kind, _FIELD._field_type
            if each.kw_only is MISSING:
                each.kw_only = kw_only
    return own


def _facts(cls: Any, own: dict[str, Any]) -> dict[str, Any]:
    """What Python's functions read of a dataclass."""
    of_bases = (vars(base).get("__dataclass_fields__", {}) for base in reversed(cls.__mro__))
    every = {name: each for some in (*of_bases, own) for name, each in some.items()}
    places = tuple(name for name, each in every.items() if not each.kw_only)
    return {"__dataclass_fields__": every, "__dataclass_params__": _PARAMETERS, "__match_args__": places}


def _methods(cls: Any, frozen: bool, slots: bool, eq: bool) -> dict[str, Any]:
    """Those that the class does not have itself."""
    methods: dict[str, Any] = {"__repr__": _repr}
    if eq:
        methods |= {"__eq__": _eq, "__hash__": _hash if frozen else None}
    if frozen:
        methods |= {"__setattr__": _refuse, "__delattr__": _refuse}
    if frozen and slots:
        methods |= {"__getstate__": _getstate, "__setstate__": _setstate}
    return {name: method for name, method in methods.items() if vars(cls).get(name) is None}


def _with_slots(cls: Any, own: dict[str, Any], content: dict[str, Any]) -> Any:
    """The class made again: slots cannot be added to a class."""
    kept = {name: value for name, value in vars(cls).items() if name not in own and name not in _OF_INSTANCES}
    inherited = {name for base in cls.__mro__[1:] for name in vars(base).get("__slots__", ())}
    slots = tuple(name for name in own if name not in inherited)
    name = {"__qualname__": cls.__qualname__}
    return type(cls)(cls.__name__, cls.__bases__, {**kept, **content, **name, "__slots__": slots})


_OF_INSTANCES = ("__dict__", "__weakref__")


def _filled(cls: Any, own: dict[str, Any], content: dict[str, Any]) -> Any:
    """The class with this content, and with defaults where it says how its fields are."""
    for name in own.keys() & vars(cls).keys():
        delattr(cls, name)
    defaults = {name: each.default for name, each in own.items() if each.default is not MISSING}
    for name, value in {**defaults, **content}.items():
        setattr(cls, name, value)
    return cls


_FACTORY = type("_Factory", (), {"__repr__": lambda self: "<factory>"})()
"""The default of a field whose default is made, as signatures show it."""


_FIRST = 32
"""Instances of a class that are made without compiling anything, which takes as long as to make some forty."""


class _Init:
    """``__init__`` of a class for its first instances. Then, or when it is asked for, a function takes this place."""

    cls: Any

    def __init__(self, frozen: bool) -> None:
        self.frozen = frozen
        self.left = _FIRST

    def __get__(self, item: object, owner: type) -> Any:
        if item is not None and self.left:
            self.left -= 1
            return partial(self._fill, item)
        self.cls.__init__ = made = self._function()
        return made.__get__(item, owner)

    @cached_property
    def _signature(self) -> tuple[list[str], dict[str, Any], dict[str, Callable[[], Any]], set[str]]:
        """The fields that have places, what those that are left out become or are made by, and all fields."""
        of_class = fields(self.cls)
        return (
            [each.name for each in of_class if not each.kw_only],
            {each.name: each.default for each in of_class if each.default is not MISSING},
            {each.name: each.default_factory for each in of_class if each.default_factory is not MISSING},
            {each.name for each in of_class},
        )

    def _fill(self, item: Any, /, *values: Any, **named: Any) -> None:
        """As the function does, which raises for what does not fit."""
        places, defaults, factories, names = self._signature
        arguments = dict(zip(places, values, strict=False))
        content = {**defaults, **arguments, **named}
        for name in factories.keys() - content.keys():
            content[name] = factories[name]()
        if len(arguments) < len(values) or arguments.keys() & named.keys() or content.keys() != names:
            self._function()(item, *values, **named)
            return
        for name, value in content.items():
            object.__setattr__(item, name, value)
        if hasattr(item, "__post_init__"):
            item.__post_init__()

    def _function(self) -> Any:
        scope: dict[str, Any] = {"_FACTORY": _FACTORY, "_set": object.__setattr__}
        positional: list[str] = ["self"]
        named: list[str] = []
        lines: list[str] = []
        for each in fields(self.cls):
            parameter = value = name = each.name
            if each.default is not MISSING:
                parameter, scope[f"_default_{name}"] = f"{name}=_default_{name}", each.default
            elif each.default_factory is not MISSING:
                parameter, scope[f"_make_{name}"] = f"{name}=_FACTORY", each.default_factory
                value = f"_make_{name}() if {name} is _FACTORY else {name}"
            (named if each.kw_only else positional).append(parameter)
            lines.append(f"_set(self, {name!r}, {value})" if self.frozen else f"self.{name} = {value}")
        if hasattr(self.cls, "__post_init__"):
            lines.append("self.__post_init__()")
        parameters = [*positional, *(["*", *named] if named else [])]
        exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines or ["pass"]), scope)
        function = scope["__init__"]
        function.__module__, function.__qualname__ = self.cls.__module__, f"{self.cls.__qualname__}.__init__"
        function.__annotations__ = {each.name: each.type for each in fields(self.cls)} | {"return": None}
        return function


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


@cache
def _key(cls: Any) -> attrgetter[Any]:
    """Of an instance, the tuple of what makes it equal to another."""
    names = [each.name for each in fields(cls) if each.compare]
    return attrgetter(*(names * 2)[: max(2, len(names))] or ["__class__"])


def _eq(self: Any, other: Any) -> Any:
    key = _key(self.__class__)
    return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: Any) -> int:
    return hash(_key(self.__class__)(self))


def _refuse(self: object, name: str, value: object = None) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
