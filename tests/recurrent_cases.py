"""The cases under tests/goldens/variants and tests/goldens/cudnn as Caffe nets.

Their numbers were computed in float64, from equations that stand in meta.json beside them, and by PyTorch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import prototrt
from prototrt import weights
from prototrt.surgery.ir import Array
from prototrt.tests.small_nets import inputs_of, loaded, stored

GOLDENS = Path(__file__).parent / "goldens"

_ACTIVATIONS = {
    "sigmoid": "Sigmoid",
    "tanh": "TanH",
    "relu": "ReLU",
    "identity": "Identity",
    "hard_sigmoid": "HardSigmoid(0.2, 0.5)",
}


@dataclass(frozen=True)
class RecurrentCase:
    """One layer ``rnn`` with exposed states, and perhaps an InnerProduct ``y`` behind it."""

    folder: Path
    meta: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.folder.parent.name}-{self.folder.name}"

    @cached_property
    def inputs(self) -> dict[str, Array]:
        return dict(np.load(self.folder / "inputs.npz"))

    @cached_property
    def outputs(self) -> dict[str, Array]:
        return dict(np.load(self.folder / "outputs.npz"))

    @cached_property
    def stored(self) -> dict[str, Array]:
        return dict(np.load(self.folder / "weights.npz"))

    @property
    def tolerance(self) -> tuple[float, float]:
        return self.meta["tolerance"]["rtol"], self.meta["tolerance"]["atol"]

    def net(self) -> Net:
        return _variant(self) if self.folder.parent.name == "variants" else _cudnn(self)

    @property
    def cell(self) -> str:
        """Its kind, in lower case: ``lstm``, ``gru``."""
        return "lstm" if self.folder.parent.name == "variants" else self.folder.name.partition("_")[0]

    @property
    def steps(self) -> int:
        return int(self.meta["T"])


@dataclass
class Net:
    """A net in text, its blobs, what to feed and what to expect."""

    layer: str
    parameters: Sequence[str]
    blobs: Sequence[Array]
    feeds: dict[str, Array]
    expected: dict[str, Array]
    states: Sequence[str]
    further: str = ""
    further_blobs: Sequence[Array] = ()
    shown: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def text(self, *, exposed: bool = True) -> str:
        """With ``exposed``, states are bottoms ``h_0``, ``c_0`` and tops ``h_T``, ``c_T``."""
        shapes = {
            name: array.shape for name, array in self.feeds.items() if exposed or not name.endswith("_0")
        }
        bottoms = [f'bottom: "{name}"' for name in shapes]
        tops = ['top: "rnn"', *(f'top: "{state}_T"' for state in self.states if exposed)]
        parameters = [*self.parameters, "expose_hidden: true"] if exposed else self.parameters
        return (
            f'{inputs_of(shapes)}layer {{ name: "rnn" type: "{self.layer}" {" ".join(bottoms + tops)}\n'
            f"  recurrent_param {{ {' '.join(parameters)} }} }}\n{self.further}"
        )

    def load(self, folder: Path, *, exposed: bool = True) -> prototrt.Model:
        blobs = stored("rnn", self.blobs) | stored("y", self.further_blobs)
        return loaded(folder, self.text(exposed=exposed), blobs)


def recurrent_cases() -> list[RecurrentCase]:
    cases = []
    for kind in ("variants", "cudnn"):
        index = json.loads((GOLDENS / kind / "index.json").read_text())
        for entry in index["cases"]:
            folder = GOLDENS / kind / entry["case"]
            cases.append(RecurrentCase(folder, json.loads((folder / "meta.json").read_text())))
    return cases


def _variant(case: RecurrentCase) -> Net:
    meta, stored = case.meta, case.stored
    hidden = "r" if meta["proj_size"] else "h"
    parameters = [f"num_output: {meta['H']}", *_options(meta)]
    gates = "iog" if meta["coupled_input_forget"] else "ifog"
    if meta["coupled_input_forget"]:
        # There f is computed and i = 1 - f; here i is: sigmoid(-z) = 1 - sigmoid(z).
        stored = stored | {
            key.replace("f", "i", 1): -array
            for key, array in stored.items()
            if key.startswith(("W_f", "b_f"))
        }
    blobs = [
        np.concatenate([stored[f"W_{gate}x"] for gate in gates]),
        np.concatenate([stored[f"b_{gate}"] for gate in gates]),
        np.concatenate([stored[f"W_{gate}{hidden}"] for gate in gates]),
    ]
    if meta["peephole"]:
        blobs.append(np.stack([stored[f"p_{gate}"] for gate in "ifo"]))
    blobs += [stored[key] for key in ("W_rm", "W_pm") if key in stored]
    feeds = {"x": case.inputs["x"], "cont": np.ones((meta["T"], meta["N"]), np.float32)}
    if meta["seq_lengths"]:
        feeds["lengths"] = case.inputs["seq_lengths"]
        parameters += ["sequence_lengths: true", "past_end: HOLD"]
    feeds |= {"h_0": case.inputs[f"{hidden}0"][None], "c_0": case.inputs["c0"][None]}
    outputs = case.outputs
    tops = [outputs[key] for key in (f"{hidden}_all", "p_all") if key in outputs]
    expected = {
        "rnn": np.concatenate(tops, 2),
        "h_T": outputs[f"{hidden}_last"][None],
        "c_T": outputs["c_last"][None],
    }
    net = Net("LSTM", parameters, blobs, feeds, expected, ("h", "c"))
    if meta["y_size"]:
        net.further = (
            'layer { name: "y" type: "InnerProduct" bottom: "rnn" top: "y"'
            f" inner_product_param {{ num_output: {meta['y_size']} axis: 2 }} }}"
        )
        net.further_blobs = [np.concatenate([stored["W_yr"], stored["W_yp"]], 1), stored["b_y"]]
        net.expected["y"] = outputs["y_all"]
    return net


def _options(meta: Mapping[str, Any]) -> list[str]:
    activations = {
        "gate_activation": meta["activations"]["gate"],
        "candidate_activation": meta["activations"]["candidate"],
        "cell_activation": meta["activations"]["cell_output"],
    }
    options = [f'{name}: "{_ACTIVATIONS[word]}"' for name, word in activations.items()]
    options += [f"{name}: {str(meta[name]).lower()}" for name in ("peephole", "coupled_input_forget")]
    options += [f"{name}: {meta[name]}" for name in ("cell_clip", "proj_clip", "input_clip")]
    options += [f"num_proj: {meta['proj_size']}", f"reverse: {str(meta['reverse']).lower()}"]
    return [*options, f"num_nonrecurrent_proj: {meta['nonrecurrent_proj_size']}"]


def _cudnn(case: RecurrentCase) -> Net:
    meta = case.meta
    directions = 2 if meta["bidirectional"] else 1
    packed = np.load(case.folder / "packed_weight.npy")
    sizes = (meta["D"], meta["H"], meta["num_layers"], directions, meta["proj_size"])
    blobs = weights.to_caffe(weights.from_cudnn(packed, meta["mode"], *sizes))
    parameters = [f"num_output: {meta['H']}", f"num_layers: {meta['num_layers']}"]
    if directions == 2:
        parameters.append("bidirectional: CONCAT")
    if meta["proj_size"]:
        parameters.append(f"num_proj: {meta['proj_size']}")
    if meta["mode"] == "GRU":
        parameters.append("linear_before_reset: true")
    if meta["activation"]:
        parameters.append(f'candidate_activation: "{_ACTIVATIONS[meta["activation"]]}"')
    feeds = {"x": case.inputs["input"], "cont": np.ones((meta["T"], meta["N"]), np.float32)}
    states = ("h", "c") if meta["mode"] == "LSTM" else ("h",)
    for state in states:
        zeros = np.zeros_like(case.outputs[f"{state}y"])
        feeds[f"{state}_0"] = case.inputs.get(f"{state}0", zeros)
    expected = {"rnn": case.outputs["output"]} | {f"{name}_T": case.outputs[f"{name}y"] for name in states}
    layer = {"LSTM": "LSTM", "GRU": "GRU", "RNN": "VanillaRNN"}[meta["mode"]]
    return Net(layer, parameters, blobs, feeds, expected, states)
