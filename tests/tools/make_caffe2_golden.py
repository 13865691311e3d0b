"""Make a golden of Caffe2: a predict net, its init net, inputs, and what real Caffe2 computes of them.

    CAFFE2_PYTHON=PYTHON python -m prototrt.tests.tools.make_caffe2_golden predict_net.pbtxt init_net.pb inputs.npz \\
        --name NAME --exercises "What it is about"

CAFFE2_PYTHON is the command of a Python that has Caffe2: PyTorch 1.8.1 does, up to Python 3.9. The golden is a
folder in ``tests/goldens/caffe2`` with an entry in ``index.json``; the tests of Caffe2's goldens find it there.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
from google.protobuf import text_format

from prototrt.caffe_proto.caffe2.files import read_net
from prototrt.caffe_proto.recognition import open_input
from prototrt.surgery.ir import Array

GOLDENS = Path(__file__).parents[1] / "goldens" / "caffe2"
SERVER = Path(__file__).parents[1] / "oracle" / "caffe2_server.py"
TOLERANCE = {"rtol": 1e-4, "atol": 2e-5, "note": "fp32 engine, TF32 off; Caffe2 CPU fp32 is the reference"}
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("predict", type=_FILE)
@click.argument("init", type=_FILE)
@click.argument("inputs", type=_FILE)
@click.option("--name", required=True, help="The folder of the golden; ff_... for a net without recurrence.")
@click.option("--exercises", required=True, metavar="TEXT", help="What the golden is about, for the index.")
def main(predict: Path, init: Path, inputs: Path, name: str, exercises: str) -> None:
    """Make a golden of the net PREDICT, with the weights of INIT, for INPUTS (.npz, by blob)."""
    command = os.environ.get("CAFFE2_PYTHON")
    if not command:
        raise click.UsageError("set CAFFE2_PYTHON to the command of a Python that has Caffe2")
    folder = GOLDENS / name
    if folder.exists():
        raise click.UsageError(f"{folder} is there already: give another --name")
    folder.mkdir()
    try:
        facts = _written(folder, predict, init, inputs, shlex.split(command), exercises)
        index = json.loads((GOLDENS / "index.json").read_text())
        index["cases"] = sorted([*index["cases"], facts], key=lambda entry: str(entry["case"]))
        index["count"] = len(index["cases"])
        (GOLDENS / "index.json").write_text(json.dumps(index, indent=1) + "\n")
    except BaseException:
        shutil.rmtree(folder)
        raise
    click.echo(f"{folder}: {len(np.load(folder / 'outputs.npz').files)} outputs")


def _written(
    folder: Path, predict: Path, init: Path, inputs: Path, command: list[str], exercises: str
) -> dict[str, Any]:
    """Write the files of the golden. The entry of the index."""
    nets = {"predict_net": predict, "init_net": init}
    messages = {
        stem: read_net(open_input(str(file), "a net"), "a net").message for stem, file in nets.items()
    }
    for stem, message in messages.items():
        (folder / f"{stem}.pb").write_bytes(message.SerializeToString(deterministic=True))
    (folder / "predict_net.pbtxt").write_text(text_format.MessageToString(messages["predict_net"]))
    shutil.copy(inputs, folder / "inputs.npz")
    version = _computed(folder, command)
    operators = messages["predict_net"].op
    facts = {
        "case": folder.name,
        "exercises": exercises,
        "level": "normal",
        "made_with_torch": version,
        "ops": sorted({operator.type for operator in operators}),
        "step_net_encoding": [],
        "tolerance": TOLERANCE,
    }
    arrays = {kind: dict(np.load(folder / f"{kind}.npz")) for kind in ("inputs", "outputs")}
    described = {kind: _described(each) for kind, each in arrays.items()}
    meta = {**facts, **described, "output_order": list(messages["predict_net"].external_output)}
    (folder / "meta.json").write_text(json.dumps(meta, indent=1, sort_keys=True) + "\n")
    return facts


def _computed(folder: Path, command: list[str]) -> str:
    """Have Caffe2 write ``outputs.npz``; its version."""
    with tempfile.TemporaryDirectory() as other:
        results = Path(other, "outputs.npz")
        files = [folder / "predict_net.pb", folder / "init_net.pb", folder / "inputs.npz", results]
        call = [*command, "-c", SERVER.read_text(), *map(str, files)]
        done = subprocess.run(call, capture_output=True, text=True, check=False)
        if done.returncode:
            raise click.ClickException(f"Caffe2 refused the net: {done.stderr[-2000:]}")
        shutil.copy(results, folder / "outputs.npz")
    return done.stdout.split()[-1]


def _described(arrays: Mapping[str, Array]) -> dict[str, Any]:
    return {name: {"dtype": str(array.dtype), "shape": list(array.shape)} for name, array in arrays.items()}


if __name__ == "__main__":
    main()
