"""The shapes of the inputs of a deploy net: from transformations, dummies, sources of data, and what reads them."""

from __future__ import annotations

import pytest

import prototrt
from prototrt.caffe_proto import load
from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.tests.caffe_proto.deploy_nets import FC, layer
from prototrt.tests.small_nets import Write

SHAPES = {
    "MemoryData": (
        "memory_data_param { batch_size: 1 channels: 3 height: 142 width: 143 }",
        'became the input "x" of shape (1, 3, 142, 143)',
        [1, 3, 142, 143],
    ),
    "Data": (
        "data_param { batch_size: 4 } transform_param { crop_size: 16 }",
        'became the input "x" of shape (4, ?, 16, 16)',
        None,
    ),
    "Data ": (
        "data_param { batch_size: 4 } transform_param { crop_size: 16 force_color: true }",
        'became the input "x" of shape (4, 3, 16, 16)',
        [4, 3, 16, 16],
    ),
    "Data  ": (
        "data_param { batch_size: 4 } transform_param { crop_size: 16 mean_value: [1, 2.5] scale: 0.5 }",
        'became the input "x" of shape (4, 2, 16, 16)',
        [4, 2, 16, 16],
    ),
    "ImageData": (
        "image_data_param { batch_size: 2 new_height: 5 new_width: 6 is_color: false }",
        'became the input "x" of shape (2, 1, 5, 6)',
        [2, 1, 5, 6],
    ),
    "WindowData": (
        "window_data_param { batch_size: 2 } transform_param { crop_size: 7 }",
        'became the input "x" of shape (2, 3, 7, 7)',
        [2, 3, 7, 7],
    ),
    "HDF5Data": ("hdf5_data_param { batch_size: 2 }", 'became the input "x"', None),
    "AnnotatedData": ("", 'became the input "x"', None),
    "DummyData": (
        "dummy_data_param { shape { dim: 2 dim: 3 } data_filler { type: 'gaussian' } }",
        'became the input "x" of shape (2, 3)',
        [2, 3],
    ),
    "DummyData ": (
        "dummy_data_param { num: 2 channels: 3 height: 4 width: 5 data_filler { type: 'uniform' } }",
        'became the input "x" of shape (2, 3, 4, 5)',
        [2, 3, 4, 5],
    ),
}


MISREAD = {
    "MemoryData": "memory_data_param { batch_size: 1 channels: 3 height: -96 width: 143 }",
    "Data": "data_param { batch_size: 4.5 } transform_param { crop_size: 16 force_color: true }",
    "ImageData": "image_data_param { batch_size: 2 new_height: 99999999999 new_width: 6 is_color: false }",
}


@pytest.mark.parametrize("kind", MISREAD)
def test_a_size_that_is_no_number_is_told(kind: str, write: Write) -> None:
    """Not only that a shape is missing."""
    net = f"layer {{ name: 'in' type: '{kind}' top: 'x' {MISREAD[kind]} }}" + FC
    (problem,) = load(write(net)).layers[0].problems
    assert "expected a whole number from 0 to 4294967295" in str(problem)


ZEROS = {
    "MemoryData": (
        "memory_data_param { batch_size: 1 channels: 3 height: 0 width: 143 }",
        "memory_data_param: height",
    ),
    "Data": ("data_param { batch_size: 0 } transform_param { crop_size: 16 }", "data_param: batch_size"),
}


@pytest.mark.parametrize("kind", ZEROS)
def test_a_size_of_zero_is_told_where_caffe_needs_one(kind: str, write: Write) -> None:
    fields, where = ZEROS[kind]
    file = write(f"layer {{ name: 'in' type: '{kind}' top: 'x' {fields} }}" + FC)
    with pytest.raises(ShapeError) as caught:
        prototrt.rewrite(load(file))
    field = where.split()[-1]
    assert str(caught.value) == (
        f'{file}:1: layer "in" ({kind}), {where} is 0, expected at least 1\n'
        f"  fix: write such a size, or leave {field} out"
    )


def test_a_size_that_no_shape_needs_may_be_wrong(write: Write) -> None:
    net = (
        "layer { name: 'in' type: 'Data' top: 'x' top: 'label' data_param { batch_size: 2 } transform_param {"
        " crop_size: 16 force_color: true } memory_data_param { height: -96 } }" + FC
    )
    assert not load(write(net)).layers[0].problems


@pytest.mark.parametrize("case", SHAPES)
def test_shapes_of_inputs(case: str, write: Write) -> None:
    more, told, shape = SHAPES[case]
    kind = case.strip()
    model = load(write(layer(kind, "in", "", "x", more) + FC))
    assert model.warnings[0] == f'net.prototxt:1: layer "in" ({kind}): {told}'
    assert [list(one.dim) for one in model.layers[0].param.shape] == ([shape] if shape else [])


DUMMIES = {
    "drawn": ("top: 'a' top: 'b'", "{ type: 'gaussian' }", ["Input a", "Input b"]),
    "drawn, each by its own filler": (
        "top: 'a' top: 'b'",
        "{ type: 'xavier' } data_filler { type: 'uniform' }",
        ["Input a", "Input b"],
    ),
    "drawn beside labels": (
        "top: 'a' top: 'label'",
        "{ type: 'gaussian' } data_filler { type: 'constant' }",
        ["Input a"],
    ),
    "drawn beside what is not drawn": (
        "top: 'a' top: 'b'",
        "{ type: 'gaussian' } data_filler { type: 'constant' }",
        ["DummyData a b"],
    ),
    "the same on each call": ("top: 'a'", "{ type: 'bilinear' }", ["DummyData a"]),
    "another number of fillers": (
        "top: 'a' top: 'b'",
        "{ type: 'uniform' } data_filler { type: 'uniform' } data_filler { type: 'uniform' }",
        ["DummyData a b"],
    ),
}


@pytest.mark.parametrize("case", DUMMIES)
def test_what_is_drawn_becomes_an_input(case: str, write: Write) -> None:
    tops, filler, expected = DUMMIES[case]
    shape = "shape { dim: 2 dim: 3 }"
    net = (
        f"layer {{ name: 'd' type: 'DummyData' {tops} dummy_data_param {{ {shape} data_filler {filler} }} }}"
    )
    readers = (layer("TanH", top, top, f"of_{top}") for top in ("a", "b", "label") if f"'{top}'" in tops)
    made = load(write("\n".join([net, *readers]))).layers
    assert [f"{one.type} {' '.join(one.tops)}" for one in made if one.type != "TanH"] == expected


OF_SOURCES: dict[str, tuple[str, str, str | None]] = {
    "crop": (
        "Data",
        "transform_param { crop_size: 5 mean_value: [1, 2, 3] } data_param { batch_size: 2 }",
        "2 3 5 5",
    ),
    "unknown channels": ("Data", "transform_param { crop_size: 5 } data_param { batch_size: 2 }", "2 ? 5 5"),
    "resized": (
        "AnnotatedData",
        "transform_param { force_color: true resize_param { height: 4 width: 6 } } data_param { batch_size: 2 }",
        "2 3 4 6",
    ),
    "new sizes": ("ImageSegData", "image_data_param { batch_size: 2 new_height: 4 new_width: 6 }", "2 3 4 6"),
    "grey": (
        "ImageData",
        "image_data_param { batch_size: 2 is_color: false new_height: 4 new_width: 6 }",
        "2 1 4 6",
    ),
    "a fork's fields": (
        "PicPac",
        "picpac_param { path: 'a' batch: 2 channels: 3 split: 9 resize_width: 6 resize_height: 4 }",
        "2 3 4 6",
    ),
    "crops of a fork": ("DocData", "doc_param < batchsize: 2 crop_h: 4, crop_w: 6; >", "2 ? 4 6"),
    "dims": ("MemoryData", "memory_data_param { dim: [1, 2, 3, 4, 5] }", "1 2 3 4 5"),
    "its own shape": ("OnDiskData", "input_param { shape { dim: 2 dim: 7 } }", "2 7"),
    "memory": ("MemoryData", "memory_data_param { batch_size: 2 channels: 3 height: 4 width: 6 }", "2 3 4 6"),
    "numbers of deeper messages": ("NYUData", "a_param { sampler { batch_size: 2 height: 4 } }", "? ? ? ?"),
    "nothing": ("NYUData", "", None),
}


@pytest.mark.parametrize("case", OF_SOURCES)
def test_shape_of_a_source(case: str, write: Write) -> None:
    kind, fields, expected = OF_SOURCES[case]
    model = load(write(f"{layer(kind, 'in', '', 'x', fields)} {layer('Power', 'p', 'x', 'y')}"))
    stated = [" ".join(map(str, shape.dim)) for shape in model.layers[0].message.input_param.shape]
    partial = (
        " ".join("?" if size is None else str(size) for size in model.sizes["x"]) if model.sizes else None
    )
    assert (partial, stated) == (expected, [expected] if expected and "?" not in expected else [])


@pytest.mark.parametrize(("field", "expected"), [("", [2]), ("label_dim: 3", [2, 3])])
def test_shape_of_labels_that_the_net_reads(field: str, expected: list[int], write: Write) -> None:
    images = f"image_data_param {{ batch_size: 2 new_height: 4 new_width: 6 {field} }}"
    text = f"{layer('ImageData', 'in', '', 'x all', images)} {layer('Scale', 's', 'x all', 'z')}"
    inputs = [one for one in load(write(text)).layers if one.type == "Input"]
    shapes = [list(shape.dim) for one in inputs for shape in one.message.input_param.shape]
    assert shapes == [[2, 3, 4, 6], expected]


@pytest.mark.parametrize(
    ("reader", "expected"),
    [
        (
            "type: 'Convolution3D' convolution_param { num_output: 2 kernel_size: 3 kernel_depth: 3 }",
            [2, 3, 16, 4, 4],
        ),
        ("type: 'Convolution' convolution_param { num_output: 2 kernel_size: [3, 3, 3] }", [2, 3, 16, 4, 4]),
        ("type: 'Convolution' convolution_param { num_output: 2 kernel_size: 3 }", []),
    ],
)
def test_videos_are_what_kernels_of_three_axes_read(reader: str, expected: list[int], write: Write) -> None:
    fields = "video_data_param { batch_size: 2 new_length: 16 } transform_param { crop_size: 4 }"
    model = load(
        write(
            f"{layer('VideoData', 'in', '', 'x', fields)} layer {{ name: 'c' bottom: 'x' top: 'c' {reader} }}"
        )
    )
    assert [list(shape.dim) for shape in model.layers[0].message.input_param.shape] == (
        [expected] if expected else []
    )
