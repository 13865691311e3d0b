"""Weights in HDF5 and npz files, and weights that are drawn."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prototrt.caffe_proto import ConversionError, RandomWeights, WeightsError, load
from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.caffe_proto.common.installing import pip_install
from prototrt.tests.small_nets import Write

h5py = pytest.importorskip("h5py")

NUMBERS = np.arange(6, dtype=np.float32).reshape(2, 3)
NET = "layer { name: 'a/b' type: 'InnerProduct' top: 'y' }"


def save_hdf5(**datasets: Any) -> str:
    with h5py.File("m.h5", "w") as file:
        for name, value in datasets.items():
            file.create_dataset(name, **value) if isinstance(value, dict) else file.create_dataset(
                name, data=value
            )
    return "m.h5"


def save_npz(**arrays: Any) -> str:
    np.savez("m.npz", **arrays)
    return "m.npz"


def test_hdf5(write: Write) -> None:
    net = write(NET)
    (layer,) = load(
        net, save_hdf5(**{"data/a/b/0": NUMBERS, "data/a/b/1": NUMBERS[0].astype(np.float64)})
    ).layers
    assert layer.blobs is not None
    assert [(blob.shape, blob.legacy) for blob in layer.blobs] == [((2, 3), False), ((3,), False)]
    np.testing.assert_array_equal(layer.blobs[0].array, NUMBERS)
    assert layer.blobs[1].array.dtype == np.float32


def test_npz(write: Write) -> None:
    net = write(NET)
    arrays = {"a/b/0": NUMBERS, "a/b/1": np.asfortranarray(NUMBERS.astype(np.float16)), "other/0": NUMBERS}
    model = load(net, save_npz(**arrays))
    blobs = model.layers[0].blobs
    assert blobs is not None
    np.testing.assert_array_equal(blobs[1].array, NUMBERS)
    assert blobs[1].array.dtype == np.float32
    assert model.warnings == ('m.npz: the net has no layers for the weights of "other"',)
    assert model.weights.sha256 is not None


HDF5_MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no data": (
        {"weights": NUMBERS},
        'm.h5: there is no group "data", expected one\n'
        "  fix: give the .caffemodel.h5 that Caffe saved (a .solverstate.h5 holds no weights)",
    ),
    "strange name": (
        {"data/a/b/weights": NUMBERS},
        'm.h5: the key is "a/b/weights", expected LAYER/INDEX\n'
        '  fix: save each blob under its layer and its index, as in np.savez(file, **{"conv1/0": weights})',
    ),
    "missing blob": (
        {"data/a/b/1": NUMBERS},
        'net.prototxt:1: layer "a/b" (InnerProduct): blob 0 is missing, expected blobs 0 to 1\n'
        "  fix: get the weights file again",
    ),
    "shape that nobody filled": (
        {"data/a/b/0": {"shape": (1 << 20, 1 << 10), "dtype": "f4"}},
        'm.h5: layer "a/b", blob 0: the stored shape (1048576, 1024) has 1073741824 elements, found 0\n'
        "  fix: get the weights file again: it is damaged",
    ),
    "text": (
        {"data/a/b/0": np.array([b"abc"])},
        'm.h5: layer "a/b", blob 0: the numbers are of type |S3, expected floats\n'
        "  fix: store them as float32",
    ),
}


@pytest.mark.parametrize("case", HDF5_MISTAKES)
def test_hdf5_mistakes(case: str, write: Write) -> None:
    datasets, message = HDF5_MISTAKES[case]
    net = write(NET)
    with pytest.raises(ConversionError) as caught:
        load(net, save_hdf5(**datasets))
    assert str(caught.value) == message


def test_hdf5_without_layers(write: Write) -> None:
    net = write(NET)
    with pytest.importorskip("h5py").File("m.h5", "w") as file:
        file.create_group("data")
    with pytest.raises(ConversionError) as caught:
        load(net, "m.h5")
    assert str(caught.value) == (
        "m.h5: the file holds no layers, expected weights\n"
        "  fix: give the .caffemodel.h5 that Caffe saved for this net"
    )


def test_hdf5_cut_short(write: Write) -> None:
    net = write(NET)
    whole = Path(save_hdf5(**{"data/a/b/0": np.zeros(10000, np.float32)})).read_bytes()
    with pytest.raises(ConversionError, match=r"^m\.h5: the HDF5 file is damaged: "):
        load(net, write(whole[: len(whole) // 2], "m.h5"))


def test_hdf5_without_h5py(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    net = write(NET)
    file = save_hdf5(**{"data/a/b/0": NUMBERS})
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ConversionError) as caught:
        load(net, file)
    assert str(caught.value) == (
        f"m.h5: this is an HDF5 file, and h5py is not installed\n  fix: {pip_install('hdf5')}"
    )


NPZ_MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "key": (
        {"weights": NUMBERS},
        'm.npz: the key is "weights", expected LAYER/INDEX\n'
        '  fix: save each blob under its layer and its index, as in np.savez(file, **{"conv1/0": weights})',
    ),
    "objects": (
        {"a/b/0": np.array([None])},
        'm.npz: layer "a/b", blob 0: the numbers are of type object, expected floats\n'
        "  fix: store them as float32",
    ),
    "empty": (
        {},
        "m.npz: the file holds no arrays, expected weights\n"
        '  fix: save blobs in it, as in np.savez(file, **{"conv1/0": weights})',
    ),
}


@pytest.mark.parametrize("case", NPZ_MISTAKES)
def test_npz_mistakes(case: str, write: Write) -> None:
    arrays, message = NPZ_MISTAKES[case]
    net = write(NET)
    with pytest.raises(ConversionError) as caught:
        load(net, save_npz(**arrays))
    assert str(caught.value) == message


def test_npz_cut_short(write: Write) -> None:
    net = write(NET)
    whole = Path(save_npz(**{"a/b/0": NUMBERS})).read_bytes()
    with pytest.raises(ConversionError, match=r"^m\.npz: the npz file is damaged: "):
        load(net, write(whole[:-30], "m.npz"))


def test_drawn_weights_depend_on_seed_layer_and_index_alone() -> None:
    weights = RandomWeights(seed=3)
    array = weights.draw("conv1", 0, (64, 25), "weight")
    assert array.dtype == np.float32
    np.testing.assert_array_equal(array, RandomWeights(seed=3).draw("conv1", 0, (64, 25), "weight"))
    others = [
        RandomWeights(seed=4).draw("conv1", 0, (64, 25)),
        weights.draw("conv2", 0, (64, 25)),
        weights.draw("conv1", 1, (64, 25)),
    ]
    assert all(not np.array_equal(array, other) for other in others)
    assert array.std() == pytest.approx(1 / 5, rel=0.1)
    assert weights.draw("bn", 1, (1000,), "variance").min() > 0


def test_drawn_weights_have_a_limit() -> None:
    with pytest.raises(WeightsError) as caught:
        RandomWeights().draw("fc", 0, (1 << 20, 1 << 20))
    assert str(caught.value) == (
        'layer "fc", blob 0: a blob of shape (1048576, 1048576) has 1099511627776 elements, '
        "expected at most 2147483647\n  fix: use smaller layers or inputs"
    )


def test_weights_and_random_weights(write: Write) -> None:
    with pytest.raises(OptionsError) as caught:
        load(write(NET), "m.h5", random_weights=1)
    assert str(caught.value) == (
        "weights and random_weights are given, expected one of them\n  fix: leave one of them out"
    )


def test_random_weights_are_asked_for(write: Write) -> None:
    model = load(write(NET), random_weights=7)
    assert isinstance(model.weights, RandomWeights)
    assert model.weights.seed == 7
    assert model.layers[0].blobs is None
    assert model.warnings == ()


def test_packed_weights_that_no_memory_holds(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prototrt.caffe_proto.common.memory.usual_limit", lambda: 10**6)
    net, zeros = write(NET), np.zeros((1000, 300), np.float32)
    np.savez_compressed("m.npz", **{"a/b/0": zeros})  # type: ignore[arg-type]
    packed = {"data": zeros, "compression": "gzip"}
    for file in ("m.npz", save_hdf5(**{"data/a/b/0": packed})):
        with pytest.raises(ConversionError) as caught:
            load(net, file)
        assert str(caught.value) == (
            f"{file}: holding its weights takes 1.2 MB, expected at most 1.0 MB\n"
            "  because that is 80 % of the memory of this machine\n"
            "  fix: use smaller sizes, or a machine with more memory"
        )
    assert load(net, save_npz(**{"a/b/0": zeros})).layers[0].blobs
