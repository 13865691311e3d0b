import numpy as np


def outputs(inputs, weights):
    score, move = (inputs[name].astype(np.float64) for name in ("score", "move"))
    found = []
    for y in range(3):
        for x in range(4):
            for a, side in enumerate((16, 32)):
                dx, dy, dw, dh = move[0, 4 * a : 4 * a + 4, y, x]
                centre_x, centre_y = 16 * x + 8 + dx * side, 16 * y + 8 + dy * side
                width, height = np.exp(dw) * side, np.exp(dh) * side
                corners = (
                    centre_x - width / 2,
                    centre_y - height / 2,
                    centre_x + width / 2,
                    centre_y + height / 2,
                )
                found.append((score[0, 2 + a, y, x], 0, *np.clip(corners, 0, 59)))
    best = np.array(sorted(found, reverse=True))
    return {"boxes": best[:, 1:], "probabilities": best[:, :1]}
