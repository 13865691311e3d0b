"""Arrays of other libraries in the host's memory, as inputs and outputs, by DLPack or by what NumPy reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.tests.dynamic_lstm import continuing, dynamic_graph
from prototrt.tests.small_nets import WAYS


class Lent:
    """An array that shows nothing but DLPack."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)


def feeds() -> dict[str, Any]:
    return continuing(2, 3, 0)


@pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="NumPy before 2.1 writes to no array of DLPack"
)
@pytest.mark.parametrize("on", WAYS)
def test_arrays_that_show_only_dlpack(on: Way) -> None:
    session = prototrt.Session(dynamic_graph(), on=on)
    ((name, result),) = session.run(feeds()).items()
    session.reset()
    target = np.zeros_like(result)
    outputs = session.run(
        {key: Lent(array) for key, array in feeds().items()}, {name: (lent := Lent(target))}
    )
    assert outputs[name] is lent
    np.testing.assert_array_equal(target, result)


@pytest.mark.parametrize("on", WAYS)
def test_results_can_be_lent(on: Way) -> None:
    """DLPack refuses an array that is read-only."""
    (result,) = prototrt.Session(dynamic_graph(), on=on).run(feeds()).values()
    np.testing.assert_array_equal(np.from_dlpack(result), result)


@pytest.mark.parametrize("on", WAYS)
def test_tensors_of_pytorch(on: Way) -> None:
    torch: Any = pytest.importorskip("torch")
    session = prototrt.Session(dynamic_graph(), on=on)
    ((name, result),) = session.run(feeds()).items()
    session.reset()
    target = torch.zeros(result.shape)
    session.run({key: torch.from_numpy(array) for key, array in feeds().items()}, {name: target})
    np.testing.assert_array_equal(target.numpy(), result)
    assert torch.from_dlpack(result).data_ptr() == result.ctypes.data
    with pytest.raises(ShapeError, match="because Got unsupported ScalarType BFloat16"):
        session.run({key: torch.from_numpy(array).bfloat16() for key, array in feeds().items()})


def test_arrays_of_jax() -> None:
    jnp: Any = pytest.importorskip("jax.numpy")
    session = prototrt.Session(dynamic_graph(), on="reference")
    ((name, result),) = session.run(feeds()).items()
    session.reset()
    given = {key: jnp.asarray(array) for key, array in feeds().items()}
    np.testing.assert_array_equal(jnp.from_dlpack(session.run(given)[name]), result)
    with pytest.raises(ShapeError) as caught:
        session.run(given, {name: jnp.zeros(result.shape)})
    assert str(caught.value).startswith(f'output "{name}" is to be written to an array that is read-only\n')


def test_a_target_that_numpy_would_copy() -> None:
    session = prototrt.Session(dynamic_graph(), on="reference")
    with pytest.raises(ShapeError) as caught:
        session.run(feeds(), {"h": [[0.0]]})
    assert str(caught.value) == (
        'output "h" is to be written to a list, expected an array\n  fix: give an array of NumPy or PyTorch'
    )


def test_a_target_that_is_read_only() -> None:
    session = prototrt.Session(dynamic_graph(), on="reference")
    (result,) = session.run(feeds()).values()
    with pytest.raises(ShapeError) as caught:
        session.run(feeds(), {"h": np.broadcast_to(np.float32(0), result.shape)})
    assert str(caught.value) == (
        'output "h" is to be written to an array that is read-only\n'
        "  fix: take the array that run() returns, or give one of NumPy or PyTorch"
    )
