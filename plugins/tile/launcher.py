"""Starting the Tile kernel from Python: the few functions of the CUDA driver that this takes."""

from __future__ import annotations

from ctypes import byref, c_char_p, c_int, c_uint, c_void_p, cast, pointer
from functools import cache

from prototrt.caffe_proto.common.errors import BuildError
from prototrt.caffe_proto.common.wording import Option, Worded
from prototrt.plugins.libcuda import LIBCUDA, load_libcuda
from prototrt.plugins.tile.kernel import BLOCK, Kernel, ptx


class TileLauncher:
    """Starts kernels through the CUDA driver. Each context that asks gets the kernels loaded once."""

    def __init__(self, library: str = LIBCUDA) -> None:
        try:
            self._cuda = load_libcuda(library)
        except OSError as error:
            raise BuildError(
                f"the Tile plugin needs the CUDA driver, which cannot be loaded: {error}",
                fix=Worded(
                    "install NVIDIA's driver, or use {}, which needs no plugin", Option("tile", "broadcast")
                ),
            ) from error
        self._functions: dict[tuple[int | None, str], c_void_p] = {}

    def tile(
        self, kernel: Kernel, x: int, inner: int, copies: int, count: int, y: int, *, stream: int
    ) -> None:
        """Fill y with ``count`` elements. x and y are addresses on the GPU."""
        if count == 0:
            return  # CUDA refuses a grid of no blocks
        blocks = -(-count // kernel.elements_per_block)
        values = (c_void_p(x), c_int(inner), c_int(copies), c_int(count), c_void_p(y))
        arguments = (c_void_p * len(values))(*(cast(pointer(value), c_void_p) for value in values))
        sizes = [c_uint(size) for size in (blocks, 1, 1, BLOCK, 1, 1, 0)]
        self._call(
            "cuLaunchKernel", self._function(kernel.name), *sizes, c_void_p(stream), arguments, c_void_p()
        )

    def _function(self, name: str) -> c_void_p:
        context = c_void_p()
        self._call("cuCtxGetCurrent", byref(context))
        if (context.value, name) not in self._functions:
            module, function = c_void_p(), c_void_p()
            self._call("cuModuleLoadData", byref(module), c_char_p(ptx().encode()))
            self._call("cuModuleGetFunction", byref(function), module, c_char_p(name.encode()))
            self._functions[context.value, name] = function
        return self._functions[context.value, name]

    def _call(self, function: str, *arguments: object) -> None:
        code = getattr(self._cuda, function)(*arguments)
        if code != 0:
            text = c_char_p()
            self._cuda.cuGetErrorString(c_int(code), byref(text))
            reason = text.value.decode() if text.value else "it gave no reason"
            raise BuildError(f"the Tile plugin: {function} failed with error {code}: {reason}")


@cache
def launcher() -> TileLauncher:
    """The driver of this process, loaded when it is first needed."""
    return TileLauncher()
