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
            methods = {"__repr__": _repr}
            if eq:
                methods |= {"__eq__": _eq, "__hash__": _hash if frozen else None}
            if frozen:
                methods |= {"__setattr__": _refuse, "__delattr__": _refuse}
            if frozen and slots:
                methods |= {"__getstate__": _getstate, "__setstate__": _setstate}
            own = {name for name in methods if vars(cls).get(name) is not None}
            cls.__doc__ = cls.__doc__ or cls.__name__  # else Python writes one, from __init__
            cls = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
            for name in methods.keys() - own:
                setattr(cls, name, methods[name])
            cls.__init__ = _Init(cls, frozen)
            return cls

        return record if cls is None else record(cls)


_FACTORY = type("_Factory", (), {"__repr__": lambda self: "<factory>"})()
"""The default of a field whose default is made, as signatures show it."""


_FIRST = 32
"""Instances of a class that are made without compiling anything, which takes as long as to make some forty."""


class _Init:
    """``__init__`` of a class for its first instances. Then, or when it is asked for, a function takes this place."""

    def __init__(self, cls: Any, frozen: bool) -> None:
        self.cls, self.frozen = cls, frozen
        self.left = _FIRST

    def __get__(self, item: object, owner: type) -> Any:
        if isinstance(item, self.cls) and self.left:  # inspect, from Python 3.13 on, gives the class
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
