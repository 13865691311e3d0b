"""A manifest is compared with the engine before its sizes reserve any memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import pytest

from prototrt.caffe_proto.common.errors import EngineError
from prototrt.converter.backends.tensorrt.api import Backend
from prototrt.converter.files.signatures.signature import Signature
from prototrt.converter.running.runtime.bindings import refuse_other_bindings
from prototrt.converter.running.runtime.engine import Engine
from prototrt.surgery.ir import DType, OpenSize, Range, Recurrence, Shape, Value
from prototrt.tests.converter.running.runtime.fake_gpu import FakeDevice
from prototrt.tests.converter.running.runtime.fake_tensorrt import FakeEngine, fake_tensorrt
from prototrt.tests.dynamic_lstm import dynamic_graph

Change = Callable[[Signature], Signature]
FIX = "\n  fix: use the manifest that was written with the plan, or convert the model again"


def value(name: str, dtype: DType | None = None, shape: Shape | None = None) -> Change:
    """One input or output with a different statement, wherever it is."""

    def change(told: Signature) -> Signature:
        def other(found: Value) -> Value:
            return others.get(found, found)

        (old,) = [each for each in (*told.inputs, *told.outputs) if each.name == name]
        others = {old: Value(name, dtype or old.dtype, old.shape if shape is None else shape)}
        pairs = [
            replace(pair, input=other(pair.input), output=other(pair.output)) for pair in told.recurrences
        ]
        return replace(
            told,
            inputs=tuple(map(other, told.inputs)),
            outputs=tuple(map(other, told.outputs)),
            recurrences=tuple(pairs),
        )

    return change


def pairs(*names: tuple[str, str]) -> Change:
    def change(told: Signature) -> Signature:
        known = {each.name: each for each in (*told.inputs, *told.outputs)}
        made = tuple(Recurrence(known[one], known[other], exposed=False) for one, other in names)
        return replace(told, recurrences=made)

    return change


STEPS, STREAMS = OpenSize.symbol("x.0", Range(1, 5, 8)), OpenSize.symbol("x.1", Range(1, 3, 7))
FEWER = OpenSize.symbol("x.1", Range(1, 3, 6))
CASES: dict[str, tuple[Change, str]] = {
    "half the size": (
        value("x", DType.FLOAT16),
        'the manifest says that "x" is float16, the plan has float32',
    ),
    "an output of another type": (
        value("h", DType.INT32),
        'the manifest says that "h" is int32, the plan has float32',
    ),
    "a size": (
        value("x", shape=(STEPS, STREAMS, 5)),
        'the manifest says that "x" is float32 of 1..8 (usually 5) x 1..7 (usually 3) x 5,'
        " the plan has float32 of 1..8 (usually 5) x 1..7 (usually 3) x 6",
    ),
    "a fixed size": (
        value("x", shape=(3, STREAMS, 6)),
        'the manifest says that "x" is float32 of 3 x 1..7 (usually 3) x 6,'
        " the plan has float32 of 1..8 (usually 5) x 1..7 (usually 3) x 6",
    ),
    "an axis less": (
        value("cont", shape=(STEPS,)),
        'the manifest says that "cont" is float32 of 1..8 (usually 5),'
        " the plan has float32 of 1..8 (usually 5) x 1..7 (usually 3)",
    ),
    "a size of an output": (
        value("h", shape=(STEPS, STREAMS, 4)),
        'the manifest says that "h" is float32 of 1..8 (usually 5) x 1..7 (usually 3) x 4,'
        " the plan has float32 of ? x ? x 8",
    ),
    "a smaller profile": (
        value("x", shape=(STEPS, FEWER, 6)),
        'the manifest says that "x" is float32 of 1..8 (usually 5) x 1..6 (usually 3) x 6,'
        " the plan has float32 of 1..8 (usually 5) x 1..7 (usually 3) x 6",
    ),
    "a pair of two outputs": (
        pairs(("h", "lstm_h_T")),
        'the manifest says that "lstm_h_T" is fed back into "h", but "h" is not an input',
    ),
    "a pair of two inputs": (
        pairs(("lstm_h_0", "lstm_c_0")),
        'the manifest says that "lstm_c_0" is fed back into "lstm_h_0", but "lstm_c_0" is not an output',
    ),
    "a pair of two shapes": (
        pairs(("lstm_h_0", "h")),
        'the manifest says that "h" is fed back into "lstm_h_0",'
        " but the one is float32 of 1..8 (usually 5) x 1..7 (usually 3) x 8,"
        " the other float32 of 1 x 1..7 (usually 3) x 8",
    ),
    "one output for two inputs": (
        pairs(("lstm_h_0", "lstm_h_T"), ("lstm_c_0", "lstm_h_T")),
        'the manifest says that "lstm_h_T" is fed back into "lstm_h_0", and one of them is also in another pair',
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_manifest_that_says_something_else(case: str) -> None:
    change, message = CASES[case]
    graph, device = dynamic_graph(), FakeDevice()
    backend = Backend("rtx", fake_tensorrt(graph, device))
    with pytest.raises(EngineError) as caught:
        Engine(backend, b"plan", device, change(Signature.of_graph(graph)))
    assert str(caught.value) == message + FIX
    assert device.memory == {}


@pytest.mark.parametrize(
    ("told", "found", "agrees"),
    [
        (Range(4, 4, 4), 4, True),  # a range of one size is a size
        (Range(4, 4, 4), 5, False),
        (Range(1, 4, 8), 4, False),
    ],
)
def test_a_range_of_one_size(told: Range, found: int, agrees: bool) -> None:
    x, fixed = Value("x", DType.FLOAT32, (OpenSize.symbol("x", told),)), Value("x", DType.FLOAT32, (found,))
    manifest, engine = Signature((x,), (), ()), Signature((fixed,), (), ())
    with nullcontext() if agrees else pytest.raises(EngineError):
        refuse_other_bindings(manifest, engine)


def test_shape_tensors_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their numbers are read in the host's memory, and an address on the GPU would crash the process."""
    graph, device = dynamic_graph(), FakeDevice()
    backend = Backend("rtx", fake_tensorrt(graph, device))
    monkeypatch.setattr(FakeEngine, "on_host", {"cont"})
    with pytest.raises(EngineError) as caught:
        Engine(backend, b"plan", device)
    assert str(caught.value) == (
        "\"cont\" lies in the host's memory, expected the GPU's\n"
        "  because TensorRT calls it a shape tensor: its numbers are sizes of other tensors\n"
        "  fix: give the engine an input of that size instead, or run it with trtexec"
    )
