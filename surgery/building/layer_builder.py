"""The tools of a layer rule: the builder, the layer's parameters, and the user's options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any, TypeAlias

import numpy as np
from google.protobuf.message import Message

from prototrt.caffe_proto import Layer, Model, NoWeights, RandomWeights, StoredBlob
from prototrt.caffe_proto.common.errors import NetError, ShapeError, WeightsError
from prototrt.caffe_proto.common.wording import Option, Worded, plural
from prototrt.caffe_proto.weights import Purpose
from prototrt.surgery.building.blob_numbers import count_not_finite, filler_numbers, filler_text
from prototrt.surgery.building.builder import Builder
from prototrt.surgery.building.expression import Expression
from prototrt.surgery.building.input_sizes import InputSizes
from prototrt.surgery.building.limits import MemoryLimit, refuse_large, refuse_too_many
from prototrt.surgery.building.shared_memory import SharedMemory
from prototrt.surgery.ir import Array, Shape, Value, element_count, symbols_of
from prototrt.surgery.ir.registry import Registry
from prototrt.surgery.options import RewriteOptions
from prototrt.surgery.settings import Settings

LayerRule: TypeAlias = Callable[..., Sequence[Expression]]
"""``rule(build, layer, *bottoms) -> tops``; its signature says how many bottoms there are."""

layer_rule: Registry[str, LayerRule] = Registry("layer rule")

GIVE_THEIR_NET = "use the prototxt that these weights were trained with"
"""The fix for weights that do not fit."""


class LayerBuilder(Builder):
    """A ``Builder`` that also returns the stored parameters of layers."""

    def __init__(self, model: Model, options: RewriteOptions, inputs: InputSizes) -> None:
        tops = [top for layer in model.layers for top in layer.tops]
        super().__init__(reserved=tops, layers=[layer.name for layer in model.layers])
        self.weights = model.weights
        self.options = options
        self.heeded: set[str] = set()
        """Which of the options some layer has asked for that has a use for them."""
        self._settings = Settings.from_source(options.settings)
        self.sizes_of_inputs = inputs
        self.size_names = inputs.size_names()
        self.memory = SharedMemory()
        self.limit = MemoryLimit(options)
        self.made: set[Value] = set()
        """The values that the net makes without its inputs."""
        self.parameters: dict[str, int] = {}
        """How many numbers each layer has read from the weights file."""
        self.learned: dict[str, list[Value]] = {}
        """The blobs that each layer has read; of a Caffe2 net, each blob under its own name."""
        self.equivalents: dict[Value, Array | float] = {}
        """For some of them: what gives the same result when it is read in their place."""
        self.shared: set[Value] = set()
        """Blobs that several operators of a Caffe2 net read, which have no equivalents."""
        self.without_weights: dict[str, None] = {}
        """Layers which need weights although no weights were given."""
        self.used_states: set[str] = set()
        """The states that may come from outside, by the names that ``options.state_arrays`` has for them."""
        self.mean_files: list[str] = []
        self._read: list[Value] = []
        self._unread = 0
        self._owned: dict[tuple[str, int], Array] = {}

    def heed(self, name: str) -> Any:
        """The user's choice of an option, for a layer that depends on it: what no layer asks for is told to be idle."""
        self.heeded.add(name)
        return getattr(self.options, name)

    @property
    def settings(self) -> Settings:
        """The numbers that the model's program kept elsewhere."""
        self.heeded.add("settings")
        return self._settings

    def begin(self, layer: Layer) -> None:
        """Make this layer the origin of the nodes and parameters that follow."""
        self.origin = layer.origin
        self._read = []
        self._unread = 0

    def parameter(
        self,
        layer: Layer,
        shape: Shape,
        what: str,
        *,
        filler: Message | str | None = None,
        kind: Purpose = "weight",
    ) -> Expression:
        """The next stored blob of the layer, which must have this shape.

        ``what`` is its name in messages and in the graph. ``filler`` is the filler that the
        prototxt states, if any, or the name of its field. A layer that the weights file lacks keeps the filler's
        numbers, as in Caffe, but only if they are not random. ``kind`` is the purpose of the blob, for random
        weights. Raises ``WeightsError``.
        """
        index = len(self._read)
        initial_values = field_if_set(layer.param, filler) if isinstance(filler, str) else filler
        array = self._array(layer, index, shape, what, initial_values, kind)
        self._check_sharing(layer, index, array, what)
        value = self.constant(array, what)
        self._read.append(value)
        self.learned.setdefault(layer.name, []).append(value)
        self.parameters[layer.name] = self.parameters.get(layer.name, 0) + array.size
        return value

    def set_equivalent_blobs(self, layer: Layer, *arrays: Array | float) -> None:
        """Say which blobs, all of them, give what the layer is in the graph; a number stands for a blob full of it."""
        for blob, array in zip(self._read, arrays, strict=True):
            self.set_equivalent(blob, array)

    def set_equivalent(self, blob: Value, array: Array | float) -> None:
        """Say what gives the same result when it is read in the place of a blob; a number fills it."""
        self.equivalents[blob] = array

    def learned_blobs(self) -> dict[str, tuple[Value, ...]]:
        """The blobs of each layer that has weights, or their equivalents; of a Caffe2 net, of each blob."""
        return {layer: tuple(map(self._learned, blobs)) for layer, blobs in self.learned.items()}

    def _learned(self, blob: Value) -> Value:
        if blob not in self.equivalents or blob in self.shared:
            return blob
        array = self.equivalents[blob]
        if isinstance(array, float):
            array = np.broadcast_to(np.float32(array), blob.array.shape)
        return replace(blob, data=array.reshape(blob.array.shape))

    @property
    def blobs_read(self) -> int:
        """How many blobs of the layer at hand have been read."""
        return len(self._read)

    def shape_of_input(self, name: str, sizes: tuple[int, ...] | None) -> Shape:
        """The shape of an input from the file or the user. Sizes that may vary become symbols."""
        formula = self.sizes_of_inputs.formulas.get(name)
        if formula is not None:
            for dim in formula:
                self.symbols |= symbols_of(dim)
            return formula
        return self.size_names.symbolic(name, self.sizes_of_inputs.ranges(name, sizes), self.symbols)

    def leave_unread(self, count: int) -> None:
        """Skip this many blobs of the layer, which do not affect the result."""
        self._unread = count

    def end(self, layer: Layer) -> None:
        """Refuse stored blobs that the layer does not use, and a ``param`` for a blob that it lacks."""
        self._refuse_surplus_specs(layer)
        if layer.blobs is None or len(layer.blobs) == len(self._read):
            return
        is_of_text = self.weights.blobs_of(layer.name) is None
        if is_of_text and not self._read:
            self.warn("blobs is ignored, as in Caffe: the layer has none")
        else:
            read = ", ".join(f"{value.shape}" for value in self._read) or "none"
            raise WeightsError(
                f"the {'prototxt' if is_of_text else 'weights file'} has {plural(len(layer.blobs), 'blob')},"
                f" expected {len(self._read)}",
                origin=layer.origin,
                because=f"the layer's blobs have the shapes {read}",
                fix=GIVE_THEIR_NET,
            )

    def _refuse_surplus_specs(self, layer: Layer) -> None:
        """Source: caffe ``src/caffe/net.cpp``, ``Net::Init``."""
        specs, blobs = len(layer.shared), self._unread + len(self._read)
        if specs > blobs:
            raise NetError(
                f"param is stated {specs} times, expected at most {blobs}, once per blob of the layer",
                origin=layer.origin,
                fix=f"remove param {blobs}" if specs == blobs + 1 else f"remove param {blobs} to {specs - 1}",
            )

    def _array(
        self, layer: Layer, index: int, shape: Shape, what: str, filler: Message | None, kind: Purpose
    ) -> Array:
        refuse_too_many(element_count(shape, f"a size of the {what}"), shape, f"blob {index} ({what})")
        sizes = [dim for dim in shape if isinstance(dim, int)]
        if isinstance(self.weights, RandomWeights):
            return self._draw(layer, index, tuple(sizes), kind)
        if layer.blobs is not None:
            array = _stored_blob(layer, index, tuple(sizes), what)
            self._check_numbers(layer, index, array, what)
            return array
        if isinstance(self.weights, NoWeights):
            self.without_weights[layer.name] = None
            return _zeros(*sizes)
        kept = filler_numbers(filler, tuple(sizes))
        if kept is not None:
            self.warn(f"the weights file has no such layer: its {what} keep {filler_text(filler)}")
            return kept
        raise WeightsError(
            f"the weights file has no such layer, expected {what} of shape {shape}",
            origin=layer.origin,
            fix="use the prototxt that these weights were trained with: layers are matched by name",
        )

    def _draw(self, layer: Layer, index: int, shape: tuple[int, ...], kind: Purpose) -> Array:
        """Random numbers, the same for all layers that share the blob."""
        assert isinstance(self.weights, RandomWeights)
        owner = _owner(layer, index) or (layer.name, index)
        owned = self._owned.get(owner)
        if owned is not None and owned.size == prod(shape):
            return owned.reshape(shape)
        self.limit.take(prod(shape), f"blob {index}")
        return self.weights.draw(*owner, shape, kind)

    def _check_sharing(self, layer: Layer, index: int, array: Array, what: str) -> None:
        """Shared blobs have one shape, or with PERMISSIVE the same number of elements.

        Source: caffe ``src/caffe/net.cpp``, ``Net::AppendParam``.
        """
        owner = _owner(layer, index)
        owned = self._owned.setdefault(owner or (layer.name, index), array)
        if owner is None or owned.shape == array.shape:
            return
        has_as_many = owned.size == array.size
        if has_as_many and _is_permissive(layer, index):
            return
        fix = "give both layers the same num_output and bottoms of the same size, or the blobs different param names"
        raise WeightsError(
            f"shape is {array.shape}, but it is shared with blob {owner[1]} of layer "
            f'"{owner[0]}", which has the shape {owned.shape}',
            origin=layer.origin,
            blob=f"blob {index} ({what})",
            fix=f"{fix}, or add share_mode: PERMISSIVE" if has_as_many else fix,
        )

    def _check_numbers(self, layer: Layer, index: int, array: Array, what: str) -> None:
        bad = count_not_finite(array)
        if not bad:
            return
        problem = f"{bad} of {array.size} numbers are NaN or infinite"
        if self.options.strict:
            fix = Worded(
                "get the weights file again, or omit {} to continue with such numbers", Option("strict")
            )
            raise WeightsError(problem, origin=layer.origin, blob=f"blob {index} ({what})", fix=fix)
        self.warnings.append(f"{layer.origin}, blob {index} ({what}): {problem}")


@lru_cache
def _zeros(*shape: int) -> Array:
    """One element, repeated. A net has many layers with parameters of few shapes."""
    return np.broadcast_to(np.float32(0), shape)


def _owner(layer: Layer, index: int) -> tuple[str, int] | None:
    """The layer and the index of the blob that this blob shares, or None."""
    return layer.shared[index] if index < len(layer.shared) else None


def _is_permissive(layer: Layer, index: int) -> bool:
    """Whether the blob shares numbers that its owner holds in another shape. HDF5 files have only the owner's."""
    if _owner(layer, index) is None:
        return False
    spec = layer.message.param[index]
    return bool(spec.share_mode == type(spec).PERMISSIVE)


def _stored_blob(layer: Layer, index: int, shape: tuple[int, ...], what: str) -> Array:
    assert layer.blobs is not None
    if index >= len(layer.blobs):
        raise WeightsError(
            f"the weights file has {plural(len(layer.blobs), 'blob')};"
            f" blob {index} ({what}) of shape {shape} is missing",
            origin=layer.origin,
            fix=GIVE_THEIR_NET,
        )
    blob = layer.blobs[index]
    if not _fits(blob, shape) and not (_is_permissive(layer, index) and prod(blob.shape) == prod(shape)):
        raise WeightsError(
            f"shape in the weights file is {blob.shape}, expected {shape}",
            origin=layer.origin,
            blob=f"blob {index} ({what})",
            fix=GIVE_THEIR_NET,
        )
    return blob.array.reshape(shape)


def _fits(blob: StoredBlob, shape: tuple[int, ...]) -> bool:
    """Equal shapes; old files have four axes, padded with ones at the front.

    Source: caffe ``src/caffe/blob.cpp``, ``Blob::ShapeEquals``.
    """
    if blob.legacy:
        return len(shape) <= 4 and blob.shape == (1,) * (4 - len(shape)) + shape
    return blob.shape == shape


def misfit(
    layer: Layer, index: int, x: Value | Array, expected: object, fix: str, because: str | None = None
) -> ShapeError:
    """The error for a bottom of a shape that the layer has no use for."""
    return ShapeError(
        f"shape is {x.shape}, expected {expected}",
        blob=f'{layer.bottom_word} "{layer.bottom_blob(index)}"',
        because=because,
        fix=fix,
    )


def expect_axes(
    layer: Layer, index: int, x: Value, expected: str, least: int | None = None, most: int | None = None
) -> None:
    """Raise ``ShapeError`` unless a bottom has as many axes as ``expected`` names, as in ``(N, C, H, W)``.

    Where ``expected`` is worded otherwise, ``least`` to ``most``, or just ``least``, axes are expected.
    """
    least = expected.count(",") + 1 if least is None else least
    most = least if most is None else most
    if not least <= len(x.shape) <= most:
        axes = least if len(x.shape) < least else most
        raise misfit(layer, index, x, expected, f"add a Reshape before this layer to {axes} axes")


def refuse_fields_of(param: Message, others: Mapping[str, str]) -> None:
    """Raise ``NetError`` for a field that only layers of another type read; ``others`` names that type."""
    for field, kind in others.items():
        if param.HasField(field):
            raise NetError(
                f"states {field}, which this type does not read",
                fix=f"use the type {kind}, or remove {field}",
            )


def refuse_in_place(layer: Layer, because: str) -> None:
    """For layers whose top must not be their bottom, where Caffe ends the process."""
    if layer.bottom_blob(0) in layer.message.top:
        raise NetError(
            "this layer cannot work in place",
            blob=f'top "{layer.bottom_blob(0)}"',
            because=because,
            fix="give the top another name",
        )


def field_if_set(param: Message, name: str) -> Any:
    """A field of a message if the file states it, otherwise None."""
    return getattr(param, name) if param.HasField(name) else None


def positive_sizes(param: Message, *names: str, fix: str, most: int | None = None) -> tuple[int, ...]:
    """The numbers in fields of a message. Raises ``NetError`` unless they are from 1 to ``most``."""
    sizes = tuple(int(getattr(param, name)) for name in names)
    if min(sizes) < 1:
        (first, *others), (size, *more) = names, sizes
        also = "".join(f" and {name} {other}" for name, other in zip(others, more, strict=True))
        raise NetError(f"{first} is {size}{also}, expected at least 1", fix=fix)
    if most is not None:
        for name, size in zip(names, sizes, strict=True):
            refuse_large(name, size, most)
    return sizes


def canonical_axis(axis: int, shape: Shape, field_name: str, word: str = "bottom") -> int:
    """A Caffe axis, which may count from the end, as an index into ``shape``."""
    if not -len(shape) <= axis < len(shape):
        raise NetError(
            f"{field_name} is {axis}, but the {word} has {len(shape)} axes: {shape}",
            fix=f"use an axis from {-len(shape)} to {len(shape) - 1}",
        )
    return axis % len(shape)
