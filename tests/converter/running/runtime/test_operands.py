"""StackInputs and arrays of other libraries."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from prototrt.caffe_proto.common.errors import EngineError, ShapeError
from prototrt.converter.running.runtime.device import handle_of
from prototrt.converter.running.runtime.dlpack import device_tensor, tensor_in
from prototrt.converter.running.runtime.operands import operand_of
from prototrt.surgery.ir import Array
from prototrt.tests.converter.running.runtime.fake_gpu import DeviceResident, FakeDevice
from prototrt.tests.converter.running.runtime.fake_tensorrt import gpu_of
from prototrt.tests.converter.running.runtime.support import assert_same, beside
from prototrt.tests.converter.running.runtime.test_cuda_graphs import any_streams, continuing_step


@pytest.mark.parametrize(
    "stream",
    [
        7,
        SimpleNamespace(cuda_stream=7),
        SimpleNamespace(ptr=7),
        SimpleNamespace(handle=7),
        SimpleNamespace(__cuda_stream__=lambda: (0, 7)),
    ],
)
def test_streams_of_other_libraries(stream: Any) -> None:
    assert handle_of(stream) == 7


def test_what_is_no_stream() -> None:
    with pytest.raises(EngineError) as caught:
        handle_of("fast")
    assert str(caught.value) == (
        "'fast' is not a CUDA stream\n  fix: give a stream of torch, cupy, pycuda or cuda-python, or the number of one"
    )


class OnGpu:
    """An array that reports by DLPack that it is on a GPU."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.streams: list[int] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, stream: int) -> Any:
        self.streams.append(stream)
        capsule = self.array.__dlpack__()
        tensor_in(capsule).device.kind = 2
        return capsule


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "bool", "uint8"])
def test_dlpack_is_read_where_it_is(dtype: str) -> None:
    array = np.arange(12).reshape(3, 4).astype(dtype)
    given = OnGpu(array)
    operand: Any = operand_of(given, "x", FakeDevice(), 0)
    assert (operand.address, operand.shape, operand.dtype) == (array.ctypes.data, (3, 4), array.dtype)
    assert operand.nbytes == array.nbytes
    assert given.streams == [1]
    operand_of(given, "x", FakeDevice(), 42)
    assert given.streams == [1, 42]


def test_dlpack_that_begins_further_on() -> None:
    class FurtherOn(OnGpu):
        def __dlpack__(self, stream: int) -> Any:
            capsule = super().__dlpack__(stream)
            tensor_in(capsule).byte_offset = 512
            return capsule

    array = np.zeros(3, np.float32)
    operand: Any = operand_of(FurtherOn(array), "x", FakeDevice(), 0)
    assert operand.address == array.ctypes.data + 512


def test_dlpack_with_gaps() -> None:
    with pytest.raises(ShapeError, match=r'^the array for "x" has gaps, or another order of its axes\n'):
        operand_of(OnGpu(np.zeros((4, 6), np.float32)[:, ::2]), "x", FakeDevice(), 0)


def test_dlpack_of_elements_without_name() -> None:
    with pytest.raises(ShapeError) as caught:
        operand_of(OnGpu(np.zeros(3, np.complex64)), "x", FakeDevice(), 0)
    assert str(caught.value) == (
        'the array for "x" has elements that NumPy does not know\n'
        "  because DLPack calls them type 5 of 64 bits in 1 lanes"
    )


def test_arrays_of_the_host_are_no_device_tensors() -> None:
    assert device_tensor(np.zeros(3), "x", 0) is None
    assert isinstance(operand_of([1.0, 2.0], "x", FakeDevice(), 0), np.ndarray)


def test_arrays_of_calls_lie_in_turn_on_the_gpu_and_in_the_hosts_memory() -> None:
    """In another place or with another type than before, an array of the same shape takes another way."""
    graph, size = any_streams()
    ours, reference = beside(graph)
    gpu = gpu_of(ours.engine)
    for number in range(8):
        feeds: dict[str, Any] = {name: array + number for name, array in continuing_step(4, size).items()}
        wanted = reference.run(feeds)
        if number % 4 == 1:
            feeds = {name: array.astype(np.float64) for name, array in feeds.items()}
        elif number % 4 > 1:
            feeds = {
                name: DeviceResident(gpu, array, offset=4 * (number % 4 - 2)) for name, array in feeds.items()
            }
        targets = {
            name: DeviceResident(gpu, array * 0, offset=4 * (number // 4)) for name, array in wanted.items()
        }
        if number % 2:
            assert_same(ours.run(feeds), wanted)
        else:
            ours.run(feeds, targets)
            assert_same({name: target.value() for name, target in targets.items()}, wanted)
