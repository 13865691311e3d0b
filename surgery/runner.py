"""Runs lists of passes. The graph is verified after each pass, and passed to observers."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.surgery.ir import Graph, Node, bodies
from prototrt.surgery.ir.verification import (
    InvalidGraphError,
    declared_changes,
    refuse_changed_bindings,
    refuse_changed_border,
    verify,
)

log = logging.getLogger(__name__)

Pass: TypeAlias = Callable[[Graph], Graph]
"""A pass. Returns the same graph object if there is nothing to do."""


@dataclass(frozen=True, slots=True)
class PassList:
    """Passes that run in this order, and the name of their purpose."""

    name: str
    passes: tuple[Pass, ...] = ()


Observer: TypeAlias = Callable[[PassList, Pass, Graph, bool], None]
"""``observer(list, pass, graph after it, whether the pass changed it)``."""
_observers: ContextVar[tuple[Observer, ...]] = ContextVar("observers", default=())


@contextmanager
def observe_passes(observer: Observer) -> Iterator[None]:
    """Call ``observer`` after each pass that runs inside the block."""
    token = _observers.set((*_observers.get(), observer))
    try:
        yield
    finally:
        _observers.reset(token)


class PassError(AssertionError):
    """A pass failed, or returned an invalid graph: a bug in the pass, not a mistake of the user."""

    def __init__(self, name: str, before: Graph, problem: Exception) -> None:
        what = "breaks the graph" if isinstance(problem, InvalidGraphError) else "fails"
        super().__init__(f"the pass {name} {what}: {problem or type(problem).__name__}")
        self.name, self.before = name, before


def run(graph: Graph, lists: Sequence[PassList], sound: set[Hashable] | None = None) -> Graph:
    """The graph after all passes of all lists, one after the other; it is verified after each.

    Nodes and graphs are immutable, so each is verified once: ``sound`` is what an earlier run verified.
    Raises ``InvalidGraphError`` if the given graph is invalid, and ``PassError`` if a pass fails, returns
    an invalid graph, or changes more of its border than it declares: see ``surgery/ir/verification.py``.
    """
    verified: set[Hashable] = set() if sound is None else sound
    verify(graph, verified)
    for each in lists:
        for change in each.passes:
            graph = _run(change, graph, each, verified)
    return graph


def _run(change: Pass, before: Graph, of: PassList, sound: set[Hashable]) -> Graph:
    try:
        after = change(before)
        if after is not before:
            verify(after, sound)
            refuse_changed_border(before, after, declared_changes(change))
    except (ConversionError, MemoryError):  # errors that the user can fix
        raise
    except Exception as error:
        raise PassError(change.__name__, before, error) from error
    if after is not before:
        log.debug("%s: %d nodes, before %d", change.__name__, len(after.nodes), len(before.nodes))
    for observer in _observers.get():
        observer(of, change, after, after is not before)
    return after


def inside_bodies(change: Pass) -> Pass:
    """The same pass, applied also to the bodies of Scans: the innermost first, the graph last.

    The pass must keep the inputs and outputs of a body, whatever it declares, and must not create names: it does
    not know the names outside.
    """

    @functools.wraps(change)
    def everywhere(graph: Graph) -> Graph:
        changed = {node: _over_bodies(node, everywhere) for node in graph.nodes if node.op.graphs}
        return change(graph.with_nodes(changed.get(node, node) for node in graph.nodes))

    return everywhere


def _over_bodies(node: Node, change: Pass) -> Node:
    """The node over changed bodies; itself if they stay as they are."""
    changed = {body: _change_body(change, body, node) for body in bodies(node.op)}
    if all(old is new for old, new in changed.items()):
        return node
    new = {name: changed[getattr(node.op, name)] for name in node.op.graphs}
    return replace(node, op=replace(node.op, **new))


def _change_body(change: Pass, body: Graph, node: Node) -> Graph:
    """The body after the pass. The layers in it are compared over the whole graph."""
    after = change(body)
    try:
        refuse_changed_bindings(body, after)
    except InvalidGraphError as error:
        raise InvalidGraphError(f"in the body of {node.name}, {error}") from None
    return after
