"""models.yaml: what is read out of it, and what is said of mistakes."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from prototrt.caffe_proto.common.errors import ConversionError
from prototrt.cli import main
from prototrt.converter.front.batch.entry import Entry
from prototrt.converter.front.batch.keys import FIELDS, FILES, OUTPUTS, files_of
from prototrt.converter.front.batch.spec import read_models
from prototrt.converter.options import DataOptions
from prototrt.tests.caffe2_cases import GOLDENS
from prototrt.tests.operations import lines_run


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "deploy.prototxt").touch()
        (tmp_path / name / "last.caffemodel").touch()


def read(text: str) -> list[Entry]:
    Path("models.yaml").write_text(text)
    return read_models("models.yaml", "out")


def test_a_model_has_the_commands_defaults() -> None:
    (entry,) = read("models:\n- prototxt: a/deploy.prototxt\n  weights: a/last.caffemodel\n")
    assert (entry.name, entry.target, entry.where) == ("a-deploy", "out/a-deploy.plan", "models.yaml:2")
    assert (entry.prototxt, entry.weights) == ("a/deploy.prototxt", "a/last.caffemodel")
    assert entry.options["sequence"] == "auto"
    assert entry.options["ways"] == ("network",)
    assert (entry.timeout, entry.memory, entry.needs) == (None, None, ())


def test_options_are_read_as_the_command_line_reads_them() -> None:
    (entry,) = read(
        """
defaults: {strict: true, phase: TRAIN, timeout: 1.5}
models:
- prototxt: a/deploy.prototxt
  random-weights: 7
  name: one
  format: onnx
  phase: test
  shapes: {data: 1x3x8x8, cont: [4, 1], image: "[N]x3x[2*H]x8", frames: [T*N, 3]}
  sizes: {N: 1..2..4, H: [2, 8]}
  min-shapes: {data: [1, 3, 8, 8]}
  output: [fc, prob]
  layout: batch-first
  net-stage: deploy
  on: [network, onnx]
  inputs: "{folder}/in.npz"
  expect: out.npz
  memory: 1.5GiB
  cpu-time: 90
  file-size: 2GB
  needs: [rtx, big]
"""
    )
    options = entry.options
    assert entry.target == "out/one.onnx"
    assert (options["strict"], options["phase"], options["random_weights"]) == (True, "TEST", 7)
    assert options["shapes"] == {
        "data": (1, 3, 8, 8),
        "cont": (4, 1),
        "image": ("N", 3, "2*H", 8),
        "frames": ("T*N", 3),
    }
    assert options["sizes"] == {"N": (1, 2, 4), "H": (2, 8)}
    assert options["min_shapes"] == {"data": (1, 3, 8, 8)}
    assert options["layout"] == "batch-first"
    assert (options["outputs"], options["stages"]) == (("fc", "prob"), ("deploy",))
    assert (options["ways"], options["inputs"], options["expect"]) == (
        ("network", "onnx"),
        "a/in.npz",
        "out.npz",
    )
    assert (entry.timeout, entry.memory, entry.needs) == (1.5, 1_610_612_736, ("rtx", "big"))
    assert (entry.cpu_time, entry.file_size) == (90, 2_000_000_000)


def test_mappings_of_lists_are_read_as_words() -> None:
    (entry,) = read(
        MODEL
        + """  recurrence: rnn/h=rnn/h_prev
  overrides: {ip=1.num_output: 2, "lstm*.recurrent_param.axes": [0, 1]}
  mem-pool-size: {workspace: 1GiB}
  profiles: [{N: 1..2..4, H: [2, 8]}, "N=4..4"]
"""
    )
    options = entry.options
    assert options["recurrences"] == {"rnn/h": "rnn/h_prev"}
    assert options["overrides"] == {"ip=1.num_output": "2", "lstm*.recurrent_param.axes": "0,1"}
    assert options["mem_pool_size"] == {"workspace": "1GiB"}
    assert options["profiles"] == ({"N": (1, 2, 4), "H": (2, 8, 8)}, {"N": (4, 4, 4)})


def test_a_file_of_states_is_relative_to_the_list() -> None:
    Path("a/models.yaml").write_text(
        "models:\n- {prototxt: deploy.prototxt, random-weights: 1, state: const s.npz}\n"
        "- {prototxt: deploy.prototxt, random-weights: 1, state: zero, name: z}\n"
    )
    entries = read_models("a/models.yaml", "out")
    assert [entry.options["state"] for entry in entries] == ["const:a/s.npz", "zero"]


def test_files_of_rules_for_layers_are_relative_to_the_list() -> None:
    Path("a/models.yaml").write_text(
        "models:\n- {prototxt: deploy.prototxt, random-weights: 1,\n"
        "   replace: {one: 'r.py:f', two: '{stem}.py:g', three: h.py}}\n"
        "- {prototxt: deploy.prototxt, random-weights: 1, replace: 'one=r.py:f', name: z}\n"
    )
    entries = read_models("a/models.yaml", "out")
    assert [entry.options["replace"] for entry in entries] == [
        {"one": "a/r.py:f", "two": "a/deploy.py:g", "three": "a/h.py"},
        {"one": "a/r.py:f"},
    ]
    assert files_of(entries[0].options) == ["a/r.py", "a/deploy.py", "a/h.py"]


def test_every_option_of_the_commands_is_a_key() -> None:
    own = {
        "model",
        "weights",
        "file",
        "print_after",
        "as_json",
        "verbose",
        "quiet",
        "debug",
        "version",
    }
    of_images = {field.name for field in fields(DataOptions)} - {"inputs"}
    asked = {option.name for name in ("convert", "verify") for option in main.commands[name].params}
    assert asked - own - of_images == {*FIELDS}
    assert {*FILES, *OUTPUTS} <= {*FIELDS}


def test_files_to_write_are_relative_to_the_list_and_named_after_the_model() -> None:
    Path("a/models.yaml").write_text(
        "models:\n- {prototxt: deploy.prototxt, random-weights: 1, matrix: {sequence: [loop, unroll]},\n"
        "   emit-header: '{folder}/{name}.h', export-layer-info: '../{stem}-{name}.json'}\n"
        "- {prototxt: deploy.prototxt, random-weights: 1, name: n, matrix: {emit-header: [x.h, y.hpp]}}\n"
    )
    entries = read_models("a/models.yaml", "out")
    assert [(entry.name, entry.outputs) for entry in entries] == [
        (
            f"deploy-{sequence}",
            {
                "emit_header": f"a/deploy-{sequence}.h",
                "export_layer_info": f"a/../deploy-deploy-{sequence}.json",
            },
        )
        for sequence in ("loop", "unroll")
    ] + [(f"n-{name}", {"emit_header": f"a/{name}"}) for name in ("x.h", "y.hpp")]


def test_nets_of_caffe2_state_weights_in_their_own_ways() -> None:
    """A minidb holds them; an init net may draw them."""
    net = GOLDENS / "caffe2" / "lstm_mobile_exporter"
    database = GOLDENS / "caffe2" / "lstm_minidb" / "model.minidb"
    drawn = f"- prototxt: {net}/predict_net.pb\n  weights: {net}/init_net.pb\n  random-weights: 1\n"
    alone, both = read(f"models:\n- prototxt: {database}\n{drawn}")
    assert (alone.weights, alone.options["random_weights"]) == (None, None)
    assert (both.weights, both.options["random_weights"]) == (f"{net}/init_net.pb", 1)


def test_globs_and_matrices_are_written_out() -> None:
    entries = read(
        """
models:
- prototxt: "*/deploy.prototxt"
  weights: "{folder}/*.caffemodel"
  matrix:
    sequence: [loop, unroll]
    shapes: [{data: 1x3}, {data: [2, 3]}]
"""
    )
    assert [entry.name for entry in entries] == [
        f"{folder}-deploy-{sequence}-data-{sizes}"
        for folder in "ab"
        for sequence in ("loop", "unroll")
        for sizes in ("1x3", "2x3")
    ]
    assert [entry.weights for entry in entries] == [f"{folder}/last.caffemodel" for folder in "aaaabbbb"]
    assert entries[1].options["shapes"] == {"data": (2, 3)}


def test_paths_are_relative_to_the_list() -> None:
    Path("a/models.yaml").write_text(
        "models:\n- prototxt: ../*/deploy.prototxt\n  weights: '{folder}/last.caffemodel'\n"
    )
    entries = read_models("a/models.yaml", "out")
    assert [entry.prototxt for entry in entries] == ["a/../a/deploy.prototxt", "a/../b/deploy.prototxt"]
    assert [entry.weights for entry in entries] == ["a/last.caffemodel", "a/../b/last.caffemodel"]
    assert [entry.name for entry in entries] == ["deploy", "b-deploy"]


def test_names_are_filled_in_and_made_plain() -> None:
    text = """
models:
- prototxt: "*/deploy.prototxt"
  random-weights: 1
  name: "{folder}: {cont}"
  matrix: {cont: [keep, drop], sequence: [loop]}
"""
    assert [entry.name for entry in read(text)] == [
        f"{folder}-{cont}-loop" for folder in "ab" for cont in ("keep", "drop")
    ]


@pytest.mark.parametrize(
    ("prototxt", "name"), [("a/x.y.prototxt", "a-x.y"), ("a.b/net", "a.b-net"), (".", "model")]
)
def test_names_follow_from_files(prototxt: str, name: str) -> None:
    (entry,) = read(f"models:\n- {{prototxt: {prototxt}, random-weights: 1}}\n")
    assert entry.name == name


MODEL = "models:\n- prototxt: a/deploy.prototxt\n  random-weights: 1\n"
MISTAKES = {
    "no model": (
        "models: []\n",
        "models.yaml:1: the list has no models\n  fix: add models to the list",
    ),
    "empty": ("", "models.yaml: the file is empty\n  fix: give a list of models, or get the file again"),
    "no yaml": (
        "models: [\n",
        "models.yaml:2: is not YAML: expected the node content, but found '<stream end>'\n"
        "  fix: look at this line and the one before: the keys of a model are aligned, with spaces; a space follows"
        " each colon; values that begin with { or * are in quotes",
    ),
    "a net": (
        'name: "net"\nlayer {\n}\n',
        "models.yaml: this is a net, expected a list of models\n"
        "  fix: write models: and a list of models that names this prototxt",
    ),
    "no models": (
        "defaults: {}\n",
        "models.yaml:1: there are no models\n  fix: write models: and a list of models",
    ),
    "a list": (
        "- a\n",
        "models.yaml:1: the file is a list, expected keys and values\n  fix: write models: and a list of models",
    ),
    "unknown top key": (
        MODEL + "model: 1\n",
        'models.yaml:4: there is no key "model"\n  fix: write models',
    ),
    "a top key that is like none": (
        MODEL + "nets: 1\n",
        'models.yaml:4: there is no key "nets"\n  fix: write defaults or models',
    ),
    "a key of a model without indentation": (
        MODEL + "net-stage: deploy\n",
        'models.yaml:4: there is no key "net-stage"\n'
        "  fix: indent net-stage, so that it belongs to a model or to defaults",
    ),
    "unknown key": (
        MODEL + "  sequense: loop\n",
        'models.yaml:4: there is no key "sequense"\n  fix: write sequence',
    ),
    "a key that is like none": (
        MODEL + "  model: a/deploy.prototxt\n",
        'models.yaml:4: there is no key "model"\n'
        "  fix: write name, prototxt, weights, format, needs, timeout, memory, cpu-time, file-size, matrix"
        " or an option of convert or verify",
    ),
    "a placeholder without quotes": (
        "models:\n- prototxt: a/deploy.prototxt\n  weights: {folder}\n",
        "models.yaml:3: weights is a mapping, expected a word or a number\n"
        "  fix: put a value that begins with { into quotes",
    ),
    "a key twice": (
        MODEL + "  random-weights: 2\n",
        'models.yaml:4: "random-weights" is given twice, first in line 3',
    ),
    "a bad choice": (
        MODEL + "  sequence: lop\n",
        "models.yaml:4: sequence is 'lop', expected one of auto, loop, unroll, step\n  fix: use sequence: loop",
    ),
    "a bad shape": (
        MODEL + "  shape: {data: 1x0}\n",
        'models.yaml:4: shapes: "data:1x0" is not a shape: write the blob\'s name, a colon, and sizes of 1 or more'
        " with x between them, as in data:1x3x224x224",
    ),
    "a bad recurrence": (
        MODEL + "  recurrence: rnn/h\n",
        'models.yaml:4: recurrences: "rnn/h" is not a recurrence: write the output and the input, as in h=h_prev',
    ),
    "a rule without a file": (
        MODEL + "  replace: roi_pool=my_pool\n",
        'models.yaml:4: replace: "roi_pool=my_pool" is not a replacement: write the layer, the file and its function,'
        " as in roi_pool=my_rules.py:my_pool",
    ),
    "no number": (MODEL + "  level: x\n", 'models.yaml:4: level is "x", expected a whole number'),
    "a profile without a list": (
        MODEL + "  profile: N=1..2\n",
        'models.yaml:4: profiles is "N=1..2", expected a list: lines that begin with -',
    ),
    "no truth": (
        MODEL + "  tf32: yes please\n",
        'models.yaml:4: tf32 is "yes please", expected true or false',
    ),
    "nothing": (MODEL + "  sequence:\n", "models.yaml:4: sequence is empty, expected a word or a number"),
    "a mapping": (
        MODEL + "  name: {a: b}\n",
        "models.yaml:4: name is a mapping, expected a word or a number",
    ),
    "no prototxt": (
        "models:\n- random-weights: 1\n",
        "models.yaml:2: the model has no prototxt\n  fix: give prototxt: FILE",
    ),
    "no weights": (
        "models:\n- prototxt: a/deploy.prototxt\n",
        "models.yaml:2: the model has no weights\n"
        "  fix: give weights, such as a/last.caffemodel, or random-weights: 0 to try the topology alone",
    ),
    "two sorts of weights": (
        MODEL + "  weights: a/last.caffemodel\n",
        "models.yaml:2: weights and random-weights are given, expected one of them\n  fix: leave one of them out",
    ),
    "an unknown word": (
        MODEL + "  name: '{foldr}'\n",
        'models.yaml:4: "{foldr}" cannot be filled in\n  fix: use some of {stem}, {folder}',
    ),
    "one name twice": (
        MODEL + MODEL.removeprefix("models:\n"),
        'models.yaml:4: two models are called "a-deploy"\n  because the first is in models.yaml:2\n'
        "  fix: give each a name: of its own, such as {folder}-{stem}",
    ),
    "one header twice": (
        MODEL + "  matrix: {sequence: [loop, unroll]}\n  emit-header: 'include/{stem}.h'\n",
        'models.yaml:2: two models would write "include/deploy.h"\n  because the first is in models.yaml:2\n'
        '  fix: put the name of the model into emit-header:, as in emit-header: "{name}.h"',
    ),
    "a header of another suffix": (
        MODEL + "  emit-header: net.json\n",
        'models.yaml:2: emit-header: "net.json" ends in .json, expected .h, .hh, .hpp or .hxx\n'
        "  fix: use emit-header: net.h",
    ),
    "an unknown word in a header": (
        MODEL + "  emit-header: '{foldr}.h'\n",
        'models.yaml:4: "{foldr}.h" cannot be filled in\n  fix: use some of {stem}, {folder}, {name}',
    ),
    "deep": (
        "models: " + "[" * 3000 + "]" * 3000,
        "models.yaml: nests lists and mappings too deeply\n  fix: write a list of models with their keys",
    ),
    "endless time": (
        MODEL + f"  timeout: {'9' * 400}\n",
        f'models.yaml:4: timeout is "{"9" * 400}", expected seconds, more than 0',
    ),
    "no file size": (
        MODEL + "  file-size: 0\n",
        'models.yaml:4: file-size is "0", expected a size such as 4GB or 500MiB',
    ),
    "endless CPU time": (
        MODEL + f"  cpu-time: {'9' * 30}\n",
        f'models.yaml:4: cpu-time is "{"9" * 30}", expected seconds, more than 0',
    ),
    "endless memory": (
        MODEL + f"  memory: {'9' * 400}GB\n",
        f'models.yaml:4: memory is "{"9" * 400}GB", expected a size such as 4GB or 500MiB',
    ),
    "a bad format": (
        MODEL + "  format: tflite\n",
        'models.yaml:4: format is "tflite", expected plan or onnx or torch',
    ),
    "no time": (MODEL + "  timeout: 0\n", 'models.yaml:4: timeout is "0", expected seconds, more than 0'),
    "no size": (
        MODEL + "  memory: 4 cows\n",
        'models.yaml:4: memory is "4 cows", expected a size such as 4GB or 500MiB',
    ),
    "a matrix of prototxts": (
        MODEL + "  matrix: {prototxt: [a]}\n",
        "models.yaml:4: a matrix cannot vary prototxt",
    ),
    "no column": (
        MODEL + "  matrix: {sequence: loop}\n",
        'models.yaml:4: matrix: sequence is "loop", expected a list: lines that begin with -',
    ),
    "outputs of no inputs": (
        MODEL + "  expect: x.npz\n",
        "models.yaml:2: expected outputs are given without inputs\n  fix: also give inputs: FILE.npz",
    ),
    "a width": (
        MODEL + "  name: '{stem:>999999999}'\n",
        'models.yaml:4: "{stem:>999999999}" cannot be filled in\n  fix: use some of {stem}, {folder}',
    ),
    "a conversion": (
        MODEL + "  name: '{stem!r}'\n",
        'models.yaml:4: "{stem!r}" cannot be filled in\n  fix: use some of {stem}, {folder}',
    ),
    "a matrix of very many models": (
        MODEL
        + "  matrix:\n"
        + "".join(
            f"    {key}: [{', '.join(map(str, range(100)))}]\n"
            for key in ("level", "calls", "seed", "timeout")
        ),
        "models.yaml:5: the matrix makes 100,000,000 models, expected at most 100,000\n"
        "  fix: give its keys fewer values, or split the list",
    ),
    "aliases of aliases": (
        "models:\n- &a0 [x]\n" + "".join(f"- &a{i + 1} [{', '.join([f'*a{i}'] * 9)}]\n" for i in range(9)),
        "models.yaml:3: its aliases make more than 10,160 values of 8 that are written\n"
        "  fix: use fewer aliases of aliases",
    ),
    "a default that does not suit a model": (
        "defaults: {backend: rtx}\n" + MODEL + "  format: onnx\n",
        "models.yaml:3: backend is for engines, but FILE ends in .onnx\n"
        "  fix: undo the default with backend: null,"
        " or choose a FILE that ends in .plan, or use target: datacenter for an engine elsewhere",
    ),
    "an endless alias": ("models: &m\n- *m\n", "models.yaml:1: an alias contains itself"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes(case: str) -> None:
    text, message = MISTAKES[case]
    with pytest.raises(ConversionError) as raised:
        read(text)
    assert str(raised.value) == message


def test_an_empty_value_undoes_a_default() -> None:
    defaults = "defaults: {backend: rtx, weights: w.caffemodel, timeout: 5}\n"
    (entry,) = read(defaults + MODEL + "  format: onnx\n  backend: null\n  weights:\n  timeout: ~\n")
    assert entry == read(MODEL.replace("\n-", "\n\n-") + "  format: onnx\n")[0]


def test_all_mistakes_are_told_at_once_and_once_each() -> None:
    text = (
        "defaults:\n  bakend: rtx\nmodels:\n- prototxt: a/deploy.prototxt\n  timeout: soon\n  format: zip\n"
        "  sequence: lop\n- weights: b\n"
    )
    with pytest.raises(ConversionError) as raised:
        read(text)
    assert str(raised.value) == (
        'models.yaml:2: there is no key "bakend"\n'
        "  fix: write backend\n"
        'models.yaml:5: timeout is "soon", expected seconds, more than 0\n'
        'models.yaml:6: format is "zip", expected plan or onnx or torch\n'
        "models.yaml:7: sequence is 'lop', expected one of auto, loop, unroll, step\n"
        "  fix: use sequence: loop\n"
        "models.yaml:8: the model has no prototxt\n"
        "  fix: give prototxt: FILE\n"
        "5 problems"
    )


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(ConversionError) as raised:
        read_models("nowhere.yaml", "out")
    assert str(raised.value) == (
        f"nowhere.yaml: there is no such file\n  fix: check the path; the current folder is {Path.cwd()}"
    )


def test_the_list_in_the_documentation_is_read() -> None:
    text = (Path(__file__).parents[4] / "docs" / "batch.md").read_text()
    (example,) = re.findall(r"^```yaml\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    for folder in ("digits", "zoo/one", "zoo/two"):
        Path(folder).mkdir(parents=True)
        Path(folder, "deploy.prototxt").touch()
        Path(folder, "last.caffemodel").touch()
    entries = read(example)
    assert len(entries) == 1 + 2 * 4
    assert entries[-1].name == "two-unroll-data-4x3x224x224"
    assert entries[-1].weights == "zoo/two/last.caffemodel"


def test_many_models_that_are_not_there() -> None:
    """Their folder is not listed for each of them."""

    text = "models:\n" + "".join(f"- prototxt: many/{number}.prototxt\n" for number in range(20))
    Path("many").mkdir()
    read(text)
    alone = lines_run(lambda: read(text))
    for number in range(400):
        Path(f"many/of-{number}.prototxt").touch()
    assert lines_run(lambda: read(text)) < alone * 1.2
