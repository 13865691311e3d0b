"""The kernel's own code, on the CPU, against numpy.tile; and its PTX against its source."""

from __future__ import annotations

import hashlib
import math
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prototrt.plugins.tile.kernel import BLOCK, KERNELS, ptx
from prototrt.tests.plugins.cpu import TILE, address, buffer, loaded

ROOT = Path(__file__).parents[2]
DTYPES = {"FLOAT": "float32", "HALF": "float16", "BF16": "uint16", "INT32": "int32"}
GUARD = 8
"""Elements around the result, which nobody may touch."""


@settings(max_examples=10 * settings().max_examples)
@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=4).flatmap(
        # Rows of 16 bytes and more are moved in one piece: they must not be rare.
        lambda sizes: st.sampled_from([sizes, [*sizes[:-1], sizes[-1] * 4], [*sizes[:-1], sizes[-1] * 8]])
    ),
    data=st.data(),
    copies=st.integers(1, 40),
    type_name=st.sampled_from(sorted(KERNELS)),
    offsets=st.tuples(st.integers(0, 8), st.integers(0, 8)),
    idle=st.integers(0, BLOCK),
)
def test_kernel_is_tile(
    shape: list[int], data: st.DataObject, copies: int, type_name: str, offsets: tuple[int, int], idle: int
) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    kernel, dtype = KERNELS[type_name], DTYPES[type_name]
    inner, count = math.prod(shape[axis:]), math.prod(shape) * copies
    x = buffer(math.prod(shape), dtype, offsets[0])
    x[:] = np.arange(1, x.size + 1)
    memory = buffer(count + 2 * GUARD, dtype, offsets[1])
    y = memory[GUARD:-GUARD]
    threads = -(-count * kernel.element_size // 16) + idle
    bits = 8 * kernel.element_size
    loaded().tile_on_cpu(bits, address(x), inner, copies, count, address(y), threads)
    expected = np.tile(x.reshape(shape), [copies if i == axis else 1 for i in range(len(shape))])
    np.testing.assert_array_equal(y, expected.ravel())
    assert not memory[:GUARD].any()
    assert not memory[-GUARD:].any()


@settings(deadline=None)
@given(inner=st.integers(1, 2**20), copies=st.integers(1, 2**11 - 1), data=st.data())
def test_no_place_of_the_largest_tensor_overflows(inner: int, copies: int, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, 2**31 - 2))
    expected = place // (inner * copies) * inner + place % inner
    assert loaded().source_of(place, inner, copies) == expected


# ---------------------------------------------------------------- PTX


def test_ptx_is_of_this_source() -> None:
    source = b"".join((TILE / name).read_bytes() for name in ("tile.cu", "tile_thread.h"))
    _, noted = ptx().splitlines()[:2]
    assert noted == f"// {hashlib.sha256(source).hexdigest()}", "run make ptx"


def test_ptx_runs_on_old_gpus_and_drivers() -> None:
    lines = ptx().splitlines()
    assert [line for line in lines if line.startswith((".version", ".target"))] == [
        ".version 7.0",
        ".target sm_75",
    ]


@pytest.mark.parametrize("name", sorted({kernel.name for kernel in KERNELS.values()}))
def test_ptx_has_the_kernel_with_inputs_scalars_outputs(name: str) -> None:
    head = re.search(rf"\.entry {name}\((.*?)\)", ptx(), re.DOTALL)
    assert head is not None
    assert re.findall(r"\.param \.(\w+)", head[1]) == ["u64", "u32", "u32", "u32", "u64"]


@pytest.mark.slow
def test_ptx_is_what_the_compiler_makes(tmp_path: Path) -> None:
    if shutil.which("nvcc") is None or shutil.which("ptxas") is None:
        pytest.skip("needs nvcc and ptxas")
    told = subprocess.run(["nvcc", "--version"], check=True, capture_output=True, text=True).stdout
    release = re.search(r"V\d+\.\d+\.\d+", told)
    if release is None or release[0] not in ptx():
        pytest.skip(f"tile.ptx was made by another nvcc than {release and release[0]}")
    target = tmp_path / "tile.ptx"
    environment = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}
    subprocess.run(["make", "ptx", f"PTX={target}"], cwd=ROOT, env=environment, check=True)
    assert target.read_text() == ptx()
