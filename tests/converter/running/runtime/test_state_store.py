"""The states of many streams on the GPU, moved to calls and back in as few copies as their places allow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from prototrt.converter.files.signatures.signature import Signature, largest
from prototrt.converter.files.signatures.streams import StreamRows
from prototrt.converter.running.runtime.memory import Memory
from prototrt.converter.running.runtime.state import States
from prototrt.converter.running.runtime.state_store import DeviceStateStore
from prototrt.surgery.ir import DType, OpenSize, Range, Recurrence, Value
from prototrt.tests.converter.running.runtime.fake_gpu import FakeDevice

N = OpenSize.symbol("N", Range(1, 2, 6))
SHAPES = {
    "h": ((1, N, 4), 1),
    "passes": ((2, N, 4), 1),
    "c": ((1, N, 4), 1),
    "other": ((N, 3), 0),
    "deep": ((2, 3, N, 4), 2),
    "map": ((N, 2, 2), 0),
}
COUNT = 9


@pytest.mark.parametrize(
    ("rows", "copies"),
    [
        ([4], 4),
        ([0, 2, 5, 8], 4 * 4),
        ([3, 4], 2 + 1 + 2 + 2),
        ([0, 7, 8], 4 + 7),
        ([1, 2, 3, 4, 5, 6], 3 + 1 + 2 + 6),
    ],
)
def test_rows_move_to_a_call_and_back(rows: Sequence[int], copies: int) -> None:
    """h, c and map have rows of one size: one copy for a stream. A run of streams has one for each of their states, if
    these are fewer.
    """
    device = FakeDevice()
    stream, memory = device.create_stream(), Memory(device)
    pairs = [
        Recurrence(Value(name, DType.FLOAT32, shape), Value(f"{name}_T", DType.FLOAT32, shape))
        for name, (shape, _) in SHAPES.items()
    ]
    axes = {each: axis for name, (_, axis) in SHAPES.items() for each in (name, f"{name}_T")}
    signature = Signature(
        tuple(pair.input for pair in pairs), tuple(pair.output for pair in pairs), tuple(pairs), (), (), axes
    )
    sizes = [(pair, 4 * int(np.prod(largest(pair.input))), axes[pair.input.name]) for pair in pairs]
    states = States(memory, sizes, stream)
    store = DeviceStateStore(memory, states, stream, StreamRows(signature, None), COUNT)
    random = np.random.default_rng(5)
    ones = StreamRows(signature, None).signature.states
    held = [
        {name: random.standard_normal(largest(value), np.float32) for name, value in ones.items()}
        for _ in range(COUNT)
    ]
    for row, state in enumerate(held):
        store.set(row, state)
    for size in (len(rows), 6):
        device.calls.clear()
        store.load(rows, size)
        assert device.calls["copy_rows"] == copies
        loaded = states.get()
        for name, array in loaded.items():
            assert np.isfinite(array).all()  # also that of streams which fill the call up
            for place, row in enumerate(rows):
                np.testing.assert_array_equal(np.take(array, [place], axes[name]), held[row][name])
        after = {name: array + 1 for name, array in loaded.items()}
        states.set(after)  # as a call writes it
        store.keep(rows)
        for row in rows:
            held[row] = {name: array + 1 for name, array in held[row].items()}
        for row, state in enumerate(held):
            for name, array in store.get(row).items():
                np.testing.assert_array_equal(array, state[name])
    store.zero(rows)
    for row in range(COUNT):
        for name, array in store.get(row).items():
            np.testing.assert_array_equal(array, held[row][name] * (row not in rows))
    memory.close(stream)
    assert device.memory == {}
