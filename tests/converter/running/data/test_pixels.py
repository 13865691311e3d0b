"""What a net expects of pixels: what its training net states, or what its family mostly has."""

from __future__ import annotations

from pathlib import Path

import pytest

import prototrt
from prototrt.converter.running.data.pixels import doubt_of_pixels

TRAINED = (
    'layer {{ name: "in" type: "ImageData" top: "x" top: "label" transform_param {{ {} }} image_data_param'
)
SOURCE = ' { source: "a.txt" batch_size: 1 new_height: 8 new_width: 8 } }\n'
INPUT = 'input: "x" input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }\n'
FC = 'layer {{ name: "fc" type: "InnerProduct" bottom: "x" top: "fc" inner_product_param {{ num_output: {} }} }}\n'
DEPTHWISE = (
    'layer { name: "dw" type: "Convolution" bottom: "x" top: "dw"'
    " convolution_param { num_output: 3 group: 3 kernel_size: 1 } }\n"
)
SSD = 'layer { name: "d" type: "DetectionOutput" bottom: "x" bottom: "x" bottom: "x" top: "d" }\n'
YOLO = 'layer { name: "d" type: "YoloDetectionOutput" bottom: "x" top: "d" }\n'
AS_THEY_ARE = "pixels go in as they are, from 0 to 255, but "


@pytest.mark.parametrize(
    ("net", "doubt"),
    [
        (TRAINED.format("mean_value: 104 mean_value: 117 mean_value: 123") + SOURCE + FC.format(3),
         'the net was trained with mean=["104", "117", "123"]'),
        (TRAINED.format("scale: 0.00390625") + SOURCE + FC.format(3), "the net was trained with scale=0.00390625"),
        (TRAINED.format('mean_file: "mean.binaryproto" scale: 0.5') + SOURCE + FC.format(3),
         "the net was trained with preprocess=True, which subtracts mean.binaryproto"),
        (INPUT + YOLO, "YOLO nets are mostly trained with scale=0.00392157"),
        (INPUT + DEPTHWISE + YOLO, 'MobileNet-YOLOs are mostly trained with mean=["127.5"], scale=0.007843'),
        (INPUT + SSD, 'SSDs are mostly trained with mean=["104", "117", "123"]'),
        (INPUT + DEPTHWISE + SSD, 'MobileNet-SSDs are mostly trained with mean=["127.5"], scale=0.007843'),
        (INPUT + FC.format(1000), 'nets for the classes of ImageNet are mostly trained with'
         ' mean=["104", "117", "123"]'),
        (INPUT + DEPTHWISE + FC.format(1000), 'MobileNets are mostly trained with'
         ' mean=["103.94", "116.78", "123.68"], scale=0.017'),
        (TRAINED.format("crop_size: 8") + SOURCE + FC.format(3), None),
        (INPUT + FC.format(10), None),
    ],
)  # fmt: skip
def test_what_is_said_of_pixels(net: str, doubt: str | None, tmp_path: Path) -> None:
    (tmp_path / "net.prototxt").write_text(net)
    model = prototrt.load(tmp_path / "net.prototxt")
    told = doubt_of_pixels(model, "x")
    assert told == (None if doubt is None else AS_THEY_ARE + doubt)
