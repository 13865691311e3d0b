"""The nets with open sizes that the tests run, as the table of docs/sizes.md.

python -m prototrt.tests.tools.sizes_table docs/sizes.md
"""

from __future__ import annotations

from pathlib import Path

import click

from prototrt.surgery.ir.shapes import sizes
from prototrt.tests.open_nets import OPEN_NETS, OpenNet
from prototrt.tests.tools.page_table import replace_table

BEGIN = "<!-- made by python -m prototrt.tests.tools.sizes_table docs/sizes.md -->\n"
_HEAD = "| net | inputs | outputs | tried with |\n| --- | --- | --- | --- |\n"


def table() -> str:
    """A row for each net: its inputs and outputs, and the sizes of its five calls."""
    return _HEAD + "".join(_row(name, net) for name, net in OPEN_NETS.items())


def _row(name: str, net: OpenNet) -> str:
    graph = net.graph()
    inputs = [f"`{blob} {sizes(shape)}`" for blob, shape in net.shapes.items()]
    outputs = [f"`{value.name} {sizes(value.shape)}`" for value in graph.outputs if value.name in net.outputs]
    letters = "x".join(net.calls[0])
    calls = ", ".join("x".join(map(str, call.values())) for call in net.calls)
    return f"| {name}: {net.about} | {', '.join(inputs)} | {', '.join(outputs)} | {letters}: {calls} |\n"


@click.command()
@click.argument("page", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def main(page: Path) -> None:
    """Replace the table of PAGE."""
    replace_table(page, BEGIN, table())


if __name__ == "__main__":
    main()
