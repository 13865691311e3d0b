"""No command overwrites a file that it reads, also below a folder or named by a list."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt.tests.command_line import done, run
from prototrt.tests.converter.front.batch.support import NET

IMAGES = """layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 4 } } }
layer { name: "fc" type: "InnerProduct" bottom: "x" top: "fc" inner_product_param { num_output: 4 } }
"""
NET_OF = ("net.prototxt", "--random-weights", "1", "-q")
DATA = ("--inputs", "data")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("net.prototxt").write_text(NET)
    Path("data/deep").mkdir(parents=True)
    for file in ("data/a.npz", "data/deep/b.npz", "data/.hidden.npz"):
        np.savez(file, x=np.zeros((2, 3), np.float32))
    Path("load.py").write_text("def load_data():\n    yield {}\n")
    return tmp_path


def refused(*arguments: str, option: str, file: str) -> None:
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert f'Error: {option} would overwrite "{file}", which is read\n' in result.stderr
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("file", ["data/a.npz", "data/deep/b.npz"])
def test_an_input_in_a_folder(file: str) -> None:
    refused("run", *NET_OF, *DATA, "-o", file, option="-o", file=file)


def test_an_input_under_another_name() -> None:
    Path("elsewhere.npz").symlink_to("data/a.npz")
    refused("run", *NET_OF, *DATA, "-o", "elsewhere.npz", option="-o", file="data/a.npz")


def test_an_image_that_boxes_are_drawn_on() -> None:
    image = pytest.importorskip("PIL.Image")
    Path("net.prototxt").write_text(IMAGES)
    Path("images").mkdir()
    image.new("RGB", (4, 4)).save("images/a.png")
    arguments = ("run", *NET_OF, "--inputs", "images", "-o", "out.npz", "--draw", "images/a.png")
    refused(*arguments, option="--draw", file="images/a.png")


@pytest.mark.parametrize("option", ["-o", "--export-cache"])
def test_data_of_a_calibration(option: str) -> None:
    link = Path("scales.json")
    link.symlink_to("data/a.npz")
    refused("calibrate", *NET_OF, *DATA, option, str(link), option=option, file="data/a.npz")


@pytest.mark.parametrize("loader", ["load.py", "load.py:load_data"])
def test_a_function_that_loads_data(loader: str) -> None:
    arguments = ("calibrate", *NET_OF, "--data-loader", loader, "--export-cache", "load.py")
    refused(*arguments, option="--export-cache", file="load.py")


def test_a_net_of_a_survey() -> None:
    Path("nets").mkdir()
    Path("nets/net.prototxt").write_text(NET)
    Path("report.json").symlink_to("nets/net.prototxt")
    refused("survey", "nets", "-o", "report.json", option="-o", file="nets/net.prototxt")


def test_inputs_that_a_list_names() -> None:
    Path("models.yaml").write_text(
        "models:\n- {prototxt: net.prototxt, format: onnx, random-weights: 1, inputs: data}\n"
    )
    arguments = ("batch", "models.yaml", "-o", "out", "--report-json", "data/deep/b.npz")
    refused(*arguments, option="--report-json", file="data/deep/b.npz")
    with pytest.raises(prototrt.ConversionError, match=r'report_json would overwrite "data/deep/b\.npz"'):
        prototrt.convert_batch("models.yaml", folder="out", report_json="data/deep/b.npz")


def test_new_files_and_files_that_nobody_reads_are_written() -> None:
    done("run", *NET_OF, *DATA, "-o", "data/.hidden.npz")
    for _ in range(2):
        done("calibrate", *NET_OF, *DATA, "-o", "data/scales.json")
        done("run", *NET_OF, "--inputs", "data/deep", "-o", "data/out.npz")
        Path("data/out.npz").rename("data/deep/.out.npz")
