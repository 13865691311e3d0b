"""What is fuzzed: functions that take bytes from a stranger. Whatever leaves one but a ConversionError is a crash.

``tests/fuzz/fuzz.py`` runs one of them for hours; ``tests/test_fuzz_targets.py`` runs all of them over the corpus.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import prototrt
from prototrt.caffe_proto.recognition import open_input
from prototrt.caffe_proto.weights import Weights
from prototrt.caffe_proto.weights.array_files import open_npz
from prototrt.caffe_proto.weights.binaryproto import read_binaryproto
from prototrt.caffe_proto.weights.caffemodel import open_caffemodel
from prototrt.caffe_proto.weights.hdf5 import open_hdf5
from prototrt.converter.checking.verification.comparison import TOLERANCES, difference_of
from prototrt.converter.checking.verification.seeded import seeded_feeds
from prototrt.converter.checking.verification.verify import verify
from prototrt.converter.files.signatures.feeds import read_feeds
from prototrt.converter.front.batch.cache import Cache
from prototrt.converter.front.batch.entry import Entry, Outcome, Status
from prototrt.converter.front.batch.keys import default_options
from prototrt.converter.front.batch.spec import read_models
from prototrt.converter.running.runtime.plan_file import load_plan
from prototrt.converter.running.sessions.session import Session
from prototrt.surgery.expansion.expand import expand
from prototrt.surgery.ir import Array, Graph, bodies, element_count
from prototrt.tests.fuzz import small_files
from prototrt.tests.fuzz.nets import joined, mutated_caffe, mutated_caffe2, parted
from prototrt.tests.fuzz.structures import mutated_json, mutated_lines, mutated_pickle

CORPUS = Path(__file__).with_name("corpus")
GOLDENS = Path(__file__).parents[1] / "goldens"
LARGEST_SEED = 1 << 14  # bytes: larger goldens slow the search down and teach it nothing
NET = "layer { name: 'fc' type: 'InnerProduct' top: 'fc' }"

Mutation = Callable[[bytes, Random], bytes]
Seeds = Callable[[], Iterator[tuple[str, bytes]]]


def goldens(*patterns: str) -> Seeds:
    """The goldens that are small enough."""

    def found() -> Iterator[tuple[str, bytes]]:
        for path in sorted(path for pattern in patterns for path in GOLDENS.glob(pattern)):
            if path.stat().st_size <= LARGEST_SEED:
                yield f"{path.parent.name}-{path.name}", path.read_bytes()

    return found


def caffe2_pairs() -> Iterator[tuple[str, bytes]]:
    """Predict nets with their init nets."""
    for path in sorted(GOLDENS.glob("caffe2/*/predict_net.pb")):
        pair = joined(path.read_bytes(), path.with_name("init_net.pb").read_bytes())
        if len(pair) <= LARGEST_SEED:
            yield path.parent.name, pair


@dataclass(frozen=True, slots=True)
class Target:
    """``run`` takes a folder to work in, and the bytes. ``seeds`` are its first inputs, beside our own corpus."""

    run: Callable[[Path, bytes], None]
    seeds: Seeds = lambda: iter(())
    mutated: Mutation | None = None

    def corpus(self) -> Iterator[tuple[str, bytes]]:
        """The inputs in our own corpus: each showed something once."""
        for path in sorted((CORPUS / self.run.__name__).glob("*")):
            yield path.name, path.read_bytes()


def text(folder: Path, data: bytes) -> None:
    """Read a net of Caffe and find the shapes of its blobs."""
    net = _saved(folder, "net.prototxt", data)
    expand(prototrt.load(net, allow_unknown=len(data) % 2 == 0), require_weights=False)


def wire(folder: Path, data: bytes) -> None:
    """Read a caffemodel with all of its numbers, and a mean file."""
    file = _saved(folder, "weights", data)
    with contextlib.suppress(prototrt.ConversionError):
        read_binaryproto(file)
    _read_all(open_caffemodel(open_input(file, "a caffemodel")))


def hdf5(folder: Path, data: bytes) -> None:
    """Read weights in HDF5."""
    _read_all(open_hdf5(str(_saved(folder, "weights", data))))


def npz(folder: Path, data: bytes) -> None:
    """Read the inputs of a net, and weights in the same form."""
    file = str(_saved(folder, "arrays.npz", data))
    with contextlib.suppress(prototrt.ConversionError):
        read_feeds(file, ["data", "cont"])
    _read_all(open_npz(file))


def _read_all(weights: Weights) -> None:
    for name in weights.names():
        for blob in weights.blobs_of(name) or ():
            assert blob is None or blob.array.shape == blob.shape


def caffe2(folder: Path, data: bytes) -> None:
    """Read a net of Caffe2 and its init net, and rewrite it with shapes for its inputs."""
    predict, init = parted(data)
    nets = [
        _saved(folder, "predict_net.pb", predict),
        *([_saved(folder, "init_net.pb", init)] if init else []),
    ]
    model = prototrt.load(*nets)
    inputs = [top for layer in model.layers if layer.type == "Input" for top in layer.tops]
    expand(model, require_weights=False, shapes={name: _caffe2_shapes().get(name, (2, 3)) for name in inputs})


@cache
def _caffe2_shapes() -> Mapping[str, tuple[int, ...]]:
    """What the inputs of the goldens are shaped like, by name."""
    arrays = [np.load(path) for path in sorted(GOLDENS.glob("caffe2/*/inputs.npz"))]
    return {name.partition("/")[0]: file[name].shape for file in arrays for name in file.files}


def models(folder: Path, data: bytes) -> None:
    """Read a list of models. No path leads out of the folder, since a glob would search the machine."""
    if b"/" not in data and b".." not in data:
        _saved(folder, "net.prototxt", NET.encode())
        read_models(str(_saved(folder, "models.yaml", data)), str(folder / "made"))


def manifest(folder: Path, data: bytes) -> None:
    """Read the manifest of a plan."""
    plan = _saved(folder, "net.plan", b"ptrt")
    _saved(folder, "net.plan.json", data)
    load_plan(plan)


def entry(folder: Path, data: bytes) -> None:
    """Fetch from a cache whose notes somebody has written. Nothing is written but the engine and its manifest."""
    inside = folder / "cache" / "inside"  # so that there is an outside
    inside.mkdir(parents=True, exist_ok=True)
    target = inside / "net.plan"
    given = Entry(
        "net", "", str(_saved(inside, "net.prototxt", NET.encode())), None, str(target), default_options()
    )
    store = Cache(str(inside), {"prototrt": "1"})
    key = store.key(given)
    assert key is not None
    made = {_saved(inside, name, b"engine") for name in ("net.plan", "net.plan.json")}
    store.store(key, Outcome(given, Status.CONVERTED))
    for path in made:
        path.unlink()
    kept = Path(store.place_of(key))
    mark, _, made_files = kept.read_bytes().split(b"\n", 2)
    kept.write_bytes(b"\n".join([mark, _sealed(data, key), made_files]))
    before = _files(inside.parent)
    try:
        found = store.fetch(key, given)
    except prototrt.ConversionError as error:
        raise AssertionError("an odd entry is a miss") from error
    assert found is None or found.status is Status.CACHED
    assert _files(inside.parent) - before <= made


def _sealed(data: bytes, key: str) -> bytes:
    """Notes for that key with their SHA-256, which anybody can compute; what is no JSON stays as it is."""
    try:
        notes = json.loads(data)
        if isinstance(notes, dict) and "key" in notes:
            notes["key"] = key
        digest = hashlib.sha256(json.dumps(notes, sort_keys=True).encode()).hexdigest()
        return json.dumps({"sha256": digest, "notes": notes}).encode()
    except (ValueError, RecursionError):
        return data


def built(folder: Path, data: bytes) -> None:
    """From a net to the network that TensorRT is given, which computes what the primitives mean.

    Nets that compute much are left out: they take time, and no other code.
    """
    choice = Random(zlib.crc32(data))
    model = prototrt.load(_saved(folder, "net.prototxt", data), random_weights=1)
    options: dict[str, Any] = {
        "sequence": choice.choice(("auto", "auto", "loop", "unroll")),
        "cont": choice.choice(("keep", "keep", "drop")),
        "state": choice.choice(("bind", "bind", "zero")),
    }
    graph = prototrt.rewrite(model, **options)
    if work(graph) > 1 << 20:
        return
    if choice.random() < 0.2:  # the first size of each input is open, as that of a batch
        most = {value.name: value.shape for value in graph.inputs if value not in graph.state_inputs}
        options["max_shapes"] = most
        options["min_shapes"] = {name: (1, *shape[1:]) for name, shape in most.items() if shape}
        graph = prototrt.rewrite(model, **options)
    feeds = seeded_feeds(graph, calls=2)
    found = verify(graph, feeds)
    assert found.holds or is_unstable(graph, feeds), found.parts


def work(graph: Graph) -> int:
    """About how many numbers are computed; each body of a loop counts eight times."""
    total = 0
    for node in graph.nodes:
        total += sum(element_count(value.shape) for value in node.outputs)
        total += node.op.multiply_adds([x.shape for x in node.inputs], [y.shape for y in node.outputs])
        total += sum(8 * work(body) for body in bodies(node.op))
    return total


def is_unstable(graph: Graph, feeds: Sequence[Mapping[str, Array]]) -> bool:
    """Whether rounding decides what comes out: then two correct ways may differ by more than a tolerance.

    The reference is asked again with inputs that are off in their last digits. Where it has infinities, or numbers
    close to them, it is not comparable either.
    """
    wanted = _reference(graph, feeds)
    if not all(np.isfinite(array).all() and np.abs(array).max(initial=0) < 1e18 for array in wanted):
        return True
    for seed in range(3):
        random = np.random.default_rng(seed)
        near = [{name: _moved(array, random) for name, array in feed.items()} for feed in feeds]
        for found, array in zip(_reference(graph, near), wanted, strict=True):
            if difference_of(found, array, TOLERANCES["fp32"]).excess > 0.1:
                return True
    return False


def _reference(graph: Graph, feeds: Sequence[Mapping[str, Array]]) -> list[Array]:
    session = Session(graph)
    return [array for feed in feeds for array in session.run(feed).values()]


def _moved(array: Array, random: np.random.Generator) -> Array:
    if array.dtype.kind != "f":
        return array
    return (array * (1 + random.uniform(-1e-6, 1e-6, array.shape))).astype(array.dtype)


TARGETS: Mapping[str, Target] = {
    target.run.__name__: target
    for target in (
        Target(text, goldens("caffe/*/*.prototxt", "forks/*/*.prototxt")),
        Target(wire, goldens("caffe/*/model.caffemodel")),
        Target(hdf5, goldens("caffe/*/*.h5")),
        Target(npz, goldens("caffe/*/inputs.npz")),
        Target(caffe2, caffe2_pairs, mutated_caffe2),
        Target(models),
        Target(manifest),
        Target(entry),
        Target(built, goldens("caffe/*/model.prototxt", "forks/*/model.prototxt"), mutated_caffe),
        Target(small_files.state, small_files.states, mutated_pickle),
        Target(small_files.safetensors, small_files.headers, mutated_json),
        Target(small_files.scales, small_files.files_of_scales, mutated_json),
        Target(small_files.table, small_files.tables, mutated_lines),
        Target(small_files.checks, small_files.verifications, mutated_json),
    )
}


def run(target: str, folder: Path, data: bytes) -> None:
    """Run a target; a ConversionError is an answer."""
    with contextlib.suppress(prototrt.ConversionError):
        TARGETS[target].run(folder, data)


def _saved(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def _files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}
