from math import sqrt

import numpy as np


def outputs(inputs, weights):
    height, width, image_height, image_width = 3, 2, 50, 40
    corners = []
    for h in range(height):
        for w in range(width):
            x, y = (w + 0.5) * 16, (h + 0.5) * 16
            for fixed, density in ((15.0, 2), (30.5, 3)):
                whole, shift = int(fixed), int(fixed / density)
                for ratio in (1.0, 2.0, 0.5):
                    across = whole if ratio == 1 else fixed * sqrt(ratio)
                    down = whole if ratio == 1 else fixed / sqrt(ratio)
                    for r in range(density):
                        for c in range(density):
                            middle_x = x - whole // 2 + shift / 2 + c * shift
                            middle_y = y - whole // 2 + shift / 2 + r * shift
                            corners += [
                                max((middle_x - across / 2) / image_width, 0),
                                max((middle_y - down / 2) / image_height, 0),
                                min((middle_x + across / 2) / image_width, 1),
                                min((middle_y + down / 2) / image_height, 1),
                            ]
    return {"priors": np.array([[corners, [0.1] * len(corners)]]), "sum": inputs["map"].astype("f8").sum()}
