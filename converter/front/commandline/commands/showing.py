"""Commands that show what a file, prototrt or this machine holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prototrt.caffe_proto.options import LoadOptions
from prototrt.converter.front.commandline.command import command
from prototrt.converter.front.commandline.options.common import text_target_option
from prototrt.converter.front.commandline.options.groups import field_option
from prototrt.converter.front.commandline.options.loading import net_arguments
from prototrt.converter.front.commandline.options.parameter_types import InputFile
from prototrt.converter.front.commandline.options.running import TrustOptions, selftest_options
from prototrt.converter.front.commandline.options.stages import (
    print_after_option,
    print_graphs_after,
    refuse_idle_reader,
    refuse_rewriting_options,
)
from prototrt.converter.front.commandline.printing import (
    Report,
    print_json,
    print_result,
    show_lines,
    tell,
    tell_summary,
    tell_written,
    warn,
)
from prototrt.converter.options import SectionName
from prototrt.converter.showing.views.stages import ShownStage
from prototrt.surgery.options import RewriteOptions

if TYPE_CHECKING:
    from prototrt.caffe_proto import Model


@command(net_arguments, field_option(LoadOptions, "stages", is_shared=True), print_after_option)
def inspect(
    model: str,
    loading: LoadOptions,
    rewriting: RewriteOptions,
    trusting: TrustOptions,
    stage: ShownStage,
    print_after: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show the layers of MODEL: shapes, parameters, multiply-adds, recurrent pairs.

    Multiply-adds are counted for one call; element-wise work is not counted.
    "per step" counts one of the T steps of a recurrent layer.

    Any other file is shown, too: weights alone, an engine, an ONNX model, a Caffe2 net, arrays, scales, a mean
    file, a manifest. The last line says what to do with it.
    """
    from prototrt.caffe_proto import load
    from prototrt.converter.front.commandline.glance import next_step, print_glance
    from prototrt.converter.front.commandline.report import print_inspection
    from prototrt.converter.front.steps import inspect
    from prototrt.converter.showing.glance.manifests import with_checked_files
    from prototrt.surgery.views.inspection import Inspection

    absent = trusting.check_files(model)
    refuse_idle_reader(stage)
    if stage.name != "parsed" or print_after:
        print_graphs(load(model, options=loading), rewriting, stage, print_after, as_json)
        return
    refuse_rewriting_options()
    result = inspect(model, loading, rewriting)
    if isinstance(result, Inspection):
        print_result(result, as_json, print_inspection)
    else:
        checked = result if absent is None else with_checked_files(result, absent)
        report = Report((), {**checked.as_dict(), "next": next_step(checked)})
        print_result(report, as_json, lambda report: print_glance(checked))


@command(
    net_arguments,
    field_option(RewriteOptions, "tile"),
    text_target_option(".dot", ".gv", ".html", ".pdf", ".png", ".svg", refuses_others=True),
    click.option(
        "--verification",
        type=InputFile(),
        metavar="FILE.json",
        help="The output of `verify --json`, to show on a page.",
    ),
    click.option("--open", "is_opened", is_flag=True, help="Show the file in a browser."),
)
def dot(
    model: str,
    loading: LoadOptions,
    rewriting: RewriteOptions,
    file: str | None,
    stage: ShownStage,
    verification: str | None,
    is_opened: bool,
) -> None:
    """Draw MODEL in Graphviz's language, or as .svg, .png, .pdf, or as a page: .html.

    The page shows the net beside the graph, with shapes, costs and warnings, in one file.
    Nodes made by surgery are dashed, the body of a Scan has a frame, and state that is
    fed back is a red, dashed arrow.
    """
    from prototrt.caffe_proto import load
    from prototrt.converter.front.commandline.wording import command_line_words
    from prototrt.converter.showing.page.writing import refuse_without_jinja
    from prototrt.converter.showing.views.pictures import TEXT, draw, is_page, refuse_other_formats

    if is_opened and (file is None or file.lower().endswith(TEXT)):
        raise click.UsageError("--open is for pages and images: also give -o FILE.html")
    if file is not None:
        refuse_other_formats(file)
    if verification is not None and not is_page(file):
        raise click.UsageError("--verification is for pages: also give -o FILE.html")
    refuse_idle_reader(stage)
    if is_page(file):
        refuse_without_jinja()
    net = load(model, options=loading)
    drawing = draw(net, file, rewriting, stage, verification, command_line_words)
    if drawing.dot is not None:
        show_lines(drawing.dot, end="")
    warn(drawing.warnings)
    if file is not None:
        tell_written(file)
    if is_opened and file is not None:
        open_in_browser(file)


@command(
    click.argument("words", nargs=-1, metavar="[TYPE]..."),
    click.option("--markdown", is_flag=True, help="Print the table in Markdown."),
)
def layers(words: tuple[str, ...], markdown: bool, as_json: bool) -> None:
    """List the supported layer types and what each becomes; with TYPE, those that have it in their names."""
    from prototrt.converter.front.commandline.report import print_support
    from prototrt.surgery.views.support import markdown_table, supported_layers

    rows = supported_layers(*words)
    if as_json:
        print_json({"layers": [row.as_dict() for row in rows]})
    elif markdown:
        show_lines(markdown_table(rows))
    else:
        print_support(rows)


@command()
def doctor(as_json: bool) -> None:
    """Report what is installed here, what it can build and run, and what to install."""
    from prototrt.converter.checking.machines.doctor import diagnose
    from prototrt.converter.front.commandline.report import print_diagnosis

    print_result(diagnose(), as_json, print_diagnosis)


@command(selftest_options)
def selftest(
    file: str | None, only: tuple[SectionName, ...], budget: float | None, shown: str | None, as_json: bool
) -> None:
    """Try on this machine what prototrt does, in less than five minutes, and say in a few lines what works.

    On a GPU, nets of every family are built, run and compared with Caffe's numbers, and LSTMs are timed beside cuDNN.
    Without one, nets are built if TensorRT for RTX is installed, and run on the CPU.
    Each section runs in a process of its own, which may crash. The results name neither the machine nor its user.
    """
    from prototrt.converter.checking.selftest.results import read
    from prototrt.converter.checking.selftest.selftest import selftest

    if shown is not None:
        if file is not None or only or budget is not None:
            raise click.UsageError("--show is for results that are there: leave out the other options")
        results = read(shown)
        print_result(results, as_json, lambda results: show_lines(results.markdown(), end=""))
        return
    results = selftest(only, budget, lambda line: tell(line, err=True))
    if file is not None:
        results.save(file)
    print_result(results, as_json, tell_summary)
    results.refuse()


def print_graphs(
    net: Model, options: RewriteOptions, stage: ShownStage, print_after: Sequence[str], as_json: bool
) -> None:
    """Print the graph of a stage as text, and the graphs after the named passes."""
    from prototrt.converter.front.commandline.wording import command_line_words
    from prototrt.surgery.pipeline import rewrite

    if as_json:
        raise click.UsageError("--json is for the table of layers: leave out --stage and --print-after")
    with print_graphs_after(print_after):
        graph = rewrite(net, options=replace(options, require_weights=False))
        shown = graph if stage.name == "rewritten" else stage.lower(graph)
    if stage.name != "parsed":
        show_lines(shown.text(), end="")
    warn(graph.in_words_of(command_line_words).warnings)


def open_in_browser(file: str) -> None:
    """Show the file. If there is no browser, as on a server, a warning says so: the file is written."""
    import webbrowser

    if not webbrowser.open(Path(file).resolve().as_uri()):
        warn([f"no browser was found: open {file} yourself"])
