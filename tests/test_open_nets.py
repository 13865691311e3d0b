"""One build for all sizes: nets of the usual kinds, at five sizes each, and the numbers of Caffe in larger calls."""

from __future__ import annotations

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.surgery.ir import Array
from prototrt.tests.digit_strips import DIGITS
from prototrt.tests.golden_cases import case_called
from prototrt.tests.open_nets import OPEN_NETS
from prototrt.tests.small_nets import WAYS, has_engine


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("name", OPEN_NETS)
def test_five_sizes(name: str, on: Way) -> None:
    """Each call computes what the net for its sizes alone computes."""
    net = OPEN_NETS[name]
    session = prototrt.Session(net.graph, on=on)
    for (feeds, wanted), sizes in zip(net.answers, net.calls, strict=True):
        session.reset()
        results = session.run(feeds)
        for blob in net.outputs:
            np.testing.assert_allclose(results[blob], wanted[blob], 1e-4, 1e-5, err_msg=f"{blob} {sizes}")


@pytest.mark.trt
@pytest.mark.slow
@pytest.mark.parametrize("name", OPEN_NETS)
def test_it_builds(name: str) -> None:
    assert has_engine(OPEN_NETS[name].graph)


@pytest.mark.parametrize("on", WAYS)
@pytest.mark.parametrize("name", ["net_crnn", "net_fcn"])
def test_images_of_a_larger_batch(name: str, on: Way) -> None:
    """Caffe's numbers for its images, wherever they stand among others."""
    case, net = case_called(name), OPEN_NETS[name.removeprefix("net_").upper()]
    (data,), wanted = case.arrays("inputs")[0].values(), case.arrays("outputs")[0]["prob"]
    session = prototrt.Session(net.graph, on=on)
    items = 1 if name == "net_crnn" else 0  # the axis of N in the output
    for places in ([0], [1, 0], [0, 1, 1], [1, 1, 0, 0]):
        chosen = [place % len(data) for place in places]
        np.testing.assert_allclose(
            session.run({"data": data[chosen]})["prob"], wanted.take(chosen, items), *case.tolerance("prob")
        )


@pytest.mark.parametrize("on", WAYS)
def test_strips_of_digits(on: Way) -> None:
    """Caffe's numbers for four strips: side by side, one after the other in one call, and cut into calls."""
    known = np.load(DIGITS / "expected.npz")
    data, wanted = known["data"][:4], known["prob"][:4, :, 0]
    session = prototrt.Session(OPEN_NETS["digits"].graph, on=on)

    def read(windows: Array, beginnings: list[int]) -> Array:
        """``windows`` (T, N, 1, 32, 16); a strip begins at these steps."""
        cont = np.ones(windows.shape[:2], np.float32)
        cont[beginnings] = 0
        return session.run({"data": windows.reshape(-1, 1, 32, 16), "cont": cont})["prob"]

    def expect(found: Array, strips: Array) -> None:
        np.testing.assert_allclose(found, strips, 1e-3, 1e-5)

    expect(read(data.swapaxes(0, 1), [0]), wanted.swapaxes(0, 1))
    session.reset()
    expect(read(np.concatenate(data[:2])[:, None], [0, 40])[:, 0], np.concatenate(wanted[:2]))
    session.reset()
    parts = [read(data[2, first:last, None], []) for first, last in ((0, 15), (15, 16), (16, 40))]
    expect(np.concatenate(parts)[:, 0], wanted[2])


@pytest.mark.parametrize("on", WAYS)
def test_an_image_within_a_larger_one(on: Way) -> None:
    """A Convolution without padding: Caffe's numbers for a small image are a part of those for a large one."""
    case = case_called("conv_plain")
    data, wanted = case.arrays("inputs")[0]["data"], case.arrays("outputs")[0]["out"]
    graph = prototrt.rewrite(
        case.load(),
        shapes={"data": ("N", data.shape[1], "H", "W")},
        sizes={"N": (1, 2, 8), "H": (3, 6, 20), "W": (3, 5, 20)},
    )
    session = prototrt.Session(graph, on=on)
    for items, height, width, row, column in ((2, 6, 5, 0, 0), (5, 6, 20, 0, 15), (3, 19, 9, 13, 2)):
        large = np.ones((items, data.shape[1], height, width), np.float32)
        large[-2:, :, row : row + data.shape[2], column : column + data.shape[3]] = data
        found = session.run({"data": large})["out"]
        part = found[-2:, :, row : row + wanted.shape[2], column : column + wanted.shape[3]]
        np.testing.assert_allclose(part, wanted, *case.tolerance("out"))
