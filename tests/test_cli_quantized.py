"""Quantized nets on the command line."""

from __future__ import annotations

import re

from prototrt.tests.command_line import DEPLOY, done


def quantized_layers(*options: str) -> list[str]:
    """The layers whose weights have 8 bits. Without weights no scale is needed to see where 8 bits begin and end."""
    text = done("inspect", DEPLOY, "--stage", "rewritten", "--precision", "int8", *options).stdout
    return re.findall(r"__(\w+)_(?:weights|W_xc|W_hc)_dequantized: ", text)


def test_layers_that_stay_float() -> None:
    assert quantized_layers() == ["conv2", "ip1", "lstm1", "lstm1", "lstm2", "lstm2"]
    assert quantized_layers("--keep-float", "ip1", "--keep-float", "lstm2") == ["conv2", "lstm1", "lstm1"]


def test_the_first_and_the_last_layer_are_quantized_on_request() -> None:
    assert quantized_layers("--quantize-all") == [
        "conv1",
        "conv2",
        "ip1",
        *["lstm1", "lstm1", "lstm2", "lstm2"],
        "score",
    ]
