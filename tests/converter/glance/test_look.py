"""What a file is, by its content: every kind, damaged files, and the command to run next."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import prototrt
from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.caffe_proto.schema import message_class
from prototrt.converter.commandline.next_steps import hint, next_step
from prototrt.converter.glance.facts import FileKind
from prototrt.converter.glance.look import look_at
from prototrt.converter.onnx import file as onnx_file
from prototrt.tests.command_line import DEPLOY, STREAM, WEIGHTS, done, run
from prototrt.tests.converter.deepstream.test_deepstream import CLUSTERS, written
from prototrt.tests.fresh_python import ROOT
from prototrt.tests.golden_cases import GOLDENS

CAFFE2 = GOLDENS / "caffe2" / "lstm_basic"
MINIDB = GOLDENS / "caffe2" / "lstm_minidb"


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


def blob(*shape: int) -> Any:
    message = message_class("BlobProto")()
    message.shape.dim.extend(shape)
    message.data.extend(range(int(np.prod(shape))))
    return message


def v1(path: Path) -> None:
    net = message_class("NetParameter")(name="old")
    net.layers.add(name="conv", type=4).blobs.append(blob(2, 3))
    path.write_bytes(net.SerializeToString())


def v0(path: Path) -> None:
    net = message_class("NetParameter")(name="older")
    layer = net.layers.add().layer
    layer.name, layer.type = "ip", "innerproduct"
    layer.blobs.append(blob(5))
    path.write_bytes(net.SerializeToString())


def mean(path: Path) -> None:
    message = message_class("BlobProto")(num=1, channels=2, height=1, width=2)
    message.data.extend([1, 3, 5, 9])
    path.write_bytes(message.SerializeToString())


def solver_state(path: Path) -> None:
    history = blob(3).SerializeToString()
    iteration, weights = b"\x08\xbc\x05", b"\x12\x12net_700.caffemodel"
    path.write_bytes(iteration + weights + b"\x1a" + bytes([len(history)]) + history)


def onnx(path: Path) -> None:
    prototrt.export_onnx(prototrt.rewrite(prototrt.load(DEPLOY, WEIGHTS)), path)


def hdf5(path: Path) -> None:
    h5py: Any = pytest.importorskip("h5py")
    with h5py.File(path, "w") as store:
        store["data/conv/0"] = np.zeros((2, 3), np.float32)


def hdf5_data(path: Path) -> None:
    h5py: Any = pytest.importorskip("h5py")
    with h5py.File(path, "w") as store:
        store["images"] = np.zeros((2, 3), np.float32)
        store["elsewhere"] = h5py.ExternalLink("/etc/passwd", "x")


def plan(path: Path) -> None:
    path.write_bytes(b"vtrt".ljust(4096, b"\0"))


def plan_with_manifest(path: Path) -> None:
    plan(path)
    Path(f"{path}.json").write_text(json.dumps({**MANIFEST, "plan": {"bytes": 4096}}))


MANIFEST = {
    "format": 1,
    "tool": {"name": "prototrt", "version": "0.3.0"},
    "network": "net",
    "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 3]}],
    "outputs": [{"name": "y", "dtype": "float32", "shape": [1]}],
    "recurrences": [{"input": "h_0", "output": "h_T"}],
}
FACTS_OF_MANIFEST = {"inputs": ["x float32 [N]x3"], "outputs": ["y float32 1"], "state": ["h_T -> h_0"]}
SCALES = {
    "format": 1,
    "network": "net",
    "method": "max",
    "sources": {},
    "data": [],
    "blobs": {"x": {"scale": 0.5}},
}


@cache
def content(name: str, act: Callable[[Path], object]) -> bytes:
    """A file that a command writes into a folder."""
    with tempfile.TemporaryDirectory() as folder:
        act(Path(folder))
        return Path(folder, name).read_bytes()


def made(name: str, act: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content(name, act))


def converted(name: str, **options: Any) -> Callable[[Path], object]:
    return lambda folder: prototrt.convert(DEPLOY, WEIGHTS, folder / name, **options)


def with_weights_outside(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnx_file, "EXTERNAL_FROM", 0)
        converted("net.onnx")(folder)


def with_header(folder: Path) -> None:
    converted("net.py", emit_header=str(folder / "net.h"))(folder)


def served(folder: Path) -> None:
    done("triton", STREAM, WEIGHTS, "-o", str(folder), "--platform", "python", "--name", "m")


def detector(folder: Path) -> None:
    written(CLUSTERS, folder)


def new_rule(folder: Path) -> None:
    (folder / "net.prototxt").write_text(
        'layer { name: "d" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 } } }\n'
        'layer { name: "m" type: "Mystery" bottom: "x" top: "y" }\n'
    )
    done("new-rule", str(folder / "net.prototxt"), "m", "-o", str(folder / "rules.py"))


def drawn(name: str) -> Callable[[Path], object]:
    return lambda folder: done("dot", DEPLOY, "-o", str(folder / name))


def listed(folder: Path) -> None:
    (folder / "models.yaml").write_text(
        f"models: [{{ prototxt: {Path(DEPLOY).resolve()}, weights: {Path(WEIGHTS).resolve()}, format: onnx }}]"
    )
    reports = ("--report-md", str(folder / "r.md"), "--report-junit", str(folder / "r.xml"))
    done("batch", str(folder / "models.yaml"), "-o", str(folder / "out"), *reports)


def texts(content: object) -> Callable[[Path], object]:
    text = content if isinstance(content, str) else json.dumps(content)
    return lambda path: path.write_text(text)


def copy_of(source: str | Path) -> Callable[[Path], object]:
    return lambda path: shutil.copy(source, path)


def arrays(**named: tuple[int, ...]) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        with path.open("wb") as stream:
            np.savez(stream, **{name.replace("_", "/"): np.zeros(shape) for name, shape in named.items()})  # type: ignore[arg-type]  # numpy's stub wants flags there

    return write


def array(path: Path) -> None:
    with path.open("wb") as stream:
        np.save(stream, np.zeros((2, 3), np.float32))


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
        "safetensors",
        made("net.safetensors", converted("net.py")),
        FileKind.SAFETENSORS,
        {"tensors": 22, "written by": f"prototrt {prototrt.__version__}"},
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
    Case("notes of a cache", texts({"sha256": "", "notes": {}}), FileKind.CACHE_NOTES, {}, None),
    Case("result", texts({"format": 1, "timings": []}), FileKind.RESULT, {"command": "bench"}, None),
    Case(
        "self-test",
        texts({"format": 1, "prototrt": "0.3", "sections": [], "seconds": 1, "summary": ""}),
        FileKind.SELFTEST,
        {"prototrt": "0.3"},
        "prototrt selftest --show {folder}/file",
    ),
]


def kernels(path: Path) -> None:
    path.write_bytes(bytes(range(256)))


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


@pytest.mark.parametrize("case", [*CASES, BESIDE_A_PLAN], ids=str)
def test_a_file_is_recognized_by_its_content(case: Case, tmp_path: Path) -> None:
    file = tmp_path / ("file" if case is not BESIDE_A_PLAN else f"net.plan.{'0' * 16}.cache")
    (tmp_path / "net.plan").write_bytes(b"vtrt")
    case.write(file)
    found = look_at(file)
    assert found is not None
    assert found.kind is case.kind
    assert {name: found.facts.get(name) for name in case.facts} == case.facts
    assert next_step(found) == (
        case.next and case.next.replace("{folder}", str(tmp_path)).replace("{above}", str(tmp_path.parent))
    )
    facts = json.loads(done("inspect", str(file), "--json").stdout)
    assert (facts["kind"], facts["next"]) == (case.kind.name.lower(), next_step(found))
    shown = done("inspect", str(file)).stdout
    assert shown.startswith(f"{file}: {found.words}")
    assert (next_step(found) or str(hint(found))) in shown


def test_every_kind_is_covered(tmp_path: Path) -> None:
    assert {case.kind for case in (*CASES, BESIDE_A_PLAN)} | {FileKind.DATABASE} == {*FileKind}


def test_a_minidb() -> None:
    (file,) = MINIDB.glob("*.minidb")
    found = look_at(file)
    assert found is not None
    assert found.kind is FileKind.DATABASE
    assert found.facts["blobs"]


@pytest.mark.parametrize("file", [DEPLOY, "samples/digits/train_val.prototxt"])
def test_the_text_of_a_net_is_left_to_the_reader_of_nets(file: str) -> None:
    assert look_at(file) is None


@pytest.mark.parametrize("comment", ["# entr\xe9e\n".encode("latin-1"), "# \u8f93\u5165\n".encode("gbk")])
def test_the_text_of_a_net_in_another_encoding_is_one(comment: bytes, tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    path.write_bytes(comment + Path(DEPLOY).read_bytes())
    assert look_at(path) is None


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be"])
def test_wide_text_is_told(codec: str, tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    path.write_bytes(Path(DEPLOY).read_text().encode(codec))
    with pytest.raises(ConversionError) as caught:
        look_at(path)
    assert str(caught.value) == f"{path}: this is UTF-16 text, expected UTF-8\n  fix: save it as UTF-8"


def test_files_beside_it_are_named(tmp_path: Path) -> None:
    """The commands can be run as they are where the usual names are there."""
    for source in (DEPLOY, WEIGHTS, CAFFE2 / "init_net.pb", CAFFE2 / "predict_net.pb"):
        shutil.copy(source, tmp_path)
    weights, net = look_at(tmp_path / "digits.caffemodel"), look_at(tmp_path / "predict_net.pb")
    assert weights is not None
    assert net is not None
    assert next_step(weights) == (
        f"prototrt convert {tmp_path}/deploy.prototxt {tmp_path}/digits.caffemodel -o digits.plan"
    )
    assert next_step(net) == (
        f"prototrt convert {tmp_path}/predict_net.pb {tmp_path}/init_net.pb --shape data:SIZES -o predict_net.plan"
    )


def test_rows_and_facts_are_shown(tmp_path: Path) -> None:
    file = tmp_path / "mean.binaryproto"
    mean(file)
    assert done("inspect", str(file)).stdout.splitlines()[:4] == [
        f"{file}: a mean file, or another blob of Caffe, 26 bytes",
        "shape                 1x2x1x2",
        "smallest              1",
        "largest               9",
    ]
    arrays(data=(2, 3), cont=(2,))(tmp_path / "in.npz")
    shown = done("inspect", str(tmp_path / "in.npz")).stdout
    assert (
        " name   type      shape\n ──────────────────────\n data   float64   2x3\n cont   float64   2\n"
        in shown
    )


def test_a_plan_without_manifest_says_so(tmp_path: Path) -> None:
    """Its content is TensorRT's own."""
    file = tmp_path / "net.plan"
    plan(file)
    told = done("inspect", str(file))
    assert told.stdout.splitlines() == [
        f"{file}: a TensorRT engine, 4.1 kB",
        f"next  prototrt run {file} --inputs in.npz -o out.npz --trust",
    ]
    assert told.stderr == (
        f"warning: {file}: there is no manifest beside it, net.plan.json: nothing says what the engine holds\n"
    )


@pytest.mark.parametrize("content", ["", "[]", "{", "\x00"])
def test_a_manifest_that_is_none(tmp_path: Path, content: str) -> None:
    file = tmp_path / "net.plan"
    plan(file)
    Path(f"{file}.json").write_text(content)
    assert done("inspect", str(file)).stderr == f"warning: {file}.json: is not a manifest that can be read\n"


def onnx_with(folder: Path, **options: Any) -> Path:
    prototrt.convert(DEPLOY, WEIGHTS, folder / "net.onnx", **options)
    return folder / "net.onnx"


NEXT: dict[str, tuple[dict[str, Any], str]] = {
    "float32": ({}, "--noTF32"),
    "float16": ({"precision": "fp16"}, "--stronglyTyped --noTF32"),
    "sizes that vary": (
        {"min_shapes": {"data": (1, 1, 32, 16), "cont": (1, 1)}, "outputs": ["prob"]},
        "--noTF32 --minShapes=data:1x1x32x16,cont:1x1 --optShapes=data:40x1x32x16,cont:40x1"
        " --maxShapes=data:40x1x32x16,cont:40x1",
    ),
    "a target's own": (
        {"target": "datacenter", "precision": "fp16", "tf32": True, "builder_optimization_level": 5},
        "--stronglyTyped --builderOptimizationLevel=5",
    ),
}


@pytest.mark.parametrize("case", NEXT)
def test_the_manifest_says_how_trtexec_builds(case: str, tmp_path: Path) -> None:
    options, words = NEXT[case]
    file = onnx_with(tmp_path, **options)
    command = f"trtexec --onnx={file} --saveEngine=net.plan {words}"
    assert json.loads(done("inspect", str(file), "--json").stdout)["next"] == command


@pytest.mark.parametrize("words", [["rm", "-r", "/"], ["trtexec", "; rm"], "rm", [], [1]])
def test_a_manifest_proposes_trtexec_alone(words: object, tmp_path: Path) -> None:
    file = onnx_with(tmp_path)
    manifest = json.loads(Path(f"{file}.json").read_text())
    Path(f"{file}.json").write_text(json.dumps({**manifest, "trtexec": words}))
    assert json.loads(done("inspect", str(file), "--json").stdout)["next"].startswith(
        f"trtexec --onnx={file} --save"
    )


def test_weights_beside_their_module(tmp_path: Path) -> None:
    prototrt.convert(DEPLOY, WEIGHTS, tmp_path / "net.py")
    found = look_at(tmp_path / "net.safetensors")
    assert found is not None
    assert next_step(found) == f"prototrt inspect {tmp_path}/net.py"
    assert found.facts["written by"] == f"prototrt {prototrt.__version__}"


SCHEMAS = {
    file.name.partition(".")[0]: json.loads(file.read_text()) for file in (ROOT / "docs/schemas").iterdir()
}
COMMANDS = sorted(SCHEMAS.keys() - {"manifest", "selftest", "verify"})


@pytest.mark.parametrize("command", COMMANDS)
def test_results_of_commands_are_told_apart(command: str, tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    file.write_text(json.dumps({key: [] for key in SCHEMAS[command]["required"]}))
    found = look_at(file)
    assert found is not None
    assert found.kind is FileKind.RESULT
    words = {"error": "one that failed", "inspect-file": "inspect of a file", "new-rule": command}
    assert found.facts == {"command": words.get(command, command.replace("-", " "))}


def test_an_array_whose_header_does_not_end(tmp_path: Path) -> None:
    """NumPy reads such a header with Python's tokenizer, which raises an error of its own."""
    file = tmp_path / "x.npy"
    np.save(file, np.zeros((2, 3), np.float32))
    file.write_bytes(file.read_bytes().replace(b"}", b" "))
    result = run("inspect", str(file))
    assert result.exit_code == 3
    assert result.stderr.startswith(f"error: {file}: the npy file is damaged: ")
    assert result.stderr.endswith("\n  fix: get the file again\n")


def test_a_manifest_of_another_plan_is_told(tmp_path: Path) -> None:
    file = tmp_path / "net.plan"
    plan(file)
    Path(f"{file}.json").write_text(json.dumps({**MANIFEST, "plan": {"bytes": 12}}))
    assert done("inspect", str(file)).stderr == (
        f"warning: {file}.json: is about a file of 12 bytes, this one has 4096\n"
    )


def test_what_options_are_for_nets(tmp_path: Path) -> None:
    """With an option for nets, the file is read as a net, and the message says what it is."""
    result = run("inspect", WEIGHTS, "--shape", "data:1x1")
    assert result.exit_code == 3
    assert "this is a caffemodel, expected a prototxt" in result.stderr


SMALL = [case for case in CASES if case.kind is not FileKind.FOLDER]


@pytest.mark.parametrize("case", SMALL, ids=str)
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_damaged_files(case: Case, data: st.DataObject, tmp_path: Path) -> None:
    """A file with wrong bytes, or cut short, is shown as far as it goes, or refused with a message."""
    file = tmp_path / "file"
    case.write(file)
    content = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, min(len(content), 2000) - 1))] = data.draw(st.integers(0, 255))
    file.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        found = look_at(file)
        told = str(file) if found is None else json.dumps(found.as_dict())
    except ConversionError as error:
        told = str(error)
    assert str(file) in told
