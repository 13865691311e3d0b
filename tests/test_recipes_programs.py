"""docs/recipes: whole programs around a net: tiles, folders and sound that goes on."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import prototrt
from prototrt.surgery.ir import Array
from prototrt.tests.golden_cases import case_called
from prototrt.tests.recipe_nets import RECIPES, convolution, layers, reference, scaled, write_net, write_photo
from prototrt.tests.shown_pages import run_page
from prototrt.tests.small_nets import inputs_of
from prototrt.tests.tools.caffemodel_writer import write as write_caffemodel

pytest.importorskip("onnxruntime", reason="the recipes run models")

VALID = "convolution_param {{ num_output: {} kernel_size: 3 }}"
UPCONV = inputs_of({"input": (1, 3, 142, 142)}) + layers(
    *(
        ("Convolution", VALID.format(width), [bottom], f"conv{number}")
        for number, (width, bottom) in enumerate(
            zip([4, 4, 6, 6, 6, 4], ["input", *(f"conv{number}" for number in range(1, 6))], strict=True), 1
        )
    ),
    (
        "Deconvolution",
        "convolution_param { num_output: 3 kernel_size: 4 stride: 2 pad: 3 }",
        ["conv6"],
        "conv7",
    ),
)
CLASSIFIER = inputs_of({"data": (1, 3, 227, 227)}) + layers(
    ("Convolution", convolution(8, 3, 4), ["data"], "conv1"),
    ("ReLU", "", ["conv1"], "relu1"),
    ("Pooling", "pooling_param { pool: AVE kernel_size: 19 stride: 19 }", ["relu1"], "pool"),
    ("InnerProduct", "inner_product_param { num_output: 10 }", ["pool"], "score"),
    ("Softmax", "", ["score"], "prob"),
)
SPEECH = inputs_of({"data": (50, 1, 161), "cont": (50, 1)}) + layers(
    ("InnerProduct", "inner_product_param { num_output: 24 axis: 2 }", ["data"], "fc1"),
    ("Clip", "clip_param { min: 0 max: 20 }", ["fc1"], "clipped"),
    ("RNN", "recurrent_param { num_output: 16 }", ["clipped", "cont"], "rnn"),
    ("InnerProduct", "inner_product_param { num_output: 29 axis: 2 }", ["rnn"], "score"),
    ("Softmax", "softmax_param { axis: 2 }", ["score"], "prob"),
)


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_waifu2x() -> None:
    """Tiles give what the whole image gives."""
    model = write_net(UPCONV)
    photo = write_photo("photo.png", 160, 136)
    run_page(RECIPES / "waifu2x.md")
    pixels = np.pad(np.asarray(photo, np.float32) / 255, ((7, 7), (7, 7), (0, 0)), "edge")
    expected = reference(model, {"input": np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])})["conv7"]
    made = np.asarray(Image.open("enlarged.png"), np.float32).transpose(2, 0, 1)
    assert made.shape == (3, 272, 320)
    assert made.std() > 1
    np.testing.assert_allclose(made, expected[0].clip(0, 1) * 255, atol=0.501)


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_classify() -> None:
    model = scaled(write_net(CLASSIFIER), {"conv1": 0.05, "score": 4})
    Path("synset_words.txt").write_text("\n".join(f"label {number}" for number in range(10)))
    Path("photos").mkdir()
    for number in range(17):
        write_photo(f"photos/{number:02}.png", 320, 240)
    names = run_page(RECIPES / "classify.md")
    assert [file.name for file in names["found"]] == [f"{number:02}.png" for number in range(17)]
    for file, best in names["found"].items():
        pixels = np.asarray(Image.open(file).resize((256, 256), Image.Resampling.BILINEAR), np.float32)
        middle = (pixels[14:241, 14:241, ::-1] - [104, 117, 123]).transpose(2, 0, 1)[None]
        prob = reference(model, {"data": np.ascontiguousarray(middle, np.float32)})["prob"][0]
        assert [label for label, _ in best] == [f"label {place}" for place in prob.argsort()[::-1][:5]]
        np.testing.assert_allclose([share for _, share in best], np.sort(prob)[::-1][:5], atol=1e-4)
    assert len({best[0][0] for best in names["found"].values()}) > 1


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_speech() -> None:
    """Sound in pieces gives the text of the whole sound."""
    model = scaled(write_net(SPEECH), {"fc1": 3, "rnn": 3, "score": 8})
    sound = np.random.default_rng(5).standard_normal(20_000).astype(np.float32) / 4
    np.save("sound.npy", sound)
    names = run_page(RECIPES / "speech.md")
    whole = names["spectrum"](sound)[:, None]
    assert whole.shape == (124, 1, 161)
    cont = np.ones((len(whole), 1), np.float32)
    cont[0] = 0
    places = reference(model, {"data": whole, "cont": cont})["prob"][:, 0].argmax(1)
    kept = [
        place for place, before in zip(places, [0, *places[:-1]], strict=True) if place not in (0, before)
    ]
    assert names["text"] == "".join(names["ALPHABET"][place] for place in kept)
    assert len({*names["text"]}) > 3
    uneven = np.split(sound, [100, 330, 350, 7000, 7300, 14000])
    assert "".join(names["texts"](names["session"], uneven)) == names["text"]


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_faster_rcnn() -> None:
    """Each box is a region moved as the net says, and overlaps no likelier one of its class."""
    case = case_called("net_faster_rcnn")
    Path("deploy.prototxt").write_text((case.folder / "model.prototxt").read_text())
    model = prototrt.load("deploy.prototxt", case.folder / "model.caffemodel")
    model = scaled(model, {"conv1": 0.05, "cls_score": 40, "bbox_pred": 0.1})
    photo = write_photo("photo.png", 160, 120)
    names = run_page(RECIPES / "faster-rcnn.md")
    pixels = np.asarray(photo.resize((800, 600), Image.Resampling.BILINEAR), np.float32)[:, :, ::-1]
    data = (pixels - [102.9801, 115.9465, 122.7717]).transpose(2, 0, 1)[None].astype(np.float32)
    feeds = {"data": data, "im_info": np.array([[600, 800, 5]], np.float32)}
    graph = prototrt.rewrite(model, shapes={"data": data.shape}, outputs=["rois", "cls_prob", "bbox_pred"])
    results = prototrt.Session(graph, cut=True).run(feeds)
    regions, scores, moves = names["regions_of"](photo)
    np.testing.assert_allclose(regions, results["rois"][:, 1:] / 5, atol=1e-2)
    np.testing.assert_allclose(scores, results["cls_prob"], atol=1e-3)
    np.testing.assert_allclose(moves.reshape(len(moves), -1), results["bbox_pred"], atol=1e-3)
    assert len(names["found"]) > 1
    for kind, score, corners in names["found"]:
        likely = np.flatnonzero(np.abs(scores[:, kind] - score) < 1e-6)
        boxes = [moved_box(regions[row], moves[row, kind]) for row in likely]
        assert np.abs(np.array(boxes) - corners).max(1).min() < 1e-3
    for first, second in itertools.combinations(names["found"], 2):
        assert first[0] != second[0] or overlap(first[2], second[2]) <= 0.3
    assert (np.asarray(Image.open("boxes.png")) == (255, 0, 0)).all(2).sum() > 100


def moved_box(region: Array, move: Array) -> Array:
    """A region moved by py-faster-rcnn's formula, within the image of 160 x 120."""
    (x1, y1, x2, y2), (dx, dy, dw, dh) = region, move
    width, height = x2 - x1 + 1, y2 - y1 + 1
    x, y = x1 + width / 2 + dx * width, y1 + height / 2 + dy * height
    halves = np.exp(dw) * width / 2, np.exp(dh) * height / 2
    corners = [x - halves[0], y - halves[1], x + halves[0], y + halves[1]]
    clipped: Array = np.clip(corners, 0, [159, 119] * 2)
    return clipped


def overlap(first: list[float], second: list[float]) -> float:
    """Common pixels over all pixels of two boxes; a box has its last pixels."""
    width = min(first[2], second[2]) - max(first[0], second[0]) + 1
    height = min(first[3], second[3]) - max(first[1], second[1]) + 1
    common = max(width, 0) * max(height, 0)
    areas = [(box[2] - box[0] + 1) * (box[3] - box[1] + 1) for box in (first, second)]
    return common / (sum(areas) - common)


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_odd_layer() -> None:
    """Two models with a function between them give what the whole net gives, whose state goes on from call to call."""
    page = (RECIPES / "odd-layer.md").read_text()
    draw = np.random.default_rng(3).standard_normal
    shapes = {"fc": [(8, 12), (8,)], "lstm": [(64, 8), (64,), (64, 16)]}
    blobs = {name: [draw(shape, np.float32) for shape in each] for name, each in shapes.items()}
    write_caffemodel(Path("net.caffemodel"), blobs)
    data = draw((40, 12), np.float32)
    np.save("data.npy", data)
    calls = run_page(RECIPES / "odd-layer.md")["calls"]
    rows = data @ blobs["fc"][0].T + blobs["fc"][1]
    rank = np.array([[np.sum(row < number) / 7 for number in row] for row in rows], np.float32)
    after = [line for line in page.splitlines() if line.startswith("layer {")][4:]
    text = inputs_of({"rank": (40, 8), "cont": (40, 1)}) + "\n".join(after).replace("20", "40")
    Path("rest.prototxt").write_text(text)
    model = prototrt.load("rest.prototxt", "net.caffemodel")
    expected = reference(model, {"rank": rank, "cont": np.ones((40, 1), np.float32)})["lstm"]
    np.testing.assert_allclose(np.concatenate(calls), expected, atol=2e-6)
