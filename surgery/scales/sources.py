"""The ranges of a net's values, from whatever the user gives: our file, a table of another program, or numbers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from prototrt.caffe_proto import Layer, Model
from prototrt.caffe_proto.common.errors import NetError
from prototrt.caffe_proto.common.records import dataclass, field, replace
from prototrt.caffe_proto.common.wording import Option, Worded, listed
from prototrt.surgery.options import HasScales
from prototrt.surgery.scales.scales_file import INT8, Scales, read_scales
from prototrt.surgery.scales.tables import EntryKind, TableScale, read_table
from prototrt.surgery.scales.tensor_names import same_tensors, values_by_tensor


@dataclass(frozen=True, slots=True)
class ScalesForNames:
    """Scales by the names of values, all above 0, from ``file``.

    ``unused`` are the names of the file that fit no blob, or whose scale is 0; ``warnings`` tell the first of them.
    ``kept`` are the layers that stay in 16 bits, as in ``Scales``.
    """

    scales: Mapping[str, float]
    file: str
    unused: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    kept: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def ranges(self) -> dict[str, float]:
        """The largest magnitude that int8 represents, by value."""
        return {name: scale * INT8 for name, scale in self.scales.items()}


def scales_of_options(
    model: Model, scales: str | HasScales | None, cache: str | None, values: Iterable[str]
) -> ScalesForNames:
    """The scales of a net whose values have these names.

    ``scales`` is a file that calibration wrote, or what it returned; ``cache`` is a calibration cache, or a table, of
    another program. One of them is given. Raises ``ConversionError`` for a file that is not for this net.
    """
    if cache is not None:
        return _of_table(model, cache, values)
    assert scales is not None
    file = os.fspath(scales) if isinstance(scales, str | os.PathLike) else "the calibration"
    return _of_file(model, file, scales_in(scales), values)


def scales_in(source: str | HasScales) -> Scales:
    """Those of a file, or of what calibration returned."""
    if isinstance(source, str | os.PathLike):
        return read_scales(os.fspath(source))
    scales: Scales = source.scales
    return scales


def _of_file(model: Model, file: str, scales: Scales, values: Iterable[str]) -> ScalesForNames:
    """The weights tell whose scales they are: ranges change with each training."""
    expected = scales.weights.get("sha256")
    actual = model.weights.sha256 if model.weights.file is not None else None
    if expected is not None and actual is not None and expected != actual:
        raise NetError(
            "is for another model",
            where=file,
            because=f"it was made with {scales.weights.get('file', 'other weights')}, whose SHA-256 is"
            f" {str(expected)[:8]}..., but that of {model.weights.file} is {actual[:8]}...",
            fix=Worded("calibrate this model, and give the new file with {}", Option("scales")),
        )
    matched = _match(model, {name: each.scale for name, each in scales.records.items()}, {}, file, values)
    return replace(matched, kept=scales.kept)


def _of_table(model: Model, file: str, values: Iterable[str]) -> ScalesForNames:
    """Where entries for one value differ, the largest counts: it clips nothing that another one keeps."""
    tensors, layers = values_by_tensor(model), {layer.name: layer for layer in model.layers}
    scales: dict[str, float] = {}
    strangers: dict[str, None] = {}
    for entry in read_table(file):
        value = _value_of(entry, tensors, layers)
        if value is None:
            strangers[entry.name] = None
        else:
            scales[value] = max(entry.scale, scales.get(value, 0.0))
    for group in same_tensors(model):
        group_scales = [scales[name] for name in group if name in scales]
        scales |= {name: scales.get(name, max(group_scales)) for name in group if group_scales}
    return _match(model, scales, strangers, file, values)


def _value_of(entry: TableScale, tensors: Mapping[str, str], layers: Mapping[str, Layer]) -> str | None:
    """The value that an entry is about; None where the net has none of that name."""
    layer = layers.get(entry.name)
    if entry.named is EntryKind.BOTTOM:
        read = layer.bottoms if layer is not None else ()
        return read[entry.place] if entry.place < len(read) else None
    if entry.named is EntryKind.TOP and layer is not None:
        return layer.tops[0] if layer.tops else None
    return tensors.get(entry.name)


def _match(
    model: Model, scales: Mapping[str, float], strangers: Mapping[str, None], file: str, values: Iterable[str]
) -> ScalesForNames:
    """The scales of values that there are. Raises ``NetError`` where there is none."""
    names = {*values, *(top for layer in model.layers for top in layer.tops)}
    unknown = [*strangers, *(name for name in scales if name not in names)]
    zero = [name for name, scale in scales.items() if not scale and name in names]
    usable = {name: scale for name, scale in scales.items() if scale and name in names}
    if not usable:
        blobs = [top for layer in model.layers for top in layer.tops]
        raise NetError(
            "has no scale for this net",
            where=file,
            because=f"it names {listed(unknown or zero) or 'nothing'}, but the blobs are {listed(blobs)}",
            fix="calibrate it",
        )
    warnings = []
    if unknown:
        warnings.append(f"{file}: not used, because the net has no such blob: {listed(unknown)}")
    if zero:
        warnings.append(f"{file}: not used, because the scale is 0: {listed(zero)}")
    return ScalesForNames(usable, file, (*unknown, *zero), tuple(warnings))
