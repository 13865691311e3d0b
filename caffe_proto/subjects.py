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


def refuse_other(function: str, subject: object, wanted: type) -> None:
    """Raise ``TypeError`` unless the subject is what the function takes; it says what to call first."""
    if isinstance(subject, wanted):
        return
    is_file = isinstance(subject, str | os.PathLike)
    found = "file" if is_file else type(subject).__name__
    advice = _FIRST[wanted.__name__].get(found)
    told = (
        f"prototrt.{function} takes a {wanted.__name__}, not {'an' if found[0] in 'aeiou' else 'a'} {found}"
    )
    raise TypeError(f"{told}: {advice}" if advice else told)
