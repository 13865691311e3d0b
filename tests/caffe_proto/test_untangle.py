"""In-place layers and the graph that bottoms and tops make."""

from __future__ import annotations

import pytest

from prototrt.caffe_proto import ConversionError, Model, load, raise_all
from prototrt.tests.small_nets import Write


def net(*layers: str) -> str:
    """Each layer as "NAME: BOTTOMS -> TOPS"; "NAME:" with only tops is an Input."""
    lines = []
    for layer in layers:
        name, _, arrow = layer.partition(":")
        bottoms, tops = arrow.split("->")
        kind = "DummyLayer" if bottoms.strip() else "Input"
        blobs = [f"bottom: '{b}'" for b in bottoms.split()] + [f"top: '{t}'" for t in tops.split()]
        lines.append(f"layer {{ name: '{name}' type: '{kind}' {' '.join(blobs)} }}")
    return "\n".join(lines)


def values(model: Model) -> list[str]:
    return [f"{layer.name}: {' '.join(layer.bottoms)} -> {' '.join(layer.tops)}" for layer in model.layers]


CASES = {
    "plain": (
        ["in: -> x", "a: x -> y"],
        ["in:  -> x", "a: x -> y"],
        ["y"],
    ),
    "in place": (
        ["in: -> x", "c: x -> y", "r: y -> y", "s: y -> y", "f: y -> z"],
        ["in:  -> x", "c: x -> y@c", "r: y@c -> y@r", "s: y@r -> y", "f: y -> z"],
        ["z"],
    ),
    "read by several afterwards": (
        ["in: -> x", "c: x -> y", "r: y -> y", "after: y -> a", "again: y -> b"],
        ["in:  -> x", "c: x -> y@c", "r: y@c -> y", "after: y -> a", "again: y -> b"],
        ["a", "b"],
    ),
    "on the input itself": (
        ["in: -> x", "bn: x -> x", "sc: x -> x"],
        ["in:  -> x", "bn: x -> x@bn", "sc: x@bn -> x@sc"],
        ["x@sc"],
    ),
    "the first of two bottoms": (
        ["in: -> x y", "a: y x -> y"],
        ["in:  -> x y", "a: y x -> y@a"],
        ["y@a"],
    ),
    "two outputs in the order of their names": (
        ["in: -> x", "a: x -> q p"],
        ["in:  -> x", "a: x -> q p"],
        ["p", "q"],
    ),
    "an input nobody reads": (["in: -> x", "other: -> y"], ["in:  -> x", "other:  -> y"], ["x", "y"]),
    "a blob called like a value": (
        ["in: -> x", "c: x -> y", "d: x -> y@c", "r: y -> y"],
        ["in:  -> x", "c: x -> y@c@2", "d: x -> y@c", "r: y@c@2 -> y"],
        ["y", "y@c"],
    ),
    "two layers of one name": (
        ["in: -> x", "c: x -> y", "c: y -> y", "c: y -> y"],
        ["in:  -> x", "c: x -> y@c", "c: y@c -> y@c@2", "c: y@c@2 -> y"],
        ["y"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_values(case: str, write: Write) -> None:
    layers, expected, outputs = CASES[case]
    model = load(write(net(*layers)))
    assert values(model) == expected
    assert list(model.outputs) == outputs


def test_blobs_lead_to_their_last_values(write: Write) -> None:
    model = load(write(net("in: -> x", "a: x -> x", "b: x -> y", "c: y -> y")))
    assert model.blobs == {"x": "x@a", "y": "y"}
    assert model.layers[1].bottom_blob(0) == model.layers[1].top_blob(0) == "x"


MISTAKES = {
    "close name": (
        ["in: -> data", "a: dta -> y"],
        'net.prototxt:2: layer "a" (DummyLayer), bottom "dta": no layer before this one makes it\n'
        "  fix: write data",
    ),
    "no close name": (
        ["in: -> x y", "a: data -> z"],
        'net.prototxt:2: layer "a" (DummyLayer), bottom "data": no layer before this one makes it\n'
        "  fix: the blobs before it are x or y",
    ),
    "nothing before it": (
        ["a: x -> y"],
        'net.prototxt:1: layer "a" (DummyLayer), bottom "x": no layer before this one makes it',
    ),
    "order": (
        ["in: -> x", "a: x h -> y", "b: y -> h"],
        'net.prototxt:2: layer "a" (DummyLayer), bottom "h": no layer before this one makes it\n'
        '  because layer "b", which writes it, comes later, in line 3\n'
        "  fix: order the layers so that each reads only blobs written before it",
    ),
    "reads itself": (
        ["in: -> x", "a: x y -> y"],
        'net.prototxt:2: layer "a" (DummyLayer), bottom "y": no layer before this one makes it\n'
        "  because only this layer writes it, and a layer cannot read its own output\n"
        "  fix: let it read a blob that an earlier layer writes",
    ),
    "all at once": (
        ["in: -> x", "a: foo -> y", "b: bar -> y"],
        'net.prototxt:2: layer "a" (DummyLayer), bottom "foo": no layer before this one makes it\n'
        "  fix: the blobs before it are x\n"
        'net.prototxt:3: layer "b" (DummyLayer), bottom "bar": no layer before this one makes it\n'
        "  fix: the blobs before it are x or y\n"
        'net.prototxt:3: layer "b" (DummyLayer), top "y": the blob is written twice\n'
        '  because layer "a" (DummyLayer) in line 2 also writes it\n'
        "  fix: rename one of the two tops, or make the layer work in place by reading the blob\n"
        "3 problems",
    ),
    "one layer, one top twice": (
        ["in: -> x", "a: x -> y y"],
        'net.prototxt:2: layer "a" (DummyLayer), top "y": the blob is written twice\n'
        '  because layer "a" (DummyLayer) in line 2 also writes it\n'
        "  fix: rename one of the two tops, or make the layer work in place by reading the blob",
    ),
    "the second of two bottoms": (
        ["in: -> x y", "a: x y -> y"],
        'net.prototxt:2: layer "a" (DummyLayer), top "y": the blob is written twice\n'
        '  because layer "in" (Input) in line 1 also writes it\n'
        "  fix: rename one of the two tops, or make the layer work in place by reading the blob",
    ),
    "in place while others read": (
        ["in: -> x", "c: x -> y", "before: y -> b", "r: y -> y", "after: y -> a"],
        'net.prototxt:4: layer "r" (DummyLayer), top "y": the blob is written in place while others read it\n'
        '  because it is read by layer "before" in line 3: to Caffe it is written twice\n'
        "  fix: give the top another name, and let the later layers read that",
    ),
    "in place, and read once more by the same layer": (
        ["in: -> x", "c: x -> y", "r: y y -> y"],
        'net.prototxt:3: layer "r" (DummyLayer), top "y": the blob is written in place while others read it\n'
        '  because it is read by layer "r" in line 3: to Caffe it is written twice\n'
        "  fix: give the top another name, and let the later layers read that",
    ),
    "in place twice": (
        ["in: -> x", "a: x -> x x"],
        'net.prototxt:2: layer "a" (DummyLayer), top "x": the blob is written twice\n'
        '  because layer "a" (DummyLayer) in line 2 also writes it\n'
        "  fix: rename one of the two tops, or make the layer work in place by reading the blob",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes(case: str, write: Write) -> None:
    layers, message = MISTAKES[case]
    model = load(write(net(*layers)))
    with pytest.raises(ConversionError) as caught:
        raise_all([problem for layer in model.layers for problem in layer.problems])
    assert str(caught.value) == message


def test_two_layers_of_one_name_are_told(write: Write) -> None:
    model = load(write(net("in: -> x", "a: x -> y", "a: y -> z")))
    assert model.warnings == ('net.prototxt: two layers are called "a"; stored weights go to the first',)
