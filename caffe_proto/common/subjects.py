"""What a public function works on: files become a model, a model a graph, a graph an engine."""

from __future__ import annotations

import os

_LOAD = 'prototrt.load("net.prototxt", "net.caffemodel")'
_FIRST = {
    "Model": {"file": f"call model = {_LOAD} first", "Graph": "give the model that the graph was made from"},
    "Graph": {
        "file": f"call graph = prototrt.rewrite({_LOAD}) first",
        "Model": "call graph = prototrt.rewrite(model) first",
        "Plan": "give the graph that the plan was built from",
    },
}


def refuse_no_file(function: str, subject: object) -> None:
    """Raise ``TypeError`` unless the subject is the name of a file."""
    if not isinstance(subject, str | os.PathLike):
        kind = type(subject).__name__
        raise TypeError(f"prototrt.{function} takes the file of a net, not {_with_article(kind)}")


def refuse_other(function: str, subject: object, kind: type) -> None:
    """Raise ``TypeError`` unless the subject is what the function takes; it says what to call first."""
    if isinstance(subject, kind):
        return
    is_file = isinstance(subject, str | os.PathLike)
    actual = "file" if is_file else type(subject).__name__
    advice = _FIRST[kind.__name__].get(actual)
    problem = f"prototrt.{function} takes a {kind.__name__}, not {_with_article(actual)}"
    raise TypeError(f"{problem}: {advice}" if advice else problem)


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
