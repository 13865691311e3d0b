"""Layers of unknown types whose blobs are those of a recurrent layer: the message proposes it, and that works."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.tests.npz import write_npz

NET = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 1 dim: 4 } } }
layer { name: "cont" type: "Input" top: "cont" input_param { shape { dim: 2 dim: 1 } } }
layer { name: "s" type: "Input" top: "s" input_param { shape { dim: 1 dim: 2 } } }
layer { name: "rec" type: "DeepMemory" bottom: "x" BOTTOMS top: "h" FIELDS }
"""
BOTH, STATED = 'bottom: "cont"', "recurrent_param { num_output: 3 }"
RULE = (
    "write a rule for it, which `prototrt.new_rule(...)` begins; or name your TensorRT plugin, as in "
    'plugin={"DeepMemory": "DeepMemory:1"}'
)
CASES = [
    ("LSTM", BOTH, STATED, [(12, 4), (12,), (12, 3)]),
    ("LSTM", f'{BOTH} bottom: "s"', STATED, [(12, 4), (12,), (12, 2), (12, 3)]),
    ("LSTM", BOTH, "recurrent_param { num_output: 3 peephole: true }", [(12, 4), (12,), (12, 3), (3, 3)]),
    (
        "LSTM",
        BOTH,
        "recurrent_param { num_output: 3 num_layers: 2 }",
        [(12, 4), (12,), (12, 3), (12, 3), (12,), (12, 3)],
    ),
    ("LSTM", BOTH, "", [(12, 4), (12,), (12, 3)]),
    ("RNN", BOTH, STATED, [(3, 4), (3,), (3, 3), (3, 3), (3,)]),
    ("GRU", BOTH, STATED, [(9, 4), (9,), (9, 3)]),
    ("GRU", "", STATED, [(9, 4), (9,), (9, 3)]),
    ("VanillaRNN", "", STATED, [(3, 4), (3,), (3, 3)]),
    ("Lstm", BOTH, "lstm_param { num_output: 3 }", [(12, 4), (12, 3), (12,)]),
    ("Lstm", BOTH, "", [(12, 4), (12, 3), (12,)]),
]


def convert(bottoms: str, fields: str, shapes: list[tuple[int, ...]], **overrides: str) -> prototrt.Graph:
    Path("net.prototxt").write_text(NET.replace("FIELDS", fields).replace("BOTTOMS", bottoms))
    write_npz("net.npz", {f"rec/{index}": np.ones(shape, np.float32) for index, shape in enumerate(shapes)})
    return prototrt.rewrite(prototrt.load("net.prototxt", "net.npz", overrides=overrides))


@pytest.mark.parametrize(("kind", "bottoms", "fields", "shapes"), CASES)
def test_the_proposal_converts(
    kind: str, bottoms: str, fields: str, shapes: list[tuple[int, ...]], folder: Path
) -> None:
    with pytest.raises(ConversionError) as caught:
        convert(bottoms, fields, shapes)
    overrides = {"rec.type": kind}
    if not fields:
        overrides[f"{'lstm' if kind == 'Lstm' else 'recurrent'}_param.num_output"] = "3"
        overrides = {name if "." in name[:4] else f"rec.{name}": value for name, value in overrides.items()}
    option = Worded("{}", Option("overrides", overrides))
    assert str(caught.value) == (
        'net.prototxt:5: layer "rec" (DeepMemory): there is no rule for this layer type\n'
        f"  fix: if it computes what {kind} does, whose blobs it has: {option}; or {RULE}"
    )
    (h,) = (value for value in convert(bottoms, fields, shapes, **overrides).outputs if value.name == "h")
    assert h.shape == (2, 1, 3)


@pytest.mark.parametrize(
    ("bottoms", "fields", "shapes"),
    [
        pytest.param(BOTH, STATED, [(12, 4), (12,)], id="two blobs"),
        pytest.param(BOTH, STATED, [(12, 4), (12,), (12, 4)], id="other units"),
        pytest.param(BOTH, STATED, [(15, 4), (15,), (15, 3)], id="five gates"),
        pytest.param("", STATED, [(12, 4), (12,), (12, 3)], id="no cont"),
        pytest.param(BOTH, "lstm_param { num_output: 3 }", [(12, 4), (12,), (12, 3)], id="other parameters"),
        pytest.param(BOTH, "recurrent_param { num_output: 4 }", [(12, 4), (12,), (12, 3)], id="other size"),
        pytest.param(BOTH, "relu_param { }", [(12, 4), (12,), (12, 3)], id="not recurrent"),
    ],
)
def test_other_blobs_propose_nothing(
    bottoms: str, fields: str, shapes: list[tuple[int, ...]], folder: Path
) -> None:
    with pytest.raises(ConversionError) as caught:
        convert(bottoms, fields, shapes)
    assert str(caught.value) == (
        f'net.prototxt:5: layer "rec" (DeepMemory): there is no rule for this layer type\n  fix: {RULE}'
    )


def test_several_layers_of_a_type(folder: Path) -> None:
    more = NET.replace("FIELDS", STATED).replace("BOTTOMS", BOTH)
    more += 'layer { name: "odd" type: "DeepMemory" bottom: "h" bottom: "cont" top: "o" }\n'
    Path("net.prototxt").write_text(more)
    blobs = {
        f"rec/{index}": np.ones(shape, np.float32) for index, shape in enumerate([(12, 4), (12,), (12, 3)])
    }
    write_npz(
        "net.npz",
        blobs
        | {
            f"odd/{index}": np.ones((8, *blobs[f"rec/{index}"].shape[1:])[: 2 - index % 2], np.float32)
            for index in range(3)
        }
        | {"odd/0": np.ones((8, 3), np.float32), "odd/2": np.ones((8, 2), np.float32)},
    )
    with pytest.raises(ConversionError) as caught:
        prototrt.rewrite(prototrt.load("net.prototxt", "net.npz"))
    overrides = {"rec.type": "LSTM", "odd.type": "LSTM", "odd.recurrent_param.num_output": "2"}
    option = Worded("{}", Option("overrides", overrides))
    assert str(caught.value) == (
        'net.prototxt:5: layer "rec" (DeepMemory): there is no rule for this layer type, which one other layer has\n'
        f"  fix: if it computes what LSTM does, whose blobs it has: {option}; or {RULE}"
    )
