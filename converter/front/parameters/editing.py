"""Single parameters of a model's weights: listed, read, and written into a new file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import numpy as np

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.caffe2.init_net import InitNet
from prototrt.caffe_proto.caffe2.schema import message_class
from prototrt.caffe_proto.common.errors import NetError, OptionsError, UnsupportedLayerError, WeightsError
from prototrt.caffe_proto.common.options import PathLike
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.suggestions import close_names
from prototrt.caffe_proto.common.wording import Option, Worded, listed
from prototrt.caffe_proto.weights import Array, StoredWeights
from prototrt.caffe_proto.weights.caffemodel_writer import LayerBlobs, write_caffemodel
from prototrt.caffe_proto.weights.module_state import is_of_module, weights_of_module
from prototrt.caffe_proto.weights.named_arrays import ArraysOnRequest
from prototrt.converter.files.writing.files import atomic_write, refuse_overwriting, size_lines
from prototrt.converter.front.parameters.files import read_arrays, write_arrays
from prototrt.converter.front.parameters.parts import BlobKey, Parameter, parameters_of
from prototrt.converter.front.parameters.pytorch import FIRST, arrays_of_state, cell_of, state_of
from prototrt.converter.options import ParameterNames


@dataclass(frozen=True)
class ParameterList:
    """The parameters of a model that have no smaller parts: rows of gates, and whole matrices without gates."""

    parameters: Sequence[Parameter]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"parameters": [each.as_dict() for each in self.parameters]}


@dataclass(frozen=True)
class ReadParameters:
    """Arrays by name, and the file that they were written to, if any."""

    arrays: Mapping[str, Array]
    file: str | None = None

    @property
    def summary(self) -> list[str]:
        """What was read."""
        shapes = [f"{name}: {' x '.join(map(str, array.shape))}" for name, array in self.arrays.items()]
        return [*shapes, *size_lines([self.file] if self.file else [])]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        shapes = {name: list(array.shape) for name, array in self.arrays.items()}
        return {"arrays": shapes, "file": self.file}


@dataclass(frozen=True)
class EditedWeights:
    """The parameters that a new file of weights has from elsewhere."""

    names: Sequence[str]
    file: str
    warnings: Sequence[str] = ()

    @property
    def summary(self) -> list[str]:
        """What was written."""
        return [*(f"set {name}" for name in self.names), *size_lines([self.file])]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"set": [*self.names], "file": self.file, "warnings": [*self.warnings]}


def list_parameters(model: Model) -> ParameterList:
    """Every matrix and bias with stored numbers, gate by gate. Raises ``ConversionError``."""
    return ParameterList([each for each in _all_parameters(model).values() if each.is_finest])


def get_parameters(
    model: Model, names: Sequence[str], naming: ParameterNames, file: PathLike | None
) -> ReadParameters:
    """The arrays of parameters, by default those of all recurrent layers; ``file`` is written if it is given.

    ``naming="pytorch"``: those of one layer, as PyTorch's module calls them; ``names`` has the layer's name.
    """
    parameters = _all_parameters(model)
    if naming == "pytorch":
        layer = _layer_for_pytorch(model, parameters, names)
        arrays = state_of(layer, _own_parameters(layer, parameters))
    else:
        arrays = {each.address: each.array for each in _parameters_called(model, parameters, names)}
    if file is not None:
        refuse_overwriting([(Option("file"), os.fspath(file))], _read_files(model))
        write_arrays(file, arrays)
    return ReadParameters(arrays, None if file is None else os.fspath(file))


def set_parameters(
    model: Model, source: Mapping[str, Array] | PathLike, file: PathLike, layer: str | None
) -> EditedWeights:
    """Write the weights of a model to a new file, with parameters from ``source``: arrays, or a file of them.

    Names are those that ``list_parameters`` has, or, for one layer, those of PyTorch's module. Of the state dict of a
    module that prototrt wrote, all blobs are set.
    """
    parameters = _all_parameters(model)
    origin = None if isinstance(source, Mapping) else os.fspath(source)
    arrays = source if isinstance(source, Mapping) else read_arrays(source)
    target = os.fspath(file)
    refuse_overwriting([(Option("file"), target)], [*_read_files(model), *([origin] if origin else [])])
    if layer is None and is_of_module(arrays):
        return _set_whole(model, weights_of_module(arrays, origin), target)
    named, warnings = _by_address(model, parameters, arrays, layer, origin)
    edited: dict[BlobKey, Array] = {}
    for name, array in named.items():
        parameter = parameters[name]
        blob = edited.setdefault(parameter.key, np.array(parameter.blob.array, np.float32))
        parameter.part(blob)[...] = _array_for(parameter, np.asarray(array), origin)
    _write(model, edited, target)
    return EditedWeights([*named], target, warnings)


def _set_whole(model: Model, trained: StoredWeights, file: str) -> EditedWeights:
    """The weights of a model with all blobs of a module."""
    stored = {layer: trained.blobs_of(layer) or () for layer in trained.names()}
    edited = {
        (layer, 0)
        if model.framework == "caffe2"
        else _key(model.layer_named(layer), layer, index): blob.array
        for layer, blobs in stored.items()
        for index, blob in enumerate(blobs)
        if blob is not None
    }
    _write(model, edited, file)
    return EditedWeights([*stored], file, trained.warnings)


# ---------------------------------------------------------------- names


def _all_parameters(model: Model) -> dict[str, Parameter]:
    parameters = parameters_of(model)
    if not parameters:
        raise OptionsError("the model has no weights", fix=Worded("give {}", Option("weights")))
    return parameters


def _parameters_called(
    model: Model, parameters: Mapping[str, Parameter], names: Sequence[str]
) -> Iterator[Parameter]:
    """The parameters of these names, in which ``*`` and ``?`` stand for anything."""
    if not names:
        recurrent = [each for each in parameters.values() if each.gate is None and _is_recurrent(each.layer)]
        if not recurrent:
            raise NetError(
                "no recurrent layer has weights", where=model.file, fix="name parameters of other layers"
            )
        yield from recurrent
    for name in names:
        whole = [
            each for each in parameters.values() if each.gate is None and fnmatchcase(each.address, name)
        ]
        matches = (
            [parameters[name]]
            if name in parameters
            else whole or [parameters[each] for each in parameters if fnmatchcase(each, name)]
        )
        if not matches:
            raise _unknown(model, parameters, name, None)
        yield from matches


def _unknown(model: Model, parameters: Iterable[str], name: str, file: str | None) -> NetError:
    names = [*parameters]
    return NetError(
        f'there is no parameter "{name}"',
        where=file or model.file,
        fix=Worded("name one of {}", listed(close_names(name, names) or names)),
    )


def _is_recurrent(layer: Layer) -> bool:
    return cell_of(layer) is not None or layer.type in ("RNN", "LstmUnit")


def _own_parameters(layer: Layer, parameters: Mapping[str, Parameter]) -> list[Parameter]:
    return [
        each for each in parameters.values() if each.layer is layer and each.gate is None and _is_own(each)
    ]


def _is_own(each: Parameter) -> bool:
    """Whether it is a parameter of the recurrence, and no other weights that a Recurrent reads."""
    return each.layer.type != "Recurrent" or bool(each.gates)


def _layer_for_pytorch(model: Model, parameters: Mapping[str, Parameter], names: Sequence[str]) -> Layer:
    layers = {each.layer.name: each.layer for each in parameters.values() if cell_of(each.layer) is not None}
    if len(names) == 1:
        if names[0] not in layers:
            layer = model.layer_named(names[0])
            raise UnsupportedLayerError(
                "PyTorch has no module of this kind",
                origin=layer.origin,
                fix=Worded("name one of {}", listed([*layers]) if layers else "another net"),
            )
        return layers[names[0]]
    if names or len(layers) != 1:
        raise OptionsError(
            f"PyTorch's names are those of one layer, and there are {len(names) or len(layers)}",
            fix=Worded("name one of {}", listed([*layers])) if layers else "leave out PyTorch's names",
        )
    return next(iter(layers.values()))


def _by_address(
    model: Model,
    parameters: Mapping[str, Parameter],
    arrays: Mapping[str, Array],
    layer: str | None,
    file: str | None,
) -> tuple[Mapping[str, Array], list[str]]:
    """The arrays by the names of parameters, and warnings for those that are not read."""
    prefixes = [name.removesuffix(FIRST) for name in arrays if name.endswith(FIRST)]
    if not prefixes:
        if layer is not None:
            raise OptionsError(
                Worded("{} is for PyTorch's names, and there is no {}", Option("layer"), FIRST),
                fix=Worded("leave out {}: the names of parameters begin with their layers", Option("layer")),
            )
        for name in arrays:
            if name not in parameters:
                raise _unknown(model, parameters, name, file)
        return arrays, []
    if len(prefixes) > 1:
        raise WeightsError(
            f"there are {len(prefixes)} recurrent modules: {', '.join(prefixes)}",
            where=file,
            fix="give the state dict of one module",
        )
    prefix, target = prefixes[0], _layer_for_pytorch(model, parameters, [layer] if layer else [])
    state = ArraysOnRequest(
        {
            name.removeprefix(prefix): partial(arrays.__getitem__, name)
            for name in arrays
            if name.startswith(prefix)
        }
    )
    try:
        named = arrays_of_state(target, _own_parameters(target, parameters), state)
    except ValueError as error:
        raise WeightsError(
            str(error), where=file, fix="give the state dict of a module like this layer"
        ) from error
    others = [name for name in arrays if not name.startswith(prefix)]
    return named, [Worded("not read: {}", listed(others, most=5))] if others else []


def _array_for(parameter: Parameter, array: Array, file: str | None) -> Array:
    if array.shape != parameter.shape or array.dtype.kind not in "fiu":
        kind = "" if array.dtype.kind in "fiu" else f" of {array.dtype}"
        raise WeightsError(
            f'"{parameter.address}" has the shape {array.shape}{kind}, expected {parameter.shape}',
            origin=parameter.layer.origin,
            because=f"that is what the weights have{f'; the array is from {file}' if file else ''}",
            fix="transpose or cut the array, or set another parameter",
        )
    return array


# ---------------------------------------------------------------- files


def _read_files(model: Model) -> list[str]:
    return [name for name in (model.file, model.weights.file) if name]


def _write(model: Model, edited: Mapping[BlobKey, Array], file: str) -> None:
    if model.framework == "caffe2":
        net = _init_net(model, edited)
        with atomic_write(file) as stream:
            stream.write(net)
    else:
        with atomic_write(file) as stream:
            write_caffemodel(stream, _layers(model, edited), model.name)


def _layers(model: Model, edited: Mapping[BlobKey, Array]) -> Iterator[LayerBlobs]:
    """All layers of the weights, also those that the net lacks. Layers that share a blob all get the new one."""
    layers = {layer.name: layer for layer in model.layers}
    for name in [*model.weights.names()] or [*layers]:
        layer = layers.get(name)
        blobs = [*(model.weights.blobs_of(name) or ())]
        if layer is not None and layer.blobs is not None:
            blobs = [*layer.blobs]
        if blobs:
            keys = [_key(layer, name, index) for index in range(len(blobs))]
            arrays = [edited.get(key, blob.array) for key, blob in zip(keys, blobs, strict=True) if blob]
            yield LayerBlobs(name, layer.type if layer else "", arrays)


def _key(layer: Layer | None, name: str, index: int) -> BlobKey:
    shared = layer.shared[index] if layer is not None and index < len(layer.shared) else None
    return shared or (name, index)


_FILLS = {"f": "GivenTensorFill", "i": "GivenTensorIntFill", "b": "GivenTensorBoolFill"}


def _init_net(model: Model, edited: Mapping[BlobKey, Array]) -> bytes:
    """An init net that fills every blob, and computes those that the model's computes."""
    net = message_class("NetDef")(name="init")
    for name, blob in model.stored.items():
        array = edited.get((name, 0), blob.array)
        operator = net.op.add(type=_FILLS[array.dtype.kind], output=[name])
        operator.arg.add(name="shape", ints=array.shape)
        values = array.reshape(-1).tolist()
        if array.dtype.kind == "f":
            operator.arg.add(name="values", floats=values)
        else:
            operator.arg.add(name="values", ints=values)
    if isinstance(model.weights, InitNet):
        net.op.extend(fill.message for fill in model.weights.operators)
    content: bytes = net.SerializeToString()
    return content
