"""The forms that nets had before today's."""

from __future__ import annotations

import pytest
from google.protobuf import text_format

from prototrt.caffe_proto import ConversionError, load
from prototrt.caffe_proto.schema import Message, message_class
from prototrt.caffe_proto.text.prototxt import parse_net
from prototrt.caffe_proto.upgrades.upgrade import LayerEntry, upgraded_layers
from prototrt.tests.small_nets import Write


def entries(text: str) -> list[LayerEntry]:
    return upgraded_layers(parse_net(text, "net.prototxt"), "net.prototxt")


def layer(text: str) -> Message:
    return text_format.Parse(text, message_class("LayerParameter")())


V1 = """
layers { name: "c" type: CONVOLUTION top: "c" param: "w" blob_share_mode: PERMISSIVE blobs_lr: 1 blobs_lr: 2
  weight_decay: 3 loss_weight: 4 include { phase: TEST } convolution_param { num_output: 2 } }
"""


def test_v1_layer() -> None:
    (upgraded,) = entries(V1)
    assert upgraded.message == layer(
        'name: "c" type: "Convolution" top: "c" loss_weight: 4 '
        'param { name: "w" share_mode: PERMISSIVE lr_mult: 1 decay_mult: 3 } param { lr_mult: 2 } '
        "include { phase: TEST } convolution_param { num_output: 2 }"
    )
    assert upgraded.line == 2


def test_v1_data_layer_keeps_its_transformation() -> None:
    data = "data_param { source: 's' scale: 2 crop_size: 3 mirror: true }"
    (upgraded,) = entries(f"layers {{ name: 'd' type: DATA top: 'd' {data} }}")
    assert upgraded.message == layer(
        'name: "d" type: "Data" top: "d" transform_param { scale: 2 mirror: true crop_size: 3 } '
        'data_param { source: "s" }'
    )


V0 = """
input: "x" input_dim: [1, 2, 3, 4]
layers { layer { name: "p" type: "padding" pad: 2 } bottom: "x" top: "p" }
layers {
  layer { name: "c" type: "conv" num_output: 4 kernelsize: 5 stride: 2 biasterm: false group: 2
          weight_filler { type: "xavier" } blobs_lr: 1 }
  bottom: "p" top: "c" }
layers { layer { name: "l" type: "lrn" local_size: 3 alpha: 2 beta: 3 k: 4 } bottom: "c" top: "l" }
layers { layer { name: "m" type: "pool" pool: AVE kernelsize: 2 } bottom: "l" top: "m" }
layers { layer { name: "f" type: "innerproduct" num_output: 6 } bottom: "m" top: "f" }
layers { layer { name: "d" type: "dropout" dropout_ratio: 0.25 } bottom: "f" top: "f" }
layers { layer { name: "i" type: "images" source: "s" batchsize: 2 new_height: 3 cropsize: 5 } top: "i" }
"""


def test_v0_layers() -> None:
    layers = entries(V0)
    expected = [
        'name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 dim: 3 dim: 4 } }',
        'name: "c" type: "Convolution" bottom: "x" top: "c" param { lr_mult: 1 } convolution_param { '
        "num_output: 4 bias_term: false pad: 2 kernel_size: 5 group: 2 stride: 2 "
        'weight_filler { type: "xavier" } }',
        'name: "l" type: "LRN" bottom: "c" top: "l" lrn_param { local_size: 3 alpha: 2 beta: 3 k: 4 }',
        'name: "m" type: "Pooling" bottom: "l" top: "m" pooling_param { pool: AVE kernel_size: 2 }',
        'name: "f" type: "InnerProduct" bottom: "m" top: "f" inner_product_param { num_output: 6 }',
        'name: "d" type: "Dropout" bottom: "f" top: "f" dropout_param { dropout_ratio: 0.25 }',
        'name: "i" type: "ImageData" top: "i" transform_param { crop_size: 5 } '
        'image_data_param { source: "s" batch_size: 2 new_height: 3 }',
    ]
    assert [upgraded.message for upgraded in layers] == [layer(text) for text in expected]
    assert [upgraded.line for upgraded in layers] == [2, 4, 8, 9, 10, 11, 12]


INPUTS: dict[str, tuple[str, list[list[int] | None]]] = {
    "input_dim": (
        "input: 'a'\ninput: 'b'\ninput_dim: [1, 2, 3, 4, 5, 6, 7, 8]",
        [[1, 2, 3, 4], [5, 6, 7, 8]],
    ),
    "input_shape": ("input: 'a' input_shape { dim: [2, 3] }\ninput: 'b' input_shape { }", [[2, 3], []]),
    "no shape": ("input: ['a',\n'b']", [None, None]),
}


@pytest.mark.parametrize("case", INPUTS)
def test_inputs(case: str, write: Write) -> None:
    text, shapes = INPUTS[case]
    layers = load(write(text)).layers
    assert [(layer.name, layer.type, layer.tops) for layer in layers] == [
        ("a", "Input", ("a",)),
        ("b", "Input", ("b",)),
    ]
    assert [[list(shape.dim) for shape in layer.param.shape] for layer in layers] == [
        [] if shape is None else [shape] for shape in shapes
    ]
    assert [layer.origin.line for layer in layers] == [1, 2]


def test_input_and_layer_of_the_same_name(write: Write) -> None:
    layers = load(write("input: 'x' layer { name: 'x' type: 'ReLU' bottom: 'x' top: 'y' }")).layers
    assert [layer.name for layer in layers] == ["x_input", "x"]


MISTAKES = {
    "both forms": (
        "layers { name: 'a' type: RELU }\nlayer { name: 'b' type: 'ReLU' }",
        "net.prototxt:2: the net has layer (line 2) and layers (line 1), expected one of them\n"
        "  because they are the new and the old form, which Caffe does not mix\n"
        "  fix: write all of them as layer, with their types as strings",
    ),
    "input_dim": (
        "input: 'a' input_dim: [1, 2]",
        "net.prototxt:1: found 2 input_dim, expected 4, four for each input\n"
        "  fix: give four input_dim for each input, or an input_shape for another number of axes",
    ),
    "too many input_dim": (
        "input: 'a' input_dim: [1, 2, 3, 4, 5]",
        "net.prototxt:1: found 5 input_dim, expected 4, four for each input\n"
        "  because Caffe silently ignores the rest\n"
        "  fix: give four input_dim for each input, or an input_shape for another number of axes",
    ),
    "input_shape": (
        "input: 'a'\ninput: 'b' input_shape { dim: 1 }",
        "net.prototxt:1: found 1 input_shape, expected 2, one for each input\n"
        "  because Caffe silently ignores the rest\n"
        "  fix: give each input its input_shape",
    ),
    "unknown V0 type": (
        "layers { layer { name: 'a' type: 'Pool' } }",
        'net.prototxt:1: layer "a" (Pool): the type is "Pool", expected pool\n'
        "  because this layer has Caffe's first format (V0)\n"
        "  fix: use one of these types, or write the net in the current format",
    ),
    "V0 size below 0": (
        "layers { layer { name: 'a' type: 'images' new_height: -1 } top: 'x' }",
        'net.prototxt:1: layer "a" (images): new_height is -1, expected 0 or more\n'
        "  fix: remove new_height to use its default",
    ),
    "padding before another layer": (
        "input: 'x' layers { layer { name: 'p' type: 'padding' pad: 1 } bottom: 'x' top: 'p' }\n"
        "layers { layer { name: 'r' type: 'relu' } bottom: 'p' top: 'r' }",
        'net.prototxt:2: layer "r" (relu), bottom "p": a "relu" layer reads a padding layer, '
        "expected conv or pool with one bottom\n"
        "  fix: remove the padding layer, or let only a conv or pool layer read it",
    ),
    "padding of two blobs": (
        "layers { layer { name: 'p' type: 'padding' pad: 1 } bottom: 'x' bottom: 'y' top: 'p' }",
        'net.prototxt:1: layer "p" (padding): the layer has 2 bottoms and 1 tops, expected one of each\n'
        "  fix: write a padding layer for each bottom, or the pad into the layers that read this one",
    ),
    "no layers": (
        "name: 'empty'",
        "net.prototxt: the net has no layers\n  fix: give the prototxt of a net, and the phase it is for",
    ),
    "no type": (
        "layer { name: 'a' }",
        'net.prototxt:1: layer "a" (no type): the layer has no type\n'
        '  fix: set its type, as in type: "Convolution"',
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes(case: str, write: Write) -> None:
    text, message = MISTAKES[case]
    with pytest.raises(ConversionError) as caught:
        load(write(text))
    assert str(caught.value) == message


def test_a_layer_without_a_name_gets_one(write: Write) -> None:
    assert load(write("\nlayer { type: 'ReLU' }")).layers[0].name == "ReLU_2"


def test_v0_fields_of_other_types_are_ignored(write: Write) -> None:
    """Caffe logs them and goes on."""
    text = "layers { layer { name: 'a' type: 'relu' num_output: 3 det_fg_threshold: 0.5 } }"
    told = 'net.prototxt:1: layer "a" (relu): a layer of type "relu" has no field'
    assert load(write(text)).warnings == (
        f'{told} "num_output": it is ignored, as in Caffe',
        f'{told} "det_fg_threshold": it is ignored, as in Caffe',
    )


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("UNPOOLING", "Unpooling"),
        ("POOLING3D", "Pooling3D"),
        ("DENSE_CRF", "DenseCRF"),
        ("BN", "BN"),
        ("VIDEO_DATA", "VideoData"),
        ("CROP", "Crop"),
        ("MAXOUT", "Maxout"),
    ],
)
def test_v1_types_of_forks(word: str, kind: str, write: Write) -> None:
    """With current parameters, which forks also put into layers of the old form."""
    text = f"layers {{ name: 'a' type: {word} top: 'a' mil_param {{ context_per_roi: 3 }} }}"
    (one,) = entries(text)
    assert (one.message.type, one.message.mil_param.context_per_roi, one.findings) == (kind, 3, ())


def told_of_old_form(what: str, kind: str) -> str:
    return (
        f'net.prototxt:1: layer "a" ({kind}): {what} that layers, the old form, does not have\n'
        f'  fix: write all layers of the net as layer, as in layer {{ type: "{kind}" }}'
    )


@pytest.mark.parametrize(
    ("text", "what", "kind"),
    [
        ("type: FLATTEN flatten_param { axis: 2 }", '"flatten_param" is a field', "Flatten"),
        ("type: RELU phase: TEST", '"phase" is a field', "ReLU"),
        ("type: BN propagate_down: false", '"propagate_down" is a field', "BN"),
        ("type: TILE", "TILE is a type", "Tile"),
        ("type: BATCH_NORM batch_norm_param { eps: 1 }", "BATCH_NORM is a type", "BatchNorm"),
        ("type: CROP crop_param { axis: 1 }", '"crop_param" is a field', "Crop"),
    ],
)
def test_the_old_form_has_nothing_of_later(text: str, what: str, kind: str, write: Write) -> None:
    """Caffe's parser refuses the whole net."""
    with pytest.raises(ConversionError) as caught:
        load(write(f"layers {{ name: 'a' {text} bottom: 'x' top: 'a' }}"))
    assert str(caught.value) == told_of_old_form(what, kind)


def test_an_input_without_a_shape_beside_a_layer_that_makes_it(write: Write) -> None:
    """Caffe passes over such an input."""
    shape = "input_param { shape { dim: 2 } }"
    text = f"input: 'x' input: 'y' layer {{ name: 'in' type: 'Input' top: 'x' {shape} }}"
    assert [(one.message.name, list(one.message.top)) for one in entries(text)] == [
        ("y", ["y"]),
        ("in", ["x"]),
    ]
