"""Small functions that a file contains where PyTorch has no function with the same meaning."""

from __future__ import annotations

from textwrap import dedent

FUNCTIONS = {
    "Scale": '''
        class Scale(nn.Module):
            """``x * weight + bias``, with one weight and one bias a channel: Caffe's Scale."""

            def __init__(self, channels: int) -> None:
                super().__init__()
                self.weight = nn.Parameter(torch.ones(channels))
                self.bias = nn.Parameter(torch.zeros(channels))

            def forward(self, x: Tensor) -> Tensor:
                shape = (-1, *(1,) * (x.dim() - 2))
                return x * self.weight.view(shape) + self.bias.view(shape)
    ''',
    "average_pool": '''
        def average_pool(x: Tensor, window: Sequence[int], stride: Sequence[int], pads: Sequence[int]) -> Tensor:
            """The mean of the elements in each window. Padding does not count."""
            pool = (functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d)[len(window) - 1]
            inside = functional.pad(torch.ones_like(x), pads)
            return pool(functional.pad(x, pads), window, stride) / pool(inside, window, stride)
    ''',
    "stochastic_pool": '''
        def stochastic_pool(x: Tensor, window: Sequence[int], stride: Sequence[int], pads: Sequence[int]) -> Tensor:
            """The mean of each window, its elements weighted by themselves; 0 where their sum is not positive."""
            seen = windows(functional.pad(x, pads), window, stride, (1,) * len(window)).flatten(2 + len(window))
            total = seen.sum(-1)
            return torch.where(total > 0, (seen * seen).sum(-1) / torch.where(total > 0, total, 1.0), 0.0)
    ''',
    "max_pool_index": '''
        def max_pool_index(x: Tensor, window: Sequence[int], stride: Sequence[int], pads: Sequence[int]) -> Tensor:
            """The position in its plane of the first largest element of each window, counted row by row."""
            places = torch.arange(x[0, 0].numel(), dtype=x.dtype, device=x.device).view(1, 1, *x.shape[2:])
            seen, place = (
                windows(each, window, stride, (1,) * len(window)).flatten(2 + len(window))
                for each in (functional.pad(x, pads, value=-torch.inf), functional.pad(places, pads, value=-1.0))
            )
            found = place.expand(seen.shape).gather(-1, seen.argmax(-1, keepdim=True)).squeeze(-1)
            return torch.where(seen.amax(-1) > torch.finfo(x.dtype).min, found, -1.0)
    ''',
    "patches": '''
        def patches(
            x: Tensor, window: Sequence[int], stride: Sequence[int], pads: Sequence[int], dilation: Sequence[int]
        ) -> Tensor:
            """The elements in sliding windows as channels: Caffe's Im2col. x is (N, C, ...)."""
            axes = len(window)
            seen = windows(functional.pad(x, pads), window, stride, dilation)
            return seen.permute(0, 1, *range(2 + axes, 2 + 2 * axes), *range(2, 2 + axes)).flatten(1, 1 + axes)
    ''',
    "windows": '''
        def windows(x: Tensor, window: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Tensor:
            """The elements of x (N, C, ...) in sliding windows: (N, C, windows..., places in a window...)."""
            for axis, (size, step, gap) in enumerate(zip(window, stride, dilation, strict=True)):
                x = x.unfold(2 + axis, gap * (size - 1) + 1, step)[..., ::gap]
            return x
    ''',
    "largest": '''
        def largest(x: Tensor, axis: int, count: int, *, first_of_equals: bool) -> tuple[Tensor, Tensor]:
            """The largest elements of an axis and their places, as Caffe orders elements that are equal."""
            seen = x if first_of_equals else x.flip(axis)
            values, places = torch.sort(seen, dim=axis, descending=True, stable=True)
            places = places if first_of_equals else x.shape[axis] - 1 - places
            return values.narrow(axis, 0, count), places.narrow(axis, 0, count).int()
    ''',
    "reverse_sequence": '''
        def reverse_sequence(x: Tensor, lengths: Tensor) -> Tensor:
            """x (T, N, ...) with the first ``lengths[n]`` steps of each stream n in reverse order."""
            steps = torch.arange(x.shape[0], device=x.device)[:, None]
            places = torch.where(steps < lengths, lengths - 1 - steps, steps).long()
            return x[places, torch.arange(x.shape[1], device=x.device)]
    ''',
    "suppressed": '''
        def suppressed(boxes: Tensor, is_candidate: Tensor, threshold: float) -> Tensor:
            """The candidates that no earlier kept box overlaps too much. Boxes (lists, n, 4) are sorted by score."""
            area = (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])
            low = torch.maximum(boxes[:, :, None, :2], boxes[:, None, :, :2])
            high = torch.minimum(boxes[:, :, None, 2:], boxes[:, None, :, 2:])
            common = (high - low).clamp(min=0).prod(-1)
            overlaps = common > threshold * (area[:, :, None] + area[:, None, :] - common)
            kept = is_candidate.clone()
            for place in range(boxes.shape[1]):
                later = overlaps[:, place] & kept[:, place, None]
                kept[:, place + 1 :] &= ~later[:, place + 1 :]
            return kept
    ''',
    "units_of_a_program": '''
        def units_of_a_program(state: Tensor, gates: int) -> int:
            """The units that a program of a step kernel computes; 0 where a loop must do the steps.

            The weights of a program must fit into its registers, and all programs must run at once. For many
            streams a loop is faster.
            """
            is_eager = not (torch.is_grad_enabled() or torch.compiler.is_compiling() or torch.jit.is_tracing())
            if triton is None or not is_eager or not state.is_cuda or state.dtype != torch.float32:
                return 0
            device = torch.cuda.get_device_properties(state.device)
            lanes, columns = map(triton.next_power_of_2, state.shape)
            units = max(
                triton.next_power_of_2(triton.cdiv(state.shape[1], device.multi_processor_count)),
                triton.next_power_of_2(triton.cdiv(4096, gates * lanes * columns)),
            )
            fits = gates * columns * units <= 32768 and lanes * columns <= 8192
            return units if device.major >= 7 and fits else 0
    ''',
    "in_one_kernel": '''
        def in_one_kernel(
            kernel: triton.JITFunction, units: int, read: Sequence[Tensor], states: Sequence[Tensor], exchanged: int
        ) -> Tensor:
            """The states (S, T, N, H) after each step, which one kernel computes."""
            steps, (streams, width) = len(read[0]), states[0].shape
            made = torch.empty((len(states) + exchanged, steps, streams, width), device=states[0].device)
            if steps > 1 or exchanged:
                made.view(torch.int32).fill_(UNWRITTEN.value)
            arrays = [array.contiguous() for array in (*read, *states)]
            lanes, columns = triton.next_power_of_2(streams), triton.next_power_of_2(width)
            with torch.cuda.device_of(made):
                kernel[(triton.cdiv(width, units),)](
                    *arrays,
                    *made,
                    steps,
                    streams,
                    width,
                    lanes,
                    columns,
                    units,
                    # As it was fastest on an H200.
                    num_warps=8 if columns <= 128 or columns > 512 else 1 if columns == 256 and lanes < 4 else 4,
                    launch_cooperative_grid=True,
                )
            return made[: len(states)]
    ''',
}
"""The source of each, by the name that expressions call it by."""
FUNCTIONS = {name: dedent(source).strip() for name, source in FUNCTIONS.items()}
NEEDS = {"patches": "windows", "stochastic_pool": "windows", "max_pool_index": "windows"}
"""Functions that call another one."""
