"""Folders for Gst-nvinfer: its parser compiles and reads what onnxruntime computes; keys of old configs go over."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

import prototrt
from prototrt import DeepStreamOptions, RewriteOptions
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.surgery.ir import Array
from prototrt.tests.command_line import done
from prototrt.tests.converter.files.companions.test_cpp_header import COMPILER
from prototrt.tests.converter.serving.deepstream.glib import GKeyFile
from prototrt.tests.golden_cases import GOLDENS
from prototrt.tests.small_nets import failure, inputs_of, loaded, numbers, op

HERE = Path(__file__).parent


def layer(kind: str, fields: str, bottoms: Sequence[str], tops: Sequence[str]) -> str:
    """A layer with the name of its first top."""
    return op(kind, fields, bottoms, tops).replace('"op"', f'"{tops[0]}"', 1)


IMAGE = inputs_of({"data": (1, 3, 64, 96)})
GRIDS = (
    IMAGE
    + layer("Pooling", "pooling_param { pool: AVE kernel_size: 16 stride: 16 }", ["data"], ["small"])
    + layer("Convolution", "convolution_param { num_output: 2 kernel_size: 1 }", ["small"], ["logits"])
    + layer("Sigmoid", "", ["logits"], ["coverage"])
    + layer("Convolution", "convolution_param { num_output: 4 kernel_size: 1 }", ["small"], ["bboxes"])
)
"""DetectNet in small: places every 16 pixels."""
CLUSTERS = GRIDS + layer(
    "Python",
    'python_param { module: "caffe.layers.detectnet.clustering" layer: "ClusterDetections"'
    ' param_str: "96, 64, 16, 0.4, 1, 0.8, 1, 2" }',
    ["coverage", "bboxes"],
    ["first", "second"],
)
FEATURES = IMAGE + layer("InnerProduct", "inner_product_param { num_output: 3 }", ["data"], ["fc"])
CLASSES = FEATURES + layer("Softmax", "", ["fc"], ["prob"])
MASKS = IMAGE + layer(
    "Convolution", "convolution_param { num_output: 5 kernel_size: 1 }", ["data"], ["score"]
)


def blobs(text: str) -> dict[str, Array]:
    """Boxes of some 30 pixels around each place, and coverage on both sides of a half."""
    made: dict[str, Array] = {}
    if "bboxes" in text:
        made["bboxes/0"] = numbers(4, 3, 1, 1, seed=3)
        made["bboxes/1"] = np.array([-14, -12, 15, 13], np.float32)
        made["logits/0"], made["logits/1"] = 2 * numbers(2, 3, 1, 1, seed=4), numbers(2, seed=5)
    elif "fc" in text:
        made["fc/0"], made["fc/1"] = numbers(3, 3 * 64 * 96), numbers(3)
    else:
        made["score/0"], made["score/1"] = numbers(5, 3, 1, 1), numbers(5)
    return made


def written(text: str, folder: Path, **options: object) -> prototrt.Model:
    model = loaded(folder, text, blobs(text))
    prototrt.deepstream(model, folder / "out", options=DeepStreamOptions(name="net", **options))  # type: ignore[arg-type]
    return model


def config_in(folder: Path) -> Mapping[str, Mapping[str, str]]:
    return GKeyFile((folder / "config_infer.txt").read_bytes()).groups()


def parsed(folder: Path, outputs: Mapping[str, Array], size: tuple[int, int]) -> list[list[float]]:
    """The objects that the parser of the folder finds: class, confidence, corners."""
    if COMPILER is None:
        pytest.skip("there is no C++ compiler")
    sdk = HERE / "sdk"
    environment = {**os.environ, "CXX": f"{COMPILER} -std=c++14 -Wextra -Wconversion -Werror"}
    make = ["make", "-s", "-C", str(folder), f"DEEPSTREAM={sdk}"]
    subprocess.run(make, check=True, env=environment)
    program = folder / "nvinfer"
    include = f"-I{sdk / 'sources' / 'includes'}"
    subprocess.run([COMPILER, "-std=c++14", include, HERE / "nvinfer.cpp", "-o", program, "-ldl"], check=True)
    config = config_in(folder)
    keys, groups = config["property"], config["class-attrs-all"]
    command = [
        str(program),
        str(folder / keys["custom-lib-path"]),
        keys["parse-bbox-func-name"],
        *map(str, size),
    ]
    command += [keys["num-detected-classes"], groups["pre-cluster-threshold"]]
    for name, array in outputs.items():
        # Gst-nvinfer takes the first axis for the batch.
        command += [name, "3" if array.dtype == np.int32 else "0", "x".join(map(str, array.shape[1:])) or "1"]
    data = b"".join(array.tobytes() for array in outputs.values())
    result = subprocess.run(command, input=data, capture_output=True, check=True)
    return [[float(word) for word in line.split()] for line in result.stdout.decode().splitlines()]


def results_of(folder: Path, inputs: Mapping[str, Array]) -> dict[str, Array]:
    (model,) = folder.glob("*.onnx")
    return dict(prototrt.Session(str(model)).run(inputs))


def test_boxes_of_yolo(tmp_path: Path) -> None:
    golden = GOLDENS / "forks" / "net_yolov3"
    model = prototrt.load(golden / "model.prototxt", golden / "model.caffemodel")
    prototrt.deepstream(model, tmp_path / "out")
    inputs, expected = (dict(np.load(golden / f"{name}.npz")) for name in ("inputs", "outputs"))
    image = {name.removesuffix("/0"): array for name, array in inputs.items()}
    objects = parsed(tmp_path / "out", results_of(tmp_path / "out", image), (64, 64))
    (rows,) = (array.reshape(-1, 7) for array in expected.values())
    rows = rows[rows[:, 2] >= 0.4]
    corners = np.clip(rows[:, 3:] * 64, 0, 64)
    has_area = (corners[:, 2] > corners[:, 0]) & (corners[:, 3] > corners[:, 1])
    assert has_area.sum() > 3
    np.testing.assert_allclose(objects, np.hstack([rows[:, 1:3], corners])[has_area], 1e-4, 1e-3)


def test_grids_of_detectnet(tmp_path: Path) -> None:
    written(GRIDS, tmp_path)
    results = results_of(tmp_path / "out", {"data": numbers(1, 3, 64, 96, seed=9) * 4})
    expected = []
    for label in range(2):
        for y in range(4):
            for x in range(6):
                score = results["coverage"][0, label, y, x]
                left, top, right, bottom = results["bboxes"][0, :, y, x] + np.tile([16 * x, 16 * y], 2)
                if score >= 0.4:
                    expected.append(
                        [label, score, max(left, 0), max(top, 0), min(right, 96), min(bottom, 64)]
                    )
    assert 5 < len(expected) < 48
    np.testing.assert_allclose(parsed(tmp_path / "out", results, (96, 64)), expected, 1e-5, 1e-5)
    assert config_in(tmp_path / "out")["property"]["cluster-mode"] == "0"


def test_objects_of_detectnet(tmp_path: Path) -> None:
    written(CLUSTERS, tmp_path)
    results = results_of(tmp_path / "out", {"data": numbers(1, 3, 64, 96, seed=9) * 4})
    expected = []
    for label, name in enumerate(("first", "second")):
        for left, top, right, bottom, logarithm in results[name][0]:
            corners = np.clip([left, top, right, bottom], 0, [96, 64, 96, 64])
            confidence = 1 - 1 / np.exp(logarithm)
            if confidence >= 0.4 and (corners[2:] > corners[:2]).all():
                expected.append([label, confidence, *corners])
    assert expected
    np.testing.assert_allclose(parsed(tmp_path / "out", results, (96, 64)), expected, 1e-5, 1e-5)


def test_a_classifier_needs_no_parser(tmp_path: Path) -> None:
    labels = tmp_path / "words.txt"
    labels.write_text("cat\ndog\nrat\n")
    written(CLASSES, tmp_path, labels=str(labels), mean=(104, 117, 123), scale=0.017, channels="rgb")
    assert config_in(tmp_path / "out") == {
        "property": {
            "onnx-file": "net.onnx",
            "model-engine-file": "net.onnx_b1_gpu0_fp32.engine",
            "labelfile-path": "labels.txt",
            "batch-size": "1",
            "network-type": "1",
            "infer-dims": "3;64;96",
            "model-color-format": "0",
            "net-scale-factor": "0.017",
            "offsets": "104;117;123",
            "classifier-threshold": "0.4",
            "network-mode": "0",
        }
    }
    assert (tmp_path / "out" / "labels.txt").read_text() == "cat;dog;rat\n"
    assert not [*(tmp_path / "out").glob("*.cpp")]


def test_a_map_for_each_class_is_a_segmentation(tmp_path: Path) -> None:
    written(MASKS, tmp_path)
    keys = config_in(tmp_path / "out")["property"]
    assert (keys["network-type"], keys["num-detected-classes"]) == ("2", "5")


def test_features_are_for_a_program(tmp_path: Path) -> None:
    written(FEATURES, tmp_path)
    keys = config_in(tmp_path / "out")["property"]
    assert (keys["network-type"], keys["output-tensor-meta"]) == ("100", "1")


def test_a_net_of_caffe2(tmp_path: Path) -> None:
    """Its operators have no transform_param."""
    folder = GOLDENS / "caffe2" / "ff_resblock"
    model = prototrt.load(folder / "predict_net.pb", folder / "init_net.pb")
    shapes = {name: array.shape for name, array in np.load(folder / "inputs.npz").items()}
    written = prototrt.deepstream(model, tmp_path / "out", rewriting=RewriteOptions(shapes=shapes))
    assert config_in(tmp_path / "out")["property"]["net-scale-factor"] == "1"
    assert written.notes == ["nothing states a mean or a scale: pixels of 0 to 255 are fed as they are"]


def test_a_training_net_knows_its_pixels(tmp_path: Path) -> None:
    text = CLASSES.replace(
        IMAGE,
        'layer { name: "in" type: "ImageData" top: "data" top: "label"'
        ' image_data_param { source: "a" batch_size: 1 new_height: 64 new_width: 96 }'
        " transform_param { scale: 0.5 mean_value: 100 } }",
    )
    model = loaded(tmp_path, text, blobs(text))
    prototrt.deepstream(model, tmp_path / "out")
    keys = config_in(tmp_path / "out")["property"]
    assert (keys["net-scale-factor"], keys["offsets"]) == ("0.5", "100;100;100")
    inside = RewriteOptions(preprocess=True)
    prototrt.deepstream(model, tmp_path / "inside", rewriting=inside)
    keys = config_in(tmp_path / "inside")["property"]
    assert keys["net-scale-factor"] == "1"
    assert "offsets" not in keys


OLD = """\
# of DeepStream 4
[property]
gpu-id=0
net-scale-factor=0.0078
offsets=104;117;123
model-file=resnet10.caffemodel
proto-file=resnet10.prototxt
model-engine-file=resnet10.caffemodel_b30_int8.engine
labelfile-path=words/labels.txt
int8-calib-file=cal_trt.bin
batch-size=30
network-mode=1
num-detected-classes=2
interval=2
is-classifier=0
output-blob-names=bboxes;coverage
enable-dbscan=1
parse-func=4

[class-attrs-all]
threshold=0.2
eps=0.3
group-threshold=2
"""


def test_keys_of_an_old_config_go_over(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text(OLD)
    further = layer("Power", "power_param { scale: 2 }", ["small"], ["unread"])
    model = loaded(tmp_path, GRIDS + further, blobs(GRIDS))
    options = DeepStreamOptions(name="net", old_config=str(tmp_path / "old.txt"))
    result = prototrt.deepstream(model, tmp_path / "out", options=options)
    assert result.notes == [
        "model-file -> onnx-file=net.onnx",
        "proto-file -> onnx-file=net.onnx",
        "model-engine-file dropped: the engine was built from another model",
        "labelfile-path -> labelfile-path=../words/labels.txt",
        "int8-calib-file dropped: its tensors had other names",
        "batch-size -> batch-size=1",
        "network-mode dropped: the scales of int8 were those of the old model",
        "is-classifier -> network-type=0",
        "output-blob-names dropped: all outputs of the ONNX model are read",
        "enable-dbscan -> cluster-mode=1",
        "parse-func dropped: parse-bbox-func-name names the parser",
        "[class-attrs-all] threshold -> pre-cluster-threshold",
    ]
    assert config_in(tmp_path / "out") == {
        "property": {
            "onnx-file": "net.onnx",
            "model-engine-file": "net.onnx_b1_gpu0_fp32.engine",
            "batch-size": "1",
            "network-type": "0",
            "infer-dims": "3;64;96",
            "num-detected-classes": "2",
            "parse-bbox-func-name": "PrototrtParseCoverage",
            "custom-lib-path": "libnvdsinfer_net.so",
            "gpu-id": "0",
            "net-scale-factor": "0.0078",
            "offsets": "104;117;123",
            "labelfile-path": "../words/labels.txt",
            "interval": "2",
            "cluster-mode": "1",
            "network-mode": "0",
            "model-color-format": "1",
        },
        "class-attrs-all": {"group-threshold": "2", "eps": "0.3", "pre-cluster-threshold": "0.2"},
    }


def test_an_old_config_is_read_as_by_glib(tmp_path: Path) -> None:
    """Its keys pass the lists wherever they stand, and those of [DEFAULT] are of that group alone."""
    old = tmp_path / "a b\\c" / "old.txt"
    old.parent.mkdir()
    old.write_text(
        "[DEFAULT]\ncluster-mode=3\n[property]\ninterval=2\n  custom-lib-path=/tmp/other.so\n\tmodel-file=a\n"
        "labelfile-path=my\\swords.txt\n; x=1\noutput-blob-names=coverage;bboxes\r\n"
    )
    model = loaded(tmp_path, GRIDS, blobs(GRIDS))
    options = DeepStreamOptions(name="net", old_config=str(old))
    prototrt.deepstream(model, tmp_path / "out", options=options)
    glib = GKeyFile((tmp_path / "out" / "config_infer.txt").read_bytes())
    groups = glib.groups()
    assert groups["DEFAULT"] == {"cluster-mode": "3"}
    assert groups["property"]["custom-lib-path"] == "libnvdsinfer_net.so"
    assert groups["property"]["interval"] == "2"
    assert groups["property"]["cluster-mode"] == "0"
    assert glib.string("property", "labelfile-path") == "../a b\\c/my words.txt"


def test_the_command_says_what_is_left_to_do(folder: Path) -> None:
    Path("old.txt").write_text("[property]\nmodel-file=a.caffemodel\ninterval=2\n")
    Path("words.txt").write_text("cat\ndog\nrat\n")
    golden = GOLDENS / "forks" / "net_yolov3"
    net = [str(golden / "model.prototxt"), str(golden / "model.caffemodel")]
    lines = done("deepstream", *net, "--old-config", "old.txt", "--labels", "words.txt", "-o", "out").stdout
    *first, files, last, config = lines.splitlines()
    assert first == [
        "out: a detector, rows of boxes",
        "input    data 1x3x64x64",
        "output   det",
        "config   model-file -> onnx-file=net_yolov3.onnx",
        "config   nothing states a mean or a scale: pixels of 0 to 255 are fed as they are",
    ]
    assert files.startswith("out: ")
    assert last == "next     copy out to the machine with DeepStream, and type there: make -C out"
    assert config == "next     name out/config_infer.txt as config-file-path of nvinfer"
    assert Path("out/labels.txt").read_text() == "background\ncat\ndog\nrat\n"


LSTM = (
    inputs_of({"x": (2, 1, 3), "cont": (2, 1)})
    + 'layer { name: "lstm" type: "LSTM" bottom: "x" bottom: "cont" top: "h" recurrent_param { num_output: 2'
    ' weight_filler { type: "uniform" } } }'
)
REFUSALS = {
    "states": (
        LSTM,
        {},
        '"lstm_h_0" is a state, which Gst-nvinfer does not carry from frame to frame\n'
        "  fix: serve the net with Triton, which keeps states, for Gst-nvinferserver (prototrt.triton(...));"
        ' or let each frame start anew with state="zero"',
    ),
    "two inputs": (
        inputs_of({"data": (1, 3, 8, 8), "im_info": (1, 3)})
        + op("Concat", "", ["data", "data"], ["y"])
        + op("Power", "", ["im_info"], ["z"]),
        {},
        'the net has the inputs "data", "im_info", expected one image\n'
        "  because Gst-nvinfer feeds frames alone\n"
        '  fix: cut the net, replace the other inputs by constants (DummyData), or drop cont with cont="drop"',
    ),
    "no image": (
        inputs_of({"data": (1, 7)}) + op("TanH", "", ["data"], ["y"]),
        {},
        'input "data" is (1, 7), expected (N, C, H, W) with 1 or 3 channels and a fixed size\n'
        "  because Gst-nvinfer scales frames to the size of the net\n"
        '  fix: use shapes={"data": (1, 3, 224, 224)}',
    ),
    "labels": (
        MASKS,
        {"labels": "words.txt"},
        "labels has 1 label\n  because the net has 5 classes\n"
        "  fix: give a file with one line for each class",
    ),
    "a label of two": (
        MASKS,
        {"labels": "two.txt"},
        'labels has the label "cat; wild", expected no semicolon\n'
        "  because Gst-nvinfer takes what follows it for the label of the next class\n"
        "  fix: write a comma instead",
    ),
    "mean": (
        MASKS,
        {"mean": (1.0, 2.0)},
        "mean has 2 numbers, expected 1 or 3\n"
        "  fix: give one for each channel, in the order of the net's channels",
    ),
    "old config": (
        MASKS,
        {"old_config": "words.txt"},
        'old_config "words.txt" is not a config of Gst-nvinfer: line 1 is no group, key or comment\n'
        "  fix: give the file that config-file names in the [primary-gie] of your pipeline",
    ),
    "an old config in other letters": (
        MASKS,
        {"old_config": "latin.txt"},
        'old_config "latin.txt" is not a config of Gst-nvinfer: it is not UTF-8\n'
        "  fix: give the file that config-file names in the [primary-gie] of your pipeline",
    ),
    "no old config": (
        MASKS,
        {"old_config": "word.txt"},
        "word.txt: there is no such file\n  fix: did you mean words.txt?",
    ),
    "labels in other letters": (
        MASKS,
        {"labels": "latin.txt"},
        'labels "latin.txt" is not UTF-8\n  fix: give a text file with the name of a class in each line',
    ),
    "no labels": (
        MASKS,
        {"labels": "word.txt"},
        "word.txt: there is no such file\n  fix: did you mean words.txt?",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("words.txt").write_text("cat\n")
    Path("two.txt").write_text("cat; wild\ndog\n")
    Path("latin.txt").write_bytes(b"caf\xe9\n")
    text, options, message = REFUSALS[case]
    model = loaded(tmp_path, text, None, random_weights=1)
    options_of = DeepStreamOptions(**options)  # type: ignore[arg-type]
    error = failure(lambda: prototrt.deepstream(model, "out", options=options_of))
    assert error == message
    assert not Path("out").exists()


def test_a_folder_that_exists_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(ConversionError, match="exists already"):
        written(MASKS, tmp_path)
    assert not [*(tmp_path / "out").iterdir()]


def test_a_blob_with_any_name_is_found_by_the_parser(tmp_path: Path) -> None:
    text = GRIDS.replace('"coverage"', r'"co\"v\\er?age"')
    written(text, tmp_path)
    results = results_of(tmp_path / "out", {"data": numbers(1, 3, 64, 96, seed=9) * 4})
    assert 'co"v\\er?age' in results
    assert parsed(tmp_path / "out", results, (96, 64))
