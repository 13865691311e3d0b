"""Steps that several commands take: the graph of a net, a session on a net or on a plan, graphs as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import click

import prototrt
from prototrt.caffe_proto.options import LoadOptions
from prototrt.converter.commandline.options.refusals import (
    refuse_files_read_and_written,
    refuse_options_beside,
)
from prototrt.converter.commandline.options.running import RunningOptions
from prototrt.converter.commandline.options.stages import printing_after
from prototrt.converter.commandline.printing import warn
from prototrt.converter.commandline.terminal import show
from prototrt.converter.options import DataOptions, Way
from prototrt.converter.views.stages import ShownStage
from prototrt.surgery.options import RewriteOptions

if TYPE_CHECKING:
    from prototrt.caffe_proto import Model
    from prototrt.converter.sessions.session import Session
    from prototrt.surgery.ir import Graph


def rewritten(model: Model, options: RewriteOptions) -> Graph:
    """The net rewritten; its warnings are printed. Raises ``OptionsError`` if an output would overwrite a source."""
    return report_graph(prototrt.rewrite(model, options=options))


def report_graph(graph: Graph) -> Graph:
    """The graph in the command line's words, after its warnings are printed.

    Raises ``OptionsError`` if an output would overwrite a source.
    """
    from prototrt.converter.commandline.wording import graph_in_command_line_words

    graph = graph_in_command_line_words(graph)
    refuse_files_read_and_written(click.get_current_context(), [source.file for source in graph.sources])
    warn(graph.warnings, insist=[layer.warning for layer in graph.left_out])
    return graph


def session_of(
    model: str, loading: LoadOptions, rewriting: RewriteOptions, on: Way | None, running: RunningOptions
) -> Session:
    """A session on a net with its weights, on a plan, or on the file of an ONNX model.

    Raises ``UsageError`` for options that are for one of the others.
    """
    from prototrt.converter.conversion import load_with_weights
    from prototrt.converter.machines.memory import refuse_large_values
    from prototrt.converter.runtime.plan_file import is_plan
    from prototrt.converter.sessions.session import is_onnx_file

    data = [field.name for field in fields(DataOptions)]
    of_a_call = (*data, "target", "on", "calls", "draw")
    if is_onnx_file(model):
        running.refuse_for_net(model)
        _refuse_other_ways(on, "onnx", model, "an ONNX model")
        refuse_options_beside(model, "an ONNX model", "as_json", *of_a_call)
        return prototrt.Session(model, cut=True)
    if not is_plan(model):
        running.refuse_for_net(model)
        graph = rewritten(load_with_weights(model, loading), rewriting)
        refuse_large_values(graph, rewriting)
        return prototrt.Session(graph, on=on, cut=True)
    _refuse_other_ways(on, "engine", model, "an engine")
    return running.session(model, *of_a_call)


def _refuse_other_ways(on: Way | None, own: Way, file: str, kind: str) -> None:
    if on not in (None, own):
        raise click.UsageError(f"--on {on} is for nets, but {file} is {kind}\n  fix: leave it out")


def print_graphs(
    net: Model, options: RewriteOptions, stage: ShownStage, print_after: Sequence[str], as_json: bool
) -> None:
    """Print the graph of a stage as text, and the graphs after the named passes."""
    from prototrt.converter.commandline.wording import graph_in_command_line_words

    if as_json:
        raise click.UsageError("--json is for the table of layers: leave out --stage and --print-after")
    with printing_after(print_after):
        graph = prototrt.rewrite(net, options=replace(options, require_weights=False))
        shown = graph if stage.name == "rewritten" else stage.lowered(graph)
    if stage.name != "parsed":
        show(shown.text(), end="")
    warn(graph_in_command_line_words(graph).warnings)
