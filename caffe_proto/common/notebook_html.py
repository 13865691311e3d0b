"""HTML that a notebook shows in place of what ``repr`` says. Names may hold anything, and show as they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prototrt.caffe_proto.common.visible import visible, visible_line

_MOST = 200
"""Rows; a notebook is no place for ten thousand."""


def table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], notes: Iterable[str] = ()
) -> str:
    """A table below a title, and lines below it."""
    every = [*rows]
    head = "".join(f"<th>{_text(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>" for row in every[:_MOST])
    more = [f"{len(every) - _MOST} more rows"] if len(every) > _MOST else []
    paragraphs = "".join(f"<p>{_text(note)}</p>" for note in (*more, *notes))
    return f"<p><b>{_text(title)}</b></p><table><tr>{head}</tr>{body}</table>{paragraphs}"


def preformatted(text: str) -> str:
    from html import escape

    return f"<pre>{escape(visible(text))}</pre>"


def _cell(cell: object) -> str:
    """Numbers stand on the right, with their thousands apart."""
    if isinstance(cell, int):
        return f'<td style="text-align: right">{cell:,}</td>'
    return f'<td style="text-align: left">{_text(str(cell))}</td>'


def _text(text: str) -> str:
    from html import escape  # its table of names is large

    return escape(visible_line(text))
