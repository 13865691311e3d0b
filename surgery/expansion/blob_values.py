"""The values of a net's blobs during expansion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from prototrt.caffe_proto import Layer, StoredBlob
from prototrt.caffe_proto.advice import CUT_BEFORE_OPERATOR
from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.surgery.building.layer_builder import LayerBuilder
from prototrt.surgery.ir import Value


class BlobValues:
    """Values by the names of the blobs. Stored weights are read when needed.

    ``absent`` are tops that hold no tensor: workspaces, scratch memory, shapes of no interest.
    """

    def __init__(self, build: LayerBuilder, stored: Mapping[str, StoredBlob]) -> None:
        self.values: dict[str, Value] = {}
        self.absent: set[str] = set()
        self._build, self._stored = build, stored

    def __contains__(self, name: str) -> bool:
        """Whether the blob is known, even if it holds no tensor."""
        return name in self.values or name in self._stored or name in self.absent

    def read(self, layer: Layer, index: int) -> Value:
        """The value of a bottom. Raises ``NetError`` for a blob without a tensor."""
        name = layer.bottoms[index]
        if name in self.absent:
            raise NetError(
                "the blob is not a tensor here",
                origin=layer.origin,
                blob=f'{layer.bottom_word} "{layer.bottom_blob(index)}"',
                because="the operator returns only outputs that an engine can return",
                fix=CUT_BEFORE_OPERATOR,
            )
        if name not in self.values:
            array = self._stored[name].array
            count = self._build.parameters.get(layer.name, 0)
            self._build.parameters[layer.name] = count + array.size
            self.values[name] = self._build.constant(array, name)
            self._build.learned[name] = [self.values[name]]
        elif name in self._stored:
            self._build.shared.add(self.values[name])
        return self.values[name]

    def outputs(self, names: Sequence[str], file: str, *, was_asked_for: bool) -> list[Value]:
        """The values of the wanted blobs. Blobs without a tensor are left out, unless the user named them."""
        nothing = [name for name in names if name in self.absent]
        if nothing and (was_asked_for or len(nothing) == len(names)):
            raise NetError(
                f"{', '.join(nothing)} hold no tensor and cannot be outputs",
                where=file,
                fix=Worded("ask for other blobs with {}", Option("outputs")),
            )
        self._build.warnings += [f"{file}: output {name} is left out: it is not a tensor" for name in nothing]
        return [self.values[name] for name in names if name not in nothing]

    def final_states(self) -> list[Value]:
        """The final values of states. They are always outputs, whatever outputs the user named."""
        starts = Counter(pair.input for pair in self._build.exposed)
        # If two states start from one input, the caller cannot feed both final values back.
        self._build.exposed = [pair for pair in self._build.exposed if starts[pair.input] == 1]
        inputs = set(self._build.inputs)
        return [pair.output for pair in self._build.exposed if pair.input in inputs]
