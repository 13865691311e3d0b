"""Calls of nets whose sizes have names: what does not fit is told with its range, and commands show the ranges."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.caffe_proto.common.errors import ShapeError
from prototrt.tests.command_line import DEPLOY, WEIGHTS, done, run
from prototrt.tests.converter.running.runtime.support import session_of
from prototrt.tests.golden_cases import case_called
from prototrt.tests.npz import write_npz
from prototrt.tests.open_nets import OPEN_NETS

LRCN = case_called("net_lrcn")
OF_LRCN = [
    "--shape",
    "frames:[T*N]x3x12x12",
    "--shape",
    "cont:[T]x[N]",
    "--size",
    "T=1..5..12",
    "--size",
    "N=1..2..4",
]
FCN = case_called("net_fcn")
OF_FCN = ["--shape", "data:1x3x[2*H]x[W]", "--size", "H=7..10..20", "--size", "W=13..40"]
OF_DIGITS = [
    *(
        "--set",
        "steps.reshape_param.shape.dim=40,1,64",
        "--shape",
        "data:[T*N]x1x32x16",
        "--shape",
        "cont:[T]x[N]",
    ),
    *("--size", "T=1..40..200", "--size", "N=1..1..4"),
]

Shapes = dict[str, tuple[int, ...]]


@pytest.mark.parametrize("on", ["reference", "engine"])
@pytest.mark.parametrize(
    ("name", "shapes", "message"),
    [
        (
            "LRCN",
            {"frames": (13, 3, 12, 12), "cont": (13, 1)},
            'input "cont" has T = 13, expected 1 to 12\n'
            "  fix: give it such a size, or give the net another range with sizes",
        ),
        (
            "LRCN",
            {"frames": (7, 3, 12, 12), "cont": (4, 2)},
            'input "frames" has the shape (7, 3, 12, 12), expected (8, 3, 12, 12)\n'
            "  because its shape is (N*T, 3, 12, 12), and the other inputs say that T is 4 and N is 2\n"
            "  fix: give arrays that agree on these sizes",
        ),
        (
            "LRCN",
            {"frames": (8, 3, 12, 13), "cont": (4, 2)},
            'input "frames" has the shape (8, 3, 12, 13), expected (N*T, 3, 12, 12)\n'
            "  because T is 1 to 12, usually 5; N is 1 to 4, usually 2\n"
            "  fix: give an array of this shape, or change the input of the net with shapes",
        ),
        (
            "FCN",
            {"data": (3, 20, 20)},
            'input "data" has the shape (3, 20, 20), expected (N, 3, H, W)\n'
            "  because N is 1 to 4, usually 1; H is 14 to 40, usually 17; W is 13 to 40, usually 15\n"
            "  fix: give an array of this shape, or change the input of the net with shapes",
        ),
    ],
)
def test_arrays_that_do_not_fit(name: str, shapes: Shapes, message: str, on: Way) -> None:
    graph = OPEN_NETS[name].graph
    session = session_of(graph) if on == "engine" else prototrt.Session(graph)
    with pytest.raises(ShapeError) as caught:
        session.run({blob: np.zeros(shape, np.float32) for blob, shape in shapes.items()})
    assert str(caught.value) == message


@pytest.mark.parametrize("on", ["reference", "engine"])
def test_state_of_another_number_of_streams(on: Way) -> None:
    """It is refused, and the call counts after a reset; another number of steps needs none."""
    net = OPEN_NETS["LRCN"]
    session = session_of(net.graph) if on == "engine" else prototrt.Session(net.graph)
    session.run(net.feeds({"T": 3, "N": 2}))
    session.run(net.feeds({"T": 5, "N": 2}))
    with pytest.raises(ShapeError) as caught:
        session.run(net.feeds({"T": 5, "N": 3}))
    assert str(caught.value) == (
        'the state "lstm1_h_0" of the last call has the shape (1, 2, 9), expected (1, 3, 9)\n'
        "  because the inputs of this call have another number of streams\n"
        "  fix: call reset() first, or give the state with the inputs"
    )
    session.reset()
    assert session.run(net.feeds({"T": 5, "N": 3}))["prob"].shape == (5, 3, 5)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"data": (1, 3, 15, 15)},
            'input "data" has 2*H = 15, expected 14 to 40, in steps of 2\n'
            "  because H is 7 to 20, usually 10\n"
            "  fix: give it such a size, or give the net another range with --size",
        ),
        (
            {"data/0": (1, 3, 16, 15), "data/1": (1, 3, 16, 41)},
            'input "data" has W = 41, expected 13 to 40\n'
            "  fix: give it such a size, or give the net another range with --size",
        ),
        (
            {"data": (2, 3, 16, 15)},
            'input "data" has the shape (2, 3, 16, 15), expected (1, 3, 2*H, W)\n'
            "  because H is 7 to 20, usually 10; W is 13 to 40, usually 40\n"
            "  fix: give an array of this shape, or change the input of the net with --shape",
        ),
    ],
)
def test_run_refuses(arrays: Shapes, message: str, tmp_path: Path) -> None:
    assert _refused(FCN.folder, OF_FCN, arrays, tmp_path) == message


def test_run_refuses_another_number_of_streams_in_the_next_call(tmp_path: Path) -> None:
    """Before the first call is computed; a call that is given its state may have any number."""
    arrays = {"frames/0": (6, 3, 12, 12), "cont/0": (3, 2), "frames/1": (6, 3, 12, 12), "cont/1": (2, 3)}
    assert _refused(LRCN.folder, OF_LRCN, arrays, tmp_path) == (
        'the state "lstm1_h_0" of the last call has the shape (1, 2, 9), expected (1, 3, 9)\n'
        "  because the inputs of this call have another number of streams\n"
        '  fix: give this call the state, too, in a file as "lstm1_h_0/1"; zeros start anew'
    )
    states = {"lstm1_h_0/1": (1, 3, 9), "lstm1_c_0/1": (1, 3, 9)}
    _written(tmp_path, {**arrays, **states})
    net = [str(LRCN.folder / "model.prototxt"), str(LRCN.folder / "model.caffemodel")]
    out = str(tmp_path / "out.npz")
    told = done("run", *net, *OF_LRCN, "--inputs", str(tmp_path / "in.npz"), "-o", out)
    assert told.stdout == f"{out}: 2 calls on onnx, prob 2x3x5\n"


def _written(folder: Path, arrays: Shapes) -> None:
    zeros = {name: np.zeros(shape, np.float32) for name, shape in arrays.items()}
    write_npz(folder / "in.npz", zeros)


def _refused(net: Path, options: list[str], arrays: Shapes, folder: Path) -> str:
    """What ``run`` says of these arrays, without the place."""
    _written(folder, arrays)
    files = [str(net / "model.prototxt"), str(net / "model.caffemodel")]
    target = folder / "out.npz"
    result = run("run", *files, *options, "--inputs", str(folder / "in.npz"), "-o", str(target))
    assert (result.exit_code, target.exists()) == (3, False), result.output
    said = result.stderr[result.stderr.index("error: ") :]
    return said.split("in.npz", 1)[1].partition(": ")[2].rstrip()


def test_inspect_counts_at_the_usual_sizes() -> None:
    """As for the net with these sizes; a line tells all sizes."""
    found = done("inspect", DEPLOY, WEIGHTS, *OF_DIGITS).stdout
    fixed = done("inspect", DEPLOY, WEIGHTS).stdout
    assert found.splitlines()[-1] == (
        "sizes    T is 1 to 200, usually 40; N is 1 to 4, usually 1; multiply-adds are for the usual sizes"
    )
    numbers = [
        [line.split()[-2:] for line in text.splitlines() if "layers" in line] for text in (found, fixed)
    ]
    assert numbers[0] == numbers[1] == [["107,321", "19,640,960"]]


def test_sizes_in_the_summary_of_convert_and_in_the_script_for_trtexec(tmp_path: Path) -> None:
    target = tmp_path / "digits.onnx"
    summary = done("convert", DEPLOY, WEIGHTS, *OF_DIGITS, "--target", "datacenter", "-o", str(target)).stdout
    assert "sizes    T is 1 to 200, usually 40; N is 1 to 4, usually 1\n" in summary
    script = (tmp_path / "digits.onnx.sh").read_text()
    for size, data, steps, streams in (("min", 1, 1, 1), ("opt", 40, 40, 1), ("max", 800, 200, 4)):
        states = f"lstm1_h_0:1x{streams}x64,lstm1_c_0:1x{streams}x64"
        assert f"--{size}Shapes=data:{data}x1x32x16,cont:{steps}x{streams},{states}," in script
    assert "#   lstm1_h_T -> lstm1_h_0 (1x[N]x64)\n" in script
    assert "1x[N]x64" in done("inspect", str(target)).stdout


def test_formulas_stand_in_brackets_on_arrows(tmp_path: Path) -> None:
    for name in ("net.dot", "net.html"):
        done("dot", DEPLOY, WEIGHTS, *OF_DIGITS, "-o", str(tmp_path / name))
        assert "[N*T]x1x32x16" in (tmp_path / name).read_text()


@pytest.mark.trt
def test_an_engine_tells_its_sizes(tmp_path: Path) -> None:
    plan = str(tmp_path / "fcn.plan")
    files = [str(FCN.folder / "model.prototxt"), str(FCN.folder / "model.caffemodel")]
    done("convert", *files, *OF_FCN, "--backend", "rtx", "-o", plan)
    shown = done("inspect", plan).stdout
    assert "\nsizes      H is 7 to 20, usually 10; W is 13 to 40, usually 40\n" in shown


@pytest.mark.parametrize(
    ("shape", "sizes", "wanted", "ranges"),
    [
        (("1", 3, "4*H", "W"), {"H": (4, 6, 9), "W": (13, 40)}, ("N", 3, "4*H", "W"), [("N", 1, 4)]),
        (("N", 3, "H", 15), {"H": (14, 17, 20), "N": (1, 2, 9)}, ("N", 3, "H", 15), [("N", 1, 4)]),
    ],
)
def test_triton_names_the_batch(
    shape: tuple[int | str, ...], sizes: dict[str, tuple[int, ...]], wanted: object, ranges: object
) -> None:
    """The batch of requests is N, and other names stay."""
    from prototrt.converter.options import TritonOptions
    from prototrt.converter.serving.triton.served import serve
    from prototrt.surgery.options import RewriteOptions

    rewriting = RewriteOptions(shapes={"data": (1, *shape[1:]) if shape[0] == "1" else shape}, sizes=sizes)
    served = serve(FCN.load(), rewriting, TritonOptions(max_batch_size=4))
    assert served.batch == 4
    assert served.graph.inputs[0].shape == wanted
    span = served.graph.symbols["N"]
    assert [("N", span.min, span.max)] == ranges
