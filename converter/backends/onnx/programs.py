"""A graph computed by the program that it is written for, with the settings that a user of the program has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from prototrt.caffe_proto.common.errors import BuildError, ConversionError
from prototrt.converter.backends.onnx.api import import_package
from prototrt.converter.backends.onnx.export import temporary_model
from prototrt.converter.options import ExportOptions
from prototrt.surgery.ir import Array, Graph

PACKAGES = {"opencv": "opencv-python", "openvino": "openvino"}


def missing_program(program: str) -> str | None:
    """Why a program cannot run here, if it cannot."""
    try:
        if program == "opencv" and int(str(import_package("cv2").__version__).partition(".")[0]) < 5:
            return f"OpenCV {import_package('cv2').__version__} is installed, which is older"
        import_package({"opencv": "cv2"}.get(program, program))
    except BuildError:
        return f"the package {PACKAGES[program]} cannot be imported"
    return None


def computes_in_bfloat16() -> bool:
    """Whether OpenVINO does so on this processor, where nobody states a precision."""
    chosen = import_package("openvino").Core().get_property("CPU", "INFERENCE_PRECISION_HINT")
    return bool(chosen.to_string() == "bf16")


class ProgramEvaluator:
    """Runs the very file that is exported for a program, ``"opencv"`` or ``"openvino"``.

    ``settings`` are those of OpenVINO's ``compile_model``. Raises ``BuildError`` where the program is not installed,
    or does not read the model.
    """

    def __init__(self, graph: Graph, program: str, settings: Mapping[str, str] | None = None) -> None:
        if reason := missing_program(program):
            raise BuildError(f"{program} cannot compute: {reason}", fix=f"pip install {PACKAGES[program]}")
        self._names = [value.name for value in graph.outputs]
        exporting = ExportOptions(readers=(program,))  # type: ignore[arg-type]
        with temporary_model(graph, exporting) as path:
            try:
                self._net = (_OpenCv if program == "opencv" else _OpenVino)(str(path), settings or {})
            except Exception as error:  # the programs' errors share no base class
                raise BuildError(f"{program} refuses the model", because=str(error)) from error

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """All outputs, states included, for these inputs, states included."""
        try:
            return dict(zip(self._names, self._net.run(feeds, self._names), strict=True))
        except Exception as error:  # the programs' errors share no base class
            raise ConversionError("the program fails to compute the model", because=str(error)) from error


class _OpenCv:
    def __init__(self, file: str, settings: Mapping[str, str]) -> None:
        with _without_log():
            self._net: Any = import_package("cv2").dnn.readNet(file)

    def run(self, feeds: Mapping[str, Array], names: list[str]) -> list[Array]:
        with _without_log():
            for name, array in feeds.items():
                self._net.setInput(array, name)
            return [array.copy() for array in self._net.forward(names)]


@contextmanager
def _without_log() -> Iterator[None]:
    """OpenCV's log writes the names of a net to the terminal as they are; its exceptions hold the same words."""
    logging = import_package("cv2").utils.logging
    before = logging.setLogLevel(logging.LOG_LEVEL_SILENT)
    try:
        yield
    finally:
        logging.setLogLevel(before)


class _OpenVino:
    def __init__(self, file: str, settings: Mapping[str, str]) -> None:
        core = import_package("openvino").Core()
        self._net: Any = core.compile_model(core.read_model(file), "CPU", dict(settings))

    def run(self, feeds: Mapping[str, Array], names: list[str]) -> list[Array]:
        results = self._net(dict(feeds))
        return [results[name] for name in names]
