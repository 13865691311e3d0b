import numpy as np

ROWS, COLUMNS = 5, 4


def outputs(inputs, weights):
    image, theta = (inputs[name].astype(np.float64) for name in ("image", "theta"))
    items, channels, height, width = image.shape
    y = np.empty((items, channels, ROWS, COLUMNS))
    for item in range(items):
        t = 0.3 * theta[item]
        for i in range(ROWS):
            for j in range(COLUMNS):
                across, down = 2 * j / (COLUMNS - 1) - 1, 2 * i / (ROWS - 1) - 1
                far = across * t[6] + down * t[7] + 1
                column = ((across * t[0] + down * t[1] + t[2]) / far + 1) * (width - 1) / 2
                row = ((across * t[3] + down * t[4] + t[5]) / far + 1) * (height - 1) / 2
                column, row = min(max(column, 0), width - 1), min(max(row, 0), height - 1)
                total = np.zeros(channels)
                for h in range(height):
                    for w in range(width):
                        weight = max(1 - abs(row - h), 0) * max(1 - abs(column - w), 0)
                        total += weight * image[item, :, h, w]
                y[item, :, i, j] = total
    return {"y": y}
