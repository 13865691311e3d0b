"""Draws people by their joints: see docs/recipes/openpose.md."""

import numpy as np
import onnxruntime
from PIL import Image, ImageDraw

BODY_25 = (  # for each limb: its joints, and the number of its field
    "1-8:0 1-2:7 1-5:11 2-3:8 3-4:9 5-6:12 6-7:13 8-9:3 9-10:1 10-11:2 8-12:4 12-13:5 13-14:6 1-0:15 0-15:16 15-17:18 "
    "0-16:17 16-18:19 2-17:10 5-18:14 14-19:20 19-20:21 14-21:22 11-22:23 22-23:24 11-24:25"
)
COCO = (
    "1-2:6 1-5:10 2-3:7 3-4:8 5-6:11 6-7:12 1-8:0 8-9:1 9-10:2 1-11:3 11-12:4 12-13:5 1-0:14 0-14:15 14-16:17 "
    "0-15:16 15-17:18 2-16:9 5-17:13"
)


def limbs(form):
    """For each limb its two joints and the number of its field."""
    return [tuple(map(int, limb.replace(":", "-").split("-"))) for limb in form.split()]


def peaks(heat, least=0.1):
    """x, y and score of each place that is warmer than those around it; between pixels by a parabola."""
    edge = np.pad(heat, 1, constant_values=-np.inf)
    left, right, up, down = edge[1:-1, :-2], edge[1:-1, 2:], edge[:-2, 1:-1], edge[2:, 1:-1]
    places = (heat >= least) & (heat > left) & (heat >= right) & (heat > up) & (heat >= down)
    return [
        (x + top(heat[y], x), y + top(heat[:, x], y), float(heat[y, x]))
        for y, x in zip(*np.nonzero(places), strict=True)
    ]


def top(row, at):
    """How far beside its largest pixel a row is highest, from -0.5 to 0.5."""
    if not 0 < at < len(row) - 1:
        return 0.0
    before, here, after = row[at - 1 : at + 2].astype(float)
    bend = before - 2 * here + after
    return 0.5 * (before - after) / bend if bend else 0.0


def connections(field, starts, ends, least=0.05, share=0.8):
    """Pairs of joints between which the field points the right way: the best first, each joint in one pair."""
    pairs = []
    for i, start in enumerate(starts):
        for j, end in enumerate(ends):
            arrow = np.subtract(end[:2], start[:2])
            length = np.hypot(*arrow)
            if length == 0:
                continue
            x, y = np.rint(np.linspace(start[:2], end[:2], 10)).astype(int).T
            along = arrow @ field[:, y, x] / length
            if (along > least).mean() >= share:
                pairs.append((along.mean(), i, j))
    chosen = []
    for _, i, j in sorted(pairs, reverse=True):
        if all(i != a and j != b for a, b in chosen):
            chosen.append((i, j))
    return chosen


def people(maps, form, fewest=4):
    """For each person an array (joints, 3) of x, y and score, in pixels of the maps; 0 where a joint is not seen."""
    joints = 1 + max(max(a, b) for a, b, _ in limbs(form))
    candidates = [peaks(heat) for heat in maps[:joints]]
    fields = maps[joints + 1 :].reshape(len(limbs(form)), 2, *maps.shape[1:])
    groups = []  # each a dictionary from joint to the number of its candidate
    for a, b, number in limbs(form):
        for i, j in connections(fields[number], candidates[a], candidates[b]):
            touched = [group for group in groups if group.get(a) == i or group.get(b) == j]
            if not touched:
                groups.append({a: i, b: j})
            elif len(touched) == 1:
                touched[0].setdefault(a, i)
                touched[0].setdefault(b, j)
            elif not touched[0].keys() & touched[1].keys():
                touched[0].update(touched[1])
                groups = [group for group in groups if group is not touched[1]]
    result = np.zeros((len(groups), joints, 3))
    for row, group in zip(result, groups, strict=True):
        for joint, number in group.items():
            row[joint] = candidates[joint][number]
    return result[(result[:, :, 2] > 0).sum(1) >= fewest]


def maps_of(image):
    """The maps of an image whose sides are multiples of 16."""
    pixels = np.asarray(image.convert("RGB"), np.float32)[:, :, ::-1]
    data = np.ascontiguousarray((pixels / 256 - 0.5).transpose(2, 0, 1)[None])
    return session.run(["net_output"], {"image": data})[0][0]


def draw(image, persons, form, scale=8):
    """Limbs as lines, joints as dots."""
    drawing = ImageDraw.Draw(image)
    for person in persons:
        places = (person[:, :2] + 0.5) * scale - 0.5
        for a, b, _ in limbs(form):
            if person[a, 2] and person[b, 2]:
                drawing.line([*places[a], *places[b]], fill=(255, 160, 0), width=4)
        for x, y in places[person[:, 2] > 0]:
            drawing.ellipse([x - 4, y - 4, x + 4, y + 4], fill=(0, 160, 255))


session = onnxruntime.InferenceSession("pose.onnx", providers=["CPUExecutionProvider"])
photo = Image.open("photo.png").convert("RGB")
draw(photo, people(maps_of(photo), BODY_25), BODY_25)
photo.save("pose.png")
