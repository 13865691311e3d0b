"""What a net costs, worked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

import prototrt
from prototrt.surgery.views.inspection import inspect
from prototrt.tests.small_nets import inputs_of

T, N, D, H, S = 7, 3, 5, 4, 6


@pytest.mark.parametrize(
    ("kind", "options", "statics", "step", "once"),
    [
        ("LSTM", "", False, 4 * H * (D + H), 0),
        ("LSTM", "", True, 4 * H * (D + H), 4 * H * S),
        ("LSTM", "num_proj: 2", False, 4 * H * (D + 2) + 2 * H, 0),
        ("LSTM", "bidirectional: CONCAT", False, 2 * 4 * H * (D + H), 0),
        ("LSTM", "num_layers: 2", False, 4 * H * (D + H) + 4 * H * (H + H), 0),
        ("LSTM", "coupled_input_forget: true", False, 3 * H * (D + H), 0),
        ("RNN", "", False, H * (D + H) + H * H, 0),
        ("GRU", "", False, 3 * H * (D + H), 0),
    ],
)
@pytest.mark.parametrize("steps", [1, T])
def test_multiply_adds_of_a_step_and_of_a_call(
    kind: str, options: str, statics: bool, step: int, once: int, steps: int, tmp_path: Path
) -> None:
    """Of one step: N times the products; what a static input adds is computed once a call."""
    shapes = {"x": (steps, N, D), "cont": (steps, N)} | ({"static": (N, S)} if statics else {})
    bottoms = " ".join(f'bottom: "{name}"' for name in shapes)
    file = tmp_path / "net.prototxt"
    file.write_text(
        f'{inputs_of(shapes)}layer {{ name: "rnn" type: "{kind}" {bottoms} top: "rnn"'
        f" recurrent_param {{ num_output: {H} {options} }} }}"
    )
    *_, layer = inspect(prototrt.load(file)).layers
    assert layer.multiply_adds == N * (steps * step + once)
    assert layer.multiply_adds_per_step == N * (step + (once if steps == 1 else 0))
