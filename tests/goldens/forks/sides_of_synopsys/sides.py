import numpy as np


def plane(x, row, column):
    inside = 0 <= row < x.shape[-2] and 0 <= column < x.shape[-1]
    return x[..., row, column] if inside else 0 * x[..., 0, 0]


def convolved(x, kernel, bias, before, size, stride=2, holes=(1, 1), group=1):
    y = np.zeros((len(x), len(kernel), *size))
    each_in, each_out = x.shape[1] // group, len(kernel) // group
    for out in range(len(kernel)):
        first = out // each_out * each_in
        channels = x[:, first : first + each_in].astype(float)
        for row, column in np.ndindex(*size):
            for i, j in np.ndindex(*kernel.shape[2:]):
                seen = plane(
                    channels,
                    row * stride - before[0] + i * holes[0],
                    column * stride - before[1] + j * holes[1],
                )
                y[:, out, row, column] += seen @ kernel[out, :, i, j]
    return y + bias.reshape(-1, 1, 1)


def deconvolved(x, kernel, bias, before, size, stride=2):
    y = np.zeros((len(x), kernel.shape[1], *size))
    for row, column in np.ndindex(*x.shape[2:]):
        for i, j in np.ndindex(*kernel.shape[2:]):
            to = row * stride + i - before[0], column * stride + j - before[1]
            if 0 <= to[0] < size[0] and 0 <= to[1] < size[1]:
                y[:, :, to[0], to[1]] += x[:, :, row, column].astype(float) @ kernel[:, :, i, j]
    return y + bias.reshape(-1, 1, 1)


def windows(x, side, before, size, after=None):
    """Of each window its place, the part inside of the image, and its size with the padding."""
    height, width = x.shape[2:]
    for row, column in np.ndindex(*size):
        top, left = row * 2 - before[0], column * 2 - before[1]
        ends = [top + side, left + side]
        if after is not None:
            ends = [min(ends[0], height + after[0]), min(ends[1], width + after[1])]
        count = (ends[0] - top) * (ends[1] - left)
        rows, columns = slice(max(top, 0), min(ends[0], height)), slice(max(left, 0), min(ends[1], width))
        yield row, column, rows, columns, count


def outputs(inputs, weights):
    x = inputs["x"]
    largest, mask = np.zeros((2, 4, 4, 5)), np.zeros((2, 4, 4, 5))
    for row, column, rows, columns, _ in windows(x, 3, (2, 0), (4, 5)):
        seen = x[:, :, rows, columns]
        flat = seen.reshape(2, 4, -1)
        largest[:, :, row, column] = flat.max(-1)
        i, j = np.divmod(flat.argmax(-1), seen.shape[-1])
        mask[:, :, row, column] = (i + rows.start) * 9 + j + columns.start
    mean, elements = np.zeros((2, 4, 4, 5)), np.zeros((2, 4, 4, 4))
    for row, column, rows, columns, count in windows(x, 3, (1, 0), (4, 5), (2, 1)):
        mean[:, :, row, column] = x[:, :, rows, columns].astype(float).sum((2, 3)) / count
    for row, column, rows, columns, _ in windows(x, 3, (1, 1), (4, 4)):
        elements[:, :, row, column] = x[:, :, rows, columns].astype(float).mean((2, 3))
    return {
        "conv": convolved(x, *weights["conv"], (2, 0), (4, 4), group=2),
        "holes": convolved(x, *weights["holes"], (1, 1), (5, 9), stride=1, holes=(2, 1)),
        "deconv": deconvolved(x, *weights["deconv"], (-1, 0), (14, 18)),
        "largest": largest,
        "mask": mask,
        "mean": mean,
        "elements": elements,
    }
