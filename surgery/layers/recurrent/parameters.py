"""The blobs that recurrent layers store: their names, in their order, with gates and sizes. They are read by these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.weights import Purpose
from prototrt.surgery.building.expression import Value
from prototrt.surgery.building.layer_builder import LayerBuilder, field_if_set
from prototrt.surgery.ir import Dim

STATICS = ("static", "topic")
"""What the static inputs are called, in the names of their weights."""


@dataclass(frozen=True, slots=True)
class NamedBlob:
    """A stored blob: its name, the gates of its blocks of rows, none if it has a single block, and its sizes.

    ``sizes`` has a letter for each axis: H units, D inputs, P elements of h, N elements of a second projection, and
    the names of static inputs; the first is that of a block of rows.
    """

    name: str
    gates: str = ""
    sizes: Sequence[str] = "HH"
    kind: Purpose = "weight"

    @property
    def axes(self) -> int:
        return len(self.sizes)

    def shape(self, sizes: Mapping[str, Dim]) -> tuple[Dim, ...]:
        """The shape for these sizes of the letters."""
        rows, *others = (sizes[letter] for letter in self.sizes)
        assert isinstance(rows, int)
        return (max(len(self.gates), 1) * rows, *others)


def read_blobs(
    build: LayerBuilder, layer: Layer, param: Any, blobs: Iterable[NamedBlob], sizes: Mapping[str, Dim]
) -> dict[str, Value]:
    """The layer's next blobs, by name."""
    return {
        blob.name: build.parameter(
            layer,
            blob.shape(sizes),
            blob.name,
            filler=field_if_set(param, f"{blob.kind}_filler"),
            kind=blob.kind,
        )
        for blob in blobs
    }


@dataclass(frozen=True, slots=True)
class StoredDirection:
    """What the blobs of a direction depend on; ``first`` is the number of its first blob in the layer."""

    layer: Layer
    param: Any
    hidden: int
    first: int
    statics: int

    def has_rows(self, index: int, rows: int) -> bool:
        """Whether a blob of the direction is stored as a matrix of so many rows."""
        blobs = self.layer.blobs or ()
        shape = blobs[self.first + index].shape if self.first + index < len(blobs) else ()
        return len(shape) > 1 and shape[-2] == rows

    def inputs(self, letter: str, gates: str) -> Iterator[NamedBlob]:
        """The weights of x, the bias, and the weights of the static inputs."""
        yield NamedBlob(f"W_x{letter}", gates, "HD")
        yield NamedBlob(f"b_{letter}", gates, "H", "bias")
        for name in STATICS[: self.statics]:
            yield NamedBlob(f"W_x{letter}_{name}", gates, ("H", name))


def lstm_blobs(stored: StoredDirection) -> Iterator[NamedBlob]:
    """With coupled_input_forget the rows of f are missing, or stored and not used."""
    coupled = stored.param.coupled_input_forget and not stored.has_rows(0, 4 * stored.hidden)
    gates = "iog" if coupled else "ifog"
    yield from stored.inputs("c", gates)
    yield NamedBlob("W_hc", gates, "HP")
    if stored.param.peephole:
        yield NamedBlob("peephole", "ifo", "1H")
    if stored.param.num_proj:
        yield NamedBlob("W_proj", "", "PH")
    if stored.param.num_nonrecurrent_proj:
        yield NamedBlob("W_nproj", "", "NH")


def gru_blobs(stored: StoredDirection) -> Iterator[NamedBlob]:
    """Ours has gates r, z, n in one matrix of h; synopsys-caffe z, r, n in two or three.

    Source: foss-for-synopsys-dwc-arc-processors/synopsys-caffe ``src/caffe/layers/gru_layer.cpp``, two versions.
    """
    of_h = 2 + stored.statics
    is_joint, is_apart = (stored.has_rows(of_h, rows * stored.hidden) for rows in (2, 1))
    yield from stored.inputs("c", "zrn" if is_joint or is_apart else "rzn")
    if is_joint:
        yield NamedBlob("W_zr", "zr")
    elif is_apart:
        yield from (NamedBlob("W_z"), NamedBlob("W_r"))
    yield NamedBlob("W_n") if is_joint or is_apart else NamedBlob("W_hc", "rzn")
    if stored.param.linear_before_reset:
        is_of_n = is_joint or is_apart
        yield NamedBlob("b_n", "", "H", "bias") if is_of_n else NamedBlob("b_hc", "rzn", "H", "bias")


def rnn_blobs(stored: StoredDirection) -> Iterator[NamedBlob]:
    yield from stored.inputs("h", "")
    yield from (NamedBlob("W_hh"), NamedBlob("W_ho"), NamedBlob("b_o", "", "H", "bias"))


def vanilla_rnn_blobs(stored: StoredDirection) -> Iterator[NamedBlob]:
    yield from stored.inputs("c", "")
    yield NamedBlob("W_hc")


LSTM_OF_FORKS = (
    NamedBlob("W_x", "ifog", "HD"),
    NamedBlob("W_h", "ifog"),
    NamedBlob("b", "ifog", "H", "bias"),
)
LSTM_UNIT: Mapping[str, NamedBlob] = {
    "input": NamedBlob("W_g", "", "1H1D"),
    "input_gate": NamedBlob("W_i", "", "1H1D"),
    "forget_gate": NamedBlob("W_f", "", "1H1D"),
    "output_gate": NamedBlob("W_o", "", "1H1D"),
}
"""The blobs of LstmUnit, by what its fields call them."""
