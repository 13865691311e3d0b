"""Blobs that several layers share."""

from __future__ import annotations

from pathlib import Path

import h5py  # type: ignore[import-untyped]  # it has no stubs
import numpy as np
import pytest

from prototrt.caffe_proto import ConversionError, Layer, load
from prototrt.tests.small_nets import Write
from prototrt.tests.tools import caffemodel_writer

ONE, TWO = np.full((2, 3), 1, np.float32), np.full((2, 3), 2, np.float32)


def net(*params: str) -> str:
    """Layers "a", "b", ... with these ``param``."""
    return "".join(
        f"layer {{ name: '{name}' type: 'InnerProduct' top: '{name}' {param} }}\n"
        for name, param in zip("abc", params, strict=False)
    )


def numbers(layer: Layer) -> list[float]:
    return [float(blob.array.flat[0]) for blob in layer.blobs or ()]


def test_owners(write: Write) -> None:
    w = "param { name: 'w' }"
    model = load(write(net(w + "param { }", "param { name: 'v' }" + w, w + w)))
    assert [layer.shared for layer in model.layers] == [
        (None, None),
        (None, ("a", 0)),
        (("a", 0), ("a", 0)),
    ]


def test_owners_in_the_old_form(write: Write) -> None:
    old = "".join(
        f"layers {{ name: '{name}' type: INNER_PRODUCT top: '{name}' param: 'w' }}" for name in "ab"
    )
    assert load(write(old)).layers[1].shared == (("a", 0),)


def told(names: str, last: str, kept: int = 0) -> str:
    return (
        f'm: {names} "{last}" share blob {kept} of layer "a", and hold different numbers for it: those of "{last}" are'
        " used, which is the last in the file, as in Caffe"
    )


@pytest.mark.parametrize(
    ("order", "kept", "warnings"),
    [
        ("abc", 2, [told('layer "a" and layer', "b")]),
        ("bac", 1, [told('layer "b" and layer', "a")]),
        ("cba", 1, [told('layer "b" and layer', "a")]),
    ],
)
def test_the_last_stored_numbers_stay(order: str, kept: float, warnings: list[str], write: Write) -> None:
    """Caffe copies each into the one place, in the order of the file: ``tests/oracle`` shows it."""
    text = write(net("param { name: 'w' }", "param { name: 'w' }", ""))
    blobs = {"a": [ONE], "b": [TWO], "c": [ONE]}
    caffemodel_writer.write("m", {name: blobs[name] for name in order})
    model = load(text, "m")
    assert [numbers(layer) for layer in model.layers] == [[kept], [kept], [1]]
    assert list(model.warnings) == warnings


def test_more_than_two_different_copies(write: Write) -> None:
    text = write(net(*["param { } param { name: 'w' }"] * 3))
    caffemodel_writer.write("m", {"c": [ONE, ONE], "b": [ONE, ONE], "a": [ONE, TWO]})
    model = load(text, "m")
    assert [numbers(layer) for layer in model.layers] == [[1, 2]] * 3
    assert list(model.warnings) == [told('layers "c", "b" and', "a", 1)]


def test_equal_copies_are_no_news(write: Write) -> None:
    text = write(net("param { name: 'w' }", "param { name: 'w' }"))
    caffemodel_writer.write("m", {"b": [ONE * np.nan], "a": [ONE * np.nan]})
    assert load(text, "m").warnings == ()


def test_a_layer_counts_at_its_last_place(write: Write) -> None:
    text = write(net("param { name: 'w' }", "param { name: 'w' }"))
    parts = []
    for name, value in (("a", 3 * ONE), ("b", TWO), ("a", ONE)):
        caffemodel_writer.write("m", {name: [value]})
        parts.append(Path("m").read_bytes())
    Path("m").write_bytes(b"".join(parts))
    assert [numbers(layer) for layer in load(text, "m").layers] == [[1], [1]]


def test_one_of_them_is_enough(write: Write) -> None:
    text = write(net("param { name: 'w' }", "param { name: 'w' }"))
    for name in "ab":
        caffemodel_writer.write("m", {name: [ONE]})
        assert [numbers(layer) for layer in load(text, "m").layers] == [[1], [1]]


def test_hdf5_holds_shared_blobs_once(write: Write) -> None:
    text = write(net("param { name: 'w' } param { name: 'v' }", "param { name: 'w' } param { name: 'u' }"))
    with h5py.File("m.h5", "w") as file:
        for key in ("data/a/0", "data/a/1", "data/b/1"):
            file[key] = np.array([len(file)], np.float32)
        file["data/b/1"][...] = 5
    assert [numbers(layer) for layer in load(text, "m.h5").layers] == [[0, 1], [0, 5]]


def test_hdf5_is_read_in_the_order_of_names(write: Write) -> None:
    """As in real Caffe, whatever was written last."""
    text = write(net("param { name: 'w' }", "param { name: 'w' }").replace("'a'", "'z'"))
    with h5py.File("m.h5", "w") as file:
        for name, number in (("z", 1), ("b", 2)):
            file[f"data/{name}/0"] = np.array([number], np.float32)
    assert [numbers(layer) for layer in load(text, "m.h5").layers] == [[1], [1]]


def test_hdf5_may_leave_out_the_last_blobs(write: Write) -> None:
    text = write(net("param { } param { name: 'v' }", "param { } param { name: 'v' }"))
    with h5py.File("m.h5", "w") as file:
        for key, number in (("a/0", 1), ("a/1", 2), ("b/0", 3)):
            file[f"data/{key}"] = np.array([number], np.float32)
    assert [numbers(layer) for layer in load(text, "m.h5").layers] == [[1, 2], [3, 2]]


def test_caffemodel_holds_shared_blobs_with_every_layer(write: Write) -> None:
    text = write(net("param { } param { name: 'v' }", "param { } param { name: 'v' }"))
    caffemodel_writer.write("m", {"a": [ONE, TWO], "b": [ONE]})
    assert [len(layer.blobs or ()) for layer in load(text, "m").layers] == [2, 1]


def test_permissive_shapes(write: Write) -> None:
    """Only the number of elements need agree: each layer sees the numbers in its own shape."""
    text = write(net("param { name: 'w' }", "param { name: 'w' share_mode: PERMISSIVE }"))
    caffemodel_writer.write("m", {"a": [ONE], "b": [TWO.reshape(6)]})
    first, second = (layer.blobs for layer in load(text, "m").layers)
    assert first is not None
    assert second is not None
    np.testing.assert_array_equal(first[0].array, TWO)
    np.testing.assert_array_equal(second[0].array, TWO.reshape(6))


def test_shared_blobs_of_different_size(write: Write) -> None:
    text = write(net("param { name: 'w' }", "param { name: 'w' }"))
    caffemodel_writer.write("m", {"a": [ONE], "b": [TWO[0]]})
    with pytest.raises(ConversionError) as caught:
        load(text, "m")
    assert str(caught.value) == (
        'net.prototxt:1: layer "a" (InnerProduct), blob 0: the stored shape is (2, 3), '
        "but it shares its numbers with a blob of shape (3,)\n"
        "  fix: give the two blobs different param names, or use the weights file of this net"
    )


def test_missing_blob_of_an_owner(write: Write) -> None:
    text = write(net("param { name: 'w' } param { name: 'v' }"))
    with h5py.File("m.h5", "w") as file:
        file["data/a/1"] = ONE
    with pytest.raises(ConversionError) as caught:
        load(text, "m.h5")
    assert str(caught.value) == (
        'net.prototxt:1: layer "a" (InnerProduct): blob 0 is missing, expected blobs 0 to 1\n'
        "  fix: get the weights file again"
    )


def test_golden() -> None:
    folder = Path(__file__).parents[1] / "goldens" / "caffe" / "shared_parameters"
    model = load(folder / "model.prototxt", folder / "model.caffemodel")
    layers = {layer.name: layer for layer in model.layers}
    assert layers["fb"].shared == (("fa", 0), ("fa", 1))
    assert numbers(layers["fa"]) == numbers(layers["fb"])
