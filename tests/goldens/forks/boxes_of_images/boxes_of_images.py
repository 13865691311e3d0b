from math import ceil, floor

import numpy as np

ROWS, COLUMNS = 2, 3


def rounded(number):
    return floor(abs(number) + 0.5) * (1 if number >= 0 else -1)


def pooled(image, box):
    """The largest element of each bin of one box, as loops."""
    left, top, right, bottom = (rounded(float(np.float32(end) * np.float32(0.46))) for end in box)
    high, wide = max(bottom - top + 1, 1) / ROWS, max(right - left + 1, 1) / COLUMNS
    y = np.zeros((len(image), ROWS, COLUMNS))
    for row, column in np.ndindex(ROWS, COLUMNS):
        down = slice(
            *(min(max(edge + top, 0), image.shape[1]) for edge in (floor(row * high), ceil((row + 1) * high)))
        )
        across = slice(
            *(
                min(max(edge + left, 0), image.shape[2])
                for edge in (floor(column * wide), ceil((column + 1) * wide))
            )
        )
        elements = image[:, down, across]
        if elements.size:
            y[:, row, column] = elements.max((1, 2))
    return y


def moved(box, move):
    wide, high = box[2] - box[0] + 1, box[3] - box[1] + 1
    x, y = box[0] + wide / 2 + move[0] * wide, box[1] + high / 2 + move[1] * high
    wide, high = np.exp(move[2]) * wide, np.exp(move[3]) * high
    return [x - wide / 2, y - high / 2, x + wide / 2, y + high / 2]


def outputs(inputs, weights):
    boxes = inputs["box"]
    return {
        "pool": np.array([pooled(image, box) for image, box in zip(inputs["x"], boxes, strict=True)]),
        "moved": np.array([moved(*pair) for pair in zip(boxes, inputs["move"], strict=True)]),
    }
