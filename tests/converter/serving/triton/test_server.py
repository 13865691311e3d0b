"""A real Triton server: two clients at a time, each with its own sequence, get the answers of Caffe."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prototrt.surgery.ir import Array
from prototrt.tests.command_line import DEPLOY, STREAM, WEIGHTS, done, strips
from prototrt.tests.converter.serving.triton.nets import POOLING, lstm
from prototrt.tests.converter.serving.triton.server import Server, running_server, why_not
from prototrt.tests.digit_strips import STRIPS, WINDOWS, probabilities, steps
from prototrt.tests.small_nets import inputs_of, numbers

pytestmark = [pytest.mark.slow, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]
TOLERANCE = 1e-5
ECHO = """
import triton_python_backend_utils as triton


class TritonPythonModel:
    def execute(self, requests):
        return [triton.InferenceResponse([echo(request)]) for request in requests]


def echo(request):
    state = triton.get_input_tensor_by_name(request, "lstm_h_0")
    return triton.Tensor.from_dlpack("y", state.to_dlpack())
"""
"""A model whose output is the state that Triton gives it."""
STATE = np.arange(4, dtype=np.float32).reshape(1, 1, 4)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("triton")
    models, python = folder / "models", ("--platform", "python")

    def write(name: str, *net: str) -> Path:
        done("triton", *net, "-o", str(models), "--name", name)
        return models / name

    def text(name: str, content: str) -> tuple[str, ...]:
        path = folder / f"{name}.prototxt"
        path.write_text(content)
        return str(path), "--random-weights", "1"

    write("stream", STREAM, WEIGHTS, *python)
    write("strip", DEPLOY, WEIGHTS, *python)
    write("images", *text("images", inputs_of({"x": (1, 2, 4, 4)}) + POOLING), *python)
    write("onnxruntime", *text("steps", lstm()))
    write("tensorrt", *text("steps", lstm()), "--platform", "tensorrt")
    np.savez(folder / "state.npz", lstm_h_0=STATE, lstm_c_0=STATE)
    echo = write("echo", *text("steps", lstm()), "--state", "const", str(folder / "state.npz"))
    config = (echo / "config.pbtxt").read_text()
    (echo / "config.pbtxt").write_text(config.replace('backend: "onnxruntime"', 'backend: "python"'))
    (echo / "1" / "model.py").write_text(ECHO)
    with running_server(models, folder) as server:
        yield server


def ask(client: Any, model: str, feeds: dict[str, Array], output: str, **sequence: Any) -> Array:
    from tritonclient import grpc

    inputs = []
    for name, array in feeds.items():
        inputs.append(grpc.InferInput(name, array.shape, "FP32"))
        inputs[-1].set_data_from_numpy(array)
    found: Array = client.infer(model, inputs, **sequence).as_numpy(output)
    return found


def test_two_clients_with_interleaved_sequences(server: Server) -> None:
    """Both send a frame, then both send the next. Clients send frames, and no cont."""
    both = threading.Barrier(STRIPS, timeout=60)
    found: dict[int, list[Array]] = {}

    def read(strip: int) -> None:
        with server.client() as client:
            for t, feeds in enumerate(steps(WINDOWS, strip)):
                both.wait()
                place = {"sequence_id": strip + 1, "sequence_start": t == 0, "sequence_end": t == WINDOWS - 1}
                found.setdefault(strip, []).append(
                    ask(client, "stream", {"data": feeds["data"]}, "prob", **place)
                )

    clients = [threading.Thread(target=read, args=(strip,)) for strip in range(STRIPS)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    for strip in range(STRIPS):
        wanted = [prob.reshape(1, 11) for prob in probabilities(WINDOWS, strip)]
        np.testing.assert_allclose(found[strip], wanted, atol=TOLERANCE)


def test_forty_steps_in_a_request(server: Server) -> None:
    known = strips()
    with server.client() as client:
        for strip in range(3):
            data = known["data"][strip][None]
            found = ask(
                client,
                "strip",
                {"data": data},
                "prob",
                sequence_id=99,
                sequence_start=True,
                sequence_end=True,
            )
            np.testing.assert_allclose(found, known["prob"][strip].reshape(1, 40, 11), atol=TOLERANCE)


def test_images(server: Server) -> None:
    image = numbers(3, 2, 4, 4)
    with server.client() as client:
        found = ask(client, "images", {"x": image}, "y")
    np.testing.assert_array_equal(found, image.max((2, 3), keepdims=True))


def test_a_sequence_begins_with_its_first_request(server: Server) -> None:
    from tritonclient.utils import InferenceServerException

    with (
        server.client() as client,
        pytest.raises(InferenceServerException, match="must specify the START flag"),
    ):
        ask(client, "stream", {"data": steps(1)[0]["data"]}, "prob", sequence_id=1234)


def test_triton_gives_the_state_that_sequences_start_with(server: Server) -> None:
    with server.client() as client:
        found = ask(client, "echo", {"x": numbers(1, 3)}, "y", sequence_id=5, sequence_start=True)
    np.testing.assert_array_equal(found, STATE.reshape(1, 4))


@pytest.mark.parametrize("platform", ["onnxruntime", "tensorrt"])
def test_triton_takes_the_config_of_other_platforms(server: Server, platform: str) -> None:
    """It reads and checks the config, then looks for a backend, which this server lacks."""
    with server.client() as client:
        models = client.get_model_repository_index().models
    (reason,) = (model.reason for model in models if model.name == platform)
    assert f"unable to find backend library for backend '{platform}'" in reason
