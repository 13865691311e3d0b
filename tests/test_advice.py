"""What a message proposes is done to the command that printed it, and the problem is gone.

``goldens/advice/*.yaml`` hold commands that fail or warn, by the module of the source whose advice they try. A key
``nets`` holds nets by name. A case is:

- ``run``: the command; ``net.prototxt`` is the case's ``net``. ``call`` is a call in Python, ``golden`` a case of
  goldens/errors.
- ``net``: a name in ``nets``, or the net itself; ``files``: texts by names; ``arrays``: npz files with random arrays,
  or a binaryproto with an image; ``before``: commands to run first.
- ``values``: what a user has to know: words instead of placeholders, and options with values for those without one.
- ``then``: what the followed command says instead, where it cannot succeed here.
- ``except``: parts of proposals that are not tried in this case, each with the reason.

``not tried`` lists what no case follows, by the reason: a place in the source is one or the other.
"""

from __future__ import annotations

import ast
import os
import shlex
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prototrt
from prototrt.caffe_proto.common.wording import Named
from prototrt.caffe_proto.schema import message_class
from prototrt.surgery.ir import Array
from prototrt.tests.advice import (
    USUAL,
    Attempt,
    Place,
    Problem,
    Proposal,
    attempt,
    flat,
    followed,
    parsed,
    problem_of,
    recorded,
)
from prototrt.tests.advice_places import AdvicePlace, advice_places
from prototrt.tests.golden_cases import GOLDENS, read_yaml
from prototrt.tests.test_errors import CASES as ERRORS
from prototrt.tests.test_errors import arguments

pytestmark = pytest.mark.usefixtures("folder")
ADVICE = GOLDENS / "advice"
Case = Mapping[str, Any]


def read(file: Path) -> tuple[dict[str, str], dict[str, Any]]:
    facts = read_yaml(file)
    return facts.pop("nets", {}), facts


NETS: dict[str, str] = {}
CASES: dict[str, list[Case]] = {}
NOT_TRIED: dict[str, str] = {}
for each in sorted(ADVICE.glob("*.yaml")):
    nets, modules = read(each)
    NETS |= nets
    for reason, names in modules.pop("not tried", {}).items():
        NOT_TRIED |= dict.fromkeys(names, reason)
    CASES |= modules


@cache
def all_places() -> dict[str, list[AdvicePlace]]:
    """By module, where an option or a command is proposed."""
    places: dict[str, list[AdvicePlace]] = {}
    for place in advice_places():
        places.setdefault("/".join(Path(place.file).with_suffix("").parts[-2:]), []).append(place)
    return places


def called_places(module: str) -> dict[str, AdvicePlace]:
    return {f"{module}: {place.words}": place for place in all_places().get(module, [])}


@pytest.mark.parametrize("module", sorted(CASES))
def test_advice_helps(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: set[Place] = set()
    for number, case in enumerate(CASES[module]):
        (tmp_path / str(number)).mkdir()
        monkeypatch.chdir(tmp_path / str(number))
        tried |= follow(case)
    places = called_places(module)
    untried = {name for name, place in places.items() if not any(is_in(each, place) for each in tried)}
    assert sorted(untried - NOT_TRIED.keys()) == []
    assert sorted(places.keys() & NOT_TRIED.keys() - untried) == [], "these are tried now"


def test_what_is_not_tried_is_there() -> None:
    assert {*NOT_TRIED} <= {name for module in all_places() for name in called_places(module)}


def test_modules_without_a_case_are_listed() -> None:
    untried = {name for module in all_places() if module not in CASES for name in called_places(module)}
    assert sorted(untried - NOT_TRIED.keys()) == []


def is_in(place: Place, known: AdvicePlace) -> bool:
    return place[0] == known.file and known.first <= place[1] <= known.last


def prepare(case: Case) -> list[str]:
    """Write the files of a case, and return its command."""
    if "net" in case:
        Path("net.prototxt").write_text(_net(case["net"]))
    for name, text in case.get("files", {}).items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(_net(text))
    for name, shapes in case.get("arrays", {}).items():
        rng = np.random.default_rng(1)
        Path(name).parent.mkdir(exist_ok=True)
        drawn = {blob: rng.uniform(1, 2, shape).astype(np.float32) for blob, shape in shapes.items()}
        if name.endswith(".binaryproto"):
            Path(name).write_bytes(_mean_image(*drawn.values()))
        else:
            np.savez(name, **drawn)
    for command in case.get("before", []):
        done = attempt(shlex.split(command))
        assert done.code == 0, done.output
    if "golden" in case:
        return ["convert", *arguments(case["golden"], Path.cwd()), "-o", "engine.onnx"]
    return shlex.split(case["run"])


def _mean_image(image: Array) -> bytes:
    channels, height, width = image.shape
    blob = message_class("BlobProto")(
        num=1, channels=channels, height=height, width=width, data=image.ravel()
    )
    return bytes(blob.SerializeToString())


def _net(name: str) -> str:
    return NETS.get(name, name)


def follow(case: Case) -> set[Place]:
    """Follow each proposal of each problem of a case; the places of those that helped."""
    if "call" in case:
        return follow_call(case)
    command = prepare(case)
    first = attempt(command)
    places: set[Place] = set()
    count = 0
    for problem in first.problems:
        for proposal in problem.proposals:
            if any(part in proposal.text for part in case.get("except", {})):
                continue
            if problem.is_warning and not proposal.commands and followed(command, proposal, {}) == command:
                continue  # it says what was asked for
            count += 1
            with copied_folder():
                expect_gone(command, first, problem, proposal, case)
            places |= first.places_of(proposal) | constants_in(proposal)
    check(count > 0, f"{case}: no advice in\n{first.output}")
    return places


def follow_call(case: Case) -> set[Place]:
    """The same for a call in Python: for options that the command line itself refuses."""
    prepare({"run": "", **case})
    first = called(parsed_call(case["call"]))
    for problem in first.problems:
        for proposal in problem.proposals:
            new = followed_call(case["call"], proposal, case.get("values", {}))
            second = called(new)
            check(problem.text not in second.texts, f"{case['call']}\n{problem.text}\n{ast.unparse(new)}")
            check(not second.texts or case.get("then", "\n\n") in second.output, second.output)
    check(bool(first.problems), f"{case['call']} succeeds")
    return {
        place for problem in first.problems for each in problem.proposals for place in first.places_of(each)
    }


def followed_call(text: str, proposal: Proposal, values: Mapping[str, str]) -> ast.Call:
    """The call with what is proposed, in the inner call that takes it; ``values`` are for options without one."""
    new = parsed_call(text)
    calls = [each for each in ast.walk(new) if isinstance(each, ast.Call)]
    words = [*proposal.python, *(values[each.name] for each, _ in proposal.given if each.name in values)]
    stated = ", ".join(words)
    for placeholder in filter(str.isupper, values):
        stated = stated.replace(placeholder, values[placeholder])
    given = parsed_call(f"dict({stated})").keywords
    names = {*(each.arg for each in given), *(option.name for option in proposal.dropped)}
    for each in calls:
        each.keywords = [keyword for keyword in each.keywords if keyword.arg not in names]
    for keyword in given:
        takers = (each for each in calls if keyword.arg in parameters_of(each))
        next(takers, new).keywords.append(keyword)
    return new


def parsed_call(text: str) -> ast.Call:
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    return call


def parameters_of(call: ast.Call) -> Collection[str]:
    return signature(eval(ast.unparse(call.func), namespace())).parameters


def namespace() -> dict[str, Any]:
    """What a case's call may name."""
    return {
        **vars(prototrt),
        **{name: getattr(prototrt, name) for name in prototrt.__all__},
        "prototrt": prototrt,
    }


def called(call: ast.Call) -> Attempt:
    """Evaluate a call whose function is one of the package's."""
    found = Attempt()
    with recorded(found.places):
        try:
            eval(ast.unparse(call), namespace())
        except prototrt.ConversionError as error:
            found.problems.append(problem_of(error))
            found.output = str(error)
    return found


@contextmanager
def copied_folder() -> Iterator[None]:
    """Within the block, the working directory is a copy of it."""
    before = Path.cwd()
    copy = before.parent / f"{before.name}_{len([*before.parent.iterdir()])}"
    shutil.copytree(before, copy)
    os.chdir(copy)
    try:
        yield
    finally:
        os.chdir(before)


def constants_in(proposal: Proposal) -> set[Place]:
    """Where modules make the parts of a proposal that they hold as constants."""
    named = {id(each) for each in proposal.named}
    return {
        (place.file, place.first)
        for place, part in parts_of_constants()
        if id(part) in named and place.name in (None, getattr(part, "name", None))
    }


@cache
def parts_of_constants() -> list[tuple[AdvicePlace, Named]]:
    return [
        (place, part)
        for places in all_places().values()
        for place in places
        if place.constant is not None
        for part in parts_of(getattr(import_module(module_of(place)), place.constant))
    ]


def parts_of(constant: Any) -> Iterator[Named]:
    if isinstance(constant, str | Named):
        yield from (part for part in flat(constant) if isinstance(part, Named))
        return
    inner: Any = ()
    if isinstance(constant, Mapping):
        inner = constant.values()
    elif isinstance(constant, tuple | list):
        inner = constant
    elif is_dataclass(constant):
        inner = [getattr(constant, each.name) for each in fields(constant)]
    for each in inner:
        yield from parts_of(each)


def module_of(place: AdvicePlace) -> str:
    return ".".join(["prototrt", *Path(place.file).with_suffix("").parts])


def expect_gone(command: list[str], first: Attempt, problem: Problem, proposal: Proposal, case: Case) -> None:
    values, told = case.get("values", {}), f"{shlex.join(command)}\n{problem.text}\n--> {proposal.text}"
    for _, words in proposal.commands:
        typed = shlex.split(values.get(words, words))[1:]
        done = attempt(typed)
        check(done.code == 0, f"{told}\n{shlex.join(typed)}\n{done.output}")
    if not proposal.given and not proposal.dropped:
        return
    new = followed(command, proposal, values)
    check(new != command, f"{told}\nchanges nothing")
    second = attempt(new)
    told = f"{told}\n{shlex.join(new)}\n{second.output}"
    check(problem.text not in second.texts, told)
    if len(first.problems) == 1 or case.get("then"):
        check(second.code == 0 or case.get("then", "\n\n") in second.output, told)
    else:
        check(second.code == 0 or second.texts < first.texts, told)
    expect_same_in_python(new, proposal, values, told)


def expect_same_in_python(new: list[str], proposal: Proposal, values: Mapping[str, str], told: str) -> None:
    """The options in Python's words are those that the command line has parsed."""
    options = parsed(new)
    for text in proposal.python:
        for name in sorted(values, key=len, reverse=True):
            text = text.replace(name, values[name])
        for name, value in eval(
            f"dict({text})", {letter: int(size) for letter, size in USUAL.items()}
        ).items():
            found = options.get(name)
            same = _plain(found) == _plain(value) or _is_part(_plain(value), _plain(found))
            check(same or name not in options, f"{told}\n{text}: {found}")


def check(holds: bool, told: str) -> None:
    if not holds:
        pytest.fail(told, pytrace=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return [*map(_plain, value)] if isinstance(value, list | tuple) else value


def _is_part(part: Any, whole: Any) -> bool:
    if isinstance(whole, list):
        return part in whole
    return isinstance(part, dict) and isinstance(whole, dict) and part.items() <= whole.items()


@pytest.mark.parametrize("case", ERRORS)
def test_the_advice_of_a_golden_helps(case: str, folder: Path) -> None:
    """Each way out that says all that is needed ends with success, if the advice of what follows is taken, too."""
    command = ["convert", *arguments(case, folder), "-o", "engine.onnx"]
    if case in INCOMPLETE:
        return
    for problem in attempt(command).problems:
        for proposal in filter(is_complete, problem.proposals):
            with copied_folder():
                for _, words in proposal.commands:
                    check(attempt(shlex.split(words)[1:]).code == 0, words)
                if proposal.given or proposal.dropped:
                    told = f"{shlex.join(command)}\n{problem.text}\n--> {proposal.text}"
                    check(ends_well(followed(command, proposal, VALUES), {problem.text}), told)


INCOMPLETE = {"several_unknown_types": "a layer of it lacks what a Convolution states"}
VALUES = {"VALUE": "2", "--shape": "--shape x:1x2x4 --shape cont:1x2"}


def is_complete(proposal: Proposal) -> bool:
    return all(option.value is not None or words in VALUES for option, words in proposal.given)


def ends_well(command: list[str], seen: set[str]) -> bool:
    """Whether a command succeeds, or does when the first advice that helps is taken; no problem comes back."""
    found = attempt(command)
    if found.code == 0 or seen & found.texts:
        return found.code == 0
    ways = [
        (problem.text, way) for problem in found.problems for way in problem.proposals if is_complete(way)
    ]
    return any(ends_well(followed(command, way, VALUES), {*seen, text}) for text, way in ways if way.given)
