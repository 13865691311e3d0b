"""Fields and layer types unknown to Caffe: all told at once to who needs their layers, and to nobody else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import prototrt
from prototrt.caffe_proto import ConversionError
from prototrt.caffe_proto.net.deploy_text import deploy_text

MODELS = Path(__file__).parents[1] / ".." / "shared" / "models"
NET = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "mid" type: "TanH" bottom: "x" top: "mid" }
layer { name: "fc" type: "InnerProduct" bottom: "mid" top: "fc" param { lars: 1 }
  inner_product_param { num_output: 4 quantize: true weight_filler { type: "xavier" seed: 1 } } }
layer { name: "box" type: "FancyBox" bottom: "fc" top: "box" fancy_param { min_size: 3 } }
layer { name: "act" type: "ReLU" bottom: "x" top: "act" relu_parm { } }
"""


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., prototrt.Model]:
    monkeypatch.chdir(tmp_path)
    Path("net.prototxt").write_text(NET)
    return lambda **options: prototrt.load("net.prototxt", random_weights=1, **options)


def refusal(model: prototrt.Model, *outputs: str) -> str:
    with pytest.raises(ConversionError) as caught:
        prototrt.rewrite(model, outputs=outputs or None)
    return str(caught.value)


def test_fields_and_types_are_told_together(net: Callable[..., prototrt.Model]) -> None:
    assert refusal(net()) == (
        'net.prototxt:4: layer "fc" (InnerProduct), param: there is no field "lars"\n'
        "  fix: go on without it with allow_unknown=True; "
        "the fields here are decay_mult, lr_mult, name, param_propagate_down or share_mode\n"
        'net.prototxt:5: layer "fc" (InnerProduct), inner_product_param: there is no field "quantize"\n'
        "  fix: remove it if it does not change what the layer computes; "
        "the fields here are axis, bias_filler, bias_term, normalize, num_output, transpose or weight_filler\n"
        'net.prototxt:5: layer "fc" (InnerProduct), inner_product_param.weight_filler: there is no field "seed"\n'
        "  fix: go on without it with allow_unknown=True; "
        "the fields here are alpha, diag_val, file, max, mean, min, sparse, std, type, value, values or variance_norm\n"
        'net.prototxt:6: layer "box" (FancyBox): there is no rule for this layer type\n'
        "  fix: write a rule for it, which `prototrt.new_rule(...)` begins; or name your TensorRT plugin, as in "
        'plugin={"FancyBox": "FancyBox:1"}\n'
        'net.prototxt:7: layer "act" (ReLU): there is no field "relu_parm"\n'
        "  fix: write relu_param\n"
        "5 problems\n"
        '  fix: convert the supported part: outputs=["mid"]'
    )


def test_a_needed_field_is_never_passed_over(net: Callable[..., prototrt.Model]) -> None:
    message = refusal(net(allow_unknown=True), "fc")
    assert message == (
        'net.prototxt:5: layer "fc" (InnerProduct), inner_product_param: there is no field "quantize"\n'
        "  fix: remove it if it does not change what the layer computes; the fields here are axis, bias_filler,"
        ' bias_term, normalize, num_output, transpose or weight_filler; or convert the part before it: outputs=["mid"]'
    )


def test_what_the_outputs_do_not_need_is_not_looked_at(net: Callable[..., prototrt.Model]) -> None:
    graph = prototrt.rewrite(net(), outputs=["mid"])
    assert [node.name for node in graph.nodes] == ["mid"]
    assert graph.warnings == ()


def test_unknown_fields_of_training_are_passed_over_with_a_warning(
    net: Callable[..., prototrt.Model],
) -> None:
    Path("net.prototxt").write_text(NET.replace("quantize: true", ""))
    graph = prototrt.rewrite(net(allow_unknown=True), outputs=["fc"])
    assert graph.warnings == (
        'net.prototxt:4: layer "fc" (InnerProduct), param: dropped the unknown field "lars"',
        'net.prototxt:5: layer "fc" (InnerProduct), inner_product_param.weight_filler: '
        'dropped the unknown field "seed"',
    )


def test_fields_of_data_layers_matter_to_nobody(net: Callable[..., prototrt.Model]) -> None:
    Path("net.prototxt").write_text("""
layer { name: "x" type: "Data" top: "x" data_param { batch_size: 2 gpu: 1 }
  transform_param { crop_size: 3 force_color: true resize_param { } } }
layer { name: "y" type: "ReLU" bottom: "x" top: "y" }
""")
    assert prototrt.rewrite(net(allow_unknown=True)).inputs[0].shape == (2, 3, 3, 3)


def test_a_misspelt_field_is_told_before_what_follows_from_it(net: Callable[..., prototrt.Model]) -> None:
    Path("net.prototxt").write_text(
        'layer { name: "x" type: "Input" tpo: "x" }\nlayer { name: "y" type: "ReLU" bottom: "x" top: "y" }'
    )
    with pytest.raises(ConversionError) as caught:
        net()
    assert str(caught.value) == (
        'net.prototxt:1: layer "x" (Input): there is no field "tpo"\n  fix: write top'
    )


def test_a_deploy_net_lacks_no_field(net: Callable[..., prototrt.Model]) -> None:
    """What a needed layer says and we do not know would be missing in the text."""
    for model in (net(), net(allow_unknown=True)):
        with pytest.raises(ConversionError, match="quantize"):
            deploy_text(model)


@pytest.mark.skipif(not MODELS.exists(), reason="published models are not part of the repository")
@pytest.mark.parametrize(
    ("model", "output"),
    [
        ("wechat-qrcode/detect", "loc5/conv"),
        ("yufacedetectnet-v1/yufacedetectnet-open-v1", "conv6_3"),
    ],
)
def test_detectors_up_to_their_last_convolution(model: str, output: str) -> None:
    path = MODELS / model
    loaded = prototrt.load(f"{path}.prototxt", f"{path}.caffemodel")
    graph = prototrt.rewrite(loaded, outputs=[output])
    assert [value.name for value in graph.outputs] == [output]
