"""Layers that normalize each channel with statistics, either stored or of the batch."""

from __future__ import annotations

import numpy as np

from prototrt.caffe_proto import Layer
from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.records import dataclass
from prototrt.caffe_proto.schema import Message, message_class
from prototrt.caffe_proto.weights import Purpose
from prototrt.surgery.building.expression import Value, centre
from prototrt.surgery.building.layer_builder import LayerBuilder, expect_axes, field_if_set, layer_rule
from prototrt.surgery.building.layer_rules import which_fork
from prototrt.surgery.building.limits import MOST_AXES
from prototrt.surgery.ir import Array, Shape, fixed
from prototrt.surgery.ir.uniform_constants import map_elements
from prototrt.surgery.layers.arithmetic.scale import affine

LEAST_EPS_OF_NVIDIA = 1e-5
VARIANCE_EPS_OF_SEGNET = 1e-9
_FIELDS_OF_PSPNET = {"slope_filler", "bias_filler", "momentum", "eps", "frozen", "engine", "moving_average"}
_EPS_OF_FIRST_YJXIONG = float(np.float32(1e-7))
"""The default of the form with ``moving_average``; the later one has 1e-5."""
_FIELDS_OF_SEGNET = {"scale_filler", "shift_filler", "bn_mode"}
_FIELDS_OF_JULE = {"scale_filler", "shift_filler", "var_eps", "moving_average", "decay", "engine"}


@layer_rule("BatchNorm")
def batch_norm(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """``(x - mean) / sqrt(variance + eps)`` per channel, with stored statistics or those of the batch.

    Becomes: Affine; with ``use_global_stats: false`` Reduce and arithmetic.
    Bottoms: (N, C, ...), at least two axes. Tops: one, of the same shape.
    Blobs: sums of means (C,), sums of variances (C,), the factor (1,) to divide both by;
    a factor of 0 makes both 0. NVIDIA's fork, with ``scale_bias`` or a filler: mean (C,), variance (C,), a
    number (1,) that is not used, scale (C,), bias (C,); always with stored statistics. ``eps`` is added to the root
    with ``add_eps_before_sqrt: false``, of Synopsys.
    Source: caffe ``src/caffe/layers/batch_norm_layer.cpp``, phase TEST; the same of NVIDIA/caffe and synopsys-caffe.
    """
    expect_axes(layer, 0, x, "(N, C, ...)", 2, MOST_AXES)
    param = layer.param
    if field_if_set(param, "scale_bias") or param.HasField("scale_filler") or param.HasField("bias_filler"):
        return [_with_scale_and_bias(build, layer, x)]
    _refuse_learning_rates(layer)
    uses_batch = field_if_set(param, "use_global_stats") is False
    is_inside = bool(param.add_eps_before_sqrt)
    if uses_batch and layer.blobs is None:
        build.leave_unread(3)
        return [_of_batch(x, param.eps, is_inside)]
    mean, variance = _statistics(build, layer, x)
    factor = build.parameter(layer, (1,), "scale_factor", kind="scale")
    if uses_batch:
        return [_of_batch(x, param.eps, is_inside)]
    (stored,) = factor.array
    share = 0.0 if stored == 0 else 1.0 / float(stored)
    with np.errstate(all="ignore"):
        mean, variance = (map_elements(lambda stored: stored * share, each) for each in (mean, variance))
    build.set_equivalent_blobs(layer, mean, variance, 1.0)
    scale, shift = _scale_and_shift(_ChannelStatistics(mean, variance, float(param.eps), is_inside))
    return [affine(build, x, scale, shift, float(param.eps) if is_inside else None)]


def _with_scale_and_bias(build: LayerBuilder, layer: Layer, x: Value) -> Value:
    """BatchNorm of NVIDIA's fork, which has what Scale does in it."""
    param = layer.param
    channels = (fixed(x.shape[1], "axis 1 (channels)"),)
    mean, variance = _statistics(build, layer, x)
    build.parameter(layer, (1,), "variance_correction", kind="scale")
    scale_filler = field_if_set(param, "scale_filler") or _constant(1)
    bias_filler = field_if_set(param, "bias_filler") or _constant(0)
    scale = build.parameter(layer, channels, "scale", filler=scale_filler, kind="scale").array
    bias = build.parameter(layer, channels, "bias", filler=bias_filler, kind="bias").array
    eps = max(float(param.eps), LEAST_EPS_OF_NVIDIA)
    scale, shift = _scale_and_shift(_ChannelStatistics(mean, variance, eps), scale, bias)
    build.set_equivalent_blobs(layer, 0.0, 1 - eps, 1.0, scale, shift)
    return affine(build, x, scale, shift)


def _statistics(build: LayerBuilder, layer: Layer, x: Value) -> tuple[Array, Array]:
    channels = (fixed(x.shape[1], "axis 1 (channels)"),)
    mean = build.parameter(layer, channels, "mean", kind="mean")
    variance = build.parameter(layer, channels, "variance", kind="variance")
    return mean.array, variance.array


@dataclass(frozen=True, slots=True, eq=False)
class _ChannelStatistics:
    """``mean`` and ``variance`` (C,); ``eps`` is added to the variance, or to its root, if it is not
    ``eps_is_inside``."""

    mean: Array
    variance: Array
    eps: float
    eps_is_inside: bool = True

    def deviation(self, variance: Array) -> Array:
        """What the difference from the mean is divided by."""
        return np.asarray(
            np.sqrt(variance + self.eps) if self.eps_is_inside else np.sqrt(variance) + self.eps
        )


def _scale_and_shift(
    of: _ChannelStatistics, slope: Array | None = None, bias: Array | None = None
) -> list[Array]:
    """Scale and shift (C,) of ``(x - mean) / sqrt(variance + eps) * slope + bias`` as one Affine."""
    with np.errstate(all="ignore"):  # Caffe goes on with infinity and NaN
        scale = map_elements(lambda stored: 1 / of.deviation(stored), of.variance)
        scale = scale if slope is None else map_elements(np.multiply, scale, slope)
        shift = map_elements(lambda stored, factor: -stored * factor, of.mean, scale)
        shift = shift if bias is None else map_elements(np.add, shift, bias)
    return [each.astype(np.float32, copy=False) for each in (scale, shift)]


def _refuse_learning_rates(layer: Layer) -> None:
    """Statistics are counted, not learned: Caffe ends the process where a learning rate is stated.

    Not where three are stated, as older files do: it takes them for zeros.
    Source: caffe ``batch_norm_layer.cpp``, and ``UpgradeNetBatchNorm`` in ``upgrade_proto.cpp``.
    """
    specs = layer.message.param
    for index, spec in enumerate(specs[:3]):
        if spec.lr_mult != 0 and len(specs) != 3:
            raise NetError(
                f"lr_mult of param {index} is {spec.lr_mult:g}, expected 0",
                because="the layer's blobs are statistics, which are not learned",
                fix="write param { lr_mult: 0 }, or leave param out",
            )


def _of_batch(x: Value, eps: float, is_inside: bool) -> Value:
    """Normalized with mean and variance over all axes but the channels'."""
    difference, variance, _ = centre(x, (0, *range(2, len(x.shape))))
    deviation = variance.shifted(eps).sqrt() if is_inside else variance.sqrt().shifted(eps)
    return difference / deviation


@layer_rule("BN")
def bn(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """Statistics, scale and bias in one layer, of PSPNet; scale and shift with or without statistics, of SegNet.

    Becomes: Affine; of SegNet with ``bn_mode: LEARN`` Reduce and arithmetic.
    PSPNet, ICNet, yjxiong: ``(x - mean) / sqrt(variance + eps) * slope + bias``. Blobs: slope, bias, mean and
    variance, each (1, C, 1, 1) or (1, C).
    SegNet, ENet, DeconvNet: ``x * scale + shift`` with ``bn_mode: INFERENCE``. With LEARN, the default, ``x`` is
    first normalized with mean and variance of the batch. Blobs: scale and shift, each (1, C, 1, 1).
    The first form of yjxiong states ``moving_average``, and has an eps of 1e-7 unless it says otherwise.
    JULE, HydraPlus-Net: PSPNet's formula and blobs, with SegNet's fillers; its eps is ``var_eps``. It states ``decay``
    or ``var_eps``, or a filler and ``moving_average``.
    With the fork ``happynear``, the fourth blob is 1 / sqrt(variance + eps).
    Bottoms: (N, C, ...), of SegNet up to four axes. Tops: one, of the same shape; with LEARN optionally mean and
    variance of the batch, (1, C, 1, 1).
    Source: ``src/caffe/layers/bn_layer.cpp`` of hszhao/PSPNet, alexgkendall/caffe-segnet, yjxiong/caffe 91ee5588,
    jwyang/JULE-Caffe and (``.cu``) happynear/caffe-windows; over 5 axes ZhaofanQiu/pseudo-3d-residual-networks
    ``caffe_add_layers/src/bn_layer.cpp``.
    """
    expect_axes(layer, 0, x, "(N, C, ...)", 2, MOST_AXES)
    if not layer.param.moving_average:
        raise NetError(
            "moving_average is false, expected true",
            because="Caffe keeps no statistics then, and its output outside of training is undefined",
            fix="use a model that was trained with moving_average: true",
        )
    if _has_stored_statistics(build, layer):
        return [_bn_of_pspnet(build, layer, x)]
    expect_axes(layer, 0, x, "(N, C, ...) with up to four axes", 2, 4)
    return _bn_of_segnet(build, layer, x)


def _bn_of_pspnet(build: LayerBuilder, layer: Layer, x: Value) -> Value:
    names: dict[str, Purpose] = {"slope": "scale", "bias": "bias", "mean": "mean", "variance": "variance"}
    fillers = {"slope": _constant(1), "bias": _constant(0)} | _fillers_that_are_set(layer, "slope", "bias")
    if _is_of_jule(layer):
        own = _fillers_that_are_set(layer, "scale", "shift")
        fillers |= {name: own[of] for name, of in (("slope", "scale"), ("bias", "shift")) if of in own}
    slope, bias, mean, variance = (
        _per_channel(build, layer, x, index, name, fillers.get(name), kind)
        for index, (name, kind) in enumerate(names.items())
    )
    eps = _eps_of_bn(layer)
    if build.options.fork == "happynear":
        with np.errstate(all="ignore"):
            variance, eps = map_elements(lambda inverse: inverse**-2.0, variance), 0.0
    scale, shift = _scale_and_shift(_ChannelStatistics(mean, variance, eps), slope, bias)
    build.set_equivalent_blobs(layer, scale, shift, 0.0, 1 - eps)
    return affine(build, x, scale, shift)


def _eps_of_bn(layer: Layer) -> float:
    param = layer.param
    if _is_of_jule(layer):
        return float(param.var_eps)
    is_first_form = param.HasField("moving_average") and not param.HasField("eps")
    return _EPS_OF_FIRST_YJXIONG if is_first_form else float(param.eps)


def _bn_of_segnet(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    param = layer.param
    fillers = {"scale": _constant(1), "shift": _constant(0)} | _fillers_that_are_set(layer, "scale", "shift")
    scale = _per_channel(build, layer, x, 0, "scale", fillers["scale"], "scale")
    shift = _per_channel(build, layer, x, 1, "shift", fillers["shift"], "bias")
    if param.bn_mode == param.INFERENCE:
        return [affine(build, x, scale, shift)]
    axes = (0, *range(2, len(x.shape)))
    mean = x.mean(*axes).named("mean")
    square_of_mean = mean * mean
    variance = ((x * x).named("squares").mean(*axes) - square_of_mean).named("variance")
    deviation = variance.shifted(VARIANCE_EPS_OF_SEGNET).sqrt()
    y = affine(build, (x - mean) / deviation, scale, shift)
    channels = (1, fixed(x.shape[1], "axis 1 (channels)"), 1, 1)
    return [y, *(each.reshape(*channels) for each in (mean, variance))][: len(layer.tops)]


def _per_channel(
    build: LayerBuilder, layer: Layer, x: Value, index: int, name: str, filler: Message | None, kind: Purpose
) -> Array:
    """A blob with one number per channel, flat: (1, C, 1, 1) in most forks, (1, C) in yjxiong's."""
    channels = fixed(x.shape[1], "axis 1 (channels)")
    stored = layer.blobs[index].shape if layer.blobs is not None and index < len(layer.blobs) else ()
    shape: Shape = (1, channels) if len(stored) == 2 else (1, channels, 1, 1)
    return build.parameter(layer, shape, name, filler=filler, kind=kind).array.reshape(channels)


def _has_stored_statistics(build: LayerBuilder, layer: Layer) -> bool:
    """Whether it is PSPNet's layer: its blobs, or the fields that the file states, are PSPNet's."""
    fields = {field.name for field, _ in layer.param.ListFields()}
    if _is_of_jule(layer):
        _refuse_unlike_jule(fields)
        return True
    of_pspnet, of_segnet = fields & _FIELDS_OF_PSPNET, fields & _FIELDS_OF_SEGNET
    if of_pspnet and of_segnet:
        raise NetError(
            f"states {min(of_segnet)} and {min(of_pspnet)}",
            because="the first belongs to the BN of SegNet, the second to the BN of PSPNet",
            fix="remove the fields of the layer that is not meant",
        )
    if of_pspnet or of_segnet:
        return bool(of_pspnet)
    if layer.blobs is not None and len(layer.blobs) in (2, 4):
        return len(layer.blobs) == 4
    return which_fork(build, layer, "pspnet") != "segnet"


def _is_of_jule(layer: Layer) -> bool:
    """Whether it has the fillers of SegNet's layer and the statistics of PSPNet's."""
    fields = {field.name for field, _ in layer.param.ListFields()}
    has_average = "moving_average" in fields and fields & {"scale_filler", "shift_filler"}
    return bool(fields & {"decay", "var_eps"} or has_average)


def _refuse_unlike_jule(fields: set[str]) -> None:
    unlike = fields - _FIELDS_OF_JULE
    if unlike:
        raise NetError(
            f"states {min(unlike)} and {min(fields & _FIELDS_OF_JULE)}",
            because="the first belongs to another BN than the second, which JULE and HydraPlus-Net have",
            fix="remove the fields of the layer that is not meant",
        )
    if "moving_average" not in fields:
        raise NetError(
            "states no moving_average",
            because="without it, some forks read stored statistics, others compute those of the batch",
            fix="state moving_average: true if the net was tested with stored statistics",
        )


def _fillers_that_are_set(layer: Layer, *names: str) -> dict[str, Message]:
    field_names = [name for name in names if layer.param.HasField(f"{name}_filler")]
    return {name: getattr(layer.param, f"{name}_filler") for name in field_names}


def _constant(number: float) -> Message:
    """The filler that Caffe takes where none is stated."""
    return message_class("FillerParameter")(type="constant", value=number)
