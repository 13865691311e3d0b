"""Rules that turn the pixels of jetson-inference back into those of DIGITS, and DetectNet's maps into boxes."""

import numpy as np

from prototrt.caffe_proto.weights.binaryproto import read_binaryproto
from prototrt.surgery.ops import Concat
from prototrt.surgery.rules import layer_rule

PIXELS = {  # mean and deviation of red, green and blue, by the program that subtracts and divides
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "segnet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "detectnet": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
}


@layer_rule("JetsonPixels")
def jetson_pixels(build, layer, x):
    """BGR of 0 to 255, minus DIGITS's mean: the image in the file, or its mean colour."""
    if x.shape[1] != 3:
        raise ValueError("jetson-inference writes three channels")
    fields = layer.fields["jetson_param"]
    mean, deviation = (
        build.constant(np.float32(row).reshape(1, 3, 1, 1) * 255) for row in PIXELS[fields["program"]]
    )
    red, green, blue = (x * deviation + mean).split(1)
    bgr = blue.apply(Concat(1), green, red)
    if "mean_file" not in fields:
        return [bgr]
    image = read_binaryproto(fields["mean_file"])
    if fields["mean"] == "pixel":
        return [bgr - build.constant(image.mean((2, 3), keepdims=True))]
    height, width = x.shape[2:]
    top, left = (image.shape[2] - height) // 2, (image.shape[3] - width) // 2
    return [bgr - build.constant(image[:, :, top : top + height, left : left + width])]


@layer_rule("JetsonGrid")
def jetson_grid(build, layer, coverage, boxes, data):
    """DetectNet's maps (1, C, H, W) and (1, 4, H, W) as scores (1, H W, 1 + C) and corners (1, H W, 4)."""
    _, classes, rows, columns = coverage.shape
    height, width = data.shape[2:]
    y, x = np.mgrid[:rows, :columns] * np.array([height // rows, width // columns]).reshape(2, 1, 1)
    corners = boxes + build.constant(np.float32([[x, y, x, y]]))
    corners = corners.reshape(1, 4, rows * columns).transpose(0, 2, 1)
    scores = (coverage.slice(1, 0) * 0).apply(Concat(1), coverage)
    scores = scores.reshape(1, 1 + classes, rows * columns).transpose(0, 2, 1)
    return [scores, shares(build, corners, data)]


@layer_rule("JetsonClusters")
def jetson_clusters(build, layer, data, *lists):
    """The lists (1, 50, 5) of ClusterDetections, one for each class, as scores and corners. n boxes score 1 - 1/n."""
    rows = []
    for place, found in enumerate(lists):
        score = 1 - (-found.slice(2, 4)).exp()
        nothing = score * 0
        columns = [nothing, *(score if place == other else nothing for other in range(len(lists)))]
        rows.append(columns[0].apply(Concat(2), *columns[1:]))
    corners = lists[0].apply(Concat(1), *lists[1:]) if lists[1:] else lists[0]
    scores = rows[0].apply(Concat(1), *rows[1:]) if rows[1:] else rows[0]
    return [scores, shares(build, corners.slice(2, 0, 4), data)]


def shares(build, corners, data):
    """Corners in pixels as shares of the image."""
    height, width = data.shape[2:]
    return corners / build.constant(np.float32([width, height, width, height]).reshape(1, 1, 4))
