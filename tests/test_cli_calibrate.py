"""``prototrt calibrate``: scales from data, from tables of other programs, and to them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from prototrt.surgery.scales.scales_file import Scales, ValueScale, read_scales
from prototrt.tests.command_line import DEPLOY, DIGITS, WEIGHTS, done, run
from prototrt.tests.npz import write_npz

STRIPS = str(DIGITS / "strips_in.npz")
IMAGE_NET = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 2 dim: 2 } } }
layer { name: "c" type: "Convolution" bottom: "data" top: "c" convolution_param { num_output: 1 kernel_size: 1 } }
"""


@pytest.fixture
def net(tmp_path: Path) -> str:
    """A net of images, without weights."""
    path = tmp_path / "net.prototxt"
    path.write_text(IMAGE_NET)
    return str(path)


def test_calibrate_writes_scales(tmp_path: Path) -> None:
    target = str(tmp_path / "scales.json")
    result = done("calibrate", DEPLOY, WEIGHTS, "--inputs", STRIPS, "-o", target, "--method", "max")
    scales = read_scales(target)
    assert result.stdout == f"{target}: scales of {len(scales.records)} blobs from 2 calls, max\n" + (
        f"next     prototrt convert {DEPLOY} {WEIGHTS} --precision int8 --scales {target} -o deploy.plan\n"
    )
    assert result.stderr == ""
    assert scales.records["pool2"].largest == pytest.approx(11.689406)


def test_calibrate_tells_programs(tmp_path: Path) -> None:
    target = str(tmp_path / "scales.json")
    result = done("calibrate", DEPLOY, WEIGHTS, "--inputs", STRIPS, "-o", target, "--json")
    facts = json.loads(result.stdout)
    assert {key: facts[key] for key in facts if key != "scales"} == {
        "format": 1,
        "files": [target],
        "method": "percentile:99.99",
        "calls": 2,
        "unused": [],
        "lacking": [],
        "warnings": [],
    }
    assert facts["scales"] == {name: record.scale for name, record in read_scales(target).records.items()}


def test_the_next_command_is_printed(net: str, tmp_path: Path) -> None:
    target = str(tmp_path / "scales.json")
    np.savez(tmp_path / "in.npz", data=np.ones((1, 3, 2, 2), np.float32))
    result = done(
        "calibrate",
        net,
        "--random-weights",
        "0",
        "--inputs",
        str(tmp_path / "in.npz"),
        "-o",
        target,
        "--preprocess",
    )
    assert result.stdout.splitlines()[-1] == (
        f"next     prototrt convert {net} --random-weights 0 --preprocess"
        f" --precision int8 --scales {target} -o net.plan"
    )


def test_a_cache_goes_from_tensorrt_to_scales_and_back(tmp_path: Path) -> None:
    cache, target, again = (str(tmp_path / name) for name in ("a.cache", "scales.json", "b.cache"))
    done("calibrate", DEPLOY, WEIGHTS, "--inputs", STRIPS, "--export-cache", cache)
    done("calibrate", DEPLOY, WEIGHTS, "--calibration-cache", cache, "-o", target)
    result = done("calibrate", DEPLOY, WEIGHTS, "--scales", target, "--export-cache", again)
    assert Path(again).read_text() == Path(cache).read_text()
    assert Path(cache).read_text().startswith("TRT-8601-EntropyCalibration2\ndata: 3b")
    assert result.stdout == f"{again}: scales of 19 blobs\n"


def test_images_are_prepared_by_options(net: str, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    Image.new("RGB", (5, 3), (10, 20, 30)).save(tmp_path / "images" / "a.png")
    target = str(tmp_path / "scales.json")
    options = ["--mean", "1,2,3", "--scale", "0.5", "--channels", "rgb", "--resize", "4x4", "--method", "max"]
    model = [net, "--random-weights", "0"]
    result = done("calibrate", *model, "--inputs", str(tmp_path / "images"), "-o", target, *options)
    assert read_scales(target).records["data"].largest == 13.5
    assert result.stderr == (
        "warning: the data are one call of the net: give more data, so that the ranges fit other data, too\n"
    )


def test_a_python_function_gives_data(net: str, tmp_path: Path) -> None:
    load = tmp_path / "load.py"
    load.write_text("import numpy as np\ndef batches():\n  yield {'data': np.full((1, 3, 2, 2), 7)}\n")
    target = str(tmp_path / "scales.json")
    done("calibrate", net, "--random-weights", "0", "--data-loader", f"{load}:batches", "-o", target)
    assert read_scales(target).records["data"].largest == 7


def test_files_of_scales_are_merged(tmp_path: Path) -> None:
    arrays = dict(np.load(STRIPS))
    files = []
    for number in range(2):
        data = str(tmp_path / f"{number}.npz")
        write_npz(data, {"data": arrays[f"data/{number}"], "cont": arrays["cont"]})
        files.append(str(tmp_path / f"{number}.json"))
        done("-q", "calibrate", DEPLOY, WEIGHTS, "--inputs", data, "-o", files[-1])
    both, merged = str(tmp_path / "both.json"), str(tmp_path / "merged.json")
    done("calibrate", "--merge", *files, "-o", merged)
    done("calibrate", DEPLOY, WEIGHTS, "--inputs", STRIPS, "-o", both)
    assert read_scales(merged).records == read_scales(both).records
    done("calibrate", "--merge", *files, "-o", merged, "--method", "max")
    assert read_scales(merged).method == "max"


SOURCES = "give one of --inputs, --data-loader, --scales, --calibration-cache, --merge"
BAD_LINES = {
    "no source": (["-o", "{out}"], f"there are no data: {SOURCES}"),
    "two sources": (
        ["-o", "{out}", "--inputs", STRIPS, "--merge"],
        f"--inputs and --merge are different sources: {SOURCES}",
    ),
    "no target": (["--inputs", STRIPS], "give -o FILE.json, --export-cache FILE, or both"),
    "a merged cache": (
        ["--merge", "--export-cache", "{out}"],
        "--merge writes -o FILE.json alone: export that with --scales",
    ),
    "an unknown method": (
        ["-o", "{out}", "--inputs", STRIPS, "--method", "kl"],
        "--method is 'kl', expected max, percentile:99.99, mse or entropy\n  fix: use --method percentile:99.99",
    ),
    "means that are words": (
        ["-o", "{out}", "--inputs", STRIPS, "--mean", "a,b"],
        "Invalid value for '--mean': \"a,b\" is not numbers with commas between them, as in 104,117,123",
    ),
    "a size of nothing": (
        ["-o", "{out}", "--inputs", STRIPS, "--resize", "0x5"],
        "Invalid value for '--resize': \"0x5\" is not a size: write the shorter side, as in 256, or HEIGHTxWIDTH",
    ),
}


@pytest.mark.parametrize("case", BAD_LINES)
def test_bad_command_lines(case: str, tmp_path: Path) -> None:
    arguments, expected = BAD_LINES[case]
    out = tmp_path / "out"
    result = run("calibrate", DEPLOY, WEIGHTS, *(word.replace("{out}", str(out)) for word in arguments))
    assert result.exit_code == 2
    assert result.stderr.partition("Error: ")[2].strip() == expected
    assert not out.exists()


def test_merging_needs_two_files(tmp_path: Path) -> None:
    result = run("calibrate", "--merge", DEPLOY, "-o", str(tmp_path / "out"))
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (
        2,
        "Error: --merge needs two files of scales",
    )


def test_an_empty_folder(net: str, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    out = tmp_path / "out.json"
    result = run("calibrate", DEPLOY, WEIGHTS, "--inputs", str(tmp_path / "images"), "-o", str(out))
    assert result.exit_code == 3
    assert result.stderr.startswith(f"error: {tmp_path}/images: holds no arrays and no images\n")
    assert not out.exists()


def test_scales_of_another_model(tmp_path: Path) -> None:
    file, out = tmp_path / "scales.json", tmp_path / "out"
    file.write_text(Scales({"data": ValueScale(1.0)}, sources={"weights": {"sha256": "0" * 64}}).text())
    result = run("calibrate", DEPLOY, WEIGHTS, "--scales", str(file), "--export-cache", str(out))
    assert result.exit_code == 3
    assert result.stderr.startswith(f"error: {file}: is for another model\n")
    assert not out.exists()


def test_ctrl_c_writes_nothing(net: str, tmp_path: Path) -> None:
    load, out = tmp_path / "load.py", tmp_path / "out.json"
    load.write_text("def load_data():\n  raise KeyboardInterrupt\n")
    arguments = ["--random-weights", "0", "--data-loader", str(load), "-o", str(out)]
    result = run("calibrate", net, *arguments)
    assert (result.exit_code, result.stderr) == (130, "stopped\n")
    assert not out.exists()


def test_no_file_is_read_and_written(tmp_path: Path) -> None:
    file = tmp_path / "scales.json"
    file.write_text(Scales({"data": ValueScale(1.0)}).text())
    result = run("calibrate", DEPLOY, WEIGHTS, "--scales", str(file), "-o", str(file))
    assert result.exit_code == 2
    assert f'-o would overwrite "{file}", which is read' in result.stderr
