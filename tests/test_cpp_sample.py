"""The C++ sample: on a GPU made of host memory it feeds state back and checks every call; TensorRT has its calls."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from prototrt.converter.backends.driver import find_driver
from prototrt.converter.files.companions.cpp_header import header_text
from prototrt.surgery.ir import Array
from prototrt.tests.command_line import done
from prototrt.tests.converter.files.companions.test_cpp_header import COMPILER, manifest_with, tensor
from prototrt.tests.fresh_python import ROOT

SAMPLE = ROOT / "samples" / "cpp"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
HEADERS = os.environ.get(
    "TENSORRT_INCLUDE_DIR", ROOT.resolve().parent / "shared/third_party/tensorrt-11.1/include"
)
TENSORRT = Path(HEADERS)
CUDA = max(Path("/usr/local").glob("cuda*/include"), default=Path("/usr/include"))

MANIFEST = manifest_with(
    [tensor("x", shape=("N", 2)), tensor("cont", shape=(1,)), tensor("h_0", shape=("N", 2))],
    [tensor("y", shape=("N", 2)), tensor("h_T", shape=("N", 2)), tensor("is_large", "bool", ("N", 2))],
    recurrences=[
        {"output": "h_T", "input": "h_0", "exposed": False},
    ],
    format=1,
    plan={"bytes": 4, "sha256": hashlib.sha256(b"plan").hexdigest()},
    tensorrt={"flavour": "rtx", "version": "1.7.1"},
)
"""Of the engine in tests/fake_cuda/NvInferRuntime.h."""


def compiler_with(*headers: str) -> str:
    """The compiler. Skips the test where there is none, or a header is missing."""
    if COMPILER is None:
        pytest.skip("there is no C++ compiler")
    for header in headers:
        check = [COMPILER, "-fsyntax-only", "-x", "c++", f"-I{CUDA}", "-include", header, os.devnull]
        if subprocess.run(check, capture_output=True, check=False).returncode != 0:
            pytest.skip(f"there is no {header}")
    return COMPILER


def compiled(folder: Path, *options: str) -> Path:
    """The sample on the fake GPU."""
    command = [compiler_with(), "-std=c++17", *WARNINGS, *options, f"-I{ROOT / 'tests' / 'fake_cuda'}"]
    subprocess.run([*command, SAMPLE / "stream.cpp", "-o", folder / "stream"], check=True)
    return folder / "stream"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a header of constants."""
    folder = tmp_path_factory.mktemp("sample")
    (folder / "net.h").write_text(header_text(MANIFEST, "prototrt_net"))
    return compiled(folder, f'-DNET_HEADER="{folder / "net.h"}"', "-DNET=prototrt_net")


@pytest.fixture(scope="module")
def reading_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a reader of JSON."""
    compiler_with("nlohmann/json.hpp")
    return compiled(tmp_path_factory.mktemp("reading"))


def run(program: Path, *arguments: str, fails: str = "") -> tuple[int, list[str]]:
    """The exit code and the lines of standard error."""
    environment = {**os.environ, "FAKE_FAILS": fails}
    found = subprocess.run(
        [program, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert found.stdout == ""
    return found.returncode, found.stderr.splitlines()


CALLS = 7


def inputs() -> tuple[Array, Array]:
    """A second sequence begins in the middle."""
    x = np.random.default_rng(3).uniform(0, 9, (CALLS, 2, 2)).astype(np.float32)
    return x, np.array([0, 1, 1, 1, 0, 1, 1], np.float32)


FRAMES = b"".join(np.append(x, cont).tobytes() for x, cont in zip(*inputs(), strict=True))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With an engine and frames."""
    monkeypatch.chdir(tmp_path)
    Path("net.plan").write_bytes(b"plan")
    Path("frames").write_bytes(FRAMES)
    return tmp_path


def expected() -> bytes:
    results, h = b"", np.zeros((2, 2), np.float32)
    for x, cont in zip(*inputs(), strict=True):
        h = cont * h + x
        results += (2 * h).tobytes() + (h > 10).tobytes()
    return results


REPLAYED = ["7 calls, replayed from CUDA graphs", "fake: 4 runs, 5 replays, 0 left"]


@pytest.mark.usefixtures("folder")
def test_state_is_fed_back_and_calls_are_replayed(program: Path) -> None:
    assert run(program, "net.plan", "frames", "results") == (0, REPLAYED)
    assert Path("results").read_bytes() == expected()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("fails", ["capture", "cudaStreamEndCapture", "cudaGraphInstantiateWithFlags"])
def test_what_cannot_be_captured_is_queued(program: Path, fails: str) -> None:
    code, (summary, found) = run(program, "net.plan", "frames", "results", fails=fails)
    runs = 7 if fails == "capture" else 8
    assert (code, summary, found) == (0, "7 calls", f"fake: {runs} runs, 0 replays, 0 left")
    assert Path("results").read_bytes() == expected()


FAILURES = {
    "cudaGraphLaunch": "cannot replay a call: it was told to fail",
    "cudaMalloc": "cannot allocate 16 bytes: it was told to fail",
    "cudaMallocHost": "cannot allocate 16 bytes: it was told to fail",
    "cudaMemcpyAsync": "cannot copy x: it was told to fail",
    "cudaMemsetAsync": "cannot clear a state: it was told to fail",
    "cudaStreamBeginCapture": "cannot begin to capture a call: it was told to fail",
    "cudaStreamCreateWithFlags": "cannot use a GPU: it was told to fail",
    "cudaStreamSynchronize": "cannot finish a call: it was told to fail",
    "createExecutionContext": "TensorRT cannot prepare the engine",
    "createInferRuntime": "TensorRT does not start",
    "deserializeCudaEngine": "TensorRT does not load net.plan: it must be the version that built the plan",
    "enqueueV3": "TensorRT does not run the engine",
    "setInputShape": "TensorRT refuses the shape of x",
    "setTensorAddress": "TensorRT refuses the memory of x",
}
"""What each call that fails is told as."""


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("fails", FAILURES)
def test_every_call_is_checked(program: Path, fails: str) -> None:
    code, (*log, message, found) = run(program, "net.plan", "frames", "results", fails=fails)
    assert (code, message) == (1, f"error: {FAILURES[fails]}")
    assert log == (["TensorRT: the plan is bad"] if fails == "deserializeCudaEngine" else [])
    assert found.endswith(" 0 left")


WRONG = {
    ("net.plan", "frames"): "give three files: stream PLAN FRAMES RESULTS [DIGEST]",
    (
        "net.plan",
        "frames",
        "results",
        "sha256:00",
    ): "this program holds the plan's SHA-256 and reads no manifest: leave the digest out",
    ("net.plan", "no", "results"): "cannot read no",
    (
        "no.plan",
        "frames",
        "results",
    ): "cannot read no.plan",
    (
        "frames",
        "frames",
        "results",
    ): f"frames has the SHA-256 {hashlib.sha256(FRAMES).hexdigest()}, expected {MANIFEST['plan']['sha256']}:"
    " it is not the plan that was described",
    ("net.plan", "cut", "results"): "the frames end in the middle of cont",
    ("net.plan", "frames", "no/results"): "cannot write no/results",
    ("net.plan", "frames", "/dev/full"): "cannot write /dev/full",
}


@pytest.mark.parametrize("arguments", WRONG)
def test_wrong_files(program: Path, folder: Path, arguments: tuple[str, ...]) -> None:
    (folder / "cut").write_bytes((folder / "frames").read_bytes()[: 20 + 18])
    code, lines = run(program, *arguments)
    assert code == 1
    assert f"error: {WRONG[arguments]}" in lines


@pytest.mark.usefixtures("folder")
def test_no_frames_are_no_calls(program: Path) -> None:
    Path("frames").write_bytes(b"")
    assert run(program, "net.plan", "frames", "results") == (
        0,
        ["0 calls", "fake: 0 runs, 0 replays, 0 left"],
    )
    assert Path("results").read_bytes() == b""


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_the_manifest_says_the_same_as_the_header(reading_program: Path) -> None:
    exposed = {"output": "y", "input": "x", "exposed": True}
    manifest = {**MANIFEST, "recurrences": [exposed, *MANIFEST["recurrences"]]}
    Path("net.plan.json").write_text(json.dumps(manifest))
    assert run(reading_program, "net.plan", "frames", "results") == (0, REPLAYED)
    assert Path("results").read_bytes() == expected()


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_an_engine_that_trtexec_built(reading_program: Path) -> None:
    """The manifest is that of the ONNX model, beside the engine."""
    manifest = {key: value for key, value in MANIFEST.items() if key not in ("plan", "tensorrt")}
    Path("net.plan.json").write_text(json.dumps(manifest))
    Path("net.plan").write_bytes(b"of any size")
    assert run(reading_program, "net.plan", "frames", "results") == (0, REPLAYED)


def digest(manifest: bytes) -> str:
    return f"sha256:{hashlib.sha256(manifest).hexdigest()}"


def refusal(case: str) -> str:
    """Make the case in the current folder; the message."""
    own = json.dumps(MANIFEST).encode()
    Path("net.plan.json").write_bytes(own)
    if case == "another manifest":
        other = own.replace(b"rtx", b"xtr")
        Path("net.plan.json").write_bytes(other)
        return f"net.plan.json has the digest {digest(other)}, expected {digest(own)}"
    if case == "another plan":
        Path("net.plan").write_bytes(b"PLAN")
        found, wanted = (hashlib.sha256(plan).hexdigest() for plan in (b"PLAN", b"plan"))
        return f"net.plan has the SHA-256 {found}, expected {wanted}: it is not the plan that was described"
    Path("net.plan").unlink()
    return "cannot read net.plan"


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("case", ["another manifest", "another plan", "no plan"])
def test_a_pinned_conversion(reading_program: Path, case: str) -> None:
    """Nothing else comes to TensorRT: the fake would say how many runs there were."""
    pinned = ("net.plan", "frames", "results", digest(json.dumps(MANIFEST).encode()))
    Path("net.plan.json").write_text(json.dumps(MANIFEST))
    assert run(reading_program, *pinned) == (0, REPLAYED)
    message = refusal(case)
    assert run(reading_program, *pinned) == (1, [f"error: {message}"])


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_a_pinned_manifest_that_lists_no_plan(reading_program: Path) -> None:
    manifest = json.dumps({key: value for key, value in MANIFEST.items() if key != "plan"}).encode()
    Path("net.plan.json").write_bytes(manifest)
    assert run(reading_program, "net.plan", "frames", "results", digest(manifest)) == (
        1,
        ["error: net.plan.json is about an ONNX model, and lists no plan"],
    )


def test_sha256(tmp_path: Path) -> None:
    """As Python computes it, on both sides of each block's end."""
    (tmp_path / "main.cpp").write_text(
        '#include "sha256.h"\n#include <cstdio>\nint main() { for (std::size_t n = 0; n < 200; ++n)'
        " std::puts(sha256(std::vector<char>(n, static_cast<char>(n))).c_str()); }\n"
    )
    command = [compiler_with(), "-std=c++17", *WARNINGS, f"-I{SAMPLE}", "main.cpp", "-o", "main"]
    subprocess.run(command, check=True, cwd=tmp_path)
    found = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout.split()
    assert found == [hashlib.sha256(bytes([number]) * number).hexdigest() for number in range(200)]


MANIFESTS = {
    None: "cannot read net.plan.json, which prototrt wrote beside the plan",
    '{"format": 2}': "net.plan.json is for a newer version of this program",
    '{"format": 1}': "[json.exception.out_of_range.403] key 'inputs' not found",
}


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("text", MANIFESTS)
def test_wrong_manifests(reading_program: Path, text: str | None) -> None:
    if text is not None:
        Path("net.plan.json").write_text(text)
    assert run(reading_program, "net.plan", "frames", "results") == (1, [f"error: {MANIFESTS[text]}"])


def test_tensorrt_and_cuda_have_every_call_that_it_makes(tmp_path: Path) -> None:
    """The types of their own headers, instead of those of the fake GPU."""
    if not TENSORRT.exists():
        pytest.skip("there are no headers of TensorRT; TENSORRT_INCLUDE_DIR names their folder")
    command = [compiler_with("cuda_runtime_api.h"), "-std=c++17", *WARNINGS, "-fsyntax-only"]
    (tmp_path / "net.h").write_text(header_text(MANIFEST, "prototrt_net"))
    command += [
        "-isystem",
        str(TENSORRT),
        "-isystem",
        str(CUDA),
        '-DNET_HEADER="net.h"',
        "-DNET=prototrt_net",
    ]
    subprocess.run([*command, f"-I{tmp_path}", SAMPLE / "stream.cpp"], check=True)


PAGE = (SAMPLE / "README.md").read_text()


@pytest.mark.slow
@pytest.mark.trt
def test_the_page_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands run as they stand; the program gets as far as it gets without a GPU."""
    if not TENSORRT.exists() or shutil.which("cmake") is None:
        pytest.skip("needs CMake, and headers of TensorRT; TENSORRT_INCLUDE_DIR names their folder")
    compiler_with("cuda_runtime_api.h", "nlohmann/json.hpp")
    if find_driver() is not None:
        pytest.skip("a driver is installed, for a version of TensorRT that is unknown")
    (root := tmp_path / "TensorRT-RTX" / "lib").mkdir(parents=True)
    for name in ("libtensorrt_rtx.so", "libtensorrt_rtx.so.1"):
        (root / name).symlink_to(library())
    (root.parent / "include").symlink_to(TENSORRT)
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    monkeypatch.chdir(tmp_path)
    (convert,) = re.findall(r"^\$ prototrt (.*)$", PAGE, re.MULTILINE)
    done(*shlex.split(convert))
    (frames,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    exec(compile(frames, "README.md", "exec"), {})
    assert Path("frames").stat().st_size == 40 * 4 * (32 * 16 + 1)
    with_manifest, with_header = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    for script in (with_manifest, with_header + "".join(with_manifest.splitlines(keepends=True)[2:])):
        environment = {**os.environ, "HOME": str(tmp_path), "TENSORRT_ROOT": str(tmp_path / "TensorRT-RTX")}
        found = subprocess.run(
            ["bash", "-e"], input=script, env=environment, capture_output=True, text=True, check=False
        )
        assert found.stderr.startswith("error: cannot use a GPU: "), found.stdout + found.stderr
        assert found.returncode == 1


def library() -> Path:
    """TensorRT for RTX, as the wheel has it."""
    wheel = find_spec("tensorrt_rtx_libs")
    assert wheel is not None
    assert wheel.submodule_search_locations
    (found,) = Path(wheel.submodule_search_locations[0]).glob("libtensorrt_rtx.so*")
    return found
