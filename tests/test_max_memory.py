"""Nets of a few lines that state any size: refused before the memory is taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.common.errors import NetError, OptionsError
from prototrt.surgery.options import RewriteOptions
from prototrt.tests.command_line import run
from prototrt.tests.memory import little_memory

DUMMY = """layer { name: "d" type: "DummyData" top: "x"
  dummy_data_param { shape { dim: 1 dim: 100000000 } data_filler { value: 2 } } }
"""
POWER = 'layer { name: "p" type: "Power" bottom: "x" top: "y" power_param { power: 2 shift: 1 } }\n'
INDICATOR = """layer { name: "d" type: "ContinuationIndicator" top: "x"
  continuation_indicator_param { time_step: 10000 batch_size: 10000 } }
"""
INPUT = 'layer { name: "i" type: "Input" top: "x" input_param { shape { dim: 1 dim: 100000 } } }\n'
PRODUCT = """layer { name: "fc" type: "InnerProduct" bottom: "x" top: "y"
  inner_product_param { num_output: 1000 bias_term: false } }
"""

GREEDY = {
    "DummyData": (
        DUMMY,
        'net.prototxt:1: layer "d" (DummyData), top "x": converting the net takes 1.2 GB, expected at most 1.0 GB',
        "2GB",
    ),
    "DummyData with Power": (
        DUMMY.replace("100000000", "50000000") + POWER,
        'net.prototxt:3: layer "p" (Power), top "y": converting the net takes 1.2 GB, expected at most 1.0 GB',
        "2GB",
    ),
    "ContinuationIndicator": (
        INDICATOR,
        'net.prototxt:1: layer "d" (ContinuationIndicator), top "x": converting the net takes 1.2 GB,'
        " expected at most 1.0 GB",
        "2GB",
    ),
    "random weights": (
        INPUT + PRODUCT,
        'net.prototxt:2: layer "fc" (InnerProduct), blob 0: converting the net takes 1.2 GB, expected at most 1.0 GB',
        "2GB",
    ),
}


@pytest.mark.parametrize("case", GREEDY)
def test_greedy_nets(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net, problem, enough = GREEDY[case]
    monkeypatch.chdir(tmp_path)
    Path("net.prototxt").write_text(net)
    model = prototrt.load("net.prototxt", random_weights=1)
    with little_memory(), pytest.raises(NetError) as raised:
        prototrt.rewrite(model, max_memory="1GB", keep_constant=() if "random" in case else ("x",))
    elements = 50_000_000 if "Power" in case else 100_000_000
    assert str(raised.value) == (
        f"{problem}\n"
        f"  because it has {elements} elements, which TensorRT holds 3 times while it builds\n"
        f'  fix: use smaller sizes, or allow more with max_memory="{enough}"'
    )


def test_as_much_as_the_fix_says_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text(DUMMY)
    with little_memory():
        assert prototrt.rewrite(prototrt.load(path), max_memory="2GB", keep_constant=("x",)).outputs


def test_the_default_is_a_share_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prototrt.surgery.building.limits.usual_limit", lambda: 10**9)
    path = tmp_path / "net.prototxt"
    path.write_text(DUMMY)
    with pytest.raises(NetError):
        prototrt.rewrite(prototrt.load(path), keep_constant=("x",))
    monkeypatch.setattr("prototrt.surgery.building.limits.usual_limit", lambda: None)
    assert prototrt.rewrite(prototrt.load(path), keep_constant=("x",)).outputs


@pytest.mark.parametrize("size", ["much", "0", "-1GB", "", 600_000_000])
def test_what_is_no_size(size: Any) -> None:
    with pytest.raises(OptionsError) as raised:
        RewriteOptions(max_memory=size)
    assert str(raised.value) == (
        f'max_memory is {size!r}, expected a size\n  fix: write it as in max_memory="4GB"'
    )


def test_the_command_line_names_its_option(tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text(DUMMY)
    options = ("--random-weights", "1", "--max-memory", "500MB", "--keep-constant", "x")
    result = run("convert", str(path), *options, "-o", "/dev/null")
    assert result.exit_code == 3
    assert result.stderr == (
        f'error: {path}:1: layer "d" (DummyData), top "x": converting the net takes 1.2 GB, expected at most 500.0 MB\n'
        "  because it has 100000000 elements, which TensorRT holds 3 times while it builds\n"
        "  fix: use smaller sizes, or allow more with --max-memory 2GB\n"
    )


def test_values_that_take_more_than_the_limit_are_not_computed(tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text(INPUT + 'layer { name: "t" type: "TanH" bottom: "x" top: "y" }')
    limited = (str(path), "--random-weights", "1", "--shape", "x:1x20000000", "--max-memory", "100MB")
    with little_memory():
        result = run("verify", *limited)
    assert (result.exit_code, result.stderr) == (
        3,
        f'error: {path}:2: layer "t" (TanH): computing the layer takes 160.0 MB, expected at most 100.0 MB\n'
        "  fix: use smaller shapes, or allow more with --max-memory 1GB\n",
    )
    with little_memory():
        converted = run("convert", *limited, "--verify", "-o", str(tmp_path / "net.onnx"))
        timed = run("bench", *limited)
    assert (converted.stderr, timed.stderr) == (result.stderr, result.stderr)
    np.savez(tmp_path / "in.npz", x=np.zeros(1, np.float32))
    ran = run("run", *limited, "--inputs", str(tmp_path / "in.npz"), "-o", str(tmp_path / "out.npz"))
    assert ran.stderr == result.stderr
