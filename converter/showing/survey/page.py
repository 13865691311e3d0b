"""A survey as a page for a browser: one file, without scripts."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from prototrt.caffe_proto.common.visible import visible, visible_line
from prototrt.converter.showing.page.policy import policy
from prototrt.converter.showing.survey.survey import Survey, SurveyedNet, Verdict

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0 2em; width: 100% }
th, td { border-bottom: 1px solid #ddd; padding: .3em .8em .3em 0; text-align: left; vertical-align: top }
td.number { text-align: right }
pre { margin: .5em 0; white-space: pre-wrap; font-size: 13px }
.bar { display: flex; height: 1.2em; border-radius: 3px; overflow: hidden }
.converts { background: #cfe8c6 } .shape { background: #d3e3f6 } .part { background: #fbe7b2 }
.not { background: #f4c7c3 }
"""
_CLASSES = {
    Verdict.CONVERTS: "converts",
    Verdict.NEEDS_SHAPE: "shape",
    Verdict.IN_PART: "part",
    Verdict.NOT: "not",
}


def survey_page(survey: Survey) -> str:
    """HTML: how many nets convert, what stops the others, and each net with its message."""
    style = _STYLE + _widths(survey)
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy([style])}">
<title>Survey of {len(survey.nets)} nets</title>
<style>{style}</style></head><body>
<h1>{survey.count(Verdict.CONVERTS)} of {len(survey.nets)} nets convert</h1>
{_bar(survey)}
<h2>What is missing</h2>
{_table(("layer type or field", "nets", "nets that lack only this"), map(_obstacle, survey.obstacles))}
<h2>Next steps</h2>
{_table(("what to do", "nets that each makes whole"), map(_step, survey.steps))}
<h2>Nets</h2>
{_table(("net", "result", "missing", "outputs that can be converted"), map(_net, survey.nets))}
</body></html>
"""


def _widths(survey: Survey) -> str:
    """In the style element, since the policy of the page allows no style in a tag."""
    return "".join(f".bar .{_CLASSES[verdict]} {{ flex: {survey.count(verdict)} }}\n" for verdict in Verdict)


def _bar(survey: Survey) -> str:
    counts = [(verdict, survey.count(verdict)) for verdict in Verdict]
    parts = "".join(f'<div class="{_CLASSES[verdict]}"></div>' for verdict, _ in counts)
    text = ", ".join(f"{verdict.value}: {count}" for verdict, count in counts)
    return f'<div class="bar">{parts}</div><p>{text}</p>'


def _table(headers: Iterable[str], rows: Iterable[str]) -> str:
    head = "".join(f"<th>{_text(header)}</th>" for header in headers)
    return f"<table><tr>{head}</tr>\n{chr(10).join(rows)}\n</table>"


def _obstacle(obstacle: tuple[str, int, int]) -> str:
    name, count, alone = obstacle
    return f'<tr><td>{_text(name)}</td><td class="number">{count}</td><td class="number">{alone}</td></tr>'


def _step(step: tuple[str, int]) -> str:
    text, count = step
    return f'<tr><td>{_text(text)}</td><td class="number">{count}</td></tr>'


def _net(net: SurveyedNet) -> str:
    message = "\n".join(filter(None, (net.note, net.message)))
    text = (
        f"<details><summary>message</summary><pre>{escape(visible(message))}</pre></details>"
        if message
        else ""
    )
    cells = (
        f"<td>{_text(net.file)}{text}</td>",
        f'<td class="{_CLASSES[net.verdict]}">{net.verdict.value}</td>',
        f"<td>{_text(', '.join(net.lacking))}</td>",
        f"<td>{_text(', '.join(net.outputs))}</td>",
    )
    return f"<tr>{''.join(cells)}</tr>"


def _text(text: str) -> str:
    """Any text as the contents of an element."""
    return escape(visible_line(text))
