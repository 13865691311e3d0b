"""What is left of the augmentation of images when a net is deployed."""

from __future__ import annotations

import numpy as np

from prototrt.surgery.rules import (
    GIVE_THEIR_NET,
    Layer,
    LayerBuilder,
    NetError,
    Option,
    Value,
    Worded,
    concatenate,
    expect_axes,
    fixed,
    layer_rule,
    plural,
)

_REACH = np.float32(1.05)
"""Elements between the last place that FlowNet reads and the end of an axis."""


@layer_rule("DataAugmentation")
def data_augmentation(build: LayerBuilder, layer: Layer, x: Value) -> list[Value]:
    """The middle of images, minus the mean that training found. From FlowNet.

    Becomes: Slice, Concat, Multiply, Add; Subtract.
    ``crop_width`` and ``crop_height`` cut the middle out: between two elements, their mean. FlowNet reads no place in
    the last 1.05 elements: where nothing is cut off, the last element is 0.95 of itself and 0.05 of the one before.
    With ``recompute_mean`` the mean is a blob, of each pixel, or of each channel if ``mean_per_pixel`` is false or the
    blob has another size; else ``mean`` states three numbers, which count if ``mean_per_pixel`` is false.
    Random changes are for training: a net that makes them when it is deployed is refused.
    Bottoms: (N, C, H, W). Tops: (N, C, crop_height, crop_width).
    Blobs: the number of calls; with ``recompute_mean`` the means (1, C, h, w) and (1, C, 1, 1).
    Source: lmb-freiburg/flownet2 ``src/caffe/layers/data_augmentation_layer.cu`` and ``.cpp``.
    """
    expect_axes(layer, 0, x, "(N, C, H, W)")
    param = layer.param
    if param.HasField("crop_width") and param.HasField("crop_height"):
        _refuse_random_changes(layer)
        for axis, field in ((2, "crop_height"), (3, "crop_width")):
            x = _middle(x, axis, int(getattr(param, field)), field)
    calls = build.parameter(layer, (1, 1, 1, 1), "number of calls", kind="scale").array
    if param.recompute_mean:
        if layer.blobs is not None and calls.item() < param.recompute_mean:
            raise NetError(
                f"the mean is of {calls.item():g} calls, but recompute_mean is {param.recompute_mean}",
                because="FlowNet changes the mean with each call before",
                fix=_mean_fix(layer, int(calls.item())),
            )
        return [x - _mean_of_blobs(build, layer, x)]
    if param.mean and not param.mean_per_pixel:
        return [x - _mean_of_fields(build, layer, x)]
    if param.mean:
        build.warn("mean is ignored, as in FlowNet: mean_per_pixel is true")
    return [x]


def _mean_fix(layer: Layer, calls: int) -> str:
    if calls < 1:  # 0 means that no mean is subtracted
        return GIVE_THEIR_NET
    setting = {f"{layer.name}.augmentation_param.recompute_mean": str(calls)}
    return Worded("keep the mean: {}", Option("overrides", setting))


def _refuse_random_changes(layer: Layer) -> None:
    drawn = [field.name for field, _ in layer.param.ListFields() if field.message_type is not None]
    if drawn and layer.param.augment_during_test:
        raise NetError(
            f"augment_during_test is true: {drawn[0]} is drawn at random",
            fix=Worded(
                "leave images as they are: {}",
                Option("overrides", {f"{layer.name}.augmentation_param.augment_during_test": "false"}),
            ),
        )


def _middle(x: Value, axis: int, size: int, field: str) -> Value:
    """So many elements from the middle of an axis, as FlowNet reads them."""
    whole = fixed(x.shape[axis], f"axis {axis}")
    if not 1 <= size <= whole or whole < 2:
        raise NetError(
            f"{field} is {size}, expected 1 to {whole}"
            if whole > 1
            else f"axis {axis} has one element, expected 2",
            fix=f"set {field} to at most the size of the image, or feed a larger image",
        )
    before, is_between = divmod(whole - size, 2)
    if is_between:
        return (x.slice(axis, before, size) + x.slice(axis, before + 1, size)) * 0.5
    if before:
        return x.slice(axis, before, size)
    share = float(np.float32(whole) - _REACH - np.float32(whole - 2))
    last = x.slice(axis, whole - 2) * (1 - share) + x.slice(axis, whole - 1) * share
    return concatenate([x.slice(axis, 0, whole - 1), last], axis)


def _mean_of_blobs(build: LayerBuilder, layer: Layer, y: Value) -> Value:
    """The mean of each pixel, or of each channel: the last one if the blob with the first has another size."""
    channels = fixed(y.shape[1], "axis 1 (channels)")
    usual = (1, channels, *(fixed(y.shape[axis], f"axis {axis}") for axis in (2, 3)))
    shape = layer.blobs[1].shape if layer.blobs is not None and len(layer.blobs) > 1 else usual
    shape = shape if len(shape) == 4 and shape[:2] == usual[:2] else usual
    of_pixels = build.parameter(layer, shape, "mean of pixels", kind="mean")
    of_channels = build.parameter(layer, (1, channels, 1, 1), "mean of channels", kind="mean")
    if not layer.param.mean_per_pixel:
        return of_channels
    if shape == usual:
        return of_pixels
    return build.constant(of_pixels.array.mean((2, 3), keepdims=True), "mean")


def _mean_of_fields(build: LayerBuilder, layer: Layer, y: Value) -> Value:
    """The mean of each channel. Raises ``NetError`` unless it has three numbers, for three channels."""
    mean = np.asarray(layer.param.mean, np.float32)
    if len(mean) != 3 or y.shape[1] != 3:
        raise NetError(
            f"mean has {plural(len(mean), 'number')}, and axis 1 a size of {y.shape[1]}, expected 3 and 3",
            fix="state a number for each of three channels",
        )
    return build.constant(mean.reshape(1, 3, 1, 1), "mean")
