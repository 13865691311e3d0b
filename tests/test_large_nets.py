"""Nets of many layers: the time grows with their number, not with its square."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

import prototrt

FEW, MANY = 400, 3200
MOST_GROWTH = 3  # times the growth of the net; what is quadratic grows 8 times as much


def fanned_out(count: int) -> str:
    """One blob with many readers, and one layer that reads all of theirs."""
    tops = [f"p{i}" for i in range(count // 2)]
    split = " ".join(f'top: "{top}"' for top in tops)
    layers = [f'layer {{ name: "t{top}" type: "TanH" bottom: "{top}" top: "t{top}" }}' for top in tops]
    concat = " ".join(f'bottom: "t{top}"' for top in tops)
    return "\n".join(
        [
            f'layer {{ name: "split" type: "Split" bottom: "x" {split} }}',
            *layers,
            f'layer {{ name: "concat" type: "Concat" {concat} top: "y" }}',
        ]
    )


def trained(count: int) -> str:
    """Many losses, each of which becomes an answer."""
    loss = (
        'layer {{ name: "fc{0}" type: "InnerProduct" bottom: "x" top: "p{0}" inner_product_param {{ num_output: 1 }} }}'
        'layer {{ name: "loss{0}" type: "SoftmaxWithLoss" bottom: "p{0}" bottom: "label" }}'
    )
    label = 'layer { name: "label" type: "Data" top: "images" top: "label" }'
    return "\n".join([label, *(loss.format(i) for i in range(count // 2))])


def fed(count: int) -> str:
    one = 'layer {{ name: "i{0}" type: "Input" top: "i{0}" input_param {{ shape {{ dim: 1 dim: 4 }} }} }}'
    bottoms = " ".join(f'bottom: "i{i}"' for i in range(count))
    layers = [one.format(i) for i in range(count)]
    return "\n".join([*layers, f'layer {{ name: "sum" type: "Eltwise" {bottoms} top: "y" }}'])


def seconds(text: str, path: Path) -> float:
    """CPU time from the file to the graph."""
    data = 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 4 } } }\n'
    path.write_text(data + text)
    began = time.process_time()
    prototrt.rewrite(prototrt.load(path, random_weights=1))
    return time.process_time() - began


@pytest.mark.exhaustive  # it measures, so a busy machine may fail it
@pytest.mark.parametrize("net", [fanned_out, trained, fed])
def test_growth(net: Callable[[int], str], tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    seconds(net(10), path)  # imports
    few = seconds(net(FEW), path)
    assert seconds(net(MANY), path) < MOST_GROWTH * few * MANY / FEW
