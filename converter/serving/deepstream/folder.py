"""The folder for Gst-nvinfer: a model, a config, labels, and the parser of the outputs.

FOLDER/NAME.onnx             the model, its manifest, and a script that builds the engine with trtexec
FOLDER/config_infer.txt      what Gst-nvinfer must know
FOLDER/labels.txt            names of classes, if there are any
FOLDER/nvdsinfer_NAME.cpp    for detectors: reads the outputs; and its Makefile
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prototrt.caffe_proto import Model
from prototrt.caffe_proto.common.errors import NetError, OptionsError
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.common.wording import Option, Worded, plural
from prototrt.converter.files.companions.cpp_header import literal
from prototrt.converter.files.writing.publication import errors_of, finish, publication
from prototrt.converter.files.writing.texts import check_text
from prototrt.converter.options import ConvertOptions, DeepStreamOptions
from prototrt.converter.product import Product
from prototrt.converter.running.data.pixels import transformation_of
from prototrt.converter.serving.deepstream.key_file import Groups, groups_of, text_of
from prototrt.converter.serving.deepstream.networks import Meaning, VideoNet
from prototrt.converter.serving.deepstream.old_config import PROPERTY, OldConfig
from prototrt.surgery.ir import Graph
from prototrt.surgery.options import Precision

CONFIG, LABELS = "config_infer.txt", "labels.txt"
_DETECTOR, _CLASSIFIER, _SEGMENTATION, _OTHER = 0, 1, 2, 100
_GROUP_RECTANGLES, _NO_CLUSTERS = 0, 4
_RGB, _BGR, _GRAY = 0, 1, 2
_NETWORK_TYPES: Mapping[Meaning, int] = {
    "detections": _DETECTOR,
    "clusters": _DETECTOR,
    "coverage": _DETECTOR,
    "classes": _CLASSIFIER,
    "masks": _SEGMENTATION,
    "tensors": _OTHER,
}
_PARSERS: Mapping[Meaning, str] = {
    "detections": "PrototrtParseDetections",
    "clusters": "PrototrtParseClusters",
    "coverage": "PrototrtParseCoverage",
}
"""Functions of ``parser.cpp``."""
_USUAL = {"network-mode": "0", "model-color-format": str(_BGR), "net-scale-factor": "1"}
_DEFAULTS = (_USUAL, _USUAL | {"cluster-mode": str(_GROUP_RECTANGLES)})
"""What holds unless the net, an option or an old config says otherwise; the second ones are of DetectNet."""
_GROUPING = {"group-threshold": "1", "eps": "0.2", "pre-cluster-threshold": "0.4"}
"""How boxes of DetectNet are joined, where no old config says."""


@dataclass(frozen=True, slots=True)
class WrittenFolder:
    """What was written. ``notes`` say what became of the keys of an old config, and what is worth a look."""

    folder: Path
    network: VideoNet
    config: Mapping[str, Mapping[str, str]]
    notes: Sequence[str]
    manifest: Mapping[str, Any]
    graph: Graph

    @property
    def warnings(self) -> Sequence[str]:
        return self.graph.warnings

    @property
    def needs_parser(self) -> bool:
        """Whether there is a parser to compile."""
        return self.network.meaning in _PARSERS


def write_folder(
    folder: Path,
    name: str,
    graph: Graph,
    network: VideoNet,
    pixels: Mapping[str, str],
    labels: str | None,
    target: str | None,
    old: OldConfig | None,
) -> WrittenFolder:
    """Write everything into a new folder, or nothing. ``pixels`` and ``labels`` are of the functions below.

    Raises ``ConversionError``, and ``OptionsError`` if there is such a folder.
    """
    if os.path.lexists(folder):
        raise OptionsError(
            Worded('{}: "{}" exists already', Option("folder"), str(folder)), fix="remove it, or name another"
        )
    with publication(folder) as files, errors_of(folder):
        place = files.place(folder)
        place.mkdir()
        product = Product(
            file=str(place / f"{name}.onnx"), converting=ConvertOptions(target=target or "datacenter")
        )
        manifest = product.write(graph)
        config = _config(name, network, pixels, labels is not None, manifest["precision"])
        notes: list[str] = []
        if old is not None:
            config, notes = old.carry_over(config, folder)
        if "net-scale-factor" not in config[PROPERTY]:
            notes.append("nothing states a mean or a scale: pixels of 0 to 255 are fed as they are")
        for key, value in _DEFAULTS[network.meaning == "coverage"].items():
            config[PROPERTY].setdefault(key, value)
        (place / CONFIG).write_bytes(check_text(CONFIG, _text(config), groups_of))
        if labels is not None:
            (place / LABELS).write_bytes(check_text(LABELS, labels, reader=None))
        if network.meaning in _PARSERS:
            _write_parser(place, name, network)
        finish(place)
    return WrittenFolder(folder, network, config, notes, manifest, graph)


def pixel_keys(
    model: Model, network: VideoNet, options: DeepStreamOptions, is_inside: bool
) -> dict[str, str]:
    """The keys by which Gst-nvinfer makes an image of a frame: ``net-scale-factor * (x - offsets)``.

    They come from the options, or from the ``transform_param`` of the layer that brought the data. ``is_inside``: the
    engine computes them itself.
    """
    channels, height, width = network.sizes
    mean, scale = tuple(options.mean), options.scale
    has_choice = bool(mean) or scale != 1 or is_inside
    if not has_choice:
        mean, scale = _transformation(model, network.image.name)
    if len(mean) not in (0, 1, channels):
        raise OptionsError(
            Worded("{} has {}, expected 1 or {}", Option("mean"), plural(len(mean), "number"), channels),
            fix="give one for each channel, in the order of the net's channels",
        )
    keys = {"infer-dims": f"{channels};{height};{width}"}
    if channels == 1 or options.channels == "rgb":
        keys["model-color-format"] = str(_GRAY if channels == 1 else _RGB)
    if has_choice or mean or scale != 1:
        keys["net-scale-factor"] = f"{scale:.9g}"
    if mean:
        each = mean if len(mean) == channels else mean * channels
        keys["offsets"] = ";".join(f"{number:.9g}" for number in each)
    return keys


def _transformation(model: Model, blob: str) -> tuple[tuple[float, ...], float]:
    """The mean and the scale of a training net's data layer; nothing of a deploy net, nor of a net of Caffe2."""
    transform = transformation_of(model, blob)
    if transform.mean_file:
        raise NetError(
            f"subtracts the image {transform.mean_file}",
            origin=next(layer.origin for layer in model.layers if layer.tops[:1] == (blob,)),
            because="Gst-nvinfer subtracts one number a channel, or an image of 8 bits",
            fix=Worded("let the engine subtract it with {}", Option("preprocess", True)),
        )
    return transform.mean, transform.scale


def labels_for(network: VideoNet, lines: Sequence[str]) -> str:
    """The text of the file of labels: one a line, for a classifier all in one line.

    Raises ``OptionsError`` for another number of labels than the net has classes, and for one with a semicolon.
    """
    for line in lines:
        if ";" in line:
            raise OptionsError(
                Worded('{} has the label "{}", expected no semicolon', Option("labels"), line),
                because="Gst-nvinfer takes what follows it for the label of the next class",
                fix="write a comma instead",
            )
    if network.has_background and len(lines) + 1 == network.classes:
        lines = ["background", *lines]
    if network.classes is not None and len(lines) != network.classes:
        raise OptionsError(
            Worded("{} has {}", Option("labels"), plural(len(lines), "label")),
            because=f"the net has {network.classes} classes"
            + (", the background among them" if network.has_background else ""),
            fix="give a file with one line for each class",
        )
    return ";".join(lines) + "\n" if network.meaning == "classes" else "".join(f"{line}\n" for line in lines)


def _config(
    name: str, network: VideoNet, pixels: Mapping[str, str], has_labels: bool, precision: Precision
) -> Groups:
    """The groups of a config, as far as the net and the options decide them."""
    keys = {
        "onnx-file": f"{name}.onnx",
        "model-engine-file": f"{name}.onnx_b{network.batch}_gpu0_{precision}.engine",
        **({"labelfile-path": LABELS} if has_labels else {}),
        "batch-size": str(network.batch),
        **({"network-mode": "2"} if precision == "fp16" else {}),
        "network-type": str(_NETWORK_TYPES[network.meaning]),
        **pixels,
    }
    groups = {PROPERTY: keys}
    if network.meaning in _PARSERS:
        is_joined_there = network.meaning == "coverage"
        keys |= {
            "num-detected-classes": str(network.classes or 1),
            **({} if is_joined_there else {"cluster-mode": str(_NO_CLUSTERS)}),
            "parse-bbox-func-name": _PARSERS[network.meaning],
            "custom-lib-path": f"lib{_parser(name)}.so",
        }
        groups["class-attrs-all"] = dict(_GROUPING) if is_joined_there else {"pre-cluster-threshold": "0.4"}
    elif network.meaning == "classes":
        keys["classifier-threshold"] = "0.4"
    elif network.meaning == "masks":
        keys |= {"num-detected-classes": str(network.classes or 1), "segmentation-threshold": "0"}
    else:
        keys["output-tensor-meta"] = "1"
    return groups


_COMMENTS = {
    "model-engine-file": "Gst-nvinfer builds it when it starts first, and keeps it.",
    "network-mode": "0: float32, 2: float16.",
    "network-type": "0: detector, 1: classifier, 2: segmentation, 100: your program reads the tensors.",
    "model-color-format": "0: RGB, 1: BGR, 2: grey.",
    "net-scale-factor": "A pixel x becomes net-scale-factor * (x - offset of its channel).",
    "cluster-mode": "0: boxes are joined by groupRectangles, 4: they are taken as they are.",
}


def _text(groups: Groups) -> str:
    """A config, with a comment before keys whose numbers say nothing by themselves."""
    return "".join(f"{line}\n" for line in ("# Written by prototrt.", *text_of(groups, _COMMENTS)))


def _parser(name: str) -> str:
    return f"nvdsinfer_{name}"


def _write_parser(folder: Path, name: str, network: VideoNet) -> None:
    """The parser with the names of the outputs, and a Makefile."""
    source, library = f"{_parser(name)}.cpp", f"lib{_parser(name)}.so"
    names = ", ".join(map(literal, network.outputs))
    text = Path(__file__).with_name("parser.cpp").read_text(encoding="utf-8")
    for word, value in {"@FILE@": source, "@LIBRARY@": library, "@OUTPUTS@": names}.items():
        text = text.replace(word, value)
    makefile = (
        "DEEPSTREAM ?= /opt/nvidia/deepstream/deepstream\n"
        f"{library}: {source}\n"
        "\t$(CXX) -O2 -Wall -shared -fPIC -I$(DEEPSTREAM)/sources/includes $< -o $@\n"
    )
    for file, content in {source: text, "Makefile": makefile}.items():
        (folder / file).write_bytes(check_text(file, content, reader=None))
