"""What users type that click does not understand: options as trtexec, Polygraphy or old versions spell them, options
without their values, and the file to write without its -o."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import click

from prototrt.caffe_proto.common.shell_words import quoted
from prototrt.caffe_proto.common.suggestions import choices, close_names
from prototrt.converter.front.commandline.options.groups import FieldOption
from prototrt.converter.front.commandline.options.parameter_types import InputFile, OutputFile, ReadType

_BY_COMMAND = "`prototrt {}`"
_MEANINGS = {
    "fp16": "--precision fp16",
    "bf16": "--precision bf16",
    "int8": "--precision int8",
    "fp8": "--precision fp8",
    "best": "--precision fp16, or int8",
    "calib": "--calibration-cache",
    "trtminshapes": "--min-shapes",
    "trtoptshapes": "--opt-shapes",
    "trtmaxshapes": "--max-shapes",
    "shapes": "--shape",
    "inputshapes": "--shape",
    "batch": "--shape NAME:SIZExSIZE...",
    "maxbatch": "--max-shapes",
    "workspace": "--mem-pool-size workspace:SIZE",
    "poollimit": "--mem-pool-size",
    "loadtimingcache": "--timing-cache-file",
    "savetimingcache": "--timing-cache-file",
    "timingcache": "--timing-cache-file",
    "refittable": "--refit",
    "stripplan": "--strip-weights",
    "usedla": "--use-dla-core 0",
    "dumplayerinfo": "--export-layer-info",
    "saveengine": "-o FILE.plan",
    "deploy": "the prototxt as first argument, without an option",
    "prototxt": "the prototxt as first argument, without an option",
    "model": "the caffemodel as second argument, without an option",
    "weights": "the caffemodel as second argument, without an option",
    "caffemodel": "the caffemodel as second argument, without an option",
    **dict.fromkeys(("mean", "meanfile"), "--preprocess, with the training net"),
    "onnx": "the prototxt and the caffemodel as arguments; -o FILE.onnx writes ONNX",
    "notf32": "to leave it out: TF32 is off unless --tf32 is given",
    "stronglytyped": "to leave it out: engines are always strongly typed",
    "loadengine": _BY_COMMAND.format("run FILE.plan"),
    "loadinputs": _BY_COMMAND.format("run --inputs FILE.npz"),
    "exportoutput": _BY_COMMAND.format("run -o FILE.npz"),
    "iterations": _BY_COMMAND.format("bench --calls"),
    "dumpprofile": _BY_COMMAND.format("bench --layer-times"),
    "exportprofile": _BY_COMMAND.format("bench --layer-times --json"),
    "skipinference": "to leave it out: converting runs nothing",
    "buildonly": "to leave it out: converting runs nothing",
    **dict.fromkeys(("sign", "signlabel"), "`ssh-keygen -Y sign` for the manifest, as docs/signing.md shows"),
    **dict.fromkeys(("trustkey", "trustlabel", "trustnotbefore"), _BY_COMMAND.format("run --trust DIGEST")),
}
"""By the spelling of others without dashes and capitals. Options of ours with the same letters need no row."""


def in_words_of_today(arguments: Sequence[str], command: click.Command) -> tuple[list[str], list[str]]:
    """The arguments with each option that has another spelling now as it is spelled now, and a warning of each.

    An old spelling of an option that repeats could have several values with commas between them.
    """
    own = {spelling: each for each in command.params for spelling in each.opts}
    renamed = {each.once: each for each in command.params if isinstance(each, FieldOption) and each.once}
    words, warnings, rest = [], {}, iter(arguments)
    for word in rest:
        old, equals, value = word.partition("=")
        option, other = renamed.get(old), own.get(old)
        if option is None or (other is not None and not option.is_shared):
            words += [word, *(rest if word == "--" else ())]
            continue
        if not (equals or option.is_flag):
            value = next(rest, "")
        if other is not None and isinstance(other.type, click.Choice) and value in other.type.choices:
            words += [old, value]
            continue
        new = option.opts[0]
        values = value.split(",") if option.multiple else [value]
        words += [new] if option.is_flag else [part for each in values for part in (new, each)]
        warnings[old] = f"{old} is {new} now: the next release no longer knows the old spelling"
    return words, [*warnings.values()]


def explained(error: click.NoSuchOption) -> click.UsageError:
    """The error with the option that was probably meant: click alone suggests options that hardly look alike."""
    if error.ctx is None:
        return error
    spelling, command = error.option_name, error.ctx.command
    meant = meaning(spelling, command) or _alike(spelling, _options(command))
    suggestion = f" Did you mean {meant}?" if meant else ""
    return click.UsageError(f"No such option '{spelling}'.{suggestion}", error.ctx)


def _alike(spelling: str, ours: Sequence[str]) -> str | None:
    """The options that this may be a misspelling of; else the only one that has it as one of its words."""
    if close := close_names(spelling, ours):
        return choices(spelling, close)
    word = spelling.lstrip("-")
    having = [name for name in ours if word in name.split("-")]
    return having[0] if len(having) == 1 else None


def _options(command: click.Command) -> list[str]:
    return [name for parameter in command.params for name in parameter.opts if name.startswith("--")]


def meaning(spelling: str, command: click.Command) -> str | None:
    """What this command calls an option that another program spells so; None if that is not known."""
    ours = _options(command)
    letters = _letters(spelling)
    same = next((name for name in ours if _letters(name) == letters), None)
    if same is not None:
        return same
    meant = _MEANINGS.get(letters)
    if meant is None or meant.startswith("`"):
        return meant
    return meant if {*re.findall(r"--[a-z][a-z0-9-]*", meant)} <= {*ours} else None


def _letters(spelling: str) -> str:
    return spelling.replace("-", "").replace("_", "").lower()


def refuse_missing_values(words: Sequence[str], context: click.Context) -> None:
    """Raise ``UsageError`` for an option whose value was forgotten: click takes the next option for it."""
    options = [each for each in context.command.get_params(context) if isinstance(each, click.Option)]
    spellings = {word for each in options for word in (*each.opts, *each.secondary_opts)}
    takers = {word: each for each in options if not (each.is_flag or each.count) for word in each.opts}
    rest = iter(words)
    for word in rest:
        if word == "--":
            return
        if word in takers:
            value = next(rest, None)
            if value is None or value in spellings or value.startswith("--"):
                raise click.UsageError(_missing_value(word, takers[word], value, context), context)


def _missing_value(word: str, option: click.Option, after: str | None, context: click.Context) -> str:
    place = "at the end" if after is None else f"before {after}"
    example = _example(option)
    end = f", as in {word} {quoted(example)}" if example else ""
    return f"the value of {word} is missing {place}\n  fix: type {word} {option.make_metavar(context)}{end}"


def _example(option: click.Option) -> str:
    """A value that the option takes; empty if its name in help says all."""
    kind = option.type
    if isinstance(kind, ReadType | InputFile | OutputFile):
        return kind.example
    if isinstance(kind, click.Choice):
        return str(next(choice for choice in kind.choices if choice != option.default))
    is_number = isinstance(kind, type(click.INT) | type(click.FLOAT))
    return str(max(1, getattr(kind, "min", None) or 1)) if is_number else ""


def file_after_o(words: Sequence[str], context: click.Context) -> click.UsageError | None:
    """The error for a file to write that stands among those to read, without its -o."""
    from prototrt.converter.files.writing.files import suffix_fault

    command = context.command
    values, further, _ = command.make_parser(context).parse_args([*words])
    target = next((each for each in command.params if "-o" in each.opts), None)
    if target is None or values.get(target.name or "") is not None:
        return None
    suffixes = target.type.suffixes if isinstance(target.type, OutputFile) else ()
    problems = dict.fromkeys(further, "{} is one file too many")
    if suffixes:
        problems |= dict.fromkeys(absent_files(values, command), "{}: there is no such file")
    for word, problem in problems.items():
        if not os.path.isfile(word) and suffix_fault(word, suffixes) is None:
            fix = f"if it is the file to write, type -o {quoted(word)}"
            return click.UsageError(f"{problem.format(word)}\n  fix: {fix}", context)
    return None


def absent_files(values: Mapping[str, Any], command: click.Command) -> list[str]:
    """The files among the arguments that need not be given, and are not there. Only weights are called caffemodel."""
    optional = [each for each in command.params if isinstance(each, click.Argument) and not each.required]
    files = [values.get(each.name or "") for each in optional if isinstance(each.type, InputFile)]
    others = [file for file in files if isinstance(file, str) and not file.endswith(".caffemodel")]
    return [file for file in others if not os.path.lexists(file)]
