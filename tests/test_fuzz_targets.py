"""What ``make fuzz`` runs, without atheris: all targets over our corpus, and over some nets of the grammar.

A crash that was repaired stays as a file in ``tests/fuzz/corpus/TARGET``.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import prototrt
from prototrt.caffe_proto.caffe2.schema import message_class
from prototrt.converter.backends.tensorrt.activation import leaky_relu
from prototrt.converter.backends.tensorrt.lowering import lowers
from prototrt.converter.backends.tensorrt.network import Network, Tensor
from prototrt.surgery.ops import LeakyReLU
from prototrt.tests.fresh_python import ROOT
from prototrt.tests.fuzz.nets import joined, mutated_caffe, mutated_caffe2, parted
from prototrt.tests.fuzz.targets import TARGETS, is_unstable, run
from prototrt.tests.small_nets import op, rewritten

pytest.importorskip("h5py", reason="one target reads HDF5")
pytest.importorskip("yaml", reason="one target reads lists of models")

CORPUS = [(name, file) for name, target in TARGETS.items() for file, _ in target.corpus()]
NEEDS_TENSORRT = ("built",)


def marked(name: str, *rest: str) -> object:
    return pytest.param(name, *rest, marks=pytest.mark.trt if name in NEEDS_TENSORRT else ())


@pytest.mark.parametrize(("name", "file"), [marked(name, file) for name, file in CORPUS])
def test_our_corpus(name: str, file: str, tmp_path: Path) -> None:
    run(name, tmp_path, dict(TARGETS[name].corpus())[file])


@pytest.mark.parametrize("name", [marked(name) for name in TARGETS])
def test_goldens_and_what_is_made_of_them(name: str, tmp_path: Path) -> None:
    """Without guidance; the same each time. Some get through, or the target would try nothing but refusals."""
    target, random = TARGETS[name], Random(name)
    first = [data for _, data in [*target.seeds(), *target.corpus()]]
    changed = target.mutated or with_a_byte_changed
    for _ in range(20):
        run(name, tmp_path, changed(random.choice(first), random))


@pytest.mark.parametrize("name", [marked(name) for name in TARGETS if name not in ("manifest",)])
def test_some_first_inputs_get_through(name: str, tmp_path: Path) -> None:
    """Or the target would try nothing but refusals. A manifest is about another plan."""
    for _, data in [*TARGETS[name].corpus(), *TARGETS[name].seeds()]:
        with contextlib.suppress(prototrt.ConversionError):
            TARGETS[name].run(tmp_path, data)
            return
    pytest.fail("all are refused")


def with_a_byte_changed(data: bytes, random: Random) -> bytes:
    place = random.randrange(len(data))
    return data[:place] + bytes([random.randrange(256)]) + data[place + 1 :]


@pytest.mark.trt
def test_nets_of_the_grammar_are_built(tmp_path: Path) -> None:
    """Nets that grow from nothing by the grammar alone: of every twenty, one is built."""
    random, built = Random(0), 0
    for _ in range(90):
        net = b""
        for _ in range(random.randint(1, 3)):
            net = mutated_caffe(net, random)
        with contextlib.suppress(prototrt.ConversionError):
            TARGETS["built"].run(tmp_path, net)
            built += 1
    assert built >= 90 // 20


@pytest.mark.trt
def test_a_wrong_network_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def steeper(network: Network, op: LeakyReLU, x: Tensor) -> list[Tensor]:
        return leaky_relu(network, LeakyReLU(op.slope + 0.01), x)

    monkeypatch.setitem(lowers.rules, LeakyReLU, steeper)
    net = """
        layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 8 } } }
        layer { name: 'p' type: 'Power' bottom: 'x' top: 'p' power_param { shift: -1 } }
        layer { name: 'r' type: 'ReLU' bottom: 'p' top: 'y' }
    """
    with pytest.raises(AssertionError, match="network"):
        run("built", tmp_path, net.encode())


def test_nets_that_rounding_decides_are_told_apart() -> None:
    inputs = {"x": (1, 8)}
    feeds = [{"x": np.full((1, 8), 0.5, np.float32)}]
    power = "power_param { scale: %s shift: %s power: 1 }"
    assert not is_unstable(rewritten(op("Power", power % (2, 1)), inputs), feeds)
    assert is_unstable(rewritten(op("Threshold", "threshold_param { threshold: 0.5 }"), inputs), feeds)
    assert is_unstable(rewritten(op("Power", power % (3e38, 3e38)), inputs), feeds)


@given(st.binary(max_size=300), st.integers(0, 1 << 32))
@example(
    joined(b"\x12\x07\x0a\x01\xff\x22\x02FC", b""), 0
)  # an operator reads a blob whose name is not UTF-8
def test_nets_are_made_of_any_bytes(data: bytes, seed: int) -> None:
    assert mutated_caffe(data, Random(seed)).decode().count("layer") >= 1
    predict, _ = parted(mutated_caffe2(data, Random(seed)))
    message_class("NetDef")().ParseFromString(predict)


@given(st.binary(), st.binary())
def test_pairs_come_apart_again(predict: bytes, init: bytes) -> None:
    assert parted(joined(predict, init)) == (predict, init)


def test_make_fuzz_runs_all_targets() -> None:
    line = next(
        line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith("TARGETS :=")
    )
    assert line.split()[2:] == list(TARGETS)
