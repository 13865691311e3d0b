"""docs/recipes: each page runs as it stands, with a small net of ours in the form of the page's net."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import prototrt
from prototrt.surgery.ir import Array
from prototrt.tests import pose_maps
from prototrt.tests.golden_cases import case_called
from prototrt.tests.pose_maps import CROWD, Person, as_coco, drawn, recipe, standing
from prototrt.tests.recipe_nets import (
    PROGRAMS,
    RECIPES,
    convolution,
    layers,
    reference,
    scaled,
    write_net,
    write_photo,
)
from prototrt.tests.shown_pages import run_page
from prototrt.tests.small_nets import inputs_of
from prototrt.tests.tools.random_caffemodel import write_random

onnxruntime = pytest.importorskip("onnxruntime", reason="the recipes run models")

CRNN = inputs_of({"data": (1, 3, 32, 128)}) + layers(
    ("Convolution", convolution(6), ["data"], "conv0"),
    ("Pooling", "pooling_param { kernel_size: 2 stride: 2 }", ["conv0"], "pool0"),
    ("Convolution", convolution(8), ["pool0"], "conv1"),
    ("Pooling", "pooling_param { kernel_size: 2 stride: 2 }", ["conv1"], "pool1"),
    ("Pooling", "pooling_param { kernel_h: 2 kernel_w: 1 stride_h: 2 stride_w: 1 }", ["pool1"], "pool2"),
    (
        "Pooling",
        "pooling_param { kernel_size: 2 stride_h: 2 stride_w: 1 pad_w: 1 pad_h: 0 }",
        ["pool2"],
        "pool3",
    ),
    ("Convolution", "convolution_param { num_output: 512 kernel_size: 2 }", ["pool3"], "conv6"),
    ("Reshape", "reshape_param { shape { dim: 1 dim: 512 dim: 32 } }", ["conv6"], "reshape"),
    ("Permute", "permute_param { order: 2 order: 0 order: 1 }", ["reshape"], "permuted_data"),
    (
        "ContinuationIndicator",
        "continuation_indicator_param { time_step: 32 batch_size: 1 }",
        [],
        "indicator",
    ),
    ("LSTM", "recurrent_param { num_output: 12 }", ["permuted_data", "indicator"], "lstm1"),
    ("LSTM", "recurrent_param { num_output: 12 }", ["lstm1", "indicator"], "lstm2"),
    ("InnerProduct", "inner_product_param { num_output: 37 axis: 2 }", ["lstm2"], "fc1"),
    ("Softmax", "softmax_param { axis: 2 }", ["fc1"], "probs"),
)
"""As crnn.caffe has it, with fewer channels."""
LRCN = inputs_of(
    {"cont_sentence": (1, 1000), "input_sentence": (1, 1000), "image_features": (1000, 1000)}
) + layers(
    ("Embed", "embed_param { num_output: 8 input_dim: 20 bias_term: false }", ["input_sentence"], "embedded"),
    ("LSTM", "recurrent_param { num_output: 12 }", ["embedded", "cont_sentence"], "lstm1"),
    ("LSTM", "recurrent_param { num_output: 12 }", ["lstm1", "cont_sentence", "image_features"], "lstm2"),
    ("InnerProduct", "inner_product_param { num_output: 20 axis: 2 }", ["lstm2"], "predict"),
    ("Softmax", "softmax_param { axis: 2 }", ["predict"], "probs"),
)
"""As lisa-caffe-public has it, with fewer words and units."""
ACTIVITY = (
    'name: "activity"\n'
    + inputs_of({"data": (160, 3, 227, 227), "clip_markers": (160, 1, 1, 1)})
    + """
layer { name: "pool" type: "Pooling" bottom: "data" top: "pool" pooling_param { pool: AVE kernel_size: 60 stride: 60 } }
layer { name: "fc6" type: "InnerProduct" bottom: "pool" top: "fc6" inner_product_param { num_output: 4096 } }
layer {
  name: "reshape-data" type: "Reshape" bottom: "fc6" top: "fc6-reshape"
  reshape_param { shape { dim: 16 dim: 10 dim: 4096 } }
}
layer {
  name: "reshape-cm" type: "Reshape" bottom: "clip_markers" top: "reshape-cm"
  reshape_param { shape { dim: 16 dim: 10 } }
}
layer {
  name: "lstm1" type: "LSTM" bottom: "fc6-reshape" bottom: "reshape-cm" top: "lstm1" recurrent_param { num_output: 4 }
}
layer {
  name: "fc8-final" type: "InnerProduct" bottom: "lstm1" top: "fc8-final"
  inner_product_param { num_output: 11 axis: 2 }
}
layer { name: "probs" type: "Softmax" bottom: "fc8-final" top: "probs" softmax_param { axis: 2 } }
"""
)
"""As lisa-caffe-public has it, with fewer layers and units."""
FCN = inputs_of({"data": (1, 3, 64, 64)}) + layers(
    ("Convolution", convolution(6).replace("pad: 1", "pad: 9"), ["data"], "conv1"),
    ("Pooling", "pooling_param { kernel_size: 4 stride: 4 }", ["conv1"], "pool1"),
    ("Convolution", convolution(21, 1), ["pool1"], "score_fr"),
    (
        "Deconvolution",
        "convolution_param { num_output: 21 kernel_size: 8 stride: 4 bias_term: false }",
        ["score_fr"],
        "upscore",
    ),
    ("Crop", "crop_param { axis: 2 offset: 4 }", ["upscore", "data"], "score"),
)
POSE = inputs_of({"image": (1, 3, 64, 64)}) + layers(
    ("Convolution", convolution(12, 9, 8), ["image"], "conv1"),
    ("PReLU", "", ["conv1"], "prelu1"),
    ("Convolution", convolution(26), ["prelu1"], "heat"),
    ("Convolution", convolution(52), ["prelu1"], "fields"),
    ("Concat", "", ["heat", "fields"], "net_output"),
)


def test_every_page_is_listed_and_links_lead_somewhere() -> None:
    contents = (RECIPES / "README.md").read_text()
    programs = "".join(page.read_text() for page in RECIPES.glob("*.md"))
    assert [each.name for each in PROGRAMS.iterdir() if f"/{each.name})" not in programs] == []
    for page in RECIPES.glob("*.md"):
        assert page.name == "README.md" or f"({page.name})" in contents
        for link in re.findall(r"\]\((?!https:)([^)#]+)", page.read_text()):
            assert (RECIPES / link).exists(), f"{page.name}: {link}"


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_crnn() -> None:
    model = write_net(CRNN)
    line = write_photo("line.png", 160, 40)
    names = run_page(RECIPES / "crnn.md")
    pixels = np.asarray(line.resize((128, 32)), np.float32)[:, :, ::-1].transpose(2, 0, 1)[None] / 127.5 - 1
    prob = reference(model, {"data": pixels}, cont="drop", state="zero")["probs"]
    assert names["prob"].shape == (32, 37)
    np.testing.assert_allclose(names["prob"], prob[:, 0], atol=1e-5)


def test_texts_of_columns() -> None:
    """The best path, and the best text of all: each way to write one is counted."""
    names = python_of("crnn.py", "def best_path", "prob = columns")
    names["ALPHABET"] = "ab"
    for seed in range(20):
        prob = np.random.default_rng(seed).dirichlet([1, 1, 1], 5)
        assert names["best_path"](prob) == text_of(tuple(prob.argmax(1)))
        shares: dict[str, float] = {}
        for path in itertools.product(range(3), repeat=5):
            share = float(np.prod([prob[step, place] for step, place in enumerate(path)]))
            shares[text_of(path)] = shares.get(text_of(path), 0) + share
        assert names["best_text"](prob, beams=100) == max(shares, key=shares.__getitem__)


def text_of(path: tuple[int, ...]) -> str:
    return "".join("-ab"[place] for place, _ in itertools.groupby(path) if place)


def python_of(program: str, begin: str, end: str) -> dict[str, Any]:
    """What a part of a recipe's program defines."""
    text = (PROGRAMS / program).read_text()
    names: dict[str, Any] = {"np": np}
    exec(compile(text[text.index(begin) : text.index(end, text.index(begin))], program, "exec"), names)
    return names


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_lrcn() -> None:
    """Each word is the likeliest after those before it, as one call with all of them says."""
    Path("deploy_lstm.prototxt").write_text(ACTIVITY)
    assert write_random(Path("activity.caffemodel"), Path("deploy_lstm.prototxt"))
    model = scaled(write_net(LRCN), {"embedded": 30, "lstm1": 4, "lstm2": 4, "predict": 8})
    vocabulary = [f"word{number}" for number in range(1, 20)]
    Path("vocabulary.txt").write_text("\n".join(vocabulary))
    features = np.random.default_rng(0).standard_normal((1, 1000)).astype(np.float32) / 8
    np.save("features.npy", features)
    names = run_page(RECIPES / "lrcn.md")
    _expect_frames_as_a_clip()
    sentence = [1 + vocabulary.index(word) for word in names["caption"](features).split()]
    assert len({*sentence}) > 1
    read = np.array([[0], *([word] for word in sentence[:-1])], np.float32)
    cont = np.ones_like(read)
    cont[0] = 0
    feeds: dict[str, Array] = {"input_sentence": read, "cont_sentence": cont, "image_features": features}
    assert reference(model, feeds)["probs"][:, 0].argmax(1).tolist() == sentence
    drawn_twice = [names["caption"](features, temperature=1.0, seed=3) for _ in range(2)]
    assert drawn_twice[0] == drawn_twice[1] != names["caption"](features)


def _expect_frames_as_a_clip() -> None:
    """Frame by frame, the session and Triton's model answer as the net of 16 steps does."""
    model = prototrt.load("deploy_lstm.prototxt", "activity.caffemodel")
    data: Array = np.random.default_rng(1).standard_normal((160, 3, 227, 227), np.float32)
    clip: Array = np.ones((160, 1, 1, 1), np.float32)
    clip[:10] = 0
    expected = reference(model, {"data": data, "clip_markers": clip})["probs"]
    session = prototrt.Session("activity.onnx")
    served = onnxruntime.InferenceSession("models/activity/1/model.onnx")
    assert [size.shape for size in served.get_inputs() if size.name == "clip_markers"] == [["N", 1]]
    for step in range(3):
        row = step * 10
        feeds: dict[str, Array] = {"data": data[row : row + 1], "clip_markers": clip[row : row + 1]}
        np.testing.assert_allclose(session.run(feeds)["probs"][0, 0], expected[step, 0], atol=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_ssd() -> None:
    case = case_called("net_ssd")
    Path("deploy.prototxt").write_text((case.folder / "model.prototxt").read_text())
    model = scaled(prototrt.load("deploy.prototxt", case.folder / "model.caffemodel"), {"conv1": 0.01})
    photo = write_photo("photo.png", 640, 400)
    names = run_page(RECIPES / "ssd.md")
    pixels = np.asarray(photo.resize((300, 300), Image.Resampling.BILINEAR), np.float32)[:, :, ::-1]
    feeds = {"data": np.ascontiguousarray((pixels - [104, 117, 123]).transpose(2, 0, 1)[None], np.float32)}
    graph = prototrt.rewrite(model, shapes={"data": (1, 3, 300, 300)})
    rows = prototrt.Session(graph, cut=True).run(feeds)["detection_out"][0, 0]
    rows = rows[rows[:, 2] >= 0.25]
    objects = names["found"]
    assert len(objects) == len(rows) > 0
    for (kind, score, corners), row in zip(objects, rows, strict=True):
        assert kind == row[1]
        np.testing.assert_allclose([score], row[2:3], atol=1e-4)
        np.testing.assert_allclose(corners, row[3:] * [640, 400, 640, 400], atol=0.05)
    assert (np.asarray(Image.open("boxes.png")) == (255, 0, 0)).all(2).sum() > 100


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_fcn() -> None:
    model = write_net(FCN)
    photo = write_photo("photo.png", 72, 56)
    run_page(RECIPES / "fcn.md")
    pixels = np.asarray(photo, np.float32)[:, :, ::-1] - (104.00699, 116.66877, 122.67892)
    feeds = {"data": np.ascontiguousarray(pixels.transpose(2, 0, 1)[None], np.float32)}
    expected = reference(model, feeds)["score"][0].argmax(0)
    mask = Image.open("mask.png")
    assert (np.asarray(mask) == expected).mean() > 0.999
    assert len(np.unique(expected)) > 2
    assert Image.open("overlay.png").size == (72, 56)


def test_colours_of_classes() -> None:
    """Some of those that Pascal VOC publishes."""
    colours = python_of("fcn.py", "def palette", "\nimage = ")["palette"]()
    published = {
        0: (0, 0, 0),
        1: (128, 0, 0),
        2: (0, 128, 0),
        3: (128, 128, 0),
        8: (64, 0, 0),
        15: (192, 128, 128),
    }
    assert {place: tuple(map(int, colours[place])) for place in published} == published
    assert tuple(colours[255]) == (224, 224, 192)


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_openpose() -> None:
    model = write_net(POSE)
    photo = write_photo("photo.png", 160, 128)
    names = run_page(RECIPES / "openpose.md")
    data = (np.asarray(photo, np.float32)[:, :, ::-1] / 256 - 0.5).transpose(2, 0, 1)[None]
    maps = reference(model, {"image": np.ascontiguousarray(data)})["net_output"][0]
    np.testing.assert_allclose(names["maps_of"](photo), maps, atol=1e-4)
    assert Image.open("pose.png").size == (160, 128)


PAIRS = {
    "BODY_25": (
        "1,8 1,2 1,5 2,3 3,4 5,6 6,7 8,9 9,10 10,11 8,12 12,13 13,14 1,0 0,15 15,17 0,16 16,18 2,17 5,18 14,19 19,20 "
        "14,21 11,22 22,23 11,24",
        "0,1 14,15 22,23 16,17 18,19 24,25 26,27 6,7 2,3 4,5 8,9 10,11 12,13 30,31 32,33 36,37 34,35 38,39 20,21 "
        "28,29 40,41 42,43 44,45 46,47 48,49 50,51",
    ),
    "COCO": (
        "1,2 1,5 2,3 3,4 5,6 6,7 1,8 8,9 9,10 1,11 11,12 12,13 1,0 0,14 14,16 0,15 15,17 2,16 5,17",
        "12,13 20,21 14,15 16,17 22,23 24,25 0,1 2,3 4,5 6,7 8,9 10,11 28,29 30,31 34,35 32,33 36,37 18,19 26,27",
    ),
}
"""OpenPose's poseParameters.cpp: pairs of joints, and the maps of x and y for each."""


@pytest.mark.parametrize("form", PAIRS)
def test_limbs_are_those_of_openpose(form: str) -> None:
    pairs, maps = ([tuple(map(int, pair.split(","))) for pair in text.split()] for text in PAIRS[form])
    names = recipe()
    assert names["limbs"](names[form]) == [(*pair, x // 2) for pair, (x, _) in zip(pairs, maps, strict=True)]
    assert all(y == x + 1 for x, y in maps)


CROWDS = {
    "crossing": CROWD,
    "one": (standing(40, 30),),
    "half outside": (standing(6, 30), standing(60, 50)),
    "behind a wall, without a neck": (standing(40, 30, without=(1, *range(8, 15), *range(19, 25))),),
    "nobody": (),
}


@pytest.mark.parametrize("form", PAIRS)
@pytest.mark.parametrize("crowd", CROWDS)
def test_people_are_put_together(crowd: str, form: str) -> None:
    """The joints of each person, and of no other, within a third of a pixel."""
    persons = [as_coco(person) if form == "COCO" else person for person in CROWDS[crowd]]
    names = recipe()
    maps = drawn(persons, names["limbs"](names[form]))
    groups = names["people"](maps, names[form])
    assert len(groups) == len(persons)
    for person in persons:
        assert any(alike(person, group) for group in groups)


def alike(person: Person, group: Array) -> bool:
    joints = {int(joint) for joint in np.flatnonzero(group[:, 2])}
    return joints == person.keys() and all(
        np.hypot(*np.subtract(group[joint, :2], place)) < 1 / 3 for joint, place in person.items()
    )


def test_the_picture_is_of_the_crowd() -> None:
    """`python -m prototrt.tests.pose_maps docs/recipes/people.png` makes it."""
    shown = np.asarray(Image.open(RECIPES / "people.png").convert("RGB"), np.float32)
    assert abs(shown - np.asarray(pose_maps.picture(), np.float32)).mean() < 1
