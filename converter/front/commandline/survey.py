"""What is seen of a survey: a bar on a terminal, then tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from prototrt.caffe_proto.common.wording import worded
from prototrt.converter.front.commandline.options.common import verbosity
from prototrt.converter.front.commandline.printing import show, warn
from prototrt.converter.front.commandline.progress import bar_of_parts
from prototrt.converter.front.commandline.wording import command_line_words

if TYPE_CHECKING:
    from prototrt.converter.showing.survey.survey import Survey, SurveyedNet, Verdict

_MOST_OBSTACLES = 20


def ask_about(paths: Sequence[str], quiet: bool) -> Survey:
    """Survey the nets, and those below folders, with a bar on a terminal."""
    from prototrt.caffe_proto.common.errors import NetError
    from prototrt.converter.showing.survey.survey import survey

    with bar_of_parts(quiet) as progress:
        report = survey(paths, progress)
    if not report.nets:
        raise NetError(
            "there are no nets here",
            where=", ".join(paths),
            fix="give prototxts, or folders with files whose names end in .prototxt",
        )
    return report


def print_survey(survey: Survey) -> None:
    """Print how many nets convert, which do not, and what stops them, unless ``-q``."""
    from prototrt.converter.front.commandline.tables import Table
    from prototrt.converter.showing.survey.survey import Verdict

    if verbosity().quiet:
        return
    rest = [net for net in survey.nets if net.verdict is not Verdict.CONVERTS]
    if rest:
        table = Table(("net", "result", "missing"), folds=(0, 2))
        for net in rest:
            table.add_row(net.file, net.verdict.value, ", ".join(net.lacking) or _first_line(net))
        table.show()
    if survey.obstacles:
        table = Table(("missing", "nets", "only this missing"), right=(1, 2), folds=(0,))
        for name, count, alone in survey.obstacles[:_MOST_OBSTACLES]:
            table.add_row(name, str(count), str(alone))
        table.show()
    if survey.steps:
        table = Table(("next steps", "nets that each makes whole"), right=(1,), folds=(0,))
        for step, count in survey.steps:
            table.add_row(worded(step, command_line_words), str(count))
        table.show()
    warn([net.note for net in survey.nets if net.note])
    counts = ", ".join(_count_text(verdict, survey.count(verdict)) for verdict in Verdict)
    number, tried = len(survey.nets), survey.only_tried
    vain = (
        f"; with the shapes that were tried, {tried} of those that need one did not convert" if tried else ""
    )
    show(f"{number} net{'s' if number != 1 else ''}: {counts}{vain}")


_OF_SEVERAL = {
    "converts": "convert",
    "needs a shape": "need a shape",
    "converts in part": "convert in part",
    "does not convert": "do not convert",
}


def _count_text(verdict: Verdict, count: int) -> str:
    return f"{count} {verdict.value if count == 1 else _OF_SEVERAL[verdict.value]}"


def _first_line(net: SurveyedNet) -> str:
    """The first line of the message, without the name of the file, which is in the row already."""
    message = worded(net.message, command_line_words).partition("\n")[0].removeprefix(f"{net.file}:").lstrip()
    number, colon, rest = message.partition(": ")
    return f"line {number}{colon}{rest}" if number.isdigit() else message
