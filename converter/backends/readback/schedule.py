"""From the layers of a network to actions in an order in which they can be run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter
from types import ModuleType
from typing import Any

from prototrt.caffe_proto.common.errors import BuildError, ConversionError, UnsupportedLayerError
from prototrt.converter.backends.readback.actions import Action, LayerAction
from prototrt.converter.backends.readback.network_layers import NetworkLayer, read_layers
from prototrt.converter.backends.readback.registry import RULES
from prototrt.converter.backends.readback.scan import LoopAction, LoopIterator, LoopOutput, LoopState


def schedule(trt: ModuleType, network: Any) -> list[Action]:
    layers = read_layers(trt, network)
    return _Scheduler(layers).actions_in(None)


class _Scheduler:
    def __init__(self, layers: Sequence[NetworkLayer]) -> None:
        self._nesting = Nesting(layers)
        self._bodies: dict[str | None, list[NetworkLayer]] = {None: []}
        self._boundaries: dict[str, list[NetworkLayer]] = {loop: [] for loop in self._nesting.loops}
        self._children: dict[str | None, list[str]] = {None: []}
        for layer in layers:
            if layer.loop is None:
                self._bodies.setdefault(self._nesting.loop_of(layer), []).append(layer)
            else:
                self._boundaries[layer.loop].append(layer)
        for loop in self._nesting.loops:
            self._children.setdefault(self._nesting.loop_of(loop), []).append(loop)

    def actions_in(self, loop: str | None) -> list[Action]:
        """The actions of a loop's body, or of the network, each after what it reads."""
        actions: list[Action] = [_layer_action(layer) for layer in self._bodies.get(loop, [])]
        actions += [self._loop_action(child) for child in self._children.get(loop, [])]
        return _order(actions)

    def _loop_action(self, loop: str) -> LoopAction:
        body = self.actions_in(loop)
        boundary = self._boundaries[loop]
        count, condition = _trip_limits(loop, boundary)
        guard = _dependencies(condition, body)
        last, joined = _loop_outputs(boundary)
        read = {name for layer in boundary for name in layer.reads}.union(*(action.reads for action in body))
        return LoopAction(
            name=loop,
            count=count,
            condition=condition,
            iterators=tuple(_iterator(e, count) for e in boundary if e.type == "ITERATOR"),
            states=tuple(_state(e) for e in boundary if e.type == "RECURRENCE"),
            guard=tuple(guard),
            body=tuple(action for action in body if action not in guard),
            outputs=tuple(joined),
            last_values=tuple(last),
            reads=frozenset(read),
            writes=frozenset(layer.output.name for layer in boundary if layer.type == "LOOP_OUTPUT"),
        )


def _layer_action(layer: NetworkLayer) -> LayerAction:
    if layer.type not in RULES:
        raise UnsupportedLayerError(
            f"the network interpreter has no rule for layers of type {layer.type}", where=layer.where
        )
    try:
        evaluate = RULES[layer.type](layer.layer)
    except ConversionError as error:
        error.where = layer.where
        raise
    return LayerAction(layer.where, evaluate, layer.inputs, layer.outputs)


def _order(actions: Sequence[Action]) -> list[Action]:
    writers = {name: action for action in actions for name in action.writes}
    needs = {
        action: [writers[name] for name in sorted(action.reads) if name in writers] for action in actions
    }
    try:
        return list(TopologicalSorter(needs).static_order())
    except CycleError as error:
        names = sorted({name for action in error.args[1] for name in action.writes})
        raise BuildError(
            f"these tensors depend on themselves outside any loop's recurrence: {names}"
        ) from error


def _dependencies(tensor: str | None, actions: Sequence[Action]) -> list[Action]:
    """Those of the ordered actions without which the tensor cannot be computed."""
    tensors = {tensor}
    needed: list[Action] = []
    for action in reversed(actions):
        if tensors & action.writes:
            tensors |= action.reads
            needed.append(action)
    return needed[::-1]


def _trip_limits(loop: str, boundary: Iterable[NetworkLayer]) -> tuple[str | None, str | None]:
    limits = {e.layer.kind.name: e.reads[0] for e in boundary if e.type == "TRIP_LIMIT"}
    if not limits:
        raise BuildError(f'loop "{loop}" has no trip limit')
    return limits.get("COUNT"), limits.get("WHILE")


def _iterator(layer: NetworkLayer, count: str | None) -> LoopIterator:
    if layer.layer.reverse and count is None:
        raise BuildError("iterates in reverse, but its loop has no trip count", where=layer.where)
    return LoopIterator(layer.where, layer.reads[0], layer.output, layer.layer.axis, layer.layer.reverse)


def _state(layer: NetworkLayer) -> LoopState:
    if len(layer.reads) != 2:
        raise BuildError("has no second input, the value for the next trip", where=layer.where)
    initial, following = layer.reads
    return LoopState(layer.where, initial, following, layer.output)


def _loop_outputs(boundary: Sequence[NetworkLayer]) -> tuple[list[tuple[str, str]], list[LoopOutput]]:
    states = {layer.output.name for layer in boundary if layer.type == "RECURRENCE"}
    last: list[tuple[str, str]] = []
    joined: list[LoopOutput] = []
    for layer in boundary:
        if layer.type != "LOOP_OUTPUT":
            continue
        kind = layer.layer.kind.name
        if kind != "LAST_VALUE":
            joined.append(_joined_output(layer, kind))
        elif layer.reads[0] in states:
            last.append((layer.reads[0], layer.output.name))
        else:
            raise BuildError(
                "gives the last value of a tensor that is not a recurrence of its loop", where=layer.where
            )
    return last, joined


def _joined_output(layer: NetworkLayer, kind: str) -> LoopOutput:
    if len(layer.reads) != 2:
        raise BuildError("has no second input, the length of the result", where=layer.where)
    source, length = layer.reads
    axis = layer.layer.axis % len(layer.output.shape)
    return LoopOutput(layer.where, source, layer.output, length, axis, reverse=kind == "REVERSE")


class Nesting:
    """``loop_of`` returns the innermost loop around a layer or a loop, None for the network itself.

    TensorRT does not say. A loop names only its boundary: iterators and recurrences, through which values come
    in, trip limits and outputs. The body is whatever depends on an iterator or a recurrence. A loop stands
    inside another one when any of its boundary layers depends on the other's iterators or recurrences.
    """

    def __init__(self, layers: Sequence[NetworkLayer]) -> None:
        self._layers = layers
        self._inside: dict[NetworkLayer, set[str]] = {layer: set() for layer in layers}
        self._around: dict[str, set[str]] = {layer.loop: set() for layer in layers if layer.loop is not None}
        self._writers = {output.name: layer for layer in layers for output in layer.outputs}
        while self._spread():
            pass
        for loop, around in self._around.items():
            if loop in around:
                raise BuildError(f'loop "{loop}" and another loop each stand inside the other')

    @property
    def loops(self) -> list[str]:
        return list(self._around)

    def loop_of(self, thing: NetworkLayer | str) -> str | None:
        loops = self._around[thing] if isinstance(thing, str) else self._inside[thing]
        innermost = max(loops, key=lambda loop: len(self._around[loop]), default=None)
        if innermost is not None and loops - {innermost} != self._around[innermost]:
            place = f'loop "{thing}"' if isinstance(thing, str) else thing.where
            raise BuildError(
                f"the loops {sorted(loops)} overlap, but neither stands inside the other", where=place
            )
        return innermost

    def _spread(self) -> bool:
        """Hand every layer's loops on to its readers, once. True when that added anything."""
        before = self._size()
        for layer in self._layers:
            loops = self._inside[layer]
            for name in layer.reads:
                loops |= self._outside_reads(name)
            if layer.loop is not None:
                self._around[layer.loop] |= loops - {layer.loop}
                loops.add(layer.loop)
            for loop in list(loops):
                loops |= self._around[loop]
        return self._size() > before

    def _outside_reads(self, name: str) -> set[str]:
        writer = self._writers.get(name)
        if writer is None:
            return set()
        if writer.type == "LOOP_OUTPUT":
            assert writer.loop is not None
            return self._around[writer.loop]
        return self._inside[writer]

    def _size(self) -> int:
        return sum(map(len, self._inside.values())) + sum(map(len, self._around.values()))
