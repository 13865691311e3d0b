"""Broken nets of Caffe2 are refused: where, what and why, as whole messages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import prototrt
from prototrt.caffe_proto.caffe2.schema import message_class
from prototrt.caffe_proto.common.errors import ConversionError, NetError
from prototrt.cli import main
from prototrt.tests.caffe2_cases import GOLDENS

FOLDER = GOLDENS / "caffe2" / "lstm_basic"
SHAPES = {name: array.shape for name, array in np.load(FOLDER / "inputs.npz").items()}
RECURRENT = "predict_net.pb: operator 1 (RecurrentNetwork)"
EXPORT = "\n  fix: export the net again"
GET = "\n  fix: get the file again"

Break = Callable[[Any], None]  # messages have fields that no type checker knows


def argument(operator: Any, name: str) -> Any:
    return next(found for found in operator.arg if found.name == name)


def entry(name: str, index: int, value: object) -> Break:
    """Give the RecurrentNetwork another entry in a list argument."""

    def change(net: Any) -> None:
        found = argument(net.op[1], name)
        (found.strings if isinstance(value, bytes) else found.ints)[index] = value

    return change


def text_step_net(net: Any) -> None:
    found = argument(net.op[1], "step_net")
    found.ClearField("n")
    found.s = b'name: "x"\nop { input: "a" '


def cycle(net: Any) -> None:
    net.op[0].input[0] = "lstm/hidden_state_all"


def own_output(net: Any) -> None:
    net.op[0].input[0] = "lstm/i2h"


def unknown_operator(net: Any) -> None:
    argument(net.op[1], "step_net").n.op[2].type = "LSTMUnot"


def second_offset(net: Any) -> None:
    argument(net.op[1], "link_offset").ints.append(0)


def wide_link(net: Any) -> None:
    net.op[1].arg.add(name="link_window").ints.extend([2, 1, 1, 1, 1])


def text_axis(net: Any) -> None:
    axis = argument(net.op[0], "axis")
    axis.ClearField("i")
    axis.s = b"two"


def unmade_output(net: Any) -> None:
    net.external_output.append("lstm/nothing")


BROKEN: dict[str, tuple[Break, str]] = {
    "link_to_nothing": (
        entry("link_external", 4, b"lstm/i2hh"),
        f'{RECURRENT}, link_external "lstm/i2hh": no earlier operator writes it, and it is not an input'
        " of the net\n  fix: write lstm/i2h",
    ),
    "state_without_write": (
        entry("link_internal", 1, b"nothing"),
        f'{RECURRENT}: 0 links write the state "lstm/lstm/hidden_t_prev_states", expected 1\n'
        '  because the blobs linked to it are "lstm/hidden_t_prev", "nothing"\n'
        "  fix: link a blob that the step net makes to it",
    ),
    "alias_out_of_range": (
        entry("alias_offset", 0, 7),
        f'{RECURRENT}: alias_offset of "lstm/hidden_state_all" is 7, expected -6 to 5\n'
        f'  because "lstm/lstm/hidden_t_prev_states" has 6 rows{EXPORT}',
    ),
    "link_out_of_range": (
        entry("link_offset", 4, 3),
        f'{RECURRENT}, link_external "lstm/i2h": in step 4 the link of "input_t" shows rows 7 to 7, but the'
        " blob has 5\n  because T is 5, the first dimension of the first input\n"
        "  fix: export the net again: its links do not fit together",
    ),
    "read_before_written": (
        entry("link_offset", 0, 1),
        f'{RECURRENT}: the link of "lstm/hidden_t_prev" shows row 1 of the state'
        ' "lstm/lstm/hidden_t_prev_states" before it is written\n'
        "  because the state begins with 1 rows\n  fix: use an offset from 0 to 0",
    ),
    "read_beyond_the_state": (
        wide_link,
        f'{RECURRENT}: the link of "lstm/hidden_t_prev" shows row 1 of the state'
        ' "lstm/lstm/hidden_t_prev_states" before it is written\n'
        "  because the state begins with 1 rows\n  fix: export the net again: its links do not fit together",
    ),
    "write_into_no_state": (
        entry("link_external", 1, b"lstm/i2h"),
        f'{RECURRENT}: the step net writes "lstm/hidden_state" into "lstm/i2h", which is not a state\n'
        "  fix: make it a state: add it to recurrent_states, and its initial state to"
        ' initial_recurrent_state_ids; or convert the part before it: outputs=["lstm/i2h"]',
    ),
    "a_state_twice": (
        entry("recurrent_states", 1, b"lstm/lstm/hidden_t_prev_states"),
        f'{RECURRENT}: recurrent_states lists "lstm/lstm/hidden_t_prev_states" more than once\n'
        "  fix: correct the arguments, or export the net again",
    ),
    "initial_state": (
        entry("initial_recurrent_state_ids", 0, 9),
        f"{RECURRENT}: initial_recurrent_state_ids has 9, expected an input from 0 to 5\n"
        "  because the operator has 6 inputs\n"
        "  fix: correct the arguments, or export the net again",
    ),
    "unequal_lists": (
        second_offset,
        f"{RECURRENT}: parallel lists have different lengths: link_internal 5, link_external 5,"
        f" link_offset 6, link_window 5{EXPORT}",
    ),
    "step_net": (
        text_step_net,
        f"{RECURRENT}, step_net:2, op: the file ends here, expected }}\n  because op was opened at line 2\n"
        "  fix: add the missing }, or get the file again if it was cut short",
    ),
    "cycle": (
        cycle,
        'predict_net.pb: operator 0 (FC), input "lstm/hidden_state_all": no earlier operator writes'
        " it, and it is not an input of the net\n"
        "  because operator 1 (RecurrentNetwork), which writes it, comes later\n"
        "  fix: order the operators so that each reads only blobs written before it",
    ),
    "own_output": (
        own_output,
        'predict_net.pb: operator 0 (FC), input "lstm/i2h": no earlier operator writes it, and it is'
        " not an input of the net\n"
        "  because only this operator writes it, and an operator cannot read its own output\n"
        "  fix: let it read an input of the net, or a blob that an earlier operator writes",
    ),
    "unknown_operator": (
        unknown_operator,
        f"{RECURRENT}, step net operator 2 (LSTMUnot): there is no rule for this operator\n"
        '  fix: docs/caffe2.md lists the supported ones; or convert the part before it: outputs=["lstm/i2h"];'
        ' or both parts: outputs=["auto"], remainder="rest_of_predict_net.pbtxt"',
    ),
    "argument_of_another_kind": (
        text_axis,
        'predict_net.pb: operator 0 (FC): argument "axis" holds a text, expected a whole number\n'
        "  fix: correct the arguments, or export the net again",
    ),
    "unmade_output": (
        unmade_output,
        f"predict_net.pb: no operator makes the external outputs lstm/nothing{EXPORT}",
    ),
}


def broken(change: Break) -> bytes:
    net = message_class("NetDef")()
    net.ParseFromString((FOLDER / "predict_net.pb").read_bytes())
    change(net)
    data: bytes = net.SerializeToString()
    return data


def refusal(**options: Any) -> str:
    with pytest.raises(ConversionError) as caught:
        prototrt.rewrite(
            prototrt.load("predict_net.pb", options.get("init", FOLDER / "init_net.pb")),
            shapes=options.get("shapes", SHAPES),
        )
    return str(caught.value)


@pytest.mark.parametrize("case", BROKEN)
def test_broken_net(case: str, folder: Path) -> None:
    change, message = BROKEN[case]
    (folder / "predict_net.pb").write_bytes(broken(change))
    assert refusal() == message


@pytest.mark.parametrize("case", BROKEN)
def test_convert_writes_nothing(case: str, folder: Path) -> None:
    change, message = BROKEN[case]
    (folder / "predict_net.pb").write_bytes(broken(change))
    shapes = [f"--shape={name}:{'x'.join(map(str, shape))}" for name, shape in SHAPES.items()]
    files = ["predict_net.pb", str(FOLDER / "init_net.pb")]
    result = CliRunner().invoke(main, ["convert", *files, *shapes, "-o", "engine.plan", "--backend", "rtx"])
    assert result.exit_code == 3
    in_its_words = message.replace('outputs=["lstm/i2h"]', "--output lstm/i2h").replace(
        'outputs=["auto"], remainder="rest_of_predict_net.pbtxt"',
        "--output auto --remainder rest_of_predict_net.pbtxt",
    )
    assert result.output == f"error: {in_its_words}\n"
    assert [path.name for path in folder.iterdir()] == ["predict_net.pb"]


@pytest.mark.parametrize("size", [200, 929, 1855])
def test_predict_net_that_is_cut_short(size: int, folder: Path) -> None:
    (folder / "predict_net.pb").write_bytes((FOLDER / "predict_net.pb").read_bytes()[:size])
    assert refusal() == (
        "predict_net.pb: this is not a Caffe2 net, or it is truncated or damaged\n"
        f"  because the file has {size} bytes and ends inside a field, or is empty{GET}"
    )


def test_a_name_that_is_no_text(folder: Path) -> None:
    data = (FOLDER / "predict_net.pb").read_bytes()
    (folder / "predict_net.pb").write_bytes(data.replace(b"cell_init", b"cell\x93init"))
    assert refusal() == (
        "predict_net.pb: this is not a Caffe2 net, or it is damaged\n"
        f"  because a name in it is not valid UTF-8{GET}"
    )


def test_init_net_that_is_cut_short(folder: Path) -> None:
    (folder / "predict_net.pb").write_bytes((FOLDER / "predict_net.pb").read_bytes())
    (folder / "init_net.pb").write_bytes((FOLDER / "init_net.pb").read_bytes()[:300])
    assert refusal(init="init_net.pb") == (
        "init_net.pb: the file is cut short: the field at byte 135 needs 77 bytes more\n"
        f"  because the file has 300 bytes{GET}"
    )


def test_missing_shapes_list_the_inputs(folder: Path) -> None:
    (folder / "predict_net.pb").write_bytes((FOLDER / "predict_net.pb").read_bytes())
    assert refusal(shapes={"hidden_init": (1, 2, 3)}) == (
        "predict_net.pb: no shape is given for data\n"
        "  because Caffe2's nets state none; the inputs are data, seq_lengths, hidden_init, cell_init\n"
        '  fix: give its shape: shapes={"data": (T, N, 4)}'
    )


def test_shapes_that_do_not_fit(folder: Path) -> None:
    (folder / "predict_net.pb").write_bytes((FOLDER / "predict_net.pb").read_bytes())
    assert refusal(shapes={**SHAPES, "hidden_init": (1, 1, 3)}) == (
        f'{RECURRENT}, input "hidden_init": shape is (1, 1, 3), expected (D,), (2, D) or (1, 2, D)\n'
        '  because N is 2, the second dimension of "lstm/i2h"\n'
        "  fix: give the shapes and the init net that belong to this predict net"
    )
    assert refusal(shapes={**SHAPES, "data": (5, 2, 7)}) == (
        'predict_net.pb: operator 0 (FC), input "lstm/i2h_w": shape is (12, 4), expected 7 columns\n'
        '  because "data" has the shape (5, 2, 7), flattened from axis 2 on\n'
        "  fix: give the shapes and the init net that belong to this predict net"
    )


def test_files_in_the_wrong_order(folder: Path) -> None:
    (folder / "predict_net.pb").write_bytes((FOLDER / "init_net.pb").read_bytes())
    assert refusal() == (
        "predict_net.pb: this is an init net: all its operators fill weights\n"
        "  fix: give the predict net first and the init net second"
    )


def test_random_fills_want_a_seed(folder: Path) -> None:
    predict = message_class("NetDef")(name="p", external_input=["x", "w", "b"], external_output=["y"])
    predict.op.add(type="FC", input=["x", "w", "b"], output=["y"])
    init = message_class("NetDef")(name="i")
    init.op.add(type="XavierFill", output=["w"]).arg.add(name="shape", ints=[2, 3])
    init.op.add(type="ConstantFill", output=["b"]).arg.add(name="shape", ints=[2])
    (folder / "predict_net.pb").write_bytes(predict.SerializeToString())
    (folder / "init_net.pb").write_bytes(init.SerializeToString())
    assert refusal(init="init_net.pb") == (
        "init_net.pb: operator 0 (XavierFill): draws its numbers at random: this init net holds no trained"
        " weights\n  fix: give the init net that was saved after training, or random_weights=0 to try the"
        " topology alone"
    )
    model = prototrt.load("predict_net.pb", "init_net.pb", random_weights=7)
    session = prototrt.Session(prototrt.rewrite(model, shapes={"x": (1, 3)}))
    assert session.run({"x": np.ones((1, 3))})["y"].shape == (1, 2)


def test_deploy_writes_no_prototxt_of_it(folder: Path) -> None:
    (folder / "predict_net.pb").write_bytes((FOLDER / "predict_net.pb").read_bytes())
    result = CliRunner().invoke(main, ["deploy", "predict_net.pb", "-o", "deploy.prototxt"])
    assert result.exit_code == 3
    assert result.output == (
        "error: predict_net.pb: this is a Caffe2 net, which has no Caffe prototxt\n"
        "  fix: give it to the other commands unchanged: a predict net has no training layers\n"
    )
    assert [path.name for path in folder.iterdir()] == ["predict_net.pb"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"overrides": {"lstm*.x": "1"}}, "overrides means nothing\n  fix: leave it out"),
        ({"phase": "TRAIN", "level": 1}, "phase and level mean nothing\n  fix: leave them out"),
        ({"stages": ["deploy"]}, "stages means nothing\n  fix: leave it out"),
    ],
)
def test_what_is_said_of_a_prototxt(given: dict[str, Any], message: str) -> None:
    with pytest.raises(NetError) as raised:
        prototrt.load(FOLDER / "predict_net.pb", FOLDER / "init_net.pb", **given)
    assert str(raised.value) == (f"{FOLDER / 'predict_net.pb'}: this is a Caffe2 net, for which {message}")


def test_state_of_the_net_itself_stays() -> None:
    model = prototrt.load(FOLDER / "predict_net.pb", FOLDER / "init_net.pb")
    graph = prototrt.rewrite(model, shapes=SHAPES, state="zero")
    names = [pair.input.name for pair in graph.recurrences]
    assert names
    assert graph.warnings == (
        f"{FOLDER / 'predict_net.pb'}: these states are inputs and outputs of the net itself,"
        f" so state does not change them: {', '.join(names)}",
    )
