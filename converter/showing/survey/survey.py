"""Try many nets without building anything: what converts, what does not, and which layers are in the way."""

from __future__ import annotations

import enum
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from traceback import format_exc
from typing import Any

from prototrt.caffe_proto.common.errors import (
    ConversionError,
    MissingBlobError,
    Problems,
    ShapeError,
    WeightsError,
    lacks_computed_blobs,
    silent,
)
from prototrt.caffe_proto.common.options import PathLike
from prototrt.caffe_proto.common.records import asdict, dataclass, field, replace
from prototrt.caffe_proto.common.wording import Command, Option, Surface, Worded, options_in, worded
from prototrt.caffe_proto.loading import load
from prototrt.caffe_proto.model import Model
from prototrt.caffe_proto.net.shape_examples import example_shape
from prototrt.caffe_proto.options import LoadOptions
from prototrt.converter.options import Started, without_progress
from prototrt.surgery.expansion.expand import Expansion, UnexpandedNet, attempt
from prototrt.surgery.expansion.fitting import Sizes, usual_shapes
from prototrt.surgery.expansion.shape_trials import ShapeTrials
from prototrt.surgery.ir import LeftOut
from prototrt.surgery.options import RewriteOptions

_MOST_STEPS = 3
_SUFFIXES = (".prototxt", ".prototxt.txt", ".pbtxt")


class Verdict(enum.Enum):
    """How far a net can be converted."""

    CONVERTS = "converts"
    NEEDS_SHAPE = "needs a shape"
    IN_PART = "converts in part"
    NOT = "does not convert"


@dataclass(frozen=True, slots=True)
class SurveyedNet:
    """One net. ``lacking`` are types and fields without a rule, ``outputs`` those that convert in part.

    ``shapes`` are to be given, with letters for sizes that nobody states. ``step`` is what alone would make the net
    whole, in words; empty if it takes more. ``only_tried`` are nets that need shapes and do not convert with those that
    were tried. ``note`` says which blobs became inputs although the net fills them.
    """

    file: str
    verdict: Verdict
    message: str = ""
    lacking: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    shapes: Mapping[str, Sequence[int | str]] = field(default_factory=dict)
    step: str = ""
    note: str = ""
    only_tried: bool = False

    def by(self, surface: Surface) -> SurveyedNet:
        """The net with all texts in the words of a surface."""
        message, step, note = (worded(text, surface) for text in (self.message, self.step, self.note))
        return replace(self, message=message, step=step, note=note)


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found of all nets."""

    nets: tuple[SurveyedNet, ...]

    def count(self, verdict: Verdict) -> int:
        return sum(net.verdict is verdict for net in self.nets)

    @property
    def only_tried(self) -> int:
        """How many of the nets that need a shape do not convert with the one that was tried."""
        return sum(net.only_tried for net in self.nets)

    @property
    def is_whole(self) -> bool:
        """Whether every net converts."""
        return self.count(Verdict.CONVERTS) == len(self.nets)

    @property
    def obstacles(self) -> list[tuple[str, int, int]]:
        """Each type or field that is in the way, how many nets lack it, and how many lack nothing else."""
        needed = Counter(name for net in self.nets for name in net.lacking)
        alone = Counter(net.lacking[0] for net in self.nets if len(net.lacking) == 1)
        return [(name, count, alone[name]) for name, count in needed.most_common()]

    @property
    def steps(self) -> list[tuple[str, int]]:
        """What would convert most of the other nets, and how many each step makes whole by itself."""
        return Counter(net.step for net in self.nets if net.step).most_common(_MOST_STEPS)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        obstacles = [
            {"lacking": name, "nets": count, "alone": alone} for name, count, alone in self.obstacles
        ]
        return {
            "counts": {verdict.value: self.count(verdict) for verdict in Verdict},
            "only_tried": self.only_tried,
            "obstacles": obstacles,
            "steps": [{"step": step, "nets": count} for step, count in self.steps],
            "nets": [{**asdict(net), "verdict": net.verdict.value} for net in self.nets],
        }


def nets_below(paths: Iterable[str]) -> list[str]:
    """The given files, and prototxts (by name) in the given folders and below."""
    result: dict[str, None] = {}
    for path in paths:
        if os.path.isdir(path):
            files = sorted(str(file) for file in Path(path).rglob("*") if file.name.endswith(_SUFFIXES))
            result |= dict.fromkeys(files)
        else:
            result[path] = None
    return list(result)


def survey(paths: Iterable[PathLike], progress: Started = without_progress) -> Survey:
    """Try each net, and each net below a folder; ``progress`` hears how many there are, and of each."""
    files, nets = nets_below(map(os.fsdecode, paths)), []
    advance = progress(len(files))
    for file in files:
        nets.append(survey_net(file))
        advance()
    return Survey(tuple(nets))


def survey_net(
    file: str,
    loading: LoadOptions | None = None,
    rewriting: RewriteOptions | None = None,
    *,
    tries_shapes: bool = True,
) -> SurveyedNet:
    """Try one net. Weights are not read unless ``loading`` gives them. An internal error is a verdict, too.

    ``tries_shapes`` says whether usual shapes are tried for inputs without one.
    """
    try:
        return _survey_net(file, loading or LoadOptions(), rewriting or RewriteOptions(), tries_shapes)
    except Exception as error:
        lines = [f"{file}: internal error: {type(error).__name__}: {error}", *format_exc().splitlines()]
        return SurveyedNet(file, Verdict.NOT, Worded.joined("\n", lines))


def _survey_net(
    file: str, loading: LoadOptions, rewriting: RewriteOptions, tries_shapes: bool
) -> SurveyedNet:
    options = replace(rewriting, require_weights=False)
    try:
        with silent():
            model = load(file, options=loading)
        fed = _without_inputs(model)
        result = attempt(model, _with_shapes(options, usual_shapes(fed) if tries_shapes else {}))
        shapes = {**fed, **(result.shapes if isinstance(result, UnexpandedNet) else {})}
        tried: Mapping[str, Sizes] = usual_shapes(shapes)
        if isinstance(result, UnexpandedNet) and shapes and tries_shapes:
            tried = ShapeTrials.of(model, options, attempt, result.errors).fit(shapes).best
            result = attempt(model, _with_shapes(options, tried))
    except ConversionError as error:
        return SurveyedNet(file, Verdict.NOT, error.text, _missing_kinds([error]), step=_step([error]))
    if isinstance(result, Expansion):
        graph = result.graph
        note = next((text for text in graph.warnings if "keep_constant" in options_in(text)), "")
        outputs = tuple(value.name for value in graph.outputs) if graph.left_out else ()
        whole = SurveyedNet(file, Verdict.CONVERTS, outputs=outputs, shapes=shapes, note=note)
        whole = _without_shape_errors(whole, tried)
        return _without_left_out(whole, graph.left_out)
    errors, outputs = result.errors, tuple(result.cut)
    of_shapes = (ShapeError,) if model.weights.file else (ShapeError, WeightsError)
    if shapes and all(isinstance(error, of_shapes) or _is_of(error, fed) for error in errors):
        # The sizes that were tried do not suit the net, or none were: only its user knows them.
        unsuited = SurveyedNet(
            file, Verdict.CONVERTS, result.error().text, shapes=shapes, only_tried=tries_shapes
        )
        return _without_left_out(_without_shape_errors(unsuited, tried), result.left_out)
    verdict = Verdict.IN_PART if outputs else Verdict.NOT
    step = "" if result.left_out else _step(errors)
    return SurveyedNet(file, verdict, result.error().text, _missing_kinds(errors), outputs, shapes, step)


def _is_of(error: ConversionError, fed: Collection[str]) -> bool:
    return isinstance(error, MissingBlobError) and error.bottom in fed


def _with_shapes(options: RewriteOptions, shapes: Mapping[str, Sizes]) -> RewriteOptions:
    return replace(options, shapes={**(options.shapes or {}), **shapes})


def _without_shape_errors(net: SurveyedNet, tried: Mapping[str, Sizes]) -> SurveyedNet:
    """The net that converts; only with shapes from its user if it states none. The message is to be pasted."""
    if not net.shapes:
        return net
    usual = Option("shapes", tried)
    if net.only_tried:
        message = Worded("give {}; {} was tried:\n{}", Option("shapes", net.shapes), usual, net.message)
        return replace(net, verdict=Verdict.NEEDS_SHAPE, message=message)
    advice = Worded("give {}; it converts with {}", Option("shapes", net.shapes), usual)
    step = Worded("give {}", Option("shapes"))
    return replace(net, verdict=Verdict.NEEDS_SHAPE, message=net.message or advice, step=step)


def _without_inputs(model: Model) -> dict[str, Sequence[int | str]]:
    """The shapes of blobs that no layer makes in a net without inputs: pieces of nets are published so."""
    if any(layer.type == "Input" or lacks_computed_blobs(layer.problems) for layer in model.layers):
        return {}
    return {name: example_shape(name, model.layers, model.sizes) for name in model.missing}


def _without_left_out(net: SurveyedNet, left_out: Sequence[LeftOut]) -> SurveyedNet:
    """The net that converts; only in part if it ends before layers whose code is not in the file."""
    if not left_out:
        return net
    lacking = tuple(dict.fromkeys(filter(None, (layer.lacking for layer in left_out))))
    message = Worded.joined("\n", filter(None, [*(layer.warning for layer in left_out), net.message]))
    step = _rule_for(lacking[0]) if len(lacking) == 1 else ""
    return replace(net, verdict=Verdict.IN_PART, message=message, lacking=lacking, step=step)


def _missing_kinds(errors: Iterable[ConversionError]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(error.lacking for error in _single(errors) if error.lacking))


def _single(errors: Iterable[ConversionError]) -> list[ConversionError]:
    return [
        inner for error in errors for inner in (error.errors if isinstance(error, Problems) else (error,))
    ]


def _step(errors: Sequence[ConversionError]) -> str:
    """A rule, the removal of a field, or an option, if nothing else is wrong."""
    single, lacking = _single(errors), _missing_kinds(errors)
    names = {error.lacking for error in single}
    shared = set.intersection(*(options_in(error.fix) for error in single)) - {
        "outputs",
        "plugin",
        "keep_constant",
    }
    if len(names) == 1 and lacking and "overrides" not in shared:
        is_field = single[0].is_unknown_field
        return f"remove the field {lacking[0]}, or read it in a rule" if is_field else _rule_for(lacking[0])
    return Worded("give {}", Option(min(shared))) if shared else ""


def _rule_for(lacking: str) -> str:
    return Worded("write a rule for {}: {} begins it", lacking, Command("new-rule"))
