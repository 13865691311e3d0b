"""Training nets, cut down to what is deployed."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import text_format

from prototrt.caffe_proto import ConversionError, Model, load
from prototrt.caffe_proto.net.deploy_text import deploy_text, transformations
from prototrt.caffe_proto.schema import message_class
from prototrt.tests.caffe_proto.deploy_nets import DATA, FC, LOSS, layer
from prototrt.tests.small_nets import Write

GOLDENS = Path(__file__).parents[1] / "goldens"


def summary(model: Model) -> list[str]:
    return [f"{one.type} {' '.join(one.bottoms)} -> {' '.join(one.tops)}" for one in model.layers]


CASES = {
    "classifier": (
        [DATA, FC, layer("Accuracy", "acc", "s y", "acc"), LOSS],
        ["Input  -> x", "InnerProduct x -> s", "Softmax s -> prob"],
        [
            'net.prototxt:1: layer "in" (Data): dropped its top "y": the deployed net does not need it',
            'net.prototxt:1: layer "in" (Data): became the input "x"',
            'net.prototxt:3: layer "acc" (Accuracy): dropped: it only computes a metric',
            'net.prototxt:4: layer "loss" (SoftmaxWithLoss): became a Softmax, which makes "prob"',
        ],
    ),
    "the answer is shown already": (
        [DATA, FC, layer("Softmax", "p", "s", "p"), LOSS],
        ["Input  -> x", "InnerProduct x -> s", "Softmax s -> p"],
        [
            'net.prototxt:1: layer "in" (Data): dropped its top "y": the deployed net does not need it',
            'net.prototxt:1: layer "in" (Data): became the input "x"',
            'net.prototxt:4: layer "loss" (SoftmaxWithLoss): dropped: it only computes a metric',
        ],
    ),
    "the loss shows the answer": (
        [DATA, FC, layer("SoftmaxWithLoss", "loss", "s y", "loss p"), layer("Power", "pw", "p", "q")],
        ["Input  -> x", "InnerProduct x -> s", "Softmax s -> p", "Power p -> q"],
        None,
    ),
    "what labels alone reach": (
        [DATA, layer("Reshape", "ry", "y", "y2"), FC, layer("SoftmaxWithLoss", "loss", "s y2", "loss")],
        ["Input  -> x", "InnerProduct x -> s", "Softmax s -> prob"],
        None,
    ),
    "what comes from a loss": (
        [DATA, FC, LOSS, layer("Power", "scaled", "loss", "scaled")],
        ["Input  -> x", "InnerProduct x -> s", "Softmax s -> prob"],
        None,
    ),
    "regression": (
        [layer("HDF5Data", "in", "", "x t"), FC, layer("EuclideanLoss", "loss", "s t", "loss")],
        ["Input  -> x", "InnerProduct x -> s"],
        None,
    ),
    "regression, the target first": (
        [layer("HDF5Data", "in", "", "x t"), FC, layer("EuclideanLoss", "loss", "t s", "loss")],
        ["Input  -> x", "InnerProduct x -> s"],
        None,
    ),
    "autoencoder": (
        [DATA, FC, layer("Flatten", "f", "x", "f"), layer("SigmoidCrossEntropyLoss", "loss", "s f", "l")],
        ["Input  -> x", "InnerProduct x -> s", "Sigmoid s -> prob"],
        None,
    ),
    "pairs": (
        [
            layer("Data", "in", "", "x y"),
            FC,
            layer("InnerProduct", "fd", "x", "s2"),
            layer("ContrastiveLoss", "loss", "s s2 y", "l"),
        ],
        ["Input  -> x", "InnerProduct x -> s", "InnerProduct x -> s2"],
        None,
    ),
    "several losses": (
        [DATA, FC, LOSS, layer("InnerProduct", "g", "x", "t"), layer("SoftmaxWithLoss", "aux", "t y", "l")],
        [
            "Input  -> x",
            "InnerProduct x -> s",
            "Softmax s -> loss_prob",
            "InnerProduct x -> t",
            "Softmax t -> aux_prob",
        ],
        None,
    ),
    "losses of one name": (
        [
            DATA,
            FC,
            LOSS.replace("top: 'loss'", "top: 'l1'"),
            layer("InnerProduct", "g", "x", "t"),
            layer("SoftmaxWithLoss", "loss", "t y", "l2"),
        ],
        [
            "Input  -> x",
            "InnerProduct x -> s",
            "Softmax s -> l1_prob",
            "InnerProduct x -> t",
            "Softmax t -> l2_prob",
        ],
        None,
    ),
    "in place before the loss": (
        [DATA, FC, layer("ReLU", "r", "s", "s"), LOSS],
        ["Input  -> x", "InnerProduct x -> s@fc", "ReLU s@fc -> s", "Softmax s -> prob"],
        None,
    ),
    "sequences": (
        [
            layer("HDF5Data", "in", "", "x cont y"),
            layer("LSTM", "l", "x cont", "s"),
            LOSS,
            layer("Silence", "hush", "y", ""),
        ],
        ["Input  -> x", "Input  -> cont", "LSTM x cont -> s", "Softmax s -> prob"],
        None,
    ),
    "a silence that is needed": (
        [
            DATA,
            layer("Slice", "sl", "x", "a b"),
            layer("Silence", "hush", "b", ""),
            layer("ReLU", "r", "a", "c"),
            LOSS.replace("'s'", "'c'"),
        ],
        ["Input  -> x", "Slice x -> a b", "Silence b -> ", "ReLU a -> c", "Softmax c -> prob"],
        None,
    ),
    "another output": (
        [DATA, FC, LOSS, layer("TanH", "th", "s", "th")],
        ["Input  -> x", "InnerProduct x -> s", "Softmax s -> prob", "TanH s -> th"],
        None,
    ),
    "what is saved": (
        [DATA, FC, layer("HDF5Output", "save", "s y", "")],
        ["Input  -> x", "InnerProduct x -> s"],
        None,
    ),
    "prob is taken": (
        [DATA, layer("InnerProduct", "prob", "x", "prob"), LOSS.replace("'s'", "'prob'")],
        ["Input  -> x", "InnerProduct x -> prob", "Softmax prob -> prob_3"],
        None,
    ),
    "no training": (
        [layer("Input", "in", "", "x"), FC],
        ["Input  -> x", "InnerProduct x -> s"],
        [],
    ),
    "a source that Caffe does not know": (
        [layer("NYUData", "in", "", "x y_label z"), FC, layer("Power", "pw", "z y_label", "q")],
        ["Input  -> x", "Input  -> y_label", "Input  -> z", "InnerProduct x -> s", "Power z y_label -> q"],
        None,
    ),
    "code that brings data": (
        [layer("Python", "in", "", "x y"), FC, layer("Power", "pw", "y", "q")],
        ["Input  -> x", "Input  -> y", "InnerProduct x -> s", "Power y -> q"],
        None,
    ),
    "what reads nothing and is no data": (
        [
            layer("DummyData", "in", "", "x"),
            layer("Parameter", "p", "", "y"),
            FC,
            layer("Eltwise", "e", "x y", "z"),
        ],
        ["DummyData  -> x", "Parameter  -> y", "InnerProduct x -> s", "Eltwise x y -> z"],
        [],
    ),
    "losses of forks": (
        [
            DATA,
            FC,
            layer("SmoothL1LossOHEM", "a", "s y", "a"),
            layer("Region", "b", "s y", "b", "loss_weight: 1"),
            layer("MatWrite", "c", "s", ""),
            layer("Python", "d", "s y", "d", "loss_weight: 1"),
        ],
        ["Input  -> x", "InnerProduct x -> s"],
        None,
    ),
    "a decoder that measures": (
        [DATA, FC, layer("CTCGreedyDecoder", "acc", "s y", "acc")],
        ["Input  -> x", "InnerProduct x -> s"],
        None,
    ),
    "what labels mask": (
        [
            DATA,
            FC,
            layer("Eltwise", "masked", "s y", "m"),
            layer("Eltwise", "again", "m y", "n"),
            layer("EuclideanLoss", "loss", "n y", "l"),
        ],
        ["Input  -> x", "InnerProduct x -> s"],
        None,
    ),
    "data that training changes": (
        [
            layer("Data", "in", "", "u"),
            layer("Data", "labels", "", "w"),
            layer("DetectNetTransformation", "change", "u w", "x y"),
            FC,
            LOSS,
        ],
        ["Input  -> u", "Split u -> x", "InnerProduct x -> s", "Softmax s -> prob"],
        [
            'net.prototxt:1: layer "in" (Data): became the input "u"',
            'net.prototxt:2: layer "labels" (Data): dropped its top "w": the deployed net does not need it',
            'net.prototxt:3: layer "change" (DetectNetTransformation): dropped: it changes data while a net is trained',
            'net.prototxt:5: layer "loss" (SoftmaxWithLoss): became a Softmax, which makes "prob"',
        ],
    ),
    "an unknown metric": (
        [DATA, FC, layer("PR", "precision", "s y", "precision recall")],
        ["Input  -> x", "InnerProduct x -> s"],
        [
            'net.prototxt:1: layer "in" (Data): dropped its top "y": the deployed net does not need it',
            'net.prototxt:1: layer "in" (Data): became the input "x"',
            'net.prototxt:3: layer "precision" (PR): dropped: it only computes a metric',
        ],
    ),
    "an unknown metric with labels of another layer": (
        [
            layer("Data", "in", "", "x"),
            layer("Data", "gt", "", "gt"),
            FC,
            layer("PR", "precision", "s gt", "recall"),
        ],
        ["Input  -> x", "InnerProduct x -> s"],
        None,
    ),
    "an unknown layer that ends the net with data": (
        [
            layer("Data", "in", "", "x"),
            layer("Data", "in2", "", "info"),
            FC,
            layer("Boxes", "boxes", "s info", "b"),
        ],
        ["Input  -> x", "Input  -> info", "InnerProduct x -> s", "Boxes s info -> b"],
        None,
    ),
    "an unknown layer with labels before a loss": (
        [DATA, FC, layer("Margin", "m", "s y", "m count"), layer("SoftmaxWithLoss", "loss", "m y", "loss")],
        ["Input  -> x", "InnerProduct x -> s", "Split s -> m", "Softmax m -> prob"],
        [
            'net.prototxt:1: layer "in" (Data): dropped its top "y": the deployed net does not need it',
            'net.prototxt:1: layer "in" (Data): became the input "x"',
            'net.prototxt:3: layer "m" (Margin): dropped: it reads labels, which are known only in training',
            'net.prototxt:4: layer "loss" (SoftmaxWithLoss): became a Softmax, which makes "prob"',
        ],
    ),
    "an unknown layer with labels in the midst": (
        [DATA, FC, layer("Margin", "margin", "s y", "m"), layer("TanH", "t", "m", "t")],
        ["Input  -> x", "Input  -> y", "InnerProduct x -> s", "Margin s y -> m", "TanH m -> t"],
        None,
    ),
    "a margin that only training computes": (
        [
            DATA,
            FC,
            layer("MarginInnerProduct", "margin", "s y", "m lambda"),
            layer("SoftmaxWithLoss", "l", "m y", "l"),
        ],
        ["Input  -> x", "InnerProduct x -> s"],
        None,
    ),
    "a margin that training adds": (
        [
            DATA,
            FC,
            layer("LabelSpecificAdd", "margin", "s y", "m"),
            layer("SoftmaxWithLoss", "loss", "m y", "l"),
        ],
        ["Input  -> x", "InnerProduct x -> s", "Split s -> m", "Softmax m -> prob"],
        None,
    ),
    "data that training changes in place": (
        [layer("Data", "in", "", "x"), layer("Noise", "change", "x", "x"), FC],
        ["Input  -> x", "InnerProduct x -> s"],
        None,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_cut(case: str, write: Write) -> None:
    layers, expected, warnings = CASES[case]
    model = load(write("\n".join(layers)))
    assert summary(model) == expected
    if warnings is not None:
        assert list(model.warnings) == warnings


def test_parameters_of_the_answer(write: Write) -> None:
    softmax = load(write("\n".join([DATA, FC, LOSS]))).layers[-1]
    assert (softmax.name, softmax.type, softmax.param.axis) == ("prob", "Softmax", 2)
    assert (softmax.origin.line, softmax.origin.type) == (3, "Softmax")


def test_transformation_is_told(write: Write) -> None:
    more = "transform_param { mean_file: 'm.binaryproto' mean_value: [104, 117.5] scale: 0.00390625 }"
    model = load(write(layer("Data", "in", "", "x", more) + FC))
    assert transformations(model) == [
        'net.prototxt:1: layer "in" (Input): feed "x" transformed, as in training: '
        "minus the mean in m.binaryproto, then minus 104, 117.5, then times 0.00390625"
    ]


def test_nothing_left(write: Write) -> None:
    with pytest.raises(ConversionError) as caught:
        load(write(DATA))
    assert str(caught.value) == (
        "net.prototxt: no layer is left when the training layers are removed\n"
        "  fix: give the net for another phase, or the deploy prototxt"
    )


def test_digits() -> None:
    """The golden's reference is the same net with an Input of known shape, and without the Softmax."""
    folder = GOLDENS / "caffe" / "train_val_digits"
    model = load(folder / "model.prototxt", folder / "model.caffemodel")
    reference = load(folder / "reference.prototxt", folder / "model.caffemodel")
    assert summary(model)[:-1] == summary(reference)
    assert summary(model)[-1] == "Softmax score -> prob"
    assert [layer.message for layer in model.layers[1:-1]] == [
        layer.message for layer in reference.layers[1:]
    ]


@pytest.mark.parametrize(
    "case", ["train_val_digits", "v0_small", "shared_parameters", "netstate_phase_stage"]
)
def test_text_of_the_deploy_net(case: str, write: Write) -> None:
    """The text makes the same net again, and protobuf's own reader takes it."""
    model = load(GOLDENS / "caffe" / case / "model.prototxt")
    text = deploy_text(model, {"data": (4, 1, 16, 16)} if case == "train_val_digits" else {})
    again = load(write(text))
    assert summary(again) == summary(model)
    assert again.name == model.name
    assert again.warnings == ()
    net = text_format.Parse(text, message_class("NetParameter")())
    assert [one.type for one in net.layer] == [layer.type for layer in model.layers]


PYTHON = "python_param {{ module: 'rpn.proposal_target_layer' layer: '{}' }}"


@pytest.mark.parametrize(
    "name", ["ProposalTargetLayer", "SpatialDropoutLayer", "TripletSampleLayer", "TripletSelectLayer"]
)
def test_code_that_serves_training_alone(name: str, write: Write) -> None:
    """Its first top is its first bottom once the net is deployed; what it adds are labels."""
    code = layer("Python", "p", "s y", "r l", PYTHON.format(name))
    model = load(write("\n".join([DATA, FC, code, layer("Power", "e", "r", "e")])))
    assert summary(model) == ["Input  -> x", "InnerProduct x -> s", "Split s -> r", "Power r -> e"]


@pytest.mark.parametrize("name", ["TripletLossLayer", "CtcLoss", "SegAccuracyLayer", "mAP"])
def test_code_that_measures_by_its_name(name: str, write: Write) -> None:
    code = layer("Python", "p", "s y", "r", PYTHON.format(name))
    model = load(write("\n".join([DATA, FC, code])))
    assert summary(model) == ["Input  -> x", "InnerProduct x -> s"]
    assert model.warnings[-1] == 'net.prototxt:3: layer "p" (Python): dropped: it only computes a metric'


def test_triplets_that_a_loss_compares_are_the_embedding_when_deployed(write: Write) -> None:
    chosen = layer("Python", "p", "s y", "anchor positive negative", PYTHON.format("TripletSelectLayer"))
    loss = layer("Python", "l", "anchor positive negative", "loss", PYTHON.format("TripletLossLayer"))
    model = load(write("\n".join([DATA, FC, chosen, loss])))
    assert summary(model) == ["Input  -> x", "InnerProduct x -> s", "Split s -> anchor"]


def test_what_scores_a_detector_is_dropped(write: Write) -> None:
    """As in a TEST net of DetectNet: objects of labels, their comparison with those of the net, and a metric of it."""
    objects = layer("Python", "c", "s s", "objects", PYTHON.format("ClusterDetections"))
    labels = layer("Python", "g", "y", "truth", PYTHON.format("ClusterGroundtruth"))
    scores = layer("Python", "p", "truth objects", "scored", PYTHON.format("ScoreDetections"))
    metric = layer("Python", "m", "scored", "mAP precision", PYTHON.format("mAP"))
    model = load(write("\n".join([DATA, FC, objects, labels, scores, metric])))
    assert summary(model) == ["Input  -> x", "InnerProduct x -> s", "Python s s -> objects"]


def test_what_scores_a_box_is_dropped(write: Write) -> None:
    """As in CNN_tabletennis: moves are compared with those of labels, and the box with the label's."""
    targets = layer("Python", "t", "s y", "targets", PYTHON.format("BBoxTransformLayer"))
    loss = layer("SmoothL1Loss", "l", "s targets", "loss")
    metric = layer("Python", "m", "s y", "iou", PYTHON.format("IOULayer"))
    model = load(write("\n".join([DATA, FC, targets, loss, metric])))
    assert summary(model) == ["Input  -> x", "InnerProduct x -> s"]


@pytest.mark.parametrize("kind", ["ProposalTarget", "FrcnnProposalTarget"])
def test_regions_chosen_by_labels_are_all_regions_when_deployed(kind: str, write: Write) -> None:
    chosen = layer(kind, "p", "s y", "r l")
    model = load(write("\n".join([DATA, FC, chosen, layer("Power", "e", "r", "e")])))
    assert summary(model) == ["Input  -> x", "InnerProduct x -> s", "Split s -> r", "Power r -> e"]
