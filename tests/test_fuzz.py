"""Whatever the net, only a ConversionError leaves ``load`` and ``rewrite``, and little memory is taken.

tests/caffe_proto/test_fuzz.py goes deeper into files; tests/fuzz does both for hours.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import prototrt
from prototrt import Form
from prototrt.caffe_proto.schema import Message, is_repeated, message_class, parameter_field
from prototrt.surgery.expansion.expand import expand
from prototrt.surgery.expansion.frameworks import framework_by_name
from prototrt.tests.memory import little_memory, only_conversion_errors

GOLDENS = Path(__file__).parent / "goldens" / "caffe"
CASES = sorted(path.name for path in GOLDENS.iterdir() if (path / "model.caffemodel").exists())
FEW = settings(
    max_examples=2 * settings().max_examples,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def look(prototxt: Path, **options: Any) -> None:
    """What inspect does with a net without weights."""
    with only_conversion_errors(), little_memory():
        expand(prototrt.load(prototxt), require_weights=False, **options)


# ---------------------------------------------------------------- nets made of what the schema allows

INTEGERS = [0, 1, 1, 2, 2, 3, 4, 7]
NEGATIVE = [-1, -2, -9]
HUGE = [1 << 16, (1 << 31) - 1]
FLOATS = [0.0, 1.0, -1.0, 0.5, 2.0, 3e38, float("inf"), float("nan")]
KINDS = sorted(framework_by_name("caffe").rules.rules)
WORDS = ["constant", "bilinear", "xavier", "ReLU", "", "x"]
BLOBS = ["a", "b", "c"]
SIZES = st.one_of(st.lists(st.sampled_from(INTEGERS[1:]), max_size=5), st.just([2, 3, 6, 5]))


def scalars(field: FieldDescriptor, huge: list[int]) -> st.SearchStrategy[Any]:
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        enum: Message = field.enum_type
        return st.sampled_from([value.number for value in enum.values])
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return st.booleans()
    if kind == FieldDescriptor.CPPTYPE_STRING:
        return st.sampled_from(WORDS)
    if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return st.sampled_from(FLOATS)
    signed = kind in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64)
    return st.sampled_from(INTEGERS + huge + (NEGATIVE if signed else []))


def fill(draw: st.DrawFn, message: Message, huge: list[int], depth: int = 0) -> None:
    """Set some of the fields."""
    fields = [field for field in message.DESCRIPTOR.fields if field.message_type is None or depth < 2]
    for field in draw(st.lists(st.sampled_from(fields), max_size=4, unique_by=lambda one: one.name)):
        count = draw(st.integers(1, 3)) if is_repeated(field) else 1
        if field.message_type is not None:
            for _ in range(count):
                child = getattr(message, field.name)
                fill(draw, child.add() if is_repeated(field) else child, huge, depth + 1)
        elif is_repeated(field):
            getattr(message, field.name).extend([draw(scalars(field, huge)) for _ in range(count)])
        else:
            setattr(message, field.name, draw(scalars(field, huge)))


@st.composite
def nets(draw: st.DrawFn, huge: list[int]) -> str:
    """Two inputs, and a few layers of any type with any fields, each reading what is there."""
    net = message_class("NetParameter")()
    known = []
    for blob in BLOBS[: draw(st.integers(1, 3))]:
        layer = net.layer.add(name=f"in_{blob}", type="Input", top=[blob])
        layer.input_param.shape.add().dim.extend(draw(SIZES))
        known.append(blob)
    for index in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(KINDS))
        layer = net.layer.add(name=f"layer{index}", type=kind)
        layer.bottom.extend(draw(st.lists(st.sampled_from(known), min_size=1, max_size=3)))
        layer.top.extend([f"t{index}", f"u{index}"][: draw(st.sampled_from([1, 1, 1, 2]))])
        parameters = parameter_field(kind)
        if parameters and draw(st.integers(0, 4)):
            fill(draw, getattr(layer, parameters), huge)
        known = list(layer.top) + known
    return str(text_format.MessageToString(net))


@FEW
@given(nets(HUGE), st.sampled_from(["keep", "drop"]))
def test_any_net_without_weights(folder: Path, text: str, cont: str) -> None:
    (folder / "net.prototxt").write_text(text)
    look(folder / "net.prototxt", cont=cont)


@FEW
@given(nets([]), st.sampled_from(["auto", "loop", "unroll", "step"]))
def test_any_net_with_random_weights(folder: Path, text: str, sequence: Form) -> None:
    (folder / "net.prototxt").write_text(text)
    with only_conversion_errors():
        model = prototrt.load(folder / "net.prototxt", random_weights=1)
        prototrt.rewrite(model, sequence=sequence)


# ---------------------------------------------------------------- sound files, damaged

PIECES = [
    b"",
    b"0",
    b"-1",
    b"99",
    b"2147483647",
    b"}",
    b"{",
    b"MAX",
    b"true",
    b"axis: 3 ",
    b"1e39",
    b"'data'",
]


@st.composite
def damage(draw: st.DrawFn, data: bytes, pieces: st.SearchStrategy[bytes]) -> bytes:
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 8)))
        data = data[:start] + draw(pieces) + data[end:]
    return data


@st.composite
def damaged_cases(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A net and its weights, one of them damaged."""
    folder = GOLDENS / draw(st.sampled_from(CASES))
    text, weights = (folder / "model.prototxt").read_bytes(), (folder / "model.caffemodel").read_bytes()
    if draw(st.booleans()):
        return draw(damage(text, st.sampled_from(PIECES))), weights
    return text, draw(damage(weights, st.binary(max_size=6)))


@FEW
@given(damaged_cases())
def test_damaged_nets_and_weights(folder: Path, case: tuple[bytes, bytes]) -> None:
    prototxt, weights = folder / "net.prototxt", folder / "weights"
    prototxt.write_bytes(case[0])
    weights.write_bytes(case[1])
    look(prototxt)
    with only_conversion_errors():
        prototrt.rewrite(prototrt.load(prototxt, weights))


# ---------------------------------------------------------------- memory

LARGE = "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: [%s] } } }\n"


def recurrent(x: str, cont: str, fields: str, more: str = "") -> str:
    return (
        LARGE % x
        + LARGE.replace("'x'", "'c'") % cont
        + f"layer {{ name: 'l' type: 'LSTM' bottom: 'x' bottom: 'c' {more} top: 'y' recurrent_param {{ {fields} }} }}"
    )


def stacks(count: int, layers: int = 100) -> str:
    return (
        LARGE % "4, 1, 1"
        + LARGE.replace("'x'", "'c'") % "4, 1"
        + "".join(
            f"layer {{ name: '{i}' type: 'LSTM' bottom: 'x' bottom: 'c' top: 'y{i}' "
            f"recurrent_param {{ num_output: 1 num_layers: {layers} bidirectional: SUM }} }}"
            for i in range(count)
        )
    )


GREEDY = {
    "statistics": LARGE % "1, 2147483647" + "layer { name: 'n' type: 'BatchNorm' bottom: 'x' top: 'y' }",
    "scale": LARGE % "1, 2147483647"
    + "layer { name: 's' type: 'Scale' bottom: 'x' top: 'y' scale_param { bias_term: true } }",
    "slopes": LARGE % "1, 2147483647" + "layer { name: 'p' type: 'PReLU' bottom: 'x' top: 'y' }",
    "matrix": LARGE % "1, 40000"
    + "layer { name: 'f' type: 'InnerProduct' bottom: 'x' top: 'y' inner_product_param { num_output: 40000 } }",
    "kernel": LARGE % "1, 3, 40000, 40000" + "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'y' "
    "convolution_param { num_output: 3 kernel_size: 15000 group: 3 dilation: 2 } }",
    "transposed kernel": LARGE % "1, 9, 100, 100" + "layer { name: 'c' type: 'Deconvolution' bottom: 'x' "
    "top: 'y' convolution_param { num_output: 9 kernel_size: 5000 stride: 2 dilation: 2 } }",
    "constants": "layer { name: 'd' type: 'DummyData' top: 'x' dummy_data_param { shape { dim: [40000, 40000] } } }"
    "layer { name: 'e' type: 'Exp' bottom: 'x' top: 'y' }",
    "copies": LARGE % "1, 1" + "layer { name: 't' type: 'Tile' bottom: 'x' top: 'y' "
    "tile_param { tiles: 2147483647 } }",
    "states": LARGE % "1, 1, 1"
    + LARGE.replace("'x'", "'c'") % "1, 1"
    + "layer { name: 'l' type: 'LSTM' bottom: 'x' bottom: 'c' top: 'y' recurrent_param { num_output: 20000 } }",
    "tops": LARGE % "1000000000, 1"
    + "layer { name: 'e' type: 'Embed' bottom: 'x' top: 'y' embed_param { num_output: 2 input_dim: 1000000000 } }",
    "region": LARGE % "1, 1, 4000, 4000"
    + "layer { name: 'l' type: 'LRN' bottom: 'x' top: 'y' lrn_param { local_size: 4001 } }",
    "slices": LARGE % "100000000, 2"
    + "layer { name: 'p' type: 'Pooling' bottom: 'x' top: 'y' pooling_param { kernel_size: 2147483647 } }",
    "windows": LARGE % "1, 1, 2, 2" + "layer { name: 'p' type: 'Pooling' bottom: 'x' top: 'y' "
    "pooling_param { pool: AVE kernel_size: 2147483647 pad: 2147483646 } }",
    "pyramid": LARGE % "1, 1, 40000, 40000"
    + "layer { name: 's' type: 'SPP' bottom: 'x' top: 'y' spp_param { pyramid_height: 31 } }",
    "forget bias": recurrent("1, 1, 1", "1, 1", "num_output: 20000000 num_proj: 1 forget_bias: 1"),
    "forget biases": recurrent(
        "1, 1, 1", "1, 1", "num_output: 10000000 num_proj: 1 forget_bias: 1 bidirectional: CONCAT"
    ),
    "coupled": recurrent("1, 1, 1", "1, 1", "num_output: 20000000 num_proj: 1 coupled_input_forget: true"),
    "peepholes": recurrent("1, 1, 1", "1, 1", "num_output: 20000000 num_proj: 1 peephole: true"),
    "lengths": LARGE.replace("'x'", "'n'") % "1"
    + recurrent("100000000, 1, 1", "100000000, 1", "num_output: 1 sequence_lengths: true", "bottom: 'n'"),
    "a stack": stacks(1, layers=20),
    "stacks": stacks(5),
    "too many layers": recurrent("1, 1, 1", "1, 1", "num_output: 1 num_layers: 4294967295"),
    "gates of one step": LARGE % "1, 100000000"
    + LARGE.replace("'x'", "'c'") % "1, 1"
    + "layer { name: 'u' type: 'LstmUnit' bottom: 'x' bottom: 'c' top: 'h' top: 'm' "
    "lstm_unit_param { num_cells: 1 tie_output_forget: true } }",
    "continuing": "layer { name: 'c' type: 'ContinuationIndicator' top: 'x' "
    "continuation_indicator_param { time_step: 20000 batch_size: 100000 } }"
    "layer { name: 'e' type: 'Exp' bottom: 'x' top: 'y' }",
    "turned around": LARGE % "100000000, 2"
    + LARGE.replace("'x'", "'n'") % "2"
    + "layer { name: 'r' type: 'ReverseTime' bottom: 'x' bottom: 'n' top: 'y' }",
    "turned streams": LARGE % "2, 100000000"
    + LARGE.replace("'x'", "'n'") % "100000000"
    + "layer { name: 'r' type: 'ReverseTime' bottom: 'x' bottom: 'n' top: 'y' }",
    "said": LARGE % "40000, 1, 2" + "layer { name: 'd' type: 'CTCGreedyDecoder' bottom: 'x' top: 'y' }",
    "more said": LARGE % "100000000, 1, 2"
    + "layer { name: 'd' type: 'CTCGreedyDecoder' bottom: 'x' top: 'y' }",
    "dense filters": LARGE
    % "1, 10000000, 2, 2"
    + "layer { name: 'd' type: 'DenseBlock' bottom: 'x' top: 'y' "
    "denseblock_param { numTransition: 2 growthRate: 2 } }",
    "dense transitions": LARGE % "1, 1, 2, 2" + "layer { name: 'd' type: 'DenseBlock' bottom: 'x' top: 'y' "
    "denseblock_param { numTransition: 2147483647 growthRate: 1 } }",
    "bilinear": "layer { name: 'd' type: 'DummyData' top: 'x' dummy_data_param { "
    "shape { dim: [1, 1, 20000, 20000] } data_filler { type: 'bilinear' } } }"
    "layer { name: 'e' type: 'Exp' bottom: 'x' top: 'y' }",
    "slow windows": "layer { name: 'd' type: 'DummyData' top: 'x' "
    "dummy_data_param { shape { dim: [1, 1, 1000, 1000] } } }"
    "layer { name: 'p' type: 'Pooling' bottom: 'x' top: 'p' pooling_param { pool: AVE kernel_size: 500 } }"
    "layer { name: 'r' type: 'ReLU' bottom: 'p' top: 'y' }",
    "folded": "layer { name: 'd' type: 'DummyData' top: 'x' dummy_data_param { shape { dim: [1000, 1000] } } }"
    + "".join(f"layer {{ name: '{i}' type: 'Exp' bottom: 'x' top: 'x' }}" for i in range(16)),
}
"""Nets of less than a kilobyte, each of which could ask for gigabytes."""


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.exhaustive if case == "stacks" else ()) for case in GREEDY]
)
def test_a_small_file_takes_little_memory(case: str, folder: Path) -> None:
    assert len(GREEDY[case]) < 1024
    (folder / "net.prototxt").write_text(GREEDY[case])
    look(folder / "net.prototxt")
    with only_conversion_errors(), little_memory():
        prototrt.rewrite(prototrt.load(folder / "net.prototxt"), require_weights=False)
