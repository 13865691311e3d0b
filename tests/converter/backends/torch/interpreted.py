"""Runs kernels of Triton in its interpreter, on the CPU, as one program each. It prints a line for each net.

With ``sample`` as its argument, it runs some of the goldens: the cells are all run.

A process of its own: Triton asks for ``TRITON_INTERPRET`` when it is imported.
"""

from __future__ import annotations

import importlib
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import prototrt
from prototrt.converter.backends.reference import ReferenceEvaluator
from prototrt.converter.backends.torch import evaluator
from prototrt.surgery.ir import Array
from prototrt.tests.converter.backends.torch.torch_session import TorchSession, imported
from prototrt.tests.golden_cases import caffe_cases, check, fork_cases

torch = importlib.import_module("torch")  # which need not be installed where types are checked
triton = importlib.import_module("triton")
INPUTS = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 5 dim: 3 dim: 6 } } }
layer { name: "cont" type: "Input" top: "cont" input_param { shape { dim: 5 dim: 3 } } }
"""
LAYER = """
layer {{ name: "a" type: "{type}" bottom: "x" bottom: "cont" top: "a" recurrent_param {{ num_output: 5 {options} }} }}
"""
CELLS = {
    "reverse": ("LSTM", "reverse: true"),
    "both directions": ("LSTM", "bidirectional: CONCAT"),
    "peepholes": ("LSTM", "peephole: true"),
    "coupled": ("LSTM", "coupled_input_forget: true"),
    "GRU": ("GRU", "linear_before_reset: true"),
    "GRU, reset first": ("GRU", ""),
    "projection": ("LSTM", "num_proj: 4"),
    "two layers": ("LSTM", "num_layers: 2"),
    "ReLU": ("LSTM", 'candidate_activation: "Relu"'),
}

SAMPLE = (
    "gru_synopsys_linear",
    "lstm_carry",
    "lstm_stacked",
    "lstm_t1",
    "rnn_t5",
)


class Launches:
    """Kernels that were launched by modules that were written to a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count, self._modules = folder, 0, 0

    def executed(self, path: Path) -> Any:
        """The module, which uses its kernels here. Triton reads the source of one when it runs."""
        self._modules += 1
        module: Any = imported(shutil.copytree(path.parent, self.folder / str(self._modules)) / path.name)
        if hasattr(module, "in_one_kernel"):
            launch = module.in_one_kernel

            def counted(*arguments: Any) -> Any:
                self.count += 1
                return launch(*arguments)

            module.in_one_kernel = counted
            module.units_of_a_program = lambda state, gates: triton.next_power_of_2(state.shape[1])
        return module


def run_goldens(launches: Launches, is_sample: bool) -> None:
    cases = [
        case
        for case in (*caffe_cases(), *fork_cases())
        if any(word in kind for kind in case.facts["layer_types"] for word in ("LSTM", "GRU", "RNN"))
    ]
    for case in cases:
        if is_sample and str(case) not in SAMPLE:
            continue
        launches.count = 0
        check(case, TorchSession)
        print(f"{case}: {launches.count}")


def run_cells(launches: Launches) -> None:
    """Cells that no golden has, against the loop of the same module."""
    random = np.random.default_rng(3)
    for name, (kind, options) in CELLS.items():
        path = launches.folder / "net.prototxt"
        path.write_text(INPUTS + LAYER.format(type=kind, options=options))
        graph = prototrt.rewrite(prototrt.load(path, random_weights=1))
        feeds: dict[str, Array] = {
            value.name: random.normal(size=[int(dim) for dim in value.shape]).astype(np.float32)
            for value in graph.inputs
        }
        feeds["cont"] = (feeds["cont"] > -0.5).astype(np.float32)
        launches.count = 0
        module = evaluator.TorchEvaluator(graph)
        by_kernel, count = module.run(feeds), launches.count
        by_reference = ReferenceEvaluator(graph).run(feeds)
        for output, array in by_kernel.items():
            np.testing.assert_allclose(array, by_reference[output], 1e-5, 1e-6, err_msg=f"{name}, {output}")
        print(f"{name}: {count}")


def main() -> None:
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        launches = Launches(Path(folder))
        evaluator._execute = launches.executed
        run_cells(launches)
        run_goldens(launches, is_sample="sample" in sys.argv)


if __name__ == "__main__":
    main()
