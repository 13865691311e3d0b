"""Deploying a training net keeps every head: what losses and metrics read, and the net computes."""

from __future__ import annotations

import pytest

from prototrt.caffe_proto import load
from prototrt.tests.caffe_proto.deploy_nets import DATA, FC, LOSS, layer
from prototrt.tests.small_nets import Write

FC2 = layer("InnerProduct", "fd", "x", "t", "inner_product_param { num_output: 2 }")
BOXES = layer("AnnotatedData", "in", "", "x label")
SSD = [BOXES, FC, FC2, layer("PriorBox", "priors", "s x", "p")]
TARGETS = "rpn_labels rpn_targets rpn_inside rpn_outside"
REGIONS = layer("Python", "in", "", "x im_info gt_boxes", "python_param { layer: 'RoIDataLayer' }")
ANCHORS = layer(
    "Python", "anchors", "s gt_boxes im_info x", TARGETS, "python_param { layer: 'AnchorTargetLayer' }"
)

HEADS = {
    "the focal loss of an SSD": ([*SSD, layer("MultiBoxFocalLoss", "l", "s t p label", "l")], "p t"),
    "a refined SSD": ([*SSD, layer("MultiBoxLoss", "l", "s t p label s t", "l")], "p t"),
    "an RPN with one loss": (
        [REGIONS, FC, FC2, ANCHORS, layer("RpnLoss", "l", f"s t {TARGETS}", "l")],
        "s t",
    ),
    "an RPN with its labels first": (
        [REGIONS, FC, FC2, ANCHORS, layer("SmoothL1Loss", "l", "rpn_targets t rpn_inside rpn_outside", "l")],
        "t",
    ),
    "an RPN with a focal loss": (
        [REGIONS, FC, FC2, ANCHORS, layer("FocalLoss", "l", "t rpn_labels", "l")],
        "t",
    ),
    "an RPN in C++": (
        [
            REGIONS,
            FC,
            FC2,
            layer("FrcnnAnchorTarget", "anchors", "s gt_boxes im_info", TARGETS),
            layer("RpnLoss", "l", f"s t {TARGETS}", "l"),
        ],
        "s t",
    ),
    "targets by a layer that nobody knows": (
        [REGIONS, FC, FC2, layer("Assign", "a", "s gt_boxes", "u v"), layer("L1Loss", "l", "u t v", "l")],
        "u t",
    ),
    "targets without another label": (
        [REGIONS, FC, FC2, layer("Assign", "a", "s gt_boxes", "u"), layer("L1Loss", "l", "u t", "l")],
        "t",
    ),
    "targets of a layer that reads labels first": (
        [REGIONS, FC, FC2, layer("Resized", "a", "gt_boxes s", "u"), layer("L1Loss", "l", "u t", "l")],
        "t",
    ),
    "two that a loss compares": ([DATA, FC, FC2, layer("EuclideanLoss", "l", "s t", "l")], "s t"),
    "a triplet of three branches": (
        [
            layer("HDF5Data", "in", "", "x x2 x3"),
            FC,
            FC2.replace("bottom: 'x'", "bottom: 'x2'"),
            layer("InnerProduct", "fe", "x3", "u", "inner_product_param { num_output: 2 }"),
            layer("TripletLoss", "l", "s t u", "l"),
        ],
        "s t u",
    ),
    "what is compared with data": (
        [DATA, FC, layer("Flatten", "f", "x", "f"), layer("EuclideanLoss", "l", "f s", "l")],
        "s",
    ),
    "labels that are changed": (
        [
            DATA,
            FC,
            layer("DummyData", "d", "", "d", "dummy_data_param { shape { dim: 2 } }"),
            layer("Slice", "sl", "y", "y1 y2"),
            layer("Power", "pw", "y1", "y3"),
            layer("Eltwise", "e", "y3 d", "y4"),
            layer("SmoothL1Loss", "l", "s y4 y2", "l"),
        ],
        "s",
    ),
    "labels cut to the size of a prediction": (
        [
            layer("HDF5Data", "in", "", "x truth"),
            FC,
            layer("Crop", "c", "truth s", "c"),
            layer("L1Loss", "l", "c s", "l"),
        ],
        "s",
    ),
    "labels resized to a prediction": (
        [DATA, FC, layer("Downsample", "c", "y s", "c"), layer("L1Loss", "l", "c s", "l")],
        "s",
    ),
    "regions chosen by labels in a net that learns nothing after them": (
        [
            REGIONS,
            FC,
            layer("Python", "p", "s gt_boxes", "rois labels", "python_param { layer: 'Regions' }"),
            layer("PSROIPooling", "q", "s rois", "q"),
            layer("SoftmaxWithLoss", "l", "q labels", "l"),
        ],
        "labels prob",
    ),
    "labels after one that has the name": (
        [
            layer("Images", "in", "", "x x2 label truth"),
            FC,
            FC2.replace("bottom: 'x'", "bottom: 'x2'"),
            layer("Shrunk", "c", "truth s", "c"),
            layer("Valid", "v", "t truth", "v w"),
            layer("L1Loss", "l1", "s c", "l1"),
            layer("L1Loss", "l2", "v w", "l2"),
        ],
        "s v",
    ),
    "labels that the net embeds": (
        [
            layer("Data", "in", "", "x word"),
            layer("Embed", "e", "word", "e", "embed_param { num_output: 2 input_dim: 3 }"),
            layer("Flatten", "f", "x", "f"),
            layer("EuclideanLoss", "l", "e f", "l"),
        ],
        "e",
    ),
    "what is only selected by labels": (
        [DATA, FC, layer("Filter", "f", "s y", "f"), layer("EuclideanLoss", "l", "f y", "l")],
        "s",
    ),
    "a loss of plain layers": (
        [
            DATA,
            FC,
            layer("Eltwise", "e", "s y", "e", "eltwise_param { coeff: [1, -1] }"),
            layer("Reduction", "r", "e", "r", "loss_weight: 1 reduction_param { operation: SUMSQ }"),
        ],
        "s",
    ),
    "a loss of plain layers without labels": (
        [DATA, FC, layer("Reduction", "r", "s", "r", "loss_weight: 1")],
        "r",
    ),
    "scores that labels mask": (
        [DATA, FC, layer("Eltwise", "e", "s y", "e"), LOSS.replace("'s'", "'e'")],
        "prob",
    ),
    "a smooth prediction": (
        [DATA, FC, layer("Scale", "z", "s", "z"), layer("AbsLoss", "l", "z s", "l")],
        "s",
    ),
    "layers without weights": ([DATA, layer("Pooling", "p", "x", "p"), layer("L1Loss", "l", "p y", "l")], "p"),
    "a net that nobody knows": (
        [DATA, layer("Magic", "m", "x", "m"), layer("Magic", "n", "x", "n"), layer("PairLoss", "l", "m n y", "l")],
        "m n",
    ),
    "a layer that learns, of a type that nobody knows": (
        [
            DATA,
            layer("Magic", "m", "x", "m", "param { lr_mult: 1 }"),
            layer("Flatten", "f", "x", "f"),
            layer("L1Loss", "l", "f m", "l"),
        ],
        "m",
    ),
    "the loss of information": (
        [DATA, FC, layer("InfogainLoss", "l", "s y", "l", "infogain_loss_param { axis: 2 }")],
        "prob",
    ),
    "the loss of information about probabilities": (
        [DATA, FC, layer("Softmax", "p", "s", "p"), layer("InfogainLoss", "l", "p y", "l")],
        "p",
    ),
    "a decoder with indicators": (
        [layer("HDF5Data", "in", "", "x cont label"), FC, layer("CTCGreedyDecoder", "d", "s cont", "d")],
        "d",
    ),
    "a decoder that also measures": (
        [layer("HDF5Data", "in", "", "x cont label"), FC, layer("CTCGreedyDecoder", "d", "s cont label", "d score a")],
        "d score",
    ),
    "another decoder that also measures": (
        [layer("HDF5Data", "in", "", "x cont u"), FC, layer("CTCBeamSearchDecoder", "d", "s cont u", "d a")],
        "d",
    ),
    "a decoder with labels that are not read": (
        [layer("HDF5Data", "in", "", "x cont u"), FC, layer("CTCGreedyDecoder", "d", "s cont u", "d")],
        "d",
    ),
    "the accuracy of a decoder": (
        [layer("HDF5Data", "in", "", "x label"), FC, layer("CTCGreedyDecoder", "d", "s label", "d")],
        "s",
    ),
    "the size of an image": (
        [layer("ImageSegData", "in", "", "x y size"), FC, layer("DenseCRF", "d", "s size x", "d")],
        "d",
    ),
    "a word with gt in it": (
        [layer("Sequences", "in", "", "x length"), FC, layer("Decode", "d", "s length", "d")],
        "d",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", HEADS)
def test_heads(case: str, write: Write) -> None:
    layers, heads = HEADS[case]
    model = load(write("\n".join(layers)))
    assert sorted(model.outputs) == sorted(heads.split())
    inputs = [top for one in model.layers if one.type == "Input" for top in one.tops]
    assert not {"y", "label", "gt_boxes", "truth", "u"}.intersection(inputs) or "regions chosen" in case


def test_the_axis_of_information(write: Write) -> None:
    model = load(write("\n".join(HEADS["the loss of information"][0])))
    assert (model.layers[-1].type, model.layers[-1].param.axis) == ("Softmax", 2)


def test_a_decoder_says_what_it_drops(write: Write) -> None:
    model = load(write("\n".join(HEADS["a decoder that also measures"][0])))
    assert list(model.warnings)[-1] == (
        'net.prototxt:3: layer "d" (CTCGreedyDecoder): dropped its "label" and "a": it only decodes when the net is'
        " deployed"
    )
    assert model.layers[-1].bottoms == ("s", "cont")


def test_targets_are_dropped_and_said(write: Write) -> None:
    model = load(write("\n".join(HEADS["an RPN with one loss"][0])))
    assert list(model.warnings) == [
        'net.prototxt:1: layer "in" (Python): dropped its top "im_info": the deployed net does not need it',
        'net.prototxt:1: layer "in" (Python): dropped its top "gt_boxes": the deployed net does not need it',
        'net.prototxt:1: layer "in" (Python): became the input "x"',
        'net.prototxt:4: layer "anchors" (Python): dropped: the deployed net does not need it',
        'net.prototxt:5: layer "l" (RpnLoss): dropped: it only computes a metric',
    ]
