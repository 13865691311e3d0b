"""The commands. Parses options, calls one function, prints, and chooses the exit code.

Everything beyond click is imported when a command runs: ``--help`` must be quick.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

import prototrt
from prototrt.converter.options import (
    ON,
    Building,
    Checking,
    ModelOptions,
    OutputFile,
    Rewriting,
    build_options,
    check_options,
    drawing_options,
    model_options,
    net_options,
    refuse_options_beside,
    rewrite_options,
    with_state_file,
)

if TYPE_CHECKING:
    from prototrt.caffe_proto import Model
    from prototrt.converter.session import Session
    from prototrt.surgery.ir import Graph

HELP = ["-h", "--help"]

F = TypeVar("F", bound=Callable[..., Any])

EXIT_CODES = """\b
Exit codes:
  0    done
  1    a mistake of prototrt itself
  2    the command line makes no sense
  3    the model, or its input, cannot be used
  4    TensorRT refused the network or failed to build it
  5    a check failed
  6    an engine cannot be run here
  130  stopped by Ctrl-C
"""


@dataclass
class Settings:
    """What ``-v``, ``-q`` and ``--debug`` ask for; they may stand before or after the command."""

    verbose: int = 0
    quiet: bool = False
    debug: bool = False


def _settings() -> Settings:
    context = click.get_current_context()
    settings: Settings = context.meta.setdefault("prototrt.settings", Settings())
    return settings


def _set(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value and param.name:
        settings = ctx.meta.setdefault("prototrt.settings", Settings())
        setattr(settings, param.name, value)


def common_options(command: F) -> F:
    """``-v``, ``-q``, ``--debug``, ``--version``."""
    for option in (
        click.version_option(prototrt.__version__, prog_name="prototrt"),
        click.option("--debug", is_flag=True, expose_value=False, callback=_set, help="Show tracebacks."),
        click.option(
            "-q", "--quiet", is_flag=True, expose_value=False, callback=_set, help="No summary, no warnings."
        ),
        click.option(
            "-v", "--verbose", count=True, expose_value=False, callback=_set, help="Tell more; -vv: all."
        ),
    ):
        command = option(command)
    return command


class Guarded(click.Command):
    """A command whose failures become messages and exit codes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_state_file(args))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _logging(_settings()):
                result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            click.echo("stopped", err=True)
            ctx.exit(130)
        except BrokenPipeError:  # the reader of our output has seen enough, as in `| head`
            _forget_output()
            ctx.exit(0)
        except Exception as error:
            ctx.exit(_explain(error))


def _explain(error: Exception) -> int:
    """Tell what went wrong; the exit code."""
    from prototrt.caffe_proto.errors import ConversionError

    if _settings().debug:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, ConversionError):
        click.echo(f"error: {error}", err=True)
        return error.exit_code
    click.echo(f"Sorry, this is a mistake in prototrt: {type(error).__name__}: {error}", err=True)
    click.echo("Please run again with --debug, and report what it prints.", err=True)
    return 1


def _forget_output() -> None:
    """Let Python's last flush of a closed pipe go nowhere."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _logging(settings: Settings) -> Iterator[None]:
    """While a command runs, what our modules log goes to stderr."""
    import logging

    logger = logging.getLogger("prototrt")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(settings.verbose, 2)]
    logger.setLevel(logging.ERROR if settings.quiet else level)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _tell(text: str) -> None:
    if not _settings().quiet:
        click.echo(text)


def _warn(warnings: Sequence[str]) -> None:
    if not _settings().quiet:
        for warning in warnings:
            click.echo(f"warning: {warning}", err=True)


def _write_text(target: str | None, text: str) -> None:
    from prototrt.converter.files import atomic_write

    if target is None:
        click.echo(text, nl=False)
    else:
        with atomic_write(target) as stream:
            stream.write(text.encode())


def _rewritten(
    options: ModelOptions,
    rewriting: Rewriting,
    model: Model,
    require_weights: bool = True,
    tile: str = "broadcast",
) -> Graph:
    graph = rewriting.rewrite(options, model, require_weights, tile)
    _warn(graph.warnings)
    return graph


def _session(options: ModelOptions, rewriting: Rewriting, on: str | None, trust: bool) -> Session:
    from prototrt.converter.runtime.plan_file import is_plan

    if is_plan(options.model):
        refuse_options_beside(options.model, "inputs", "target", "on", "calls", "trust")
        if on not in (None, "engine"):
            raise click.UsageError(f"--on {on} is for nets, but {options.model} is a plan")
        return prototrt.Session(options.model, on="engine", trust=trust)
    if trust:
        raise click.UsageError(f"--trust is for plans, but {options.model} is none")
    return prototrt.Session(_rewritten(options, rewriting, options.load()), on=on)


@click.group(epilog=EXIT_CODES, context_settings={"help_option_names": HELP})
@common_options
def main() -> None:
    """Caffe models, recurrent ones above all, become TensorRT engines."""


@main.command(cls=Guarded, epilog=EXIT_CODES, context_settings={"help_option_names": HELP})
@model_options
@rewrite_options
@build_options
@common_options
def convert(options: ModelOptions, rewriting: Rewriting, building: Building) -> None:
    """Build an engine from MODEL (a prototxt) and WEIGHTS (a caffemodel), or write an ONNX model.

    Writes FILE, and FILE.json beside it: bindings, recurrent pairs, where it came from.
    """
    import time

    from prototrt.converter.progress import BuildProgress, terminal
    from prototrt.converter.report import conversion_summary

    began = time.perf_counter()
    model = options.load()
    graph = _rewritten(options, rewriting, model, tile=building.kept_tiles)
    with BuildProgress(None if _settings().quiet else terminal()) as progress:
        manifest = building.write(graph, progress)
    _tell(conversion_summary(model, graph, manifest, building.target, time.perf_counter() - began))


def convert_main() -> None:
    """``convert``, installed as a command of its own."""
    convert(prog_name="convert")


@main.command(cls=Guarded, epilog=EXIT_CODES)
@net_options
@click.option("-o", "target", type=OutputFile(), help="The file to write; without it the text is printed.")
@common_options
def deploy(options: ModelOptions, target: str | None) -> None:
    """Cut the training net MODEL (a train_val.prototxt) down to its deploy net.

    Data layers become inputs, losses the answers that they look at. Caffe reads the
    result, with the same weights.
    """
    from prototrt.caffe_proto.deploy_text import deploy_text, transformations

    model = options.load_topology()
    text = deploy_text(model, dict(options.shapes))
    _warn([*model.warnings, *transformations(model)])
    _write_text(target, text)


@main.command(cls=Guarded, epilog=EXIT_CODES)
@drawing_options
@rewrite_options
@click.option("-o", "target", type=OutputFile(), help="The file to write; without it the text is printed.")
@click.option(
    "--stage",
    "picture",
    type=click.Choice(["parsed", "rewritten"]),
    default="parsed",
    help="The net as it is written, or the graph that TensorRT is given.",
)
@common_options
def dot(options: ModelOptions, rewriting: Rewriting, target: str | None, picture: str) -> None:
    """Draw MODEL in Graphviz's language.

    What surgery made is dashed, the body of a Scan stands in a frame, and state that is
    fed back is a red, dashed arrow.
    """
    from prototrt.surgery.dot import dot_from_graph, dot_from_net

    model = options.load_topology()
    if picture == "rewritten":
        text = dot_from_graph(_rewritten(options, rewriting, model, require_weights=False))
    else:
        text, warnings = dot_from_net(model, **options.expansion)
        _warn(warnings)
    _write_text(target, text)


@main.command(cls=Guarded, epilog=EXIT_CODES)
@model_options
@click.option("--json", "as_json", is_flag=True, help="The same facts, for programs.")
@common_options
def inspect(options: ModelOptions, as_json: bool) -> None:
    """Show the layers of MODEL: shapes, parameters, multiply-adds, recurrent pairs.

    Multiply-adds are those of one call; element-wise work is not counted.
    "per step" are those of one of the T steps of a recurrent layer.
    """
    from prototrt.converter.report import print_inspection
    from prototrt.surgery.inspection import inspect

    inspection = inspect(options.load_topology(), **options.expansion)
    if as_json:
        import json

        click.echo(json.dumps(inspection.as_dict(), indent=2))
    else:
        print_inspection(inspection)
        _warn(inspection.warnings)


@main.command(cls=Guarded, epilog=EXIT_CODES)
@model_options
@rewrite_options
@click.option("--inputs", required=True, metavar="FILE.npz", help="The inputs, by blob name.")
@click.option("-o", "target", type=OutputFile(), required=True, metavar="FILE.npz", help="Outputs go here.")
@click.option(
    "--on",
    type=click.Choice(ON),
    help="reference (unless MODEL is a plan): our primitives; network: the very network that TensorRT is"
    " given, both in NumPy; onnx: the ONNX model, by onnxruntime; onnx-lstm: the same with --onnx-lstm;"
    " engine: TensorRT, on a GPU.",
)
@click.option("--calls", type=click.IntRange(min=1), help="How many calls, each with the state of the last.")
@click.option("--trust", is_flag=True, help="Run a plan without manifest: you know who made it.")
@common_options
def run(
    options: ModelOptions,
    rewriting: Rewriting,
    inputs: str,
    target: str,
    on: str | None,
    calls: int | None,
    trust: bool,
) -> None:
    """Run MODEL with WEIGHTS on the CPU; or an engine, if MODEL is a plan, on a GPU.

    State starts at zero and is carried from call to call. An array NAME of the inputs is
    fed in every call, NAME/0, NAME/1, ... in that call alone. The outputs of several calls
    are written as NAME/0, NAME/1, ...
    """
    from prototrt.converter.feeds import read_feeds, unread_arrays, write_results
    from prototrt.converter.report import results_summary

    with _session(options, rewriting, on, trust) as session:
        names = [value.name for value in session.signature.inputs]
        feeds = read_feeds(inputs, names, calls)
        _warn(unread_arrays(inputs, feeds, names))
        results = [session.run(feed) for feed in feeds]
    write_results(target, results)
    _tell(results_summary(target, results))


@main.command(cls=Guarded, epilog=EXIT_CODES)
@model_options
@rewrite_options
@check_options
@click.option("--json", "as_json", is_flag=True, help="The same facts, for programs.")
@common_options
def verify(options: ModelOptions, rewriting: Rewriting, checking: Checking, as_json: bool) -> None:
    """Compute MODEL with WEIGHTS in several ways, and compare with our primitives.

    Where a tolerance is broken, the first layer at which it is is named, and the exit code is 5.
    """
    from prototrt.converter.report import print_verification

    verification = checking.verify(_rewritten(options, rewriting, options.load()))
    if as_json:
        import json

        click.echo(json.dumps(verification.as_dict(), indent=2))
    else:
        print_verification(verification)
        _warn(verification.warnings)
    verification.refuse()


@main.command(cls=Guarded, epilog=EXIT_CODES)
@click.option("--markdown", is_flag=True, help="As it stands in the README.")
@common_options
def layers(markdown: bool) -> None:
    """List the supported layer types and what each becomes."""
    from prototrt.converter.report import print_support
    from prototrt.surgery.support import markdown_table, supported_layers

    if markdown:
        click.echo(markdown_table(supported_layers()))
    else:
        print_support(supported_layers())


@main.command(cls=Guarded, epilog=EXIT_CODES)
@click.option("--json", "as_json", is_flag=True, help="The same facts, for programs.")
@common_options
def doctor(as_json: bool) -> None:
    """Tell what is installed here, what can be built and run with it, and what to install."""
    from prototrt.converter.doctor import diagnose
    from prototrt.converter.report import print_diagnosis

    diagnosis = diagnose()
    if as_json:
        import json

        click.echo(json.dumps(diagnosis.as_dict(), indent=2))
    else:
        print_diagnosis(diagnosis)
