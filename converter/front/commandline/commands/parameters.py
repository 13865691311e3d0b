"""Commands that read and write single parameters of weights."""

from __future__ import annotations

import click

from prototrt.caffe_proto.common.shell_words import joined
from prototrt.caffe_proto.common.visible import visible_line
from prototrt.caffe_proto.options import LoadOptions
from prototrt.converter.front.commandline.command import command
from prototrt.converter.front.commandline.frame import Commands
from prototrt.converter.front.commandline.options.common import common_options
from prototrt.converter.front.commandline.options.loading import OF_PARAMETERS, net_argument
from prototrt.converter.front.commandline.options.parameter_types import InputFile, OutputFile
from prototrt.converter.front.commandline.printing import print_result, tell_summary, warn
from prototrt.converter.options import NO_SUFFIX, PARAMETER_NAMES, ParameterNames

files = net_argument, click.argument("weights", type=InputFile())
_ARRAYS = (".npz", ".safetensors", ".pt", ".pth")


@click.group(cls=Commands)
@common_options
def weights() -> None:
    """The matrices and biases of a net: listed, read, and written into new weights.

    A parameter is called LAYER/PARAMETER, as in lstm1/W_hc, and the rows of a gate LAYER/PARAMETER/GATE, as in
    lstm1/W_hc/f.
    """


@command(
    *files,
    only=OF_PARAMETERS,
    group=weights,
    name="list",
    short_help="List layers, parameters, gates and shapes.",
)
def list_(model: str, loading: LoadOptions, as_json: bool) -> None:
    """List the matrices and biases of MODEL in WEIGHTS: layer, parameter, gate, shape."""
    from prototrt.caffe_proto import load
    from prototrt.converter.front.commandline.report import print_parameters
    from prototrt.converter.front.parameters.editing import list_parameters

    print_result(list_parameters(load(model, options=loading)), as_json, print_parameters)


@command(
    *files,
    click.argument("names", nargs=-1, metavar="[NAME]..."),
    click.option("-o", "file", type=OutputFile(*_ARRAYS), required=True, help="The file of arrays to write."),
    click.option(
        "--names",
        "naming",
        type=click.Choice(PARAMETER_NAMES),
        default="prototrt",
        show_default=True,
        help="pytorch: one layer, NAME, under the names that torch.nn.LSTM, GRU or RNN has.",
    ),
    only=OF_PARAMETERS,
    group=weights,
    short_help="Write matrices and biases to a file of arrays.",
)
def get(
    model: str,
    loading: LoadOptions,
    names: tuple[str, ...],
    file: str,
    naming: ParameterNames,
    as_json: bool,
) -> None:
    """Write parameters of MODEL in WEIGHTS to a file: those called NAME, or those of all recurrent layers.

    In a NAME, * and ? stand for anything.
    """
    from prototrt.caffe_proto import load
    from prototrt.converter.front.parameters.editing import get_parameters

    net = load(model, options=loading)
    print_result(get_parameters(net, names, naming, file), as_json, tell_summary)


class _NewParameters(InputFile):
    """A file of new parameters, which users give in the place of the old weights."""

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None = None) -> str | None:
        places = super().get_missing_message(param, ctx)
        files = {} if ctx is None else ctx.params
        if "weights" not in files:
            return places
        model, source = files["model"], files["weights"]
        some = joined(["prototrt", "weights", "set", model, "OLD.caffemodel", source, "-o", "NEW.caffemodel"])
        whole = joined(["prototrt", "upgrade", model, source, "-o", "NEW.prototxt"])
        fix = f"type {some}; or, if {visible_line(source)} has all parameters, {whole}"
        return f"{places}\n  fix: {fix}"


@command(
    *files,
    click.argument("source", type=_NewParameters()),
    click.option(
        "-o",
        "file",
        type=OutputFile(".caffemodel", ".pb", NO_SUFFIX),
        required=True,
        help="The weights to write: a caffemodel, or the init net of a Caffe2 net.",
    ),
    click.option("--layer", metavar="NAME", help="The layer that a state dict of PyTorch is for."),
    only=OF_PARAMETERS,
    group=weights,
    name="set",
    short_help="Write new weights with matrices and biases from a file of arrays.",
)
def set_(model: str, loading: LoadOptions, source: str, file: str, layer: str | None, as_json: bool) -> None:
    """Write the WEIGHTS of MODEL to a new file, with parameters from SOURCE.

    SOURCE is an npz or safetensors file, or a state dict of PyTorch (.pt), which is read without running it.
    Its names are those that `list` prints, or those of torch.nn.LSTM, GRU or RNN.
    """
    from prototrt.caffe_proto import load
    from prototrt.converter.front.parameters.editing import set_parameters

    edited = set_parameters(load(model, options=loading), source, file, layer)
    warn(edited.warnings)
    print_result(edited, as_json, tell_summary)
