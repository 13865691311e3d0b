"""What all commands share: exit codes, and failures that become messages."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from prototrt.caffe_proto.common.errors import silent
from prototrt.caffe_proto.common.shell_words import joined
from prototrt.caffe_proto.common.visible import visible, visible_line
from prototrt.converter.front.commandline.failures import failure_of
from prototrt.converter.front.commandline.foreign_options import (
    absent_files,
    explained,
    file_after_o,
    in_words_of_today,
    refuse_missing_values,
)
from prototrt.converter.front.commandline.options.common import (
    Verbosity,
    refuse_files_read_and_written,
    verbosity,
)
from prototrt.converter.front.commandline.options.parameter_types import with_one_word_each
from prototrt.converter.front.commandline.options.sections import write_sections
from prototrt.converter.front.commandline.printing import PRINTED, show, show_lines, show_waiting, warn
from prototrt.converter.front.commandline.stopping import StopRequest, was_interrupted

if TYPE_CHECKING:
    from prototrt.caffe_proto.common.errors import UnreadableFileError

HELP = {"help_option_names": ["--help", "-h"]}
"""The settings of click for a program."""

_RENAMED = "prototrt.renamed"
"""In the context of a command: warnings of old spellings."""
_CONVERTS = frozenset({"convert", "deepstream", "deploy", "inspect", "new-rule", "triton", "upgrade"})
"""Commands that need NumPy, and do not compute nets."""
_THREADS = "OPENBLAS_NUM_THREADS"
EXIT_CODES = """\b
Exit codes:
  0    done
  1    internal error
  2    the command line is invalid
  3    the model, or its input, cannot be used
  4    TensorRT, onnx or the Dask scheduler is missing, or the build failed
  5    a check failed
  6    the engine cannot run here
  130  stopped by Ctrl-C
"""


class _Program(click.Command):
    """Its help lists the exit codes. Ctrl-C ends it with 130 at any time, where click would end it with 1."""

    def __init__(self, *arguments: Any, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.epilog = EXIT_CODES

    def main(self, *arguments: Any, standalone_mode: bool = True, **others: Any) -> Any:
        run: Callable[..., Any] = super().main
        if not standalone_mode:
            return run(*arguments, standalone_mode=False, **others)
        try:
            code = run(*arguments, standalone_mode=False, **others)
        except click.exceptions.NoArgsIsHelpError as error:
            error.show(sys.stdout)
            code = error.exit_code  # a script whose command is empty must not pass
        except click.ClickException as error:
            error.message = visible(error.message)  # type: ignore[misc]  # final, but nobody has read it
            error.show()
            code = error.exit_code
            if "--json" in (others.get("args") or [*arguments, sys.argv[1:]][0]):
                failure_of(error).print_json()
        except click.Abort:
            _say_stopped()
            code = 130
        except BrokenPipeError:
            _forget_output()
            code = 0
        except OSError as error:  # the help of a command cannot be printed
            _forget_output()
            failure = failure_of(error)
            failure.print(as_json=False)
            code = failure.exit_code
        sys.exit(code if isinstance(code, int) else 0)


class GuardedCommand(_Program):
    """A command whose failures become messages and exit codes, and whose help has headings."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_sections(self, ctx, formatter)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words, ctx.meta[_RENAMED] = in_words_of_today(with_one_word_each(args), self)
        if not ctx.resilient_parsing:  # as while a shell completes words
            refuse_missing_values(words, ctx)
        try:
            rest = super().parse_args(ctx, [*words])
        except click.NoSuchOption as error:
            raise explained(error) from error
        except click.UsageError as error:
            if further := file_after_o(words, ctx):
                raise further from error
            raise
        if absent_files(ctx.params, self) and (further := file_after_o(words, ctx)):
            raise further
        return rest

    def invoke(self, ctx: click.Context) -> Any:
        try:
            if isinstance(sys.stdout, io.TextIOWrapper):  # characters that a terminal lacks become as \u2603
                sys.stdout.reconfigure(errors="backslashreplace")
            refuse_files_read_and_written(ctx)
            warn(ctx.meta.get(_RENAMED, ()))
            if self.name in _CONVERTS and not ctx.params.get("verify"):
                _import_numpy_in_one_thread()
            with _log_to_stderr(verbosity()), show_waiting(visible_line(ctx.command_path)), silent():
                result = super().invoke(ctx)
            if was_interrupted():  # and a library has swallowed it
                raise KeyboardInterrupt
            if sys.stdout is not None:  # as it is where the user has closed it
                sys.stdout.flush()
            return result
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt as error:
            _say_stopped()
            ctx.exit(128 + (error.signal if isinstance(error, StopRequest) else signal.SIGINT))
        except BrokenPipeError:  # the reader of our output has seen enough, as in `| head`
            _forget_output()
            ctx.exit(0)
        except Exception as error:
            if was_interrupted():
                _say_stopped()
                ctx.exit(128 + signal.SIGINT)
            ctx.exit(_explain(error, ctx.params.get("as_json", False) and PRINTED not in ctx.meta))


class Commands(_Program, click.Group):
    """Commands under one name, each of them guarded; a group in it is like itself."""

    command_class = GuardedCommand
    group_class = type

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            if not Path(args[0]).exists():
                raise
            step = joined([ctx.command_path, "inspect", args[0]])
            problem = f"'{visible_line(args[0])}' is a file, expected a command"
            fix = f"{step} shows what it is and what to do with it"
            raise click.UsageError(f"{problem}\n  fix: {fix}", ctx) from None


class _OnDemand(Mapping[str, click.Command]):
    """Commands by name, each imported when it is asked for."""

    def __init__(self, places: Mapping[str, tuple[str, str]]) -> None:
        self._places = places

    def __getitem__(self, name: str) -> click.Command:
        module, summary = self._places[name]
        home = import_module(f"prototrt.converter.front.commandline.commands.{module}")
        command: click.Command = getattr(home, name.replace("-", "_"))
        command.short_help = summary
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class CommandsOnDemand(Commands):
    """Commands that are imported when they run: ``places`` has their modules, and the summaries that help shows."""

    def __init__(self, *arguments: Any, places: Mapping[str, tuple[str, str]], **attributes: Any) -> None:
        commands: Any = _OnDemand(places)  # click only reads them
        super().__init__(*arguments, commands=commands, **attributes)
        self._summaries = {name: summary for name, (_, summary) in places.items()}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self._summaries.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [name for name in self._summaries if name.startswith(incomplete)]
        commands = [CompletionItem(name, help=self._summaries[name]) for name in names]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]


def _explain(error: Exception, as_json: bool) -> int:
    """Tell what went wrong; the exit code."""
    from prototrt.caffe_proto.common.errors import OptionsError, UnreadableFileError

    if isinstance(error, UnreadableFileError) and error.is_of_other_kind:
        _name_the_net(error)
    failure = failure_of(error, whole=verbosity().debug)
    if verbosity().debug:
        import traceback

        show_lines("".join(traceback.format_exception(error)), err=True, end="")
        _show_graph_before(error)
    if isinstance(error, OptionsError):
        message = failure.message.removeprefix("error: ")
        raise click.UsageError(message, click.get_current_context()) from error
    if isinstance(error, OSError):  # maybe stdout itself
        _forget_output()
    failure.print(as_json)
    return failure.exit_code


def _name_the_net(error: UnreadableFileError) -> None:
    """Propose the net that was converted into a file which was given in its place."""
    from prototrt.caffe_proto.common.wording import Worded
    from prototrt.caffe_proto.recognition import PROTOTXT_FIRST
    from prototrt.converter.showing.glance.manifests import sources_of

    model = click.get_current_context().params.get("model")
    if model is not None and error.where == model and (sources := sources_of(model)):
        end = "" if error.fix == PROTOTXT_FIRST else Worded("; or {}", error.fix)
        error.fix = Worded("give the net that it was converted from: {}{}", joined(sources), end)


def _say_stopped() -> None:
    """Print it on stderr, if that can be written."""
    with suppress(OSError):
        show("stopped", err=True)


def _show_graph_before(error: Exception) -> None:
    """Print the graph that the failing pass was given."""
    from prototrt.surgery.runner import PassError

    if isinstance(error, PassError):
        show_lines(f"The graph before {error.name}:\n{error.before.text()}", err=True, end="")


def _import_numpy_in_one_thread() -> None:
    """Commands that convert multiply little, and OpenBLAS starts a thread for each core when it is imported.

    A choice of the user stays, and processes started later hear of none.
    """
    if "numpy" in sys.modules or os.environ.keys() & {_THREADS, "OMP_NUM_THREADS"}:
        return
    os.environ[_THREADS] = "1"
    try:
        import numpy  # noqa: F401  # for its threads
    finally:
        del os.environ[_THREADS]


def _forget_output() -> None:
    """Let Python's last flush of a closed pipe go nowhere."""
    if sys.stdout is not None:
        with suppress(io.UnsupportedOperation):  # of a test
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _log_to_stderr(level: Verbosity) -> Iterator[None]:
    """While a command runs, what our modules log goes to stderr."""
    import logging

    from prototrt.converter.front.commandline.logs import Handler, Line

    logger = logging.getLogger("prototrt")
    handler = Handler()
    handler.setFormatter(Line())
    least = (logging.WARNING, logging.INFO, logging.DEBUG)[min(level.verbose, 2)]
    logger.setLevel(logging.ERROR if level.quiet else least)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
