"""Heat maps and fields of people whose joints are known, as OpenPose's nets make them.

python -m prototrt.tests.pose_maps docs/recipes/people.png draws what the recipe finds in them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from PIL import Image

from prototrt.surgery.ir import Array
from prototrt.tests.fresh_python import ROOT

Person: TypeAlias = Mapping[int, tuple[float, float]]
"""By joint its x and y, in pixels of the maps."""
PROGRAM = ROOT / "samples" / "recipes" / "openpose.py"
SIZE = (64, 96)

# fmt: off
BODY: Person = {
    0: (0, -17), 1: (0, -12), 2: (-5, -12), 3: (-8, -5), 4: (-9, 2), 5: (5, -12), 6: (8, -5), 7: (9, 2), 8: (0, 2),
    9: (-3, 2), 10: (-4, 11), 11: (-4, 20), 12: (3, 2), 13: (4, 11), 14: (4, 20), 15: (-2, -19), 16: (2, -19),
    17: (-4, -18), 18: (4, -18), 19: (7, 23), 20: (9, 21), 21: (3, 23), 22: (-7, 23), 23: (-9, 21), 24: (-3, 23),
}
# fmt: on
"""The joints of BODY_25, of somebody who stands."""
JOINTS_OF_COCO = (0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18)


def recipe() -> dict[str, Any]:
    """What the program of the recipe defines before it opens the net."""
    names: dict[str, Any] = {}
    exec(compile(PROGRAM.read_text().partition("\nsession = ")[0], PROGRAM.name, "exec"), names)
    return names


def standing(x: float, y: float, lean: float = 0.0, without: Sequence[int] = ()) -> Person:
    """A person around a place, who leans by so many pixels for each pixel of height."""
    places = {joint: (x + dx - lean * dy, y + dy) for joint, (dx, dy) in BODY.items() if joint not in without}
    height, width = SIZE
    return {
        joint: (px, py)
        for joint, (px, py) in places.items()
        if 0 <= px <= width - 1 and 0 <= py <= height - 1
    }


def as_coco(person: Person) -> Person:
    return {coco: person[joint] for coco, joint in enumerate(JOINTS_OF_COCO) if joint in person}


def drawn(persons: Sequence[Person], limbs: Sequence[tuple[int, int, int]]) -> Array:
    """Maps of joints, of the background, and of the limbs' fields."""
    joints = 1 + max(max(a, b) for a, b, _ in limbs)
    ys, xs = np.mgrid[: SIZE[0], : SIZE[1]].astype(np.float32)
    heat, fields = np.zeros((joints, *SIZE), np.float32), np.zeros((len(limbs), 2, *SIZE), np.float32)
    for person in persons:
        for joint, (x, y) in person.items():
            near = np.exp(-((xs - x) ** 2 + (ys - y) ** 2) / 2)
            heat[joint] = np.maximum(heat[joint], near)
        for a, b, number in limbs:
            if a in person and b in person:
                _add_arrow(fields[number], xs, ys, person[a], person[b])
    background = 1 - heat.max(0, keepdims=True)
    return np.concatenate([heat, background, fields.reshape(-1, *SIZE)])


def _add_arrow(
    field: Array, xs: Array, ys: Array, start: tuple[float, float], end: tuple[float, float]
) -> None:
    """The direction of a limb, at the pixels that are at most one and a half beside it."""
    arrow = np.subtract(end, start)
    length = np.hypot(*arrow)
    x, y = arrow / length
    along, across = (xs - start[0]) * x + (ys - start[1]) * y, (xs - start[0]) * y - (ys - start[1]) * x
    inside = (along >= -1) & (along <= length + 1) & (abs(across) <= 1.5)
    field[0][inside], field[1][inside] = x, y


CROWD = (
    standing(26, 31, lean=0.6),
    standing(36, 35, lean=-0.6),
    standing(76, 33, without=(5, 6, 7)),
)
"""Two people who cross, and one without a left arm."""


def picture() -> Image.Image:
    """What the recipe finds in the maps of the crowd, over their joints."""
    names = recipe()
    maps = drawn(CROWD, names["limbs"](names["BODY_25"]))
    warmth = 40 + 160 * maps[:25].max(0)
    image = Image.fromarray(warmth.astype(np.uint8)).resize((SIZE[1] * 8, SIZE[0] * 8)).convert("RGB")
    names["draw"](image, names["people"](maps, names["BODY_25"]), names["BODY_25"])
    return image


if __name__ == "__main__":
    picture().save(Path(sys.argv[1]), optimize=True)
