"""Files of every kind: what each is, some of its facts, and the command to run next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import prototrt
from prototrt.converter.files.writing.ownership import KEPT_MARK
from prototrt.converter.showing.glance.facts import FileKind
from prototrt.tests.command_line import WEIGHTS
from prototrt.tests.converter.showing.glance.files import (
    CAFFE2,
    FACTS_OF_MANIFEST,
    MANIFEST,
    SCALES,
    array,
    arrays,
    arrays_of_pytorch,
    converted,
    copy_of,
    detector,
    drawn,
    hdf5,
    hdf5_data,
    kernels,
    listed,
    made,
    mean,
    new_rule,
    onnx,
    plan,
    plan_with_manifest,
    served,
    solver_state,
    texts,
    v0,
    v1,
    with_header,
    with_weights_outside,
)


@dataclass(frozen=True)
class Case:
    """A file, what it is, some of its facts, and the next command; ``{folder}`` is where the file lies."""

    name: str
    write: Callable[[Path], object]
    kind: FileKind
    facts: Mapping[str, Any]
    next: str | None

    def __str__(self) -> str:
        return self.name


CONVERT = "prototrt convert NET.prototxt {folder}/file -o file.plan"
OURS = [
    Case(
        "PyTorch module",
        made("net.py", converted("net.py")),
        FileKind.MODULE,
        {},
        "PYTHONPATH={folder} python -c 'import file; print(file.load())'",
    ),
    Case(
        "program for TensorRT's API",
        made("net.py", converted("net.py", target="tensorrt-python")),
        FileKind.PROGRAM,
        {},
        "python {folder}/file -o file.plan",
    ),
    Case(
        "safetensors",
        made("net.safetensors", converted("net.py")),
        FileKind.SAFETENSORS,
        {"tensors": 22, "written by": f"prototrt {prototrt.__version__}"},
        CONVERT,
    ),
    Case(
        "state dict of another module",
        arrays_of_pytorch,
        FileKind.STATE_DICT,
        {"tensors": 1, "parameters": 3},
        "prototrt weights set NET.prototxt WEIGHTS.caffemodel {folder}/file -o new.caffemodel",
    ),
    Case(
        "weights of an ONNX model",
        made("net.onnx.data", with_weights_outside),
        FileKind.ONNX_WEIGHTS,
        {},
        "prototrt inspect {folder}/file",
    ),
    Case(
        "script",
        made("net.onnx.sh", converted("net.onnx", target="jetson")),
        FileKind.SCRIPT,
        {},
        "sh {folder}/file",
    ),
    Case("header", made("net.h", with_header), FileKind.HEADER, {}, None),
    Case(
        "config of Triton",
        made("m/config.pbtxt", served),
        FileKind.SERVER_CONFIG,
        {},
        "tritonserver --model-repository={above}",
    ),
    Case("model of Triton", made("m/1/model.py", served), FileKind.SERVER_MODEL, {}, None),
    Case("config of DeepStream", made("out/config_infer.txt", detector), FileKind.VIDEO_CONFIG, {}, None),
    Case(
        "parser of DeepStream",
        made("out/nvdsinfer_net.cpp", detector),
        FileKind.VIDEO_PARSER,
        {},
        "make -C {folder}",
    ),
    Case(
        "rule",
        made("rules.py", new_rule),
        FileKind.RULE,
        {},
        "prototrt inspect NET.prototxt --rules {folder}/file",
    ),
    Case(
        "test of a rule",
        made("test_rules.py", new_rule),
        FileKind.RULE_TEST,
        {},
        "python -m pytest {folder}/file",
    ),
    Case("page", made("net.html", drawn("net.html")), FileKind.PAGE, {}, None),
    Case("drawing", made("net.dot", drawn("net.dot")), FileKind.DRAWING, {}, None),
    Case("report in Markdown", made("r.md", listed), FileKind.REPORT, {}, None),
    Case("report in JUnit's XML", made("r.xml", listed), FileKind.REPORT, {}, None),
    Case("layers", texts({"Layers": ["a"], "Bindings": []}), FileKind.LAYERS, {"layers": 1}, None),
    Case("conversion in a cache", lambda path: path.write_bytes(KEPT_MARK), FileKind.CACHED, {}, None),
    Case("result", texts({"format": 1, "timings": []}), FileKind.RESULT, {"command": "bench"}, None),
    Case(
        "self-test",
        texts({"format": 1, "prototrt": "0.3", "sections": [], "seconds": 1, "summary": ""}),
        FileKind.SELFTEST,
        {"prototrt": "0.3"},
        "prototrt selftest --show {folder}/file",
    ),
]


BESIDE_A_PLAN = Case("kernels", kernels, FileKind.KERNELS, {}, "prototrt inspect {folder}/net.plan")


CASES = [
    Case(
        "caffemodel",
        copy_of(WEIGHTS),
        FileKind.CAFFEMODEL,
        {"net": "digits_train", "layers": 20, "parameters": 107321},
        CONVERT,
    ),
    Case("V1 caffemodel", v1, FileKind.CAFFEMODEL, {"net": "old", "layers": 1, "parameters": 6}, CONVERT),
    Case("V0 caffemodel", v0, FileKind.CAFFEMODEL, {"net": "older", "parameters": 5}, CONVERT),
    Case(
        "solver state",
        solver_state,
        FileKind.SOLVER_STATE,
        {"iteration": 700, "weights": "net_700.caffemodel", "blobs of the solver": 1},
        "prototrt convert NET.prototxt net_700.caffemodel -o net_700.plan",
    ),
    Case(
        "mean",
        mean,
        FileKind.MEAN,
        {"shape": "1x2x1x2", "mean of each channel": ["2.000", "7.000"], "largest": "9"},
        "prototrt convert NET.prototxt WEIGHTS.caffemodel --preprocess"
        " --set 'LAYER.transform_param.mean_file={folder}/file' -o NET.plan",
    ),
    Case(
        "predict net",
        copy_of(CAFFE2 / "predict_net.pb"),
        FileKind.PREDICT_NET,
        {"net": "lstm_basic", "operators of the net": 2},
        "prototrt convert {folder}/file init_net.pb --shape data:SIZES -o file.plan",
    ),
    Case(
        "predict net as text",
        copy_of(CAFFE2 / "predict_net.pbtxt"),
        FileKind.PREDICT_NET,
        {"net": "lstm_basic", "operators of the net": 2},
        "prototrt convert {folder}/file init_net.pb --shape data:SIZES -o file.plan",
    ),
    Case(
        "init net",
        copy_of(CAFFE2 / "init_net.pb"),
        FileKind.INIT_NET,
        {"blobs": 4, "parameters": 108},
        "prototrt convert predict_net.pb {folder}/file --shape INPUT:SIZES -o model.plan",
    ),
    Case(
        "ONNX model",
        onnx,
        FileKind.ONNX,
        {"net": "digits", "opsets": ["ai.onnx 17"], "producer": f"prototrt {prototrt.__version__}"},
        "trtexec --onnx={folder}/file --saveEngine=file.plan --noTF32",
    ),
    *OURS,
    Case(
        "plan without manifest",
        plan,
        FileKind.PLAN,
        {},
        "prototrt run {folder}/file --inputs in.npz -o out.npz --trust",
    ),
    Case(
        "plan",
        plan_with_manifest,
        FileKind.PLAN,
        FACTS_OF_MANIFEST,
        "prototrt run {folder}/file --inputs in.npz -o out.npz",
    ),
    Case("manifest", texts(MANIFEST), FileKind.MANIFEST, FACTS_OF_MANIFEST, "prototrt inspect {folder}/file"),
    Case(
        "weights in npz",
        arrays(conv_0=(2, 3), conv_1=(2,)),
        FileKind.NPZ_WEIGHTS,
        {"arrays": 2, "numbers": 8},
        CONVERT,
    ),
    Case(
        "npz with several calls",
        arrays(data_0=(2, 3), data_1=(2, 3), cont_0=(2,), cont_1=(2,)),
        FileKind.NPZ,
        {"arrays": 4, "numbers": 16},
        "prototrt run NET.prototxt WEIGHTS.caffemodel --inputs {folder}/file -o out.npz",
    ),
    Case(
        "npz",
        arrays(data=(2, 3)),
        FileKind.NPZ,
        {"arrays": 1, "numbers": 6},
        "prototrt run NET.prototxt WEIGHTS.caffemodel --inputs {folder}/file -o out.npz",
    ),
    Case(
        "npy",
        array,
        FileKind.NPY,
        {"type": "float32", "shape": "2x3"},
        "prototrt run NET.prototxt WEIGHTS.caffemodel --inputs {folder}/file -o out.npz",
    ),
    Case("HDF5 weights", hdf5, FileKind.HDF5_WEIGHTS, {"layers": 1, "parameters": 6}, CONVERT),
    Case(
        "HDF5",
        hdf5_data,
        FileKind.HDF5,
        {},
        "prototrt run NET.prototxt WEIGHTS.caffemodel --inputs in.npz -o out.npz",
    ),
    Case(
        "scales",
        texts(SCALES),
        FileKind.SCALES,
        {"net": "net", "method": "max"},
        "prototrt convert NET.prototxt WEIGHTS.caffemodel --precision int8 --scales {folder}/file -o model.plan",
    ),
    Case(
        "TensorRT's cache",
        texts("TRT-8601-EntropyCalibration2\ndata: 3c010a14\n"),
        FileKind.TABLE,
        {"each name is": "a tensor of TensorRT's Caffe parser"},
        "prototrt convert NET.prototxt WEIGHTS.caffemodel --precision int8"
        " --calibration-cache {folder}/file -o model.plan",
    ),
    Case(
        "ncnn's table",
        texts("conv1_param_0 1.5 2.5\nconv1 127.0\n"),
        FileKind.TABLE,
        {},
        "prototrt convert NET.prototxt WEIGHTS.caffemodel --precision int8"
        " --calibration-cache {folder}/file -o model.plan",
    ),
    Case(
        "solver",
        texts('net: "train_val.prototxt"\nbase_lr: 0.1\n'),
        FileKind.SOLVER,
        {"net": "train_val.prototxt"},
        "prototrt inspect train_val.prototxt",
    ),
    Case(
        "verification",
        texts({"holds": True, "comparisons": []}),
        FileKind.VERIFICATION,
        {"holds": "yes"},
        "prototrt dot NET.prototxt WEIGHTS.caffemodel --verification {folder}/file -o NET.html",
    ),
    Case(
        "list",
        texts("models:\n  - prototxt: a\n"),
        FileKind.MODEL_LIST,
        {},
        "prototrt batch {folder}/file -o engines",
    ),
    Case(
        "image",
        lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(9)),
        FileKind.IMAGE,
        {},
        "prototrt run NET.prototxt WEIGHTS.caffemodel --inputs {folder} -o out.npz",
    ),
    Case("another JSON", texts({"a": 1}), FileKind.OTHER, {"keys": ["a"]}, None),
    Case("archive", lambda path: path.write_bytes(b"\x1f\x8b" + bytes(9)), FileKind.OTHER, {}, None),
    Case("unknown", lambda path: path.write_bytes(bytes(range(256))), FileKind.OTHER, {}, None),
    Case("folder", lambda path: path.mkdir(), FileKind.FOLDER, {"files": 0}, "prototrt survey {folder}/file"),
]
