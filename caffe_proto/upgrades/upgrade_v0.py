"""From the first form of a net (V0), ``layers { layer { type: "conv" } bottom: ... }``, to V1.

A V0 layer is one flat message for all types. Padding is a layer of its own: it is folded into the convolution
or pooling that reads it.

Source: caffe ``src/caffe/util/upgrade_proto.cpp``, ``UpgradeV0PaddingLayers`` and
``UpgradeV0LayerParameter``.
"""

from __future__ import annotations

from prototrt.caffe_proto.common.errors import NetError, Origin
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.caffe_proto.common.suggestions import choices
from prototrt.caffe_proto.schema import Message, message_class


@dataclass(frozen=True, slots=True)
class PlacedLayer:
    """A V1 layer, its line, its index among the layers of the file, and warnings of what the upgrade left out."""

    layer: Message
    line: int
    index: int
    warnings: tuple[str, ...] = ()


_SAME_TYPES = (
    "accuracy bnll concat data dropout euclidean_loss flatten hdf5_data hdf5_output im2col infogain_loss"
    " lrn multinomial_logistic_loss relu sigmoid softmax softmax_loss split tanh window_data"
)
_TYPES = {name: name.upper() for name in _SAME_TYPES.split()} | {
    "conv": "CONVOLUTION",
    "images": "IMAGE_DATA",
    "innerproduct": "INNER_PRODUCT",
    "pool": "POOLING",
}
# The new place of each flat field, by type: (message, field). "*" stands for every type.
_CONV, _POOL, _FC, _LRN = "convolution_param", "pooling_param", "inner_product_param", "lrn_param"
_DATA = {"data": "data_param", "hdf5_data": "hdf5_data_param", "images": "image_data_param"}
_WINDOW = {"window_data": "window_data_param"}
_SOURCES = {**_DATA, **_WINDOW, "infogain_loss": "infogain_loss_param"}
_IMAGES = {"images": "image_data_param"}
_TRANSFORM = {"*": "transform_param"}
_MOVED: dict[str, tuple[dict[str, str], str]] = {
    "num_output": ({"conv": _CONV, "innerproduct": _FC}, "num_output"),
    "biasterm": ({"conv": _CONV, "innerproduct": _FC}, "bias_term"),
    "weight_filler": ({"conv": _CONV, "innerproduct": _FC}, "weight_filler"),
    "bias_filler": ({"conv": _CONV, "innerproduct": _FC}, "bias_filler"),
    "pad": ({"conv": _CONV, "pool": _POOL}, "pad"),
    "kernelsize": ({"conv": _CONV, "pool": _POOL}, "kernel_size"),
    "group": ({"conv": _CONV}, "group"),
    "stride": ({"conv": _CONV, "pool": _POOL}, "stride"),
    "pool": ({"pool": _POOL}, "pool"),
    "dropout_ratio": ({"dropout": "dropout_param"}, "dropout_ratio"),
    "local_size": ({"lrn": _LRN}, "local_size"),
    "alpha": ({"lrn": _LRN}, "alpha"),
    "beta": ({"lrn": _LRN}, "beta"),
    "k": ({"lrn": _LRN}, "k"),
    "source": (_SOURCES, "source"),
    "scale": (_TRANSFORM, "scale"),
    "meanfile": (_TRANSFORM, "mean_file"),
    "batchsize": ({**_DATA, **_WINDOW}, "batch_size"),
    "cropsize": (_TRANSFORM, "crop_size"),
    "mirror": (_TRANSFORM, "mirror"),
    "rand_skip": ({"data": "data_param", **_IMAGES}, "rand_skip"),
    "shuffle_images": (_IMAGES, "shuffle"),
    "new_height": (_IMAGES, "new_height"),
    "new_width": (_IMAGES, "new_width"),
    "concat_dim": ({"concat": "concat_param"}, "concat_dim"),
    "det_fg_threshold": (_WINDOW, "fg_threshold"),
    "det_bg_threshold": (_WINDOW, "bg_threshold"),
    "det_fg_fraction": (_WINDOW, "fg_fraction"),
    "det_context_pad": (_WINDOW, "context_pad"),
    "det_crop_mode": (_WINDOW, "crop_mode"),
}
_KEPT = ("blobs", "blobs_lr", "weight_decay")


def v1_from_v0(layers: list[PlacedLayer], file: str) -> list[PlacedLayer]:
    """The layers in V1's form. A net without a V0 layer is returned as it is.

    Raises ``NetError`` for an unknown type, a negative number, and a padding layer that nothing can take.
    """
    if not any(placed.layer.HasField("layer") for placed in layers):
        return layers
    upgraded = []
    for placed in _fold_padding(layers, file):
        layer, warnings = _v1_layer(placed.layer, _origin(placed, file))
        upgraded.append(replace(placed, layer=layer, warnings=tuple(warnings)))
    return upgraded


def _origin(placed: PlacedLayer, file: str) -> Origin:
    return Origin(file, placed.line, placed.layer.layer.name, placed.layer.layer.type)


def _fold_padding(layers: list[PlacedLayer], file: str) -> list[PlacedLayer]:
    """Give the pad of each padding layer to its readers, and drop the padding layers. Raises ``NetError``."""
    padding: dict[str, Message] = {}  # by the blob a padding layer wrote last
    kept = []
    for placed in layers:
        layer = placed.layer
        is_padding = layer.layer.type == "padding"
        for index, blob in enumerate(layer.bottom):
            if blob in padding:
                _take_padding(layer, index, padding[blob], _origin(placed, file))
        for blob in layer.top:
            padding.pop(blob, None)
        if is_padding:
            _check_padding(layer, _origin(placed, file))
            padding[layer.top[0]] = layer
        else:
            kept.append(placed)
    return kept


def _check_padding(layer: Message, origin: Origin) -> None:
    if len(layer.bottom) != 1 or len(layer.top) != 1:
        raise NetError(
            f"the layer has {len(layer.bottom)} bottoms and {len(layer.top)} tops, expected one of each",
            origin=origin,
            fix="write a padding layer for each bottom, or the pad into the layers that read this one",
        )


def _take_padding(layer: Message, index: int, padding: Message, origin: Origin) -> None:
    """Let a layer pad by itself what it reads, before the padding layer. Raises ``NetError`` where it cannot."""
    if layer.layer.type not in ("conv", "pool") or len(layer.bottom) != 1:
        raise NetError(
            f'a "{layer.layer.type}" layer reads a padding layer, expected conv or pool with one bottom',
            origin=origin,
            blob=f'bottom "{layer.bottom[index]}"',
            fix="remove the padding layer, or let only a conv or pool layer read it",
        )
    layer.layer.pad = padding.layer.pad
    layer.bottom[index] = padding.bottom[0]


def _v1_layer(old: Message, origin: Origin) -> tuple[Message, list[str]]:
    """The layer in V1's form, and a warning for each field that its type does not have.

    Caffe logs such a field and goes on. Raises ``NetError`` for an unknown type.
    """
    flat = old.layer
    if flat.type not in _TYPES:
        raise NetError(
            f'the type is "{flat.type}", expected {choices(flat.type, _TYPES)}',
            origin=origin,
            because="this layer has Caffe's first format (V0)",
            fix="use one of these types, or write the net in the current format",
        )
    warnings = []
    new = message_class("V1LayerParameter")(
        name=flat.name, bottom=old.bottom, top=old.top, type=_TYPES[flat.type]
    )
    for field, value in flat.ListFields():
        if field.name in _KEPT:
            getattr(new, field.name).MergeFrom(value)
        elif field.name == "hdf5_output_param":
            new.hdf5_output_param.CopyFrom(value)
        elif field.name not in ("name", "type"):
            homes, name = _MOVED.get(field.name, ({}, ""))
            home = homes.get(flat.type) or homes.get("*")
            if home is None:
                problem = f'a layer of type "{flat.type}" has no field "{field.name}"'
                warnings.append(f"{origin}: {problem}: it is ignored, as in Caffe")
            else:
                _move(getattr(new, home), name, field.name, value, origin)
    return new, warnings


def _move(parameters: Message, name: str, field: str, value: object, origin: Origin) -> None:
    if isinstance(value, int) and value < 0:  # the new fields are all unsigned
        raise NetError(
            f"{field} is {value}, expected 0 or more", origin=origin, fix=f"remove {field} to use its default"
        )
    if hasattr(value, "CopyFrom"):
        getattr(parameters, name).CopyFrom(value)
    elif hasattr(getattr(parameters, name), "append"):
        getattr(parameters, name).append(value)
    else:
        setattr(parameters, name, value)
