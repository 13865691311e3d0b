import numpy as np

RATIOS, SCALES, BASE, STRIDE = (0.5, 1, 2), (2, 3), 8, 8


def half_away(number):
    return np.floor(number + 0.5)


def anchors():
    """Corners as C++ makes them: they become whole numbers at the end."""
    middle = 0.5 * (BASE - 1)
    for ratio in RATIOS:
        width = half_away(np.sqrt(BASE * BASE / ratio))
        height = half_away(width * ratio)
        for scale in SCALES:
            across, down = 0.5 * (width * scale - 1), 0.5 * (height * scale - 1)
            yield map(int, (middle - across, middle - down, middle + across, middle + down))


def overlap(one, other):
    width = max(0, min(one[2], other[2]) - max(one[0], other[0]) + 1)
    height = max(0, min(one[3], other[3]) - max(one[1], other[1]) + 1)
    areas = [(box[2] - box[0] + 1) * (box[3] - box[1] + 1) for box in (one, other)]
    return width * height / (sum(areas) - width * height)


def proposed(inputs, least, before, most, threshold):
    score, move, (height, width, scale) = inputs["score"][0], inputs["move"][0], inputs["im_info"][0]
    found = []
    for row, column in np.ndindex(*score.shape[1:]):
        for k, (x1, y1, x2, y2) in enumerate(anchors()):
            dx, dy, dw, dh = map(float, move[4 * k : 4 * k + 4, row, column])
            w, h = x2 - x1 + 1, y2 - y1 + 1
            cx, cy = column * STRIDE + x1 + 0.5 * w + dx * w, row * STRIDE + y1 + 0.5 * h + dy * h
            w, h = w * np.exp(dw), h * np.exp(dh)
            box = [cx - 0.5 * w, cy - 0.5 * h, cx + 0.5 * w, cy + 0.5 * h]
            if min(w, h) >= least * scale:
                limits = (width, height) * 2
                box = [min(max(side, 0), limit) for side, limit in zip(box, limits, strict=True)]
                found.append((float(score[6 + k, row, column]), box))
    found.sort(key=lambda item: -item[0])
    kept = []
    for value, box in found[:before]:
        if len(kept) < most and all(overlap(box, other) < threshold for _, other in kept):
            kept.append((value, box))
    rois = np.array([[0, *box] for _, box in kept])
    return rois.reshape(-1, 5, 1, 1), np.array([value for value, _ in kept]).reshape(-1, 1, 1, 1)


def outputs(inputs, weights):
    rois, scores = proposed(inputs, 8, 60, 20, 0.5)
    return {"rois": rois, "scores": scores, "all": proposed(inputs, 0, 10**6, 10**6, 0.3)[0]}
