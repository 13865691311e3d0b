"""The product of a conversion: what is asked of it, whether that fits together, and how it is written and checked.

What only one product needs is imported when it is made: imports are most of what a small conversion costs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prototrt.caffe_proto.common.errors import OptionsError
from prototrt.caffe_proto.common.records import dataclass, field, replace
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.caffe_proto.options import TEXT_SUFFIXES
from prototrt.converter.builder_options import chosen_options, refuse_dla, refuse_for
from prototrt.converter.checking.machines.targets import PROGRAM, Target, find_target
from prototrt.converter.files.machine_types import refuse_types
from prototrt.converter.files.machines import version
from prototrt.converter.files.writing.files import refuse_overwriting, suffix_fault, write_fault
from prototrt.converter.files.writing.publication import is_device
from prototrt.converter.files.writing.side_files import product_files, refuse_foreign, without_leftovers
from prototrt.converter.options import (
    HEADER_SUFFIXES,
    BuildOptions,
    CompareOptions,
    ConversionOptions,
    ConvertOptions,
    ExportOptions,
    Progress,
    Way,
)
from prototrt.surgery.ir.precision import precision_of
from prototrt.surgery.options import Precision, RewriteOptions

if TYPE_CHECKING:
    from prototrt.converter.checking.verification.verification import Verification
    from prototrt.surgery.ir import Graph

CHECKED_CALLS = 2
"""Calls of a net that are compared before it is written: the second one starts with a state."""
_HEADER = Option("emit_header")


@dataclass(frozen=True, kw_only=True)
class Product:
    """The product of a conversion: an engine, an ONNX model if ``file`` ends in ``.onnx``, a PyTorch module in ``.py``.

    For the target tensorrt-python it is a program instead, which builds the engine.

    ``precision`` is the precision of the graph. Raises ``OptionsError`` for options of the other one, or of another
    target.
    """

    file: str
    precision: Precision = RewriteOptions.precision
    building: BuildOptions = field(default_factory=BuildOptions)
    exporting: ExportOptions = field(default_factory=ExportOptions)
    converting: ConvertOptions = field(default_factory=ConvertOptions)

    def __post_init__(self) -> None:
        building, target, suffix = self.building, self.target, self.model_suffix
        if target is not None:
            target.refuse_file(self.file)
            target.refuse_backend(building.backend)
        self._refuse_builder_options()
        if suffix and building.tile == "plugin":
            raise OptionsError(
                Worded("{} is for engines, but FILE ends in {}", Option("tile", "plugin"), suffix)
            )
        if self.converting.verify and suffix == ".py" and not self.is_program:
            from prototrt.converter.backends.torch.evaluator import refuse_without_torch

            refuse_without_torch()
        if self.converting.verify and building.tile == "plugin":
            raise OptionsError(
                Worded("{} computes the network in NumPy, which cannot run a plugin", Option("verify")),
                fix=Worded("verify with {}, which differs only in the plugin", Option("tile", "native")),
            )
        asked = {"onnx_lstm": self.exporting.onnx_lstm, "opset": self.exporting.opset is not None}
        for name in (name for name, is_asked in asked.items() if is_asked and suffix != ".onnx"):
            raise OptionsError(Worded("{} is for ONNX models, but FILE does not end in .onnx", Option(name)))
        if self.converting.emit_header is not None:
            _refuse_header(self.converting.emit_header, self.file)
        rest = self.converting.remainder
        if rest and (reason := suffix_fault(rest, [*TEXT_SUFFIXES.values()])):
            raise OptionsError(Worded("{}: {}", Option("remainder"), reason))

    def _refuse_builder_options(self) -> None:
        """Refuse options of engines for models, and what the backend, or the target, does not take."""
        building, target = self.building, self.target
        if self.model_suffix and (target is None or not target.uses_trtexec):
            names = [option.name for option, _ in chosen_options(building)]
            others = ("tf32", "backend") if self.is_program else ("tf32", "keep_batch_norm", "backend")
            names += [name for name in others if getattr(building, name) != getattr(BuildOptions, name)]
            if names:
                raise OptionsError(
                    Worded(
                        "{} {} for engines, but FILE ends in {}",
                        Worded.joined(", ", map(Option, names)),
                        "is" if len(names) == 1 else "are",
                        self.model_suffix,
                    ),
                    fix="give it to the program, whose help lists the builder's options"
                    if self.is_program
                    else Worded(
                        "choose a FILE that ends in .plan, or use {} for an engine elsewhere",
                        Option("target", "datacenter"),
                    ),
                )
        if target is not None:
            target.refuse_options(self.precision, building)
        else:
            refuse_dla(self.precision, building)
        if building.backend != BuildOptions.backend:
            refuse_for(Option("backend", building.backend), building.backend, building)
        for capability in building.compute_capabilities:
            asked = Option("compute_capabilities", [capability])
            refuse_types(asked, "a GPU of that kind", version(capability), self.precision)

    @classmethod
    def of(cls, options: ConversionOptions) -> Product:
        """What these options ask for."""
        return cls(
            file=os.fspath(options.file),
            precision=options.precision,
            building=options.part(BuildOptions),
            exporting=options.part(ExportOptions),
            converting=options.part(ConvertOptions),
        )

    @property
    def model_suffix(self) -> str | None:
        """``.onnx`` or ``.py`` for a model or a program; None for an engine."""
        return next((suffix for suffix in (".onnx", ".py") if self.file.lower().endswith(suffix)), None)

    @property
    def is_program(self) -> bool:
        """Whether it is Python that builds the engine, not a PyTorch module."""
        return self.converting.target == PROGRAM

    @property
    def target(self) -> Target | None:
        """The kind of machine that the conversion is for, if that is known."""
        return None if self.converting.target is None else find_target(self.converting.target)

    def rewrite_options(self, options: RewriteOptions) -> RewriteOptions:
        """The options of ``rewrite``, as the target needs them."""
        nms = None if self.target is None else self.target.nms
        implied = ("nms",) if nms else ()
        is_module = self.model_suffix == ".py" and not self.is_program
        has_operators = self.exporting.onnx_lstm or (is_module and options.sequence == "auto")
        return replace(options, nms=nms or options.nms, implied=implied, for_operators=has_operators)

    def write(
        self, graph: Graph, progress: Progress | None = None, truth: Graph | None = None
    ) -> dict[str, Any]:
        """Write the target and its manifest; return the manifest. ``truth`` is as for ``verify``.

        Raises ``OptionsError`` if that would overwrite a source of the graph, or a file of the user beside the target.
        """
        refuse_foreign(Option("file"), self.file)
        written = [(Option("file"), file) for file in product_files(self.file)]
        for name in ("emit_header", "remainder"):
            if beside := getattr(self.converting, name):
                written.append((Option(name), beside))
                if reason := write_fault(beside):
                    raise OptionsError(Worded('{}: cannot write "{}": {}', Option(name), beside, reason))
        refuse_overwriting(written, [source.file for source in graph.sources])
        with without_leftovers(self.file):
            return self._write(graph, progress, truth)

    def refuse(self, graph: Graph) -> None:
        """Raise for a graph that cannot be written, as far as that shows without a build and a file."""
        if self.model_suffix == ".onnx":
            from prototrt.converter.backends.onnx.export import checked_onnx_from_graph

            self._next_steps(graph)
            checked_onnx_from_graph(graph, self._export_options)
        elif self.is_program:
            from prototrt.converter.backends.tensorrt_python.export import program_of

            program_of(graph, Path(self.file), self.building.keep_batch_norm)
        elif self.model_suffix is None:
            from prototrt.converter.files.readers.tensorrt_limits import refuse_beyond_tensorrt

            refuse_beyond_tensorrt(graph)

    def _write(self, graph: Graph, progress: Progress | None, truth: Graph | None) -> dict[str, Any]:
        header = self.converting.emit_header
        if self.is_program:
            from prototrt.converter.backends.tensorrt_python.export import export_tensorrt_python

            notes = self._check(graph, PROGRAM, truth) if self.converting.verify else {}
            keeps = self.building.keep_batch_norm
            return export_tensorrt_python(graph, self.file, keep_batch_norm=keeps, notes=notes, header=header)
        if self.model_suffix == ".py":
            from prototrt.converter.backends.torch.export import export_torch

            notes = self._check(graph, "torch", truth) if self.converting.verify else {}
            return export_torch(graph, self.file, notes=notes, header=header)
        if self.model_suffix == ".onnx":
            from prototrt.converter.backends.onnx.export import write_onnx

            notes = self._next_steps(graph)
            if self.converting.verify:
                notes |= self._check_in_program(graph, truth)
            return write_onnx(graph, self.file, self._export_options, notes, header)
        from prototrt.converter.backends.tensorrt.builder import build_file

        notes = self._check(graph, "network", truth) if self.converting.verify else {}
        backend = self.building.backend
        if self.target is not None and self.target.backend is not None:
            backend = self.target.backend
        building = replace(self.building, progress=progress, backend=backend)
        return build_file(graph, self.file, building, notes, header)

    @property
    def _export_options(self) -> ExportOptions:
        """How the ONNX model is written, for the programs of the target."""
        readers = () if self.target is None else self.target.readers
        return replace(self.exporting, readers=readers)

    def _next_steps(self, graph: Graph) -> dict[str, Any]:
        """The manifest's record of how another machine makes an engine of the model. Raises if it cannot."""
        if self.target is None or not self.target.uses_trtexec:
            return {}
        from prototrt.converter.files.readers.tensorrt_limits import refuse_beyond_tensorrt
        from prototrt.converter.trtexec import trtexec_command

        refuse_beyond_tensorrt(graph)
        self.target.refuse_sizes(graph)
        precision = precision_of(graph)
        words = trtexec_command(graph.inputs, precision, self.file, self.building, self.target.release)
        return {"trtexec": words}

    def _check_in_program(self, graph: Graph, truth: Graph | None) -> dict[str, Any]:
        """``_check`` in the program of the target, with a warning where that is not installed."""
        from prototrt.converter.backends.onnx.programs import missing_program

        program = next(
            (reader for reader in self._export_options.readers if reader in ("opencv", "openvino")), None
        )
        if program is None:
            return self._check(graph, "onnx-lstm" if self.exporting.onnx_lstm else "onnx", truth)
        if reason := missing_program(program):
            notes = self._check(graph, "onnx", truth)
            warning = f"the model was not run in {program}, but in onnxruntime: {reason}"
        else:
            notes = self._check(graph, "opencv" if program == "opencv" else "openvino-f32", truth)
            warning = self._cost_of_bfloat16(graph, truth) if program == "openvino" else ""
        notes["verification"]["warnings"] += [warning] if warning else []
        return notes

    def _cost_of_bfloat16(self, graph: Graph, truth: Graph | None) -> str:
        """How far OpenVINO is off with the settings that it has by itself, where these are not float32."""
        from prototrt.converter.backends.onnx.programs import computes_in_bfloat16

        if not computes_in_bfloat16():
            return ""
        comparisons = self._verify(graph, "openvino", truth).comparisons
        worst = max(comparisons, key=lambda each: each.difference.excess)
        return (
            f'OpenVINO computes in bfloat16 by itself on this processor: blob "{worst.blob}" is off by'
            f" {worst.difference.max_abs:.2g} then; with INFERENCE_PRECISION_HINT f32 it is not"
        )

    def _check(self, graph: Graph, way: Way, truth: Graph | None) -> dict[str, Any]:
        """The manifest's record of a verification on random inputs. Raises if a result is out of tolerance."""
        verification = self._verify(graph, way, truth)
        verification.refuse()
        return {"verification": verification.as_dict()}

    def _verify(self, graph: Graph, way: Way, truth: Graph | None) -> Verification:
        from prototrt.converter.checking.verification.seeded import seeded_feeds
        from prototrt.converter.checking.verification.verify import verify

        feeds = seeded_feeds(truth or graph, CHECKED_CALLS)
        return verify(graph, feeds, CompareOptions(ways=[way], exporting=self._export_options), truth=truth)


def _refuse_header(header: str, file: str) -> None:
    """Raise ``OptionsError`` for a header with another suffix, and beside a file that is none."""
    if reason := suffix_fault(header, HEADER_SUFFIXES):
        raise OptionsError(
            Worded("{}: {}", _HEADER, reason), fix=Worded("use {}", Option("emit_header", "net.h"))
        )
    if is_device(file):
        raise OptionsError(
            Worded('{} describes a file, but "{}" is a device', _HEADER, file),
            fix=Worded("write {} to a file", Option("file")),
        )
