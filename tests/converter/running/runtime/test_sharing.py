"""Arrays and streams of the caller."""

from __future__ import annotations

import ctypes
import gc
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.common.errors import ConversionError, ShapeError
from prototrt.converter.running.runtime.dlpack import tensor_in
from prototrt.surgery.ir import Array, Graph
from prototrt.tests.converter.running.runtime.fake_gpu import DeviceResident, FakeDevice
from prototrt.tests.converter.running.runtime.fake_tensorrt import fake_engine, gpu_of
from prototrt.tests.converter.running.runtime.support import assert_as_caffe, beside, session_of
from prototrt.tests.digit_strips import steps
from prototrt.tests.dynamic_lstm import continuing, dynamic_graph


def test_inputs_and_outputs_where_they_are() -> None:
    session, reference = beside(dynamic_graph())
    device = gpu_of(session.engine)
    for call in range(3):
        feeds = continuing(2, 3, call)
        mine = {name: DeviceResident(device, array) for name, array in feeds.items()}
        target = DeviceResident(device, np.zeros((2, 3, 8), np.float32))
        results = session.run(mine, outputs={"h": target})
        assert results == {"h": target}
        np.testing.assert_array_equal(target.value(), reference.run(feeds)["h"])
    assert not {"upload", "download", "copy"} & device.calls.keys()


def test_what_is_not_aligned_is_copied_on_the_gpu() -> None:
    session, reference = beside(dynamic_graph())
    device = gpu_of(session.engine)
    feeds = continuing(2, 3, 0)
    mine = {name: DeviceResident(device, array, offset=4) for name, array in feeds.items()}
    target = DeviceResident(device, np.zeros((2, 3, 8), np.float32), offset=8)
    session.run(mine, outputs={"h": target})
    np.testing.assert_array_equal(target.value(), reference.run(feeds)["h"])
    assert device.calls["copy"] == 3
    assert not {"upload", "download"} & device.calls.keys()


def test_the_stream_of_a_producer_is_waited_for() -> None:
    session, reference = beside(dynamic_graph())
    device = gpu_of(session.engine)
    feeds = continuing(2, 3, 0)
    late = DeviceResident(device, np.zeros_like(feeds["x"]), stream=device.adopt_stream(77))
    device.queue(77, lambda: device.write(late.address, feeds["x"]))
    np.testing.assert_array_equal(session.run({**feeds, "x": late})["h"], reference.run(feeds)["h"])


def test_an_interface_that_names_no_stream() -> None:
    """Version 2, as PyTorch has it: the array may be filled on the default stream."""
    session, reference = beside(dynamic_graph())
    device = gpu_of(session.engine)
    feeds = continuing(2, 3, 0)
    late = DeviceResident(device, np.full_like(feeds["x"], np.nan), names_stream=False)
    device.queue(0, lambda: device.write(late.address, feeds["x"]))
    np.testing.assert_array_equal(session.run({**feeds, "x": late})["h"], reference.run(feeds)["h"])


def test_dlpack_is_preferred_to_the_interface() -> None:
    """With DLPack the producer makes our stream wait; the interface of PyTorch does not."""

    class Tensor(DeviceResident):
        """Filled on another stream, like a tensor of PyTorch under ``torch.cuda.stream``."""

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

        def __dlpack__(self, stream: int) -> Any:
            device.wait(stream, 77)
            held = np.ctypeslib.as_array((ctypes.c_float * self.array.size).from_address(self.address))
            capsule = held.reshape(self.array.shape).__dlpack__()
            tensor_in(capsule).device.kind = 2
            return capsule

    session, reference = beside(dynamic_graph())
    device = gpu_of(session.engine)
    device.adopt_stream(77)
    feeds = continuing(2, 3, 0)
    late = Tensor(device, np.full_like(feeds["x"], np.nan), names_stream=False)
    device.queue(77, lambda: device.write(late.address, feeds["x"]))
    np.testing.assert_array_equal(session.run({**feeds, "x": late})["h"], reference.run(feeds)["h"])


@pytest.mark.parametrize("offset", [0, 4])
def test_the_stream_of_an_output_is_waited_for(offset: int) -> None:
    """Otherwise, earlier queued work would overwrite the result."""
    session, reference = beside(dynamic_graph())
    device = gpu_of(session.engine)
    feeds = continuing(2, 3, 0)
    target = DeviceResident(
        device, np.zeros((2, 3, 8), np.float32), offset=offset, stream=device.adopt_stream(77)
    )
    device.queue(77, lambda: device.write(target.address, np.full((2, 3, 8), 7, np.float32)))
    session.run(feeds, outputs={"h": target})
    device.synchronize(77)
    np.testing.assert_array_equal(target.value(), reference.run(feeds)["h"])


def test_arrays_on_another_gpu() -> None:
    session = session_of(dynamic_graph())
    device = gpu_of(session.engine)
    feeds = continuing(2, 3, 0)
    far = DeviceResident(device, feeds["x"])
    device.elsewhere[far.address] = 1
    target = DeviceResident(device, np.zeros((2, 3, 8), np.float32))
    device.elsewhere[target.address] = 2
    for call, name, ordinal in (
        (lambda: session.run({**feeds, "x": far}), "x", 1),
        (lambda: session.run(feeds, outputs={"h": target}), "h", 2),
    ):
        with pytest.raises(ShapeError) as caught:
            call()
        assert str(caught.value) == (
            f'the array for "{name}" is on GPU {ordinal}, expected GPU 0, where the engine is\n'
            f"  fix: copy it to GPU 0, or load the engine on GPU {ordinal}: device=CudaPythonDevice({ordinal})"
        )


def test_tensors_that_require_a_gradient() -> None:
    """PyTorch does not share their memory, and raises its own RuntimeError."""

    class Tensor:
        requires_grad = True

        def __array__(self, *_: object, **__: object) -> Array:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

        def __dlpack__(self, stream: int) -> Any:
            raise BufferError("Can't export tensors that require gradient")

    for session in beside(dynamic_graph()):
        with pytest.raises(ShapeError) as caught:
            session.run({**continuing(2, 3, 0), "x": Tensor()})
        assert str(caught.value) == 'the tensor for "x" requires a gradient\n  fix: give tensor.detach()'


def test_what_is_no_array() -> None:
    for session in beside(dynamic_graph()):
        with pytest.raises(ShapeError) as caught:
            session.run({**continuing(2, 3, 0), "x": [[1.0], [1.0, 2.0]]})
        assert str(caught.value) == (
            'what is given for "x" is not an array that NumPy can read\n'
            "  because setting an array element with a sequence. The requested array has an inhomogeneous shape"
            " after 1 dimensions. The detected shape was (2,) + inhomogeneous part.\n"
            "  fix: copy it to the CPU, in a type that NumPy has, as tensor.cpu().float() does"
        )


def test_the_gpu_of_the_thread_stays() -> None:
    session = session_of(dynamic_graph())
    device = gpu_of(session.engine)
    own = device.current_ordinal
    assert own != device.ordinal
    session.run(continuing(2, 3, 0))
    session.reset([1])
    session.set_state(session.get_state())
    session.close()
    assert device.current_ordinal == own


def test_arrays_to_write_to(stream_graph: Graph) -> None:
    for session in (session_of(stream_graph), prototrt.Session(stream_graph)):
        target = np.zeros((1, 1, 11), np.float32)
        results = session.run(steps(1)[0], outputs={"prob": target})
        assert results["prob"] is target
        assert_as_caffe([target])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"array": np.zeros((2, 3, 6))},
            'input "x" is float64 on the GPU, expected float32\n  fix: convert it there first',
        ),
        (
            {"array": np.zeros((2, 3, 6), np.float32), "strides": (72, 4, 12)},
            'the array for "x" has gaps, or another order of its axes\n'
            "  because its shape is (2, 3, 6) and its strides are (72, 4, 12)\n"
            "  fix: give a contiguous copy of it",
        ),
    ],
)
def test_inputs_on_the_gpu_that_cannot_be_read(options: dict[str, Any], message: str) -> None:
    session = session_of(dynamic_graph())
    mine = DeviceResident(gpu_of(session.engine), **options)
    with pytest.raises(ShapeError) as caught:
        session.run({**continuing(2, 3, 0), "x": mine})
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "target", "message"),
    [
        ("y", np.zeros(1), 'there is no output "y"\n  fix: the outputs are h'),
        (
            "h",
            np.zeros((2, 3, 5), np.float32),
            'output "h" is to be written to float32 (2, 3, 5), expected float32 (2, 3, 8)',
        ),
        (
            "h",
            np.zeros((2, 3, 8)),
            'output "h" is to be written to float64 (2, 3, 8), expected float32 (2, 3, 8)',
        ),
        (
            "h",
            np.zeros((2, 8, 3), np.float32).transpose(0, 2, 1),
            'output "h" is to be written to an array that has gaps or is read-only\n'
            "  fix: give a contiguous, writeable one",
        ),
    ],
)
def test_outputs_that_cannot_be_written(name: str, target: Array, message: str) -> None:
    session = session_of(dynamic_graph())
    with pytest.raises(ConversionError) as caught:
        session.run(continuing(2, 3, 0), outputs={name: target})
    assert str(caught.value) == message
    assert session.get_state() == {}


def test_an_output_that_would_be_copied() -> None:
    session = session_of(dynamic_graph())
    with pytest.raises(ShapeError) as caught:
        session.run(continuing(2, 3, 0), outputs={"h": [[[0.0] * 8] * 3] * 2})
    assert str(caught.value) == (
        'output "h" is to be written to a list, expected an array\n'
        "  fix: give a NumPy array, or an array on the GPU"
    )


def test_an_output_over_an_input() -> None:
    session = session_of(dynamic_graph())
    device = gpu_of(session.engine)
    mine = DeviceResident(device, continuing(2, 3, 0)["x"])
    target = DeviceResident(device, np.zeros((2, 3, 8), np.float32))
    target.address = mine.address
    with pytest.raises(
        ShapeError,
        match=r'^"x" and "h" are given the same memory\n  fix: allocate one array for each output$',
    ):
        session.run({**continuing(2, 3, 0), "x": mine}, outputs={"h": target})


# ---------------------------------------------------------------- a stream of the caller


def test_a_callers_stream_lives_as_long_as_the_session() -> None:
    """An object of PyTorch or cuda-python destroys its stream when it goes."""

    class Stream:
        cuda_stream = 5

    stream = Stream()
    gone = weakref.ref(stream)
    session = session_of(dynamic_graph(), stream=stream)
    del stream
    gc.collect()
    assert gone() is not None
    session.close()
    gc.collect()
    assert gone() is None


def test_a_callers_stream_is_not_waited_for() -> None:
    device = FakeDevice()
    graph = dynamic_graph()
    session = prototrt.Session(fake_engine(graph, device), stream=SimpleNamespace(cuda_stream=5))
    reference = prototrt.Session(graph)
    wanted, targets = [], []
    for call in range(3):
        feeds = continuing(2, 3, call)
        mine = {name: DeviceResident(device, array) for name, array in feeds.items()}
        targets.append(DeviceResident(device, np.zeros((2, 3, 8), np.float32)))
        session.run(mine, outputs={"h": targets[-1]})
        wanted.append(reference.run(feeds)["h"])
    assert "synchronize" not in device.calls
    assert not targets[0].value().any()  # nothing has run so far
    device.synchronize(5)
    for target, array in zip(targets, wanted, strict=True):
        np.testing.assert_array_equal(target.value(), array)
    feeds = continuing(2, 3, 3)
    np.testing.assert_array_equal(session.run(feeds)["h"], reference.run(feeds)["h"])
    mine = {name: DeviceResident(device, array) for name, array in feeds.items()}
    session.run(mine, outputs={"h": targets[0]})
    session.close()  # waits for the call
    np.testing.assert_array_equal(targets[0].value(), reference.run(feeds)["h"])
    assert 5 in device.streams  # it is the caller's
