"""CRF-RNN's mean field beyond its golden: batches, further blobs and tops, and messages."""

from __future__ import annotations

import numpy as np
import pytest

import prototrt
from prototrt import Way
from prototrt.surgery.forks import mean_field
from prototrt.tests.golden_cases import case_called
from prototrt.tests.small_nets import WAYS, numbers, op, refusal, rewritten, run, stored, told

SHAPES = {"unary": (2, 3, 4, 5), "first": (2, 3, 4, 5), "image": (2, 3, 4, 5)}
FIELDS = "multi_stage_meanfield_param { num_iterations: 2 theta_alpha: 4 theta_beta: 2 theta_gamma: 1 }"
WEIGHTS = [numbers(1, 1, 3, 3, seed=seed) for seed in range(3)]


@pytest.mark.parametrize("on", WAYS)
def test_each_image_of_a_batch_has_its_own_filter(on: Way) -> None:
    inputs = {name: numbers(*shape, seed=seed) for seed, (name, shape) in enumerate(SHAPES.items())}
    layer = op("MultiStageMeanfield", FIELDS, SHAPES)
    together = run(layer, inputs, stored("op", WEIGHTS), on)["y"]
    for place in range(2):
        one = {name: array[place : place + 1] for name, array in inputs.items()}
        np.testing.assert_allclose(
            together[place], run(layer, one, stored("op", WEIGHTS))["y"][0], 1e-4, 1e-5
        )


@pytest.mark.parametrize("on", WAYS)
def test_size_of_the_batch_varies(on: Way) -> None:
    inputs = {name: numbers(*shape, seed=seed) for seed, (name, shape) in enumerate(SHAPES.items())}
    layer = op("MultiStageMeanfield", FIELDS, SHAPES)
    most = {name: (3, *shape[1:]) for name, shape in SHAPES.items()}
    least = {name: (1, *shape[1:]) for name, shape in SHAPES.items()}
    graph = rewritten(layer, SHAPES, stored("op", WEIGHTS), min_shapes=least, max_shapes=most)
    found = prototrt.Session(graph, on=on).run(inputs)["y"]
    np.testing.assert_allclose(found, run(layer, inputs, stored("op", WEIGHTS))["y"], 1e-4, 1e-5)


def test_layers_of_caffe_tvg_have_more_blobs_and_tops() -> None:
    further = [np.ones((1, 1, 1, size)) for size in (3, 3, 4, 4)]
    fields = FIELDS.replace("num_iterations", "ho_num_layers: 4 num_iterations")
    layer = op("MultiStageMeanfield", fields, [*SHAPES, "index"], ["y", "latent"])
    inputs = {name: numbers(*shape) for name, shape in SHAPES.items()}
    found = run(layer, inputs | {"index": np.zeros(1, "f")}, stored("op", [*WEIGHTS, *further]))
    plain = run(op("MultiStageMeanfield", FIELDS, SHAPES), inputs, stored("op", WEIGHTS))
    np.testing.assert_array_equal(found["y"], plain["y"])
    assert found["latent"].shape == (1, 1, 1, 200)
    assert not found["latent"].any()


def test_exact_filters_are_told() -> None:
    warnings = prototrt.rewrite(case_called("mean_field").load()).warnings
    assert [told(warning).partition(": layer ")[2] for warning in warnings] == [
        '"crf" (MultiStageMeanfield): its filters are exact Gaussians, which the fork approximates by permutohedral '
        "lattices: numbers differ; the bilateral filter takes 1.6 kB"
    ]


@pytest.mark.parametrize("on", WAYS)
def test_large_maps_are_filtered_in_blocks(monkeypatch: pytest.MonkeyPatch, on: Way) -> None:
    """Of 3 of 20 pixels, the last of which is not whole."""
    monkeypatch.setattr(mean_field, "MOST_PAIRS", 399)
    monkeypatch.setattr(mean_field, "MOST_PAIRS_OF_BLOCK", 79)
    golden = case_called("mean_field")
    graph = prototrt.rewrite(golden.load())
    assert [warning.rpartition("lattices: ")[2] for warning in graph.warnings] == [
        "numbers differ; the bilateral filter takes 240 bytes at a time, and compares 4e+02 pairs of pixels in each"
        " step, which needs a GPU"
    ]
    found = prototrt.Session(graph, on=on).run(golden.arrays("inputs")[0])["pred"]
    np.testing.assert_allclose(found, golden.arrays("outputs")[0]["pred"], 1e-4, 1e-5)


def test_filters_of_dense_crf_have_all_numbers() -> None:
    fields = "dense_crf_param { bi_w: 1 bi_xy_std: 2 }"
    shapes = {"scores": (1, 3, 4, 5), "sizes": (1, 1, 1, 2), "image": (1, 3, 4, 5)}
    assert refusal(op("DenseCRF", fields, shapes), shapes) == (
        'net.prototxt:4: layer "op" (DenseCRF): bi_w is stated 1 times and bi_xy_std is stated 1 times and'
        " bi_rgb_std is stated 0 times\n  fix: state all of them once for each filter"
    )


def test_padding_is_not_left_out() -> None:
    graph = rewritten(
        op("DenseCRF", "dense_crf_param { }", ["x", "sizes"]), {"x": (1, 3, 4, 5), "sizes": (1, 1, 1, 2)}
    )
    assert [told(warning).partition(" (DenseCRF): ")[2] for warning in graph.warnings] == [
        'bottom "sizes" is not read: images must fill the map, without padding'
    ]


MESSAGES = [
    ("detection_potentials_enabled: true", SHAPES,
     ": states detection_potentials_enabled: true, which is not supported\n"
     "  because it reads files that are not part of the model\n"
     '  fix: remove it, or cut the net before this layer with outputs=["BLOB"]'),
    ("ho_potentials_enabled: true", SHAPES, ": states ho_potentials_enabled: true, which is not supported\n"
     "  because it reads files that are not part of the model\n"
     '  fix: remove it, or cut the net before this layer with outputs=["BLOB"]'),
    ("is_no_class_weights: true", SHAPES, ": states is_no_class_weights: true, which is not supported\n"
     '  fix: remove it, or cut the net before this layer with outputs=["BLOB"]'),
    ("theta_beta: 0", SHAPES, ": theta_beta is 0, expected more than 0\n"
     "  fix: give the filter a width, as in theta_beta: 3"),
    ("num_iterations: 101", SHAPES, ": num_iterations is 101, expected at most 100\n"
     "  because a net of a few lines must not take gigabytes\n  fix: use a smaller number"),
    ("", SHAPES | {"image": (2, 3, 8, 10)}, ', bottom "image": shape is (2, 3, 8, 10), expected (2, 3, 4, 5)\n'
     '  because of bottom "unary", with the shape (2, 3, 4, 5)\n  fix: crop or resize one of them before this layer'),
]  # fmt: skip


@pytest.mark.parametrize(("field", "shapes", "message"), MESSAGES)
def test_messages(field: str, shapes: dict[str, tuple[int, ...]], message: str) -> None:
    layer = op("MultiStageMeanfield", f"multi_stage_meanfield_param {{ {field} }}", shapes)
    assert refusal(layer, shapes).partition("(MultiStageMeanfield)")[2] == message
