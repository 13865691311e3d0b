"""A function that is called too early says what to call first."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import prototrt
from prototrt.tests.command_line import DEPLOY, WEIGHTS

LOAD = 'prototrt.load("net.prototxt", "net.caffemodel")'
MODEL = prototrt.load(DEPLOY, WEIGHTS)
CASES: list[tuple[Callable[..., object], object, str]] = [
    (prototrt.rewrite, DEPLOY, f"prototrt.rewrite takes a Model, not a file: call model = {LOAD} first"),
    (
        prototrt.rewrite,
        prototrt.rewrite(MODEL),
        "prototrt.rewrite takes a Model, not a Graph: give the model that the graph was made from",
    ),
    (prototrt.rewrite, 3, "prototrt.rewrite takes a Model, not an int"),
    (
        prototrt.build,
        MODEL,
        "prototrt.build takes a Graph, not a Model: call graph = prototrt.rewrite(model) first",
    ),
    (
        prototrt.build,
        DEPLOY,
        f"prototrt.build takes a Graph, not a file: call graph = prototrt.rewrite({LOAD}) first",
    ),
    (
        lambda model: prototrt.export_onnx(model, "net.onnx"),
        MODEL,
        "prototrt.export_onnx takes a Graph, not a Model: call graph = prototrt.rewrite(model) first",
    ),
    (
        prototrt.Session,
        MODEL,
        "prototrt.Session takes a Graph, not a Model: call graph = prototrt.rewrite(model) first",
    ),
    (
        prototrt.Session,
        DEPLOY,
        f"prototrt.Session takes a Graph, not a file: call graph = prototrt.rewrite({LOAD}) first",
    ),
]


@pytest.mark.parametrize(("function", "subject", "message"), CASES, ids=[case[2][9:40] for case in CASES])
def test_a_subject_that_is_not_ready(function: Callable[..., object], subject: object, message: str) -> None:
    with pytest.raises(TypeError) as refusal:
        function(subject)
    assert str(refusal.value) == message
