"""The inputs of a net that hold integers. Caffe2's files do not state them, but their readers show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from prototrt.caffe_proto.caffe2.operators import Operator

# Positions of inputs which must be int32, by type of operator; a position from the end for the last.
_INTEGERS: dict[str, tuple[int, ...]] = {
    "BatchGather": (1,),
    "BatchPermutation": (1,),
    "GRUUnit": (2, 3),
    "Gather": (1,),
    "LSTMUnit": (3, 4),
    "LengthsMean": (1,),
    "LengthsSum": (1,),
    "LengthsTile": (1,),
    "OneHot": (0, 1),
    "Reshape": (1,),
    "ReversePackedSegs": (1,),
    "SequenceMask": (1,),
    "Slice": (1, 2),
    "SparseLengthsMean": (1, 2),
    "SparseLengthsSum": (1, 2),
    "SparseLengthsWeightedSum": (2, 3),
    "Split": (1,),
    "VariableLengthSequencePadding": (1,),
}
# Operators whose inputs, or inputs and output, are of one type.
_ALIKE_INPUTS = ("EQ", "GE", "GT", "LE", "LT", "NE")
_ALIKE = (
    *("Add", "Alias", "Concat", "Copy", "CopyCPUToGPU", "CopyFromCPUInput", "CopyGPUToCPU", "Div"),
    *("EnsureCPUOutput", "ExpandDims", "Max", "Min", "Mul", "Reshape", "Slice", "Split", "Squeeze"),
    *("StopGradient", "Sub", "Sum", "Transpose"),
)


def integer_blobs(operators: Sequence[Operator], stored: Callable[[str], bool | None]) -> set[str]:
    """The blobs that hold whole numbers, by the user's names.

    ``stored`` returns whether the init net fills a blob with whole numbers; None if it does not fill the
    blob.
    """
    groups = _Groups()
    certain: set[str] = set()
    for operator in operators:
        _look_at(operator, groups, certain)
    integers = {groups.root(blob) for blob in (*certain, *(b for b in groups.names() if stored(b)))}
    floats = {groups.root(blob) for blob in groups.names() if stored(blob) is False}
    return {blob for blob in groups.names() if groups.root(blob) in integers - floats}


def _look_at(operator: Operator, groups: _Groups, certain: set[str]) -> None:
    inputs = [str(name) for name in operator.message.input]
    certain.update(inputs[index] for index in _INTEGERS.get(operator.type, ()) if index < len(inputs))
    groups.join(certain)
    alike = _alike(operator, inputs)
    groups.join(alike)
    if len(alike) > 1:
        groups.tie(alike)
    if operator.recurrence is not None:
        certain.add(operator.recurrence.timestep)
        for link in operator.recurrence.links:
            groups.tie((link.inside, link.outside))
        for inner in operator.recurrence.operators:
            _look_at(inner, groups, certain)


def _alike(operator: Operator, inputs: list[str]) -> list[str]:
    if operator.type in _ALIKE_INPUTS:
        return inputs
    if operator.type not in _ALIKE:
        return []
    first_only = operator.type in ("Reshape", "Slice", "Split")
    return [*(inputs[:1] if first_only else inputs), *(str(name) for name in operator.message.output[:1])]


class _Groups:
    """Names that were tied together."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}

    def names(self) -> Iterator[str]:
        yield from self._parents

    def join(self, names: Iterable[str]) -> None:
        for name in names:
            self._parents.setdefault(name, name)

    def tie(self, names: Sequence[str]) -> None:
        self.join(names)
        for name in names[1:]:
            self._parents[self.root(name)] = self.root(names[0])

    def root(self, name: str) -> str:
        while self._parents[name] != name:
            name = self._parents[name]
        return name
