"""The layers of a network as Python objects: who reads and who writes which tensor."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from prototrt.caffe_proto.common.errors import BuildError
from prototrt.caffe_proto.common.records import dataclass
from prototrt.converter.backends.readback.dtypes import NetworkTensor
from prototrt.converter.backends.readback.registry import Layer
from prototrt.converter.backends.readback.scan import LOOP_LAYERS


@dataclass(frozen=True, slots=True, eq=False)
class NetworkLayer:
    """One layer. ``loop`` names the loop that the layer is a boundary of; most layers have none."""

    type: str
    where: str
    layer: Layer
    inputs: tuple[str | None, ...]
    outputs: tuple[NetworkTensor, ...]
    loop: str | None

    @property
    def reads(self) -> list[str]:
        return [name for name in self.inputs if name is not None]

    @property
    def output(self) -> NetworkTensor:
        (output,) = self.outputs
        return output


def read_layers(trt: ModuleType, network: Any) -> list[NetworkLayer]:
    classes = {name.lower(): getattr(trt, name) for name in dir(trt) if name.endswith("Layer")}
    layers = [_network_layer(network.get_layer(i), classes) for i in range(network.num_layers)]
    _refuse_two_writers(layers)
    return layers


def _network_layer(layer: Layer, classes: dict[str, type]) -> NetworkLayer:
    # The type must be read first: once the layer has its own class, "type" may mean the kind of activation.
    kind = layer.type.name
    where = f'network layer "{layer.name}" ({kind})'
    inputs = [layer.get_input(i) for i in range(layer.num_inputs)]
    outputs = [layer.get_output(i) for i in range(layer.num_outputs)]
    own_class = classes.get(f"i{kind.replace('_', '')}layer".lower())
    if own_class is not None:
        layer.__class__ = own_class
    return NetworkLayer(
        type=kind,
        where=where,
        layer=layer,
        inputs=tuple(None if tensor is None else tensor.name for tensor in inputs),
        outputs=tuple(NetworkTensor.of(tensor, where) for tensor in outputs),
        loop=layer.loop.name if kind in LOOP_LAYERS else None,
    )


def _refuse_two_writers(layers: list[NetworkLayer]) -> None:
    writers: dict[str, NetworkLayer] = {}
    for each in layers:
        for output in each.outputs:
            if output.name in writers:
                raise BuildError(
                    f'tensor "{output.name}" is already written by {writers[output.name].where}',
                    where=each.where,
                )
            writers[output.name] = each
