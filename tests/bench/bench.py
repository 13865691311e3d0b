"""``make bench``: the costs of prototrt, each number beside a reference from the same run.

Prints tables and, target by target, whether it is met; writes everything as JSON. Every
number is the least of several fresh processes. It never fails for being slow, but where a net is converted with a
warning. Wall seconds
mean what they say only where nothing else runs; CPU seconds hardly depend on it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import prototrt
from prototrt.caffe_proto.text.prototxt import MOST_LAYERS
from prototrt.tests.bench.in_onnxruntime import NETS as MODELS
from prototrt.tests.bench.in_onnxruntime import WAYS as MODEL_WAYS
from prototrt.tests.bench.kernels import FORMS, LAYERS
from prototrt.tests.bench.many_layers import NETS
from prototrt.tests.bench.measuring import fast_folder, measured, processes, table
from prototrt.tests.bench.networks import SAMPLE, caffemodel, prototxt
from prototrt.tests.bench.recurrent import VARIANTS
from prototrt.tests.bench.suppression import DETECTORS
from prototrt.tests.bench.tape import record

NETWORKS = ("vgg16", "resnet50", "googlenet", "crnn", "lrcn", "alexnet")
PARTS = ("import", "TensorRT's import", "load", "rewrite", "lower", "facts", "write", "other")
STEPS = (16, 1024)
_COMMAND = "from prototrt.__main__ import prototrt_main; prototrt_main()"
"""What the installed command runs."""
OPEN_SIZES = {
    "googlenet": ["--shape=data:[N]x3x224x224", "--size=N=1..1..8"],
    "crnn": ["--shape=data:[N]x1x32x100", "--shape=cont:24x[N]", "--size=N=1..1..8"],
    "lrcn": [
        "--shape=data:[T*N]x3x227x227",
        "--shape=cont:[T]x[N]",
        "--size=T=1..16..64",
        "--size=N=1..1..4",
    ],
}
"""By network: which sizes vary; the usual ones are those of the file."""


@dataclass(frozen=True, slots=True)
class Target:
    """A number that should stay below a limit."""

    what: str
    found: float
    limit: float

    @property
    def is_met(self) -> bool:
        return self.found <= self.limit


@dataclass(frozen=True, slots=True)
class Section:
    """One subject: a table to read, its numbers, and the targets for them."""

    title: str
    table: str
    numbers: dict[str, Any]
    targets: list[Target]

    def text(self) -> str:
        return f"\n{self.title}\n\n{self.table}\n"


def loading(network: str, folder: Path, runs: int) -> Section:
    """A weights file loaded, and read whole by NumPy."""
    weights = caffemodel(network, folder)
    ways = {
        way: measured("loading", way, prototxt(network), weights, runs=runs) for way in ("prototrt", "numpy")
    }
    ours, whole = ways["prototrt"], ways["numpy"]
    rows = [
        ("prototrt.load", ours["seconds"] * 1e3, ours["rss"], ours["seconds"] / whole["seconds"]),
        ("np.fromfile", whole["seconds"] * 1e3, whole["rss"], 1.0),
    ]
    targets = [
        Target(f"{network}: milliseconds to load", ours["seconds"] * 1e3, 50),
        Target(f"{network}: MB of memory after loading", ours["rss"], 100),
    ]
    title = f"Loading {network}, {weights.stat().st_size / 2**20:.0f} MiB of weights (without imports)"
    return Section(title, table(("", "ms", "peak MB", "ratio"), rows), ways, targets)


def conversions(networks: Sequence[str], folder: Path, plans: Path, runs: int) -> list[Section]:
    """``prototrt convert``, against the same network handed to TensorRT by hand."""
    found = {network: _conversion(network, folder, plans, runs) for network in networks}
    times, parts, memory, targets = [], [], [], []
    for network, (ours, hand) in found.items():
        share, ratio = ours["own"] / ours["total"], ours["rss"] / hand["rss"]
        cpu = ours["own_cpu"], hand["own_cpu"], ours["own_cpu"] / hand["own_cpu"]
        times.append((network, *cpu, ours["own"], hand["own"], ours["parts"]["builder"], 100 * share))
        parts.append(
            (network, *(1e3 * ours["parts"].get(part, 0.0) for part in PARTS), 1e3 * hand["parts"]["write"])
        )
        memory.append((network, ours["rss"], hand["rss"], ratio))
        targets += [
            Target(f"{network}: seconds outside of the builder", ours["own"], 0.5),
            Target(f"{network}: share of the whole in %", 100 * share, 10),
            Target(f"{network}: peak of memory, of that by hand", ratio, 1.15),
        ]
    headers = ("", "CPU s", "by hand", "ratio", "wall s", "by hand", "builder", "share %")
    numbers = {network: {"prototrt": ours, "by hand": hand} for network, (ours, hand) in found.items()}
    return [
        Section(
            "Converting, from the start of Python to the written plan: seconds outside of TensorRT's builder",
            table(headers, times),
            numbers,
            targets,
        ),
        Section("The same in parts, ms", table(("", *PARTS, "(write by hand)"), parts), {}, []),
        Section("Peak of memory, MB", table(("", "prototrt", "by hand", "ratio"), memory), {}, []),
    ]


def _conversion(network: str, folder: Path, plans: Path, runs: int) -> tuple[dict[str, Any], dict[str, Any]]:
    weights, tape, plan = caffemodel(network, folder), folder / network, plans / f"{network}.plan"
    record(prototrt.rewrite(prototrt.load(prototxt(network), weights)), tape)
    ours = measured("conversion", prototxt(network), weights, plan, runs=runs, makes=plan)
    same = plan.read_bytes()
    hand = measured("by_hand", tape, plan, runs=runs, makes=plan)
    assert plan.read_bytes() == same, "by hand, the network is another"
    plan.unlink()
    return ours, hand


def whole_processes(networks: Sequence[str], folder: Path, plans: Path, runs: int) -> Section:
    """``prototrt convert`` as a user runs it, beside the same network by hand; the sample also by TensorRT's parser."""
    rows, numbers, targets = [], {}, []
    for network in networks:
        net, weights, tape, plan = (
            prototxt(network),
            caffemodel(network, folder),
            folder / network,
            plans / "plan",
        )
        record(prototrt.rewrite(prototrt.load(net, weights)), tape)
        scripts = Path(__file__).parent
        commands: dict[str, list[object]] = {
            "prototrt": ["-c", _COMMAND, "convert", net, weights, "--backend=rtx", "-o", plan, "--quiet"],
            "by hand": [scripts / "by_hand.py", 0, tape, plan],
        }
        if network == SAMPLE:
            model = folder / f"{network}.onnx"
            prototrt.export_onnx(prototrt.rewrite(prototrt.load(net, weights)), model)
            commands["parser, with NumPy"] = [scripts / "by_parser.py", model, plan]
        found = numbers[network] = processes(commands, plan, runs)
        ours = found["prototrt"]
        for way, one in found.items():
            ratios = ours["cpu"] / one["cpu"], ours["rss"] / one["rss"]
            rows.append((f"{network}, {way}", one["cpu"], ratios[0], one["rss"], ratios[1]))
            if way != "prototrt":
                limit = 1.2 if way == "by hand" else 1.45
                targets.append(Target(f"{network}: CPU of a process, of that {way}", ratios[0], limit))
                targets.append(Target(f"{network}: memory of a process, of that {way}", ratios[1], 1.1))
    headers = ("", "CPU s", "ours to it", "peak MB", "ours to it")
    return Section("Whole processes, to the written plan", table(headers, rows), numbers, targets)


def open_sizes(networks: Sequence[str], folder: Path, plans: Path, runs: int) -> Section:
    """``prototrt convert`` for sizes that vary, against the same network with the usual ones."""
    rows, numbers, targets = [], {}, []
    for network, options in OPEN_SIZES.items():
        if network not in networks:
            continue
        weights, plan = caffemodel(network, folder), plans / f"{network}.plan"
        found = {
            way: measured("conversion", prototxt(network), weights, plan, *given, runs=runs, makes=plan)
            for way, given in (("fixed", []), ("open", options))
        }
        plan.unlink()
        for way, one in found.items():
            parts = (1e3 * one["parts"][part] for part in ("rewrite", "lower", "builder"))
            ratio = one["own_cpu"] / found["fixed"]["own_cpu"]
            rows.append((f"{network}, {way}", *parts, one["bytes"] / 1e6, one["own_cpu"], ratio))
        numbers[network] = found
        ratio = found["open"]["own_cpu"] / found["fixed"]["own_cpu"]
        targets.append(
            Target(f"{network}: CPU seconds with open sizes, of those with fixed ones", ratio, 1.5)
        )
    headers = ("", "rewrite ms", "lower ms", "builder ms", "plan MB", "CPU s", "ratio")
    return Section(
        "Sizes that vary; CPU s: outside of TensorRT's builder", table(headers, rows), numbers, targets
    )


def loops(runs: int) -> Section:
    """The builder's CPU seconds for loops of few and of many steps."""
    found = {steps: measured("recurrent", "prototrt", "cont", steps, runs=runs) for steps in STEPS}
    few, many = (found[steps]["cpu"] for steps in STEPS)
    rows = [(f"T = {steps}", one["cpu"], one["wall"], one["cpu"] / few) for steps, one in found.items()]
    targets = [Target(f"building T = {STEPS[1]}, of T = {STEPS[0]}", many / few, 1.2)]
    numbers = {str(steps): one for steps, one in found.items()}
    return Section(
        "Building an LSTM as a loop", table(("", "CPU s", "wall s", "ratio"), rows), numbers, targets
    )


def recurrent(variants: Sequence[str], runs: int) -> Section:
    """LSTM nets against the same in ONNX, whose LSTM knows no cont: in that row it is a Scan."""
    rows, numbers, targets = [], {}, []
    for variant in variants:
        ours, theirs = (measured("recurrent", way, variant, 128, runs=runs) for way in ("prototrt", "onnx"))
        for name, one in (("prototrt", ours), ("ONNX Scan" if variant == "cont" else "ONNX LSTM", theirs)):
            ratio = one["cpu"] / theirs["cpu"]
            rows.append(
                (f"{variant}, {name}", one["layers"], one["bytes"] / 1e6, one["wall"], one["cpu"], ratio)
            )
        numbers[variant] = {"prototrt": ours, "onnx": theirs}
        targets += [
            Target(f"LSTM, {variant}: {what}, of ONNX", ours[key] / theirs[key], 1)
            for what, key in (("layers", "layers"), ("bytes of the plan", "bytes"), ("CPU seconds", "cpu"))
        ]
    headers = ("", "layers", "plan MB", "wall s", "CPU s", "ratio")
    title = "LSTM, T = 128, 256 hidden: rewritten by prototrt, and ONNX through TensorRT's parser"
    return Section(title, table(headers, rows), numbers, targets)


def launches(layers: Sequence[str]) -> Section:
    """Kernels a step of each form, in float32 and in float16. A plan is the same each time: one run is enough."""
    found = {
        layer: {
            f"{form} {precision}": measured("kernels", layer, form, precision)["kernels"]
            for form in FORMS
            for precision in ("fp32", "fp16")
        }
        for layer in layers
    }
    rows = [(layer, *numbers.values()) for layer, numbers in found.items()]
    headers = ("", *found[layers[0]])
    targets = [
        Target("LSTM: kernels of a step", found["LSTM"][f"step {precision}"], 3)
        for precision in ("fp32", "fp16")
    ]
    title = "Kernels a step in plans of TensorRT for RTX, one stream, 256 hidden"
    return Section(title, table(headers, rows), found, targets)


def calls(runs: int) -> Section:
    """What one call of an engine costs Python, where the GPU and TensorRT cost nothing."""
    nets = {"lstm": "step of an LSTM", "digits": "the sample, two LSTMs"}
    numbers = {net: measured("calling", net, runs=runs) for net in nets}
    ways = list(numbers["lstm"])
    rows = [(nets[net], *(found[way] for way in ways)) for net, found in numbers.items()]
    targets = [
        Target(f"{nets[net]}: microseconds of a prepared call, {arrays}", found[f"prepared, {arrays}"], 15)
        for net, found in numbers.items()
        for arrays in ("GPU", "NumPy")
    ]
    title = "Python's part of a call of an engine, microseconds; steps: of 32 at once"
    return Section(title, table(("", *ways), rows), numbers, targets)


def batches(models: int, runs: int) -> Section:
    """Many small models, converted by one worker and by two."""
    one, two = (measured("batches", str(models), str(jobs), runs=runs) for jobs in (1, 2))
    ratio = two["seconds"] / one["seconds"]
    rows = [("--jobs 1", one["seconds"], 1.0), ("--jobs 2", two["seconds"], ratio)]
    return Section(
        f"prototrt batch, {models} small models",
        table(("", "s", "ratio"), rows),
        {"1": one, "2": two},
        [Target("batch: seconds of 2 jobs, of those of 1", ratio, 0.6)],
    )


def many_layers(count: int, runs: int) -> Section:
    """Nets of this many layers, and the last of them of twice as many: the time must not grow faster."""
    found = {kind: measured("many_layers", kind, count, runs=runs) for kind in NETS}
    last = list(NETS)[-1]
    found[f"{last}, twice as many"] = measured("many_layers", last, 2 * count, runs=runs)
    rows = [(kind, one["load"], one["rewrite"], one["rss"]) for kind, one in found.items()]
    seconds = {kind: one["load"] + one["rewrite"] for kind, one in found.items()}
    return Section(
        f"Reading and rewriting {count:,} layers",
        table(("", "load, CPU s", "rewrite, CPU s", "peak MB"), rows),
        found,
        [
            *(Target(f"{count:,} layers, {kind}: CPU seconds", seconds[kind], 5) for kind in NETS),
            Target(
                f"{last}: CPU seconds of twice as many",
                seconds[f"{last}, twice as many"] / seconds[last],
                2.5,
            ),
        ],
    )


def operators(nets: Sequence[str], runs: int) -> Section:
    """Calls of models in onnxruntime: suppression and LSTMs as ONNX's own operators, against primitives and Scan."""
    found = {
        net: {way: measured("in_onnxruntime", net, way, runs=runs) for way in MODEL_WAYS} for net in nets
    }
    rows = [
        (f"{net}, {way}", one["cpu"], one["ms"], one["cpu"] / ways[MODEL_WAYS[0]]["cpu"])
        for net, ways in found.items()
        for way, one in ways.items()
    ]
    targets = [
        Target(
            f"{net}: CPU of operators, of primitives", ways["operators"]["cpu"] / ways["primitives"]["cpu"], 1
        )
        for net, ways in found.items()
    ]
    title = "A call in onnxruntime: as primitives, and with --nms native or --onnx-lstm"
    return Section(title, table(("", "CPU ms", "wall ms", "ratio"), rows), found, targets)


def detectors(names: Sequence[str]) -> Section:
    """Kernels and bytes of suppression. A plan is the same each time: one run is enough."""
    found = {name: measured("suppression", name) for name in names}
    rows = [(name, one["kernels"], one["bytes"] / 1e6) for name, one in found.items()]
    targets = [Target(f"{name}: MB of the plan", one["bytes"] / 1e6, 5) for name, one in found.items()]
    title = "Suppression in plans of TensorRT for RTX; kernels of a loop's body count once"
    return Section(title, table(("", "kernels", "plan MB"), rows), found, targets)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small nets, one run of each")
    parser.add_argument("--runs", type=int, default=5, help="runs of each measurement (default: 5)")
    parser.add_argument("-o", "--output", type=Path, default=Path("build/bench.json"))
    options = parser.parse_args(arguments)
    folder = options.output.parent / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    runs, networks = (1, ("crnn",)) if options.quick else (options.runs, NETWORKS)
    sections = []
    for section in _sections(folder, networks, runs, quick=options.quick):
        print(section.text(), flush=True)
        sections.append(section)
    targets = [target for section in sections for target in section.targets]
    rows = [(target.what, target.found, target.limit, target.is_met) for target in targets]
    print(table(("target", "found", "limit", ""), rows))
    options.output.write_text(json.dumps(_record(sections, targets, runs), indent=2) + "\n")
    return 0


def _sections(folder: Path, networks: Sequence[str], runs: int, *, quick: bool) -> Iterator[Section]:
    """The subjects, each when it is measured."""
    yield loading(networks[0], folder, runs)
    with fast_folder(folder) as plans:
        yield whole_processes((SAMPLE, *networks), folder, plans, runs if quick else 3 * runs)
        yield from conversions(networks, folder, plans, runs)
        yield open_sizes(networks, folder, plans, runs)
    yield loops(runs)
    yield recurrent(["cont"] if quick else VARIANTS, runs)
    yield launches(["LSTM"] if quick else list(LAYERS))
    yield calls(runs)
    yield batches(4 if quick else 40, runs)
    yield many_layers(320 if quick else MOST_LAYERS * 2 // 5, runs)
    yield operators(list(MODELS)[quick:], runs)
    yield detectors(list(DETECTORS)[: 1 if quick else None])


def _record(sections: Sequence[Section], targets: Sequence[Target], runs: int) -> dict[str, Any]:
    return {
        "load average": os.getloadavg(),
        "prototrt": prototrt.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "runs": runs,
        "sections": {section.title: section.numbers for section in sections if section.numbers},
        "targets": [{**asdict(target), "met": target.is_met} for target in targets],
    }


if __name__ == "__main__":
    raise SystemExit(main())
