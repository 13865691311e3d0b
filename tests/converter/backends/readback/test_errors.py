"""What the interpreter refuses, and its messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from prototrt.caffe_proto.common.errors import BuildError, ConversionError, ShapeError, UnsupportedLayerError
from prototrt.converter.backends.readback.registry import RULES, Array, evaluates
from prototrt.tests.converter.backends.readback.support import (
    ITensor,
    Layer,
    Network,
    add_input,
    evaluate,
    mark_output,
    new_network,
    trt,
)
from prototrt.tests.small_nets import numbers

pytestmark = pytest.mark.trt


def sum_network(shape: tuple[int, ...] = (2, 3)) -> Network:
    network = new_network()
    like = np.zeros(shape, np.float32)
    tensors = (add_input(network, name, like, shape) for name in "ab")
    layer = network.add_elementwise(*tensors, trt.ElementWiseOperation.SUM)
    layer.name = "sum"
    mark_output(network, layer.get_output(0), "y")
    return network


A, B = numbers(2, 3, seed=1), numbers(2, 3, seed=2)


@pytest.mark.parametrize(
    ("feeds", "error", "message"),
    [
        (
            {"a": A},
            ConversionError,
            'no array is given for input "b"\n  fix: give one for each of: "a", "b"',
        ),
        (
            {"a": A, "b": B, "c": A},
            ConversionError,
            'the network has no input "c"\n  fix: its inputs are: "a", "b"',
        ),
        (
            {"a": A, "b": B[:, :2]},
            ShapeError,
            'network input "b": shape is (2, 2), expected (2, 3)',
        ),
        (
            {"a": A, "b": B.astype(np.float64)},
            ShapeError,
            'network input "b": dtype is float64, expected float32',
        ),
    ],
)
def test_feeds(feeds: dict[str, Array], error: type[ConversionError], message: str) -> None:
    with pytest.raises(ConversionError) as caught:
        evaluate(sum_network(), **feeds)
    assert type(caught.value) is error
    assert str(caught.value) == message


def test_feeds_that_contradict_each_other() -> None:
    network = new_network()
    a, b = (add_input(network, name, A, (-1, 3)) for name in "ab")
    layer = network.add_concatenation([a, b])
    layer.axis, layer.name = 1, "join"
    mark_output(network, layer.get_output(0), "y")
    with pytest.raises(ShapeError) as caught:
        evaluate(network, a=A, b=B[:1])
    assert str(caught.value) == (
        'network layer "join" (CONCATENATION): cannot be computed: all the input array dimensions except for '
        "the concatenation axis must match exactly, but along dimension 0, the array at index 0 has size 2 "
        "and the array at index 1 has size 1"
    )


def refuse(add: Any, *arrays: Array) -> str:
    """The message for a network of the one layer that ``add`` adds."""
    network = new_network()
    tensors = [add_input(network, f"x{i}", array) for i, array in enumerate(arrays)]
    layer = add(network, *tensors)
    layer.name = "it"
    mark_output(network, layer.get_output(0), "y")
    with pytest.raises(ConversionError) as caught:
        evaluate(network, **{f"x{i}": array for i, array in enumerate(arrays)})
    return str(caught.value)


def test_layer_without_a_rule() -> None:
    def add(network: Network, a: ITensor, b: ITensor) -> Layer:
        return network.add_einsum([a, b], "ij,jk->ik")

    assert refuse(add, numbers(2, 3), numbers(3, 4)) == (
        'network layer "it" (EINSUM): the network interpreter has no rule for layers of type EINSUM'
    )


def test_weights_that_cannot_be_read() -> None:
    bits = np.array([0x3F80], np.uint16)

    def add(network: Network) -> Layer:
        return network.add_constant((1,), trt.Weights(trt.bfloat16, bits.ctypes.data, 1))

    assert refuse(add) == (
        'network layer "it" (CONSTANT): weights of type BF16 cannot be read back\n'
        "  because TensorRT's Python bindings keep their values to themselves\n"
        "  fix: store the weights as FLOAT and cast them in the network"
    )


ONE = np.ones(1, np.float32)
KINDS: dict[str, Callable[[Network, ITensor], Layer]] = {
    'network layer "it" (ACTIVATION): an activation of kind SELU has no rule here': lambda network, x: (
        network.add_activation(x, trt.ActivationType.SELU)
    ),
    'network layer "it" (UNARY): a function of one element of kind TAN has no rule here': lambda network, x: (
        network.add_unary(x, trt.UnaryOperation.TAN)
    ),
    'network layer "it" (SCALE): a scale of kind UNIFORM has no rule here': lambda network, x: (
        network.add_scale_nd(x, trt.ScaleMode.UNIFORM, ONE, ONE, trt.Weights(), 0)
    ),
    'network layer "it" (SCALE): scales without a factor or a shift, or with a power, have no rule here': (
        lambda network, x: network.add_scale_nd(x, trt.ScaleMode.CHANNEL, ONE, ONE, ONE, 1)
    ),
    'network layer "it" (TOPK): a choice of kind MIN has no rule here': lambda network, x: network.add_topk(
        x, trt.TopKOperation.MIN, 1, 1
    ),
}


@pytest.mark.parametrize("message", KINDS)
def test_a_kind_that_no_lowering_makes(message: str) -> None:
    assert refuse(KINDS[message], numbers(2, 1, 3, 3)) == message


def test_slice_out_of_bounds() -> None:
    network = new_network()
    x, start = numbers(4), np.array([2], np.int32)
    layer = network.add_slice(add_input(network, "x", x), (0,), (3,), (1,))
    layer.set_input(1, add_input(network, "start", start))
    layer.name = "cut"
    mark_output(network, layer.get_output(0), "y")
    with pytest.raises(ShapeError) as caught:
        evaluate(network, x=x, start=start)
    assert str(caught.value) == (
        'network layer "cut" (SLICE): cannot be computed: '
        "start 2, size 3 and stride 1 leave axis 0, which has 4 elements"
    )


def test_negative_index_into_a_dynamic_axis() -> None:
    network = new_network()
    x, indices = numbers(4), np.array([-1], np.int32)
    layer = network.add_gather(add_input(network, "x", x, (-1,)), add_input(network, "i", indices), 0)
    layer.name = "pick"
    mark_output(network, layer.get_output(0), "y")
    with pytest.raises(ShapeError) as caught:
        evaluate(network, x=x, i=indices)
    assert str(caught.value) == (
        'network layer "pick" (GATHER): cannot be computed: '
        "a negative index into a dynamic axis is undefined in TensorRT"
    )


def test_network_that_tensorrt_refuses(capfd: pytest.CaptureFixture[str]) -> None:
    network = new_network()
    a, b = add_input(network, "a", numbers(2, 3)), add_input(network, "b", numbers(2, 4))
    layer = network.add_elementwise(a, b, trt.ElementWiseOperation.SUM)
    layer.name = "sum"
    mark_output(network, layer.get_output(0), "y")
    with pytest.raises(BuildError) as caught:
        evaluate(network, a=numbers(2, 3), b=numbers(2, 4))
    assert str(caught.value).endswith(
        ': TensorRT cannot compute a shape for tensor "y"\n'
        "  fix: see TensorRT's log or error recorder for what it refuses in this layer"
    )


def test_rule_that_disagrees_with_tensorrt_about_the_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RULES, "ELEMENTWISE", lambda layer: lambda a, b: (a + b)[:1])
    with pytest.raises(ShapeError) as caught:
        evaluate(sum_network(), a=A, b=B)
    assert str(caught.value) == (
        'network layer "sum" (ELEMENTWISE): tensor "y" came out as float32 (1, 3), '
        "but the network says FLOAT (2, 3)"
    )


def test_second_rule_for_a_type() -> None:
    with pytest.raises(RuntimeError, match="CONVOLUTION has two rules"):
        evaluates("CONVOLUTION")(lambda layer: lambda x: x)


def test_unsupported_kind_is_an_unsupported_layer() -> None:
    network = new_network()
    x = numbers(1, 1, 4, 4)
    layer = network.add_resize(add_input(network, "x", x))
    layer.resize_mode, layer.shape, layer.name = trt.InterpolationMode.CUBIC, (1, 1, 8, 8), "up"
    mark_output(network, layer.get_output(0), "y")
    with pytest.raises(UnsupportedLayerError) as caught:
        evaluate(network, x=x)
    assert str(caught.value) == 'network layer "up" (RESIZE): resizing of kind CUBIC has no rule here'
