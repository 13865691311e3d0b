"""A model in a repository of Triton: its folder with ``config.pbtxt``, and the files of its first version.

REPOSITORY/NAME/config.pbtxt
REPOSITORY/NAME/labels.txt           names of classes
REPOSITORY/NAME/initial_state/...    the state that sequences start with, as raw numbers
REPOSITORY/NAME/build_plan.sh        if there is no TensorRT here: makes 1/model.plan where the server runs
REPOSITORY/NAME/1/model.onnx, model.plan or model.py
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from prototrt.caffe_proto.common.errors import BuildError, ConversionError, OptionsError
from prototrt.caffe_proto.common.records import dataclass, replace
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.caffe_proto.text.findings import message_of
from prototrt.converter.files.companions.script import script_of
from prototrt.converter.files.signatures.feeds import write_results
from prototrt.converter.files.writing.publication import errors_of, finish, publication
from prototrt.converter.files.writing.texts import check_text
from prototrt.converter.options import BackendName, BuildOptions, ConvertOptions, Platform, TritonOptions
from prototrt.converter.product import Product
from prototrt.converter.running.data.labels import read_labels
from prototrt.converter.serving.triton.config import LABELS, config_of, initial_file, outputs_with, text_of
from prototrt.converter.serving.triton.served import ServedGraph
from prototrt.converter.serving.triton.serving import INITIAL_STATE, MODEL, PLAN

_BUILT_THERE: Final = "datacenter"
"""The target whose engine is built where it runs, by trtexec: Triton's container has it."""
CONFIG, VERSION = "config.pbtxt", "1"


@dataclass(frozen=True, slots=True)
class WrittenModel:
    """What was written: the folder of the model, and the manifest of what computes it.

    ``needs_plan``: there is a script that builds the plan, because no TensorRT here could.
    """

    folder: Path
    served: ServedGraph
    platform: Platform
    manifest: Mapping[str, Any]
    needs_plan: bool

    @property
    def warnings(self) -> Sequence[str]:
        return self.served.graph.warnings

    @property
    def script(self) -> Path:
        """The script that builds the plan."""
        return self.folder / VERSION / script_of(MODEL)


def write_repository(
    repository: str | os.PathLike[str],
    model_name: str,
    served: ServedGraph,
    asked: TritonOptions,
    building: BuildOptions,
) -> WrittenModel:
    """Write a model into a repository, which is made if there is none. All files appear together, or none of them.

    Raises ``ConversionError``, and ``OptionsError`` if there is a model of this name already.
    """
    folder = _free_folder(repository, model_name)
    labels = None if asked.labels is None else _labels(asked.labels, served)
    whole = folder if folder.parent.exists() else folder.parent
    with _alone(whole), publication(whole) as files, errors_of(folder):
        place = files.place(whole)
        root = place if whole == folder else place / folder.name
        version = root / VERSION
        version.mkdir(parents=True)
        written = _write_version(version, served, asked, building)
        on_gpu = asked.platform == "python" and "plan" in written.manifest
        config = config_of(served, model_name, asked.platform, on_gpu, labels and labels[0])
        (root / CONFIG).write_bytes(check_text(CONFIG, _introduction(served) + text_of(config), message_of))
        if labels is not None:
            (root / LABELS).write_bytes(check_text(LABELS, labels[1], reader=None))
        _write_initial(root, served, asked.platform)
        finish(version)  # of what writing the model could not remove
    return replace(written, folder=folder)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Say so if another program has made the folder in the meantime; its files stay as they are."""
    try:
        yield
    except ConversionError as error:
        reason = error.__cause__
        if isinstance(reason, OSError) and reason.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise ConversionError(
                f'"{folder}" has appeared while the model was made: another program writes there',
                where=str(folder),
                fix=Worded(
                    "run the command again, with another {} if that is the same model", Option("name")
                ),
            ) from error
        raise


def name_of_model(asked: str | None, network: str, file: str) -> str:
    """The name that is asked for, or one made of the net's. Raises ``OptionsError`` if it cannot be a folder."""
    if asked is None:
        name = re.sub(r"[^A-Za-z0-9_.-]+", "_", network or Path(file).stem).strip("_.")
        return name or "model"
    if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*", asked):
        raise OptionsError(
            Worded("{} is {}, which cannot be the name of a model", Option("name"), repr(asked)),
            because="it is the name of a folder, and clients write it in URLs",
            fix="use letters, digits, _, - and .",
        )
    return asked


def refuse_useless_backend(platform: Platform, backend: BackendName) -> None:
    """Raise ``OptionsError`` for a backend whose plans the platform does not load."""
    problem = {
        ("onnxruntime", "rtx"): "onnxruntime runs ONNX models, not plans",
        ("onnxruntime", "enterprise"): "onnxruntime runs ONNX models, not plans",
        ("tensorrt", "rtx"): "Triton's TensorRT does not load plans of TensorRT for RTX",
    }.get((platform, backend))
    if problem is not None:
        raise OptionsError(
            Worded("{} does not go with {}", Option("backend", backend), Option("platform", platform)),
            because=problem,
            fix=Worded(
                "leave out {}; or use {}, which runs plans of both",
                Option("backend"),
                Option("platform", "python"),
            ),
        )


def _free_folder(repository: str | os.PathLike[str], name: str) -> Path:
    place = Path(repository)
    folder = place / name
    problem: str | None = None
    fix: str | Worded = "give a folder that exists, or a new one beside others"
    if os.path.lexists(place) and not place.is_dir():
        problem = f'"{repository}" is not a folder'
    elif not place.exists() and not Path(os.path.realpath(place)).parent.is_dir():
        problem = f'the folder "{place.parent}" does not exist'
    elif (place / CONFIG).exists():
        problem = f'"{repository}" is the folder of a model, because it holds {CONFIG}'
        fix = "give the folder above it"
    elif os.path.lexists(folder):
        problem = f'"{folder}" exists already'
        fix = Worded("remove it, or give the model another name with {}", Option("name"))
    if problem is not None:
        raise OptionsError(Worded("{}: {}", Option("repository"), problem), fix=fix)
    return folder


def _labels(file: str, served: ServedGraph) -> tuple[str, str]:
    """Which output the labels are for, and their text. Raises ``OptionsError`` if it is not clear."""
    lines = read_labels(file)
    candidates = outputs_with(served, len(lines))
    if len(candidates) != 1:
        outputs = ", ".join(f"{value.name} ({', '.join(map(str, value.shape))})" for value in served.outputs)
        raise OptionsError(
            Worded(
                '{} "{}" has {} labels, and {} outputs have as many classes',
                *(Option("labels"), file, len(lines), len(candidates) or "no"),
            ),
            because=f"the outputs are {outputs}",
            fix=Worded("leave one such output with {}", Option("outputs", ["BLOB"]))
            if candidates
            else "give a file with one line for each class",
        )
    return candidates[0].name, "".join(f"{line}\n" for line in lines)


def _write_version(
    version: Path, served: ServedGraph, asked: TritonOptions, building: BuildOptions
) -> WrittenModel:
    graph, platform = served.graph, asked.platform
    backend = building.backend
    if platform == "tensorrt" and backend == "auto" and _can_build():
        backend = "enterprise"
    needs_plan = platform == "tensorrt" and backend == "auto"
    if backend == "auto":
        converting = ConvertOptions(target=_BUILT_THERE if needs_plan else None)
        product = Product(file=str(version / MODEL), converting=converting)
    else:
        product = Product(file=str(version / PLAN), building=replace(building, backend=backend))
    manifest = product.write(graph)
    if platform == "python":
        # Triton imports it. Here it cannot be imported.
        shutil.copyfile(Path(__file__).with_name("python_model.py"), version / "model.py")
    return WrittenModel(version, served, platform, manifest, needs_plan)


def _can_build() -> bool:
    from prototrt.converter.backends.tensorrt.api import find_backend

    try:
        return find_backend("auto").name == "enterprise"
    except BuildError:
        return False


def _write_initial(root: Path, served: ServedGraph, platform: Platform) -> None:
    """The state that sequences start with, where the platform looks for it."""
    if not served.initial:
        return
    if platform == "python":
        write_results(str(root / VERSION / INITIAL_STATE), [served.initial])
        return
    folder = root / "initial_state"
    folder.mkdir()
    for name, array in served.initial.items():
        (folder / initial_file(served, name)).write_bytes(np.ascontiguousarray(array).tobytes())


def _introduction(served: ServedGraph) -> str:
    files = ", ".join(Path(source.file).name for source in served.graph.sources)
    return f"# Written by prototrt from {ascii(files)[1:-1]}.\n"
