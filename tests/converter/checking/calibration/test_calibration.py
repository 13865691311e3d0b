"""From a model and data to scales, and from two files of scales to one."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.converter.checking.calibration.calibration import Calibration, adopt, calibrate, merge
from prototrt.converter.checking.calibration.exporting import table_text
from prototrt.converter.options import CalibrateOptions
from prototrt.surgery.options import RewriteOptions
from prototrt.surgery.scales.scales_file import Counts, DataSet, Scales, ValueScale
from prototrt.surgery.scales.tables import read_table
from prototrt.tests.command_line import DEPLOY, DIGITS, STREAM, WEIGHTS
from prototrt.tests.small_nets import failure, inputs_of, loaded, op, stored

PRODUCT = op("InnerProduct", "inner_product_param { num_output: 2 bias_term: false }")
NET = (
    inputs_of({"x": (1, 3)})
    + op("Power", "power_param { scale: 2 }", tops=["z"])
    + (
        'layer { name: "fc" type: "InnerProduct" bottom: "z" top: "y"'
        " inner_product_param { num_output: 2 bias_term: false } }"
    )
)
ONES = {"fc/0": np.ones((2, 3), np.float32)}


def model(folder: Path) -> prototrt.Model:
    return loaded(folder, NET, ONES)


def on(folder: Path, *rows: Any, **options: Any) -> Calibration:
    path = folder / "data.npz"
    np.savez(path, x=np.array(rows, np.float32))
    return calibrate(model(folder), CalibrateOptions(inputs=str(path), **options))


def test_what_products_read_gets_a_scale(tmp_path: Path) -> None:
    found = on(tmp_path, [1, 2, 3], [-5, 0, 0], method="max")
    (record,) = found.scales.records.values()
    assert [*found.scales.records] == ["z"]
    assert (record.scale, record.largest, record.clipped) == (10 / 127, 10, 0)
    assert record.histogram is not None
    assert sum(record.histogram.counts) == 6
    assert found.scales.method == "max"
    assert [each.samples for each in found.scales.data] == [2]
    assert found.scales.sources["weights"]["sha256"] == model(tmp_path).weights.sha256
    assert found.warnings == ()


@pytest.mark.parametrize("name", ["deploy.prototxt", "deploy_stream.prototxt"])
def test_the_sample_has_scales_for_all_that_can_be_quantized(name: str) -> None:
    net, data = (DEPLOY, "strips_in.npz") if name == "deploy.prototxt" else (STREAM, "stream_in.npz")
    found = calibrate(prototrt.load(net, WEIGHTS), CalibrateOptions(inputs=str(DIGITS / data)))
    assert {"data", "pool1", "pool2", "ip1"} <= {*found.scales.records} | {"ip1", "data"}
    assert all(record.scale > 0 for record in found.scales.records.values())


def test_with_every_blob_there_are_those_that_are_folded_away() -> None:
    options = CalibrateOptions(inputs=str(DIGITS / "strips_in.npz"))
    few = calibrate(prototrt.load(DEPLOY, WEIGHTS), options).scales.records
    all_blobs = calibrate(prototrt.load(DEPLOY, WEIGHTS), options, every_blob=True).scales.records
    assert {"conv1@conv1", "conv1@bn1", "prob"} <= {*all_blobs} - {*few}
    for name, record in few.items():
        assert all_blobs[name].scale == pytest.approx(record.scale, rel=1e-3), name


def test_the_form_of_a_recurrence_changes_no_scale() -> None:
    net = prototrt.load(DEPLOY, WEIGHTS)
    options = CalibrateOptions(inputs=str(DIGITS / "strips_in.npz"), method="max")
    forms = RewriteOptions(sequence="auto"), RewriteOptions(sequence="unroll", precision="fp16")
    found = [calibrate(net, replace(options, rewriting=rewriting)).scales.records for rewriting in forms]
    assert found[0] == found[1]


def test_one_call_is_hardly_enough(tmp_path: Path) -> None:
    assert on(tmp_path, [1, 2, 3]).warnings == (
        "the data are one call of the net: give more data, so that the ranges fit other data, too",
    )


def test_zeros_have_no_scale(tmp_path: Path) -> None:
    found = on(tmp_path, [0, 0, 0], [0, 0, 0])
    assert found.scales.records["z"].scale == 0
    assert found.warnings == ("always 0, and therefore not quantized: z",)


def test_data_that_the_range_clips(tmp_path: Path) -> None:
    found = on(tmp_path, *np.arange(300).reshape(100, 3), method="percentile:90")
    assert found.scales.records["z"].clipped == pytest.approx(0.1, abs=0.01)
    assert found.warnings == ("more than 1% of the numbers are beyond the range: z (10%)",)


def test_without_data(tmp_path: Path) -> None:
    net = model(tmp_path)
    fix = '  fix: give inputs="FILE" or data_loader="FILE.py"'
    assert failure(lambda: calibrate(net, CalibrateOptions())) == f"there are no inputs\n{fix}"
    both = CalibrateOptions(inputs="a.npz", data_loader="b.py")
    assert failure(lambda: calibrate(net, both)) == f"there are two sources of inputs\n{fix}"


def test_a_net_without_products(tmp_path: Path) -> None:
    net = loaded(tmp_path, inputs_of({"x": (1, 3)}) + op("AbsVal"))
    assert failure(lambda: calibrate(net, CalibrateOptions(inputs="a.npz"))) == (
        "net.prototxt: there is nothing to calibrate\n  because no product of the net is quantized"
    )


def write(folder: Path, name: str, scales: Scales) -> str:
    path = folder / name
    path.write_text(scales.text())
    return str(path)


METHODS = ("max", "percentile:90", "mse", "entropy")


@pytest.mark.parametrize("method", METHODS)
def test_merging_is_calibrating_on_all_data(method: str, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(40, 3)) * np.geomspace(0.01, 10, 40).reshape(-1, 1)
    parts = [on(tmp_path, *part, method=method).scales for part in (rows[:30], rows[30:])]
    files = [write(tmp_path, f"{number}.json", part) for number, part in enumerate(parts)]
    whole = on(tmp_path, *rows, method=method).scales
    found = merge(files).scales
    assert found.records == whole.records
    assert found.data == (*parts[0].data, *parts[1].data)
    assert merge(files[::-1]).scales.records == whole.records
    assert merge(files, "max").scales.records == on(tmp_path, *rows, method="max").scales.records


def test_merging_keeps_what_either_keeps(tmp_path: Path) -> None:
    kept: list[dict[str, tuple[str, ...]]] = [{"int8": ("fc",)}, {"int8": ("a", "fc"), "fp8": ("a",)}]
    files = [write(tmp_path, f"{place}.json", replace(FILE, kept=each)) for place, each in enumerate(kept)]
    assert merge(files).scales.kept == {"int8": ("fc", "a"), "fp8": ("a",)}


RECORD = ValueScale(1.0, 127.0, 0.0, Counts(0.0625, (0,) * 2032 + (3,)))
FILE = Scales({"z": RECORD}, "net", "max", {"weights": {"sha256": "a"}}, (DataSet(3, "data"),))
SAME_MODEL = "fix: calibrate the same model with both"
BAD_MERGES = {
    "other weights": (
        replace(FILE, sources={"weights": {"sha256": "b"}}),
        f"{{b}}: was not made with the weights of {{a}}\n  {SAME_MODEL}",
    ),
    "other blobs": (
        replace(FILE, records=dict.fromkeys("zabcdefghijkl", RECORD)),
        f"{{b}}: has other blobs than {{a}}: a, b, c, d, e, f, g, h, i, j and 2 more\n  {SAME_MODEL}",
    ),
    "another method": (
        replace(FILE, method="mse"),
        '{b}: was made by the method mse, but {a} by max\n  fix: choose one with method="max"',
    ),
    "no histogram": (
        replace(FILE, records={"z": ValueScale(1.0)}),
        '{b}: "z" has no histogram\n  fix: calibrate again',
    ),
}


CONTRADICTION = (
    '{b}: "z": the histogram is damaged\n'
    "  because the counts, the width of a bin and the largest magnitude contradict each other\n"
    "  fix: calibrate again"
)
ODD_COUNTS = {
    "none": (127.0, 0.0625, ()),
    "too few": (127.0, 0.0625, (1, 2)),
    "too many": (127.0, 0.0625, (0,) * 9000 + (3,)),
    "none in the last bin": (127.0, 0.0625, (3,) + (0,) * 2032),
    "more than there can be": (127.0, 0.0625, (0,) * 2032 + (10**30,)),
    "bins that end too early": (127.0, 2.0**-1000, (3,)),
    "no largest magnitude": (0.0, 0.0625, (0, 3)),
}
BAD_MERGES |= {
    f"counts: {name}": (
        replace(FILE, records={"z": ValueScale(1.0, largest, 0.0, Counts(width, counts))}),
        CONTRADICTION,
    )
    for name, (largest, width, counts) in ODD_COUNTS.items()
}


def test_bins_of_any_width_are_merged(tmp_path: Path) -> None:
    wide = replace(RECORD, histogram=Counts(2.0**100, (3,)))
    files = [write(tmp_path, "a", FILE), write(tmp_path, "b", replace(FILE, records={"z": wide}))]
    for order in (files, files[::-1]):
        assert merge(order, "max").scales.records["z"].histogram == Counts(2.0**100, (6,))


@pytest.mark.parametrize("case", BAD_MERGES)
def test_files_that_cannot_be_merged(case: str, tmp_path: Path) -> None:
    other, expected = BAD_MERGES[case]
    files = [write(tmp_path, "a", FILE), write(tmp_path, "b", other)]
    expected = expected.replace("{a}", files[0]).replace("{b}", files[1])
    assert failure(lambda: merge(files)) == expected


def test_scales_need_no_file(tmp_path: Path) -> None:
    found = on(tmp_path, [1, 2, 3], [-5, 0, 0], method="max")
    found.save(tmp_path / "scales.json")
    net = model(tmp_path)
    graphs = [
        prototrt.rewrite(net, precision="int8", quantize_all=True, scales=scales)
        for scales in (found, str(tmp_path / "scales.json"))
    ]
    assert graphs[0].text() == graphs[1].text()
    page = prototrt.draw(net, tmp_path / "net.html", options=RewriteOptions(precision="int8", scales=found))
    assert (tmp_path / "net.html").exists(), page


def test_scales_of_another_net_need_no_file_either(tmp_path: Path) -> None:
    found = on(tmp_path, [1, 2, 3], method="max")
    net = loaded(tmp_path, NET.replace('"z"', '"other"'), ONES)
    assert failure(lambda: prototrt.rewrite(net, precision="int8", scales=found)) == (
        "the calibration: has no scale for this net\n"
        "  because it names z, but the blobs are x, other, y\n"
        "  fix: calibrate it"
    )


def test_a_stated_method_settles_a_difference(tmp_path: Path) -> None:
    files = [write(tmp_path, "a", FILE), write(tmp_path, "b", replace(FILE, method="mse"))]
    assert merge(files, "percentile:99").scales.method == "percentile:99"


def test_data_that_are_counted_twice(tmp_path: Path) -> None:
    files = [write(tmp_path, "a", FILE), write(tmp_path, "b", FILE)]
    assert merge(files).warnings == ("some of the data are in more than one file",)


def test_a_table_becomes_a_file_of_scales(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.write_text("TRT-8601-EntropyCalibration2\nz: 40000000\ny: 3f800000\ngone: 3f800000\n")
    found = adopt(model(tmp_path), None, str(cache))
    assert {name: record.scale for name, record in found.scales.records.items()} == {"z": 2, "y": 1}
    assert found.scales.method == "table"
    assert found.warnings == (f"{cache}: not used, because the net has no such blob: gone",)


def test_blobs_that_a_table_lacks_are_named(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.write_text("TRT-8601-EntropyCalibration2\ny: 3f800000\n")
    assert adopt(model(tmp_path), None, str(cache)).warnings == (
        f"{cache}: no scale, and therefore not quantized: z",
    )
    assert adopt(model(tmp_path), None, str(cache)).lacking == ("z",)


@pytest.mark.parametrize("target", ["net.cache", "net.json"])
def test_an_exported_table_gives_the_same_scales_back(target: str, tmp_path: Path) -> None:
    net = prototrt.load(DEPLOY, WEIGHTS)
    found = calibrate(net, CalibrateOptions(inputs=str(DIGITS / "strips_in.npz")), every_blob=True)
    scales = {name: record.scale for name, record in found.scales.records.items()}
    path = tmp_path / target
    path.write_text(table_text(net, scales, target))
    back = adopt(net, None, str(path)).scales.records
    blobs = {name: scale for name, scale in scales.items() if not name.startswith("__")}
    assert {name: record.scale for name, record in back.items()} == pytest.approx(blobs, rel=1e-7)


CONVOLUTION = inputs_of({"x": (1, 2, 3, 3)}) + op(
    "Convolution", "convolution_param { num_output: 4 kernel_size: 1 bias_term: false %s }"
)


@pytest.mark.parametrize(
    ("net", "weights", "factors"),
    [
        (CONVOLUTION % "", [[1, 2], [3, 4], [5, 6], [7, -8]], [2, 4, 6, 8]),
        (CONVOLUTION % "group: 2", [[1], [3], [5], [-7]], [3, 7]),
        (inputs_of({"x": (1, 2)}) + PRODUCT, [[1, -2], [3, 4]], [2, 4]),
        (
            inputs_of({"x": (1, 2)}) + PRODUCT.replace("bias_term", "transpose: true bias_term"),
            [[1, -2], [3, 4]],
            [3, 4],
        ),
    ],
    ids=["convolution", "groups", "inner product", "transposed"],
)
def test_a_table_of_ncnn_has_the_weights_of_layers(
    net: str, weights: list[list[float]], factors: list[float], tmp_path: Path
) -> None:
    array = np.array(weights, np.float32)
    kernel = array.reshape(*array.shape, 1, 1) if "Convolution" in net else array
    text = table_text(loaded(tmp_path, net, stored("op", [kernel])), {"x": 0.5}, "net.table")
    first, second = text.splitlines()
    name, *numbers = first.split()
    assert name == "op_param_0"
    assert [127 / float(number) for number in numbers] == pytest.approx(factors)
    assert second == "op 2"
    (tmp_path / "net.table").write_text(text)
    assert [entry.scale for entry in read_table(str(tmp_path / "net.table"))] == [0.5]


def test_a_table_for_ncnn_of_one_axis_and_of_weights_of_another_net(tmp_path: Path) -> None:
    net = inputs_of({"x": (1, 2, 9)}) + op(
        "Convolution", "convolution_param { num_output: 3 kernel_size: 2 axis: 1 }"
    )
    kernel = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    text = table_text(loaded(tmp_path, net, stored("op", [kernel, kernel[:, 0, 0]])), {"x": 0.5}, "net.table")
    assert text.splitlines()[0] == "op_param_0 " + " ".join(f"{127 / most:.9g}" for most in (3, 7, 11))
    for shape in ((), (7,), (0, 2)):
        odd = loaded(tmp_path, net, stored("op", [np.zeros(shape)]))
        assert failure(partial(table_text, odd, {"x": 0.5}, "net.table")) == (
            f'net.prototxt:2: layer "op" (Convolution): the blob has the shape {shape}, which 3 channels or groups do'
            " not share\n  fix: give the weights that were saved with this net"
        )


def test_scales_of_nothing_that_a_table_names(tmp_path: Path) -> None:
    net = model(tmp_path)
    assert failure(lambda: table_text(net, {"__inside": 1.0}, "net.cache")) == (
        "net.prototxt: no blob of the net has a scale\n  fix: calibrate with data"
    )
