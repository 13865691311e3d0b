#!/usr/bin/env python3
"""Render, train and check the digit-line reader of this folder.

Needs BVLC Caffe 1.0 with pycaffe (a CPU build is enough), NumPy, Pillow, h5py
(training only), and the fonts of the Debian packages fonts-dejavu-core,
fonts-liberation2 and fonts-open-sans.  With pycaffe on PYTHONPATH:

    export OPENBLAS_NUM_THREADS=1 GLOG_minloglevel=2
    python3 train_digits.py train WORKDIR      # about 13 minutes on one core and
                                               # 1.2 GB in WORKDIR; writes
                                               # digits.caffemodel beside this file
    python3 train_digits.py check [COUNT]      # string accuracy on fresh strips
    python3 train_digits.py samples            # strips/ and expected.npz

windows() and decode() need neither Caffe nor h5py: import them to feed any
other runtime with a strip and to read its answer.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter, ImageFont

Array: TypeAlias = npt.NDArray[np.float32]
Strip: TypeAlias = npt.NDArray[np.uint8]
Net: TypeAlias = Any  # pycaffe's caffe.Net

HERE = Path(__file__).resolve().parent

HEIGHT, WIDTH = 32, 160  # a strip
WINDOW, STEP = 16, 4  # a window's width, and how far it moves per step
STEPS = WIDTH // STEP  # 40 windows to a strip
MARGIN = (WINDOW - STEP) // 2  # 6 columns added at the left and at the right
BLANK = 10  # the class "no digit here"; classes 0..9 are the digits

STREAMS = 16  # strips read side by side in training
STRIPS_PER_FILE = 640  # 40 training batches
TRAIN_FILES, TEST_FILES = 20, 1
ITERATIONS = 4000
TRAIN_SEED, TEST_SEED, CHECK_SEED, HARD_SEED, SAMPLE_SEED = 1, 2, 3, 4, 5

FONTS = [
    "DejaVuSans.ttf",
    "DejaVuSans-Bold.ttf",
    "DejaVuSansMono.ttf",
    "DejaVuSerif.ttf",
    "DejaVuSerif-Bold.ttf",
    "LiberationSans-Regular.ttf",
    "LiberationSans-Bold.ttf",
    "LiberationSerif-Regular.ttf",
    "LiberationMono-Regular.ttf",
    "OpenSans-Regular.ttf",
    "OpenSans-Semibold.ttf",
]
MIN_PITCH = 12.5  # columns between the centres of neighbouring digits


# ---------------------------------------------------------------- the strips

load_font = functools.lru_cache(maxsize=None)(ImageFont.truetype)


def render(
    rng: np.random.Generator, text: str | None = None, hard: bool = False
) -> tuple[str, Strip, list[float]]:
    """Draw a strip: (its text, uint8 image [32, 160], centre column of each digit).

    A hard strip has less contrast, more noise and more slant.
    """
    if text is None:
        text = "".join(rng.choice(list("0123456789"), rng.integers(3, 10)))
    # Drawn at twice the size, reduced at the end.
    name = FONTS[rng.integers(len(FONTS))]
    size, spacing = int(rng.integers(36, 61)), rng.uniform(0, 10)
    while True:  # smaller until the text fits
        font = load_font(name, size)
        pen = 0.0
        pens: list[float] = []
        middles: list[float] = []
        for digit in text:
            x0, _, x1, _ = font.getbbox(digit, anchor="ls")
            middle = (x0 + x1) / 2
            if pens:
                pen = max(pen, pens[-1] + middles[-1] + 2 * MIN_PITCH - middle)
            pens.append(pen)
            middles.append(middle)
            pen += font.getlength(digit) + spacing + rng.uniform(-1, 1)
        if pen <= 2 * WIDTH - 8:
            break
        size, spacing = size - 2, spacing * 0.7

    tall = -font.getbbox("0", anchor="ls")[1]
    left = rng.uniform(4, 2 * WIDTH - 4 - pen)
    base = HEIGHT + tall / 2 + rng.uniform(-4, 4)
    angle = rng.choice([-1, 1]) * rng.uniform(3, 4.5) if hard else rng.uniform(-3, 3)
    cos, sin = np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))
    ink = Image.new("L", (2 * WIDTH, 2 * HEIGHT))
    draw = ImageDraw.Draw(ink)
    centres = []
    for digit, pen, middle in zip(text, pens, middles, strict=True):
        x, y = left + pen, base + rng.uniform(-1.5, 1.5)
        draw.text((x, y), digit, font=font, fill=255, anchor="ls")
        dx, dy = x + middle - WIDTH, y - tall / 2 - HEIGHT
        centres.append((WIDTH + dx * cos + dy * sin) / 2)
    ink = ink.rotate(angle, Image.Resampling.BICUBIC)
    ink = ink.filter(ImageFilter.GaussianBlur(rng.uniform(0, 1.6))).reduce(2)
    inked = np.asarray(ink, np.float32) / 255

    paper = rng.uniform(150, 250)
    contrast = rng.uniform(45, 80) if hard else rng.uniform(70, paper - 10)
    noise = rng.uniform(10, 16) if hard else rng.uniform(2, 10)
    light = rng.uniform(-15, 15) * np.linspace(-1, 1, WIDTH)
    grey = paper - contrast * inked + light + rng.normal(0, noise, inked.shape)
    return text, np.clip(np.rint(grey), 0, 255).astype(np.uint8), centres


def windows(strip: Strip) -> Array:
    """Cut a uint8 strip [32, 160] into the net's input, float32 [40, 1, 32, 16].

    The strip gets 6 columns more on either side (its outermost column, repeated);
    window t is columns 4t .. 4t+15 of that, which is 4t-6 .. 4t+9 of the strip.
    Values are pixel / 255.
    """
    grey = np.pad(strip, ((0, 0), (MARGIN, MARGIN)), mode="edge")
    wide = grey.astype(np.float32) / np.float32(255)
    cut = [wide[:, STEP * t : STEP * t + WINDOW] for t in range(STEPS)]
    return np.stack(cut)[:, None]


def targets(text: str, centres: Sequence[float]) -> Array:
    """The class wanted at each step, float32 [40].

    The middle of window t lies at column 4t+2.  A step's class is the digit whose
    centre is within 4 columns of it, so every digit is named in exactly two steps.
    Centres are at least 12 columns apart: there is a blank between any two digits,
    and "77" stays two digits.
    """
    middle = STEP * np.arange(STEPS) + STEP / 2
    wanted = np.full(STEPS, BLANK, np.float32)
    for digit, centre in zip(text, centres, strict=True):
        wanted[(middle - STEP <= centre) & (centre < middle + STEP)] = int(digit)
    return wanted


def decode(prob: Array) -> str:
    """Read the text from the net's answer, [40, 1, 11] or [40, 11].

    The best class of each step, with repeats merged and then blanks dropped.
    """
    best = np.asarray(prob).reshape(-1, BLANK + 1).argmax(axis=1)
    return "".join(str(b) for i, b in enumerate(best) if b != BLANK and (i == 0 or best[i - 1] != b))


# ------------------------------------------------------------------ training


def write_batches(path: str, rng: np.random.Generator, count: int) -> None:
    """Render `count` strips into an HDF5 file for train_val.prototxt.

    A row is one step of 16 strips read side by side; cont is 0 where strips begin.
    Every fourth strip is a hard one.
    """
    import h5py  # type: ignore[import-untyped]  # has no types

    rows = count // STREAMS * STEPS
    data = np.empty((rows, STREAMS, HEIGHT, WINDOW), np.float32)
    label = np.empty((rows, STREAMS), np.float32)
    cont = np.ones((rows, STREAMS), np.float32)
    cont[::STEPS] = 0
    for i in range(count):
        text, strip, centres = render(rng, hard=i % 4 == 3)
        row, stream = i // STREAMS * STEPS, i % STREAMS
        data[row : row + STEPS, stream] = windows(strip)[:, 0]
        label[row : row + STEPS, stream] = targets(text, centres)
    with h5py.File(path, "w") as file:
        file["data"], file["cont"], file["label"] = data, cont, label


def train(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)  # train_val.prototxt names train.txt and test.txt
    for kind, seed, files in (("train", TRAIN_SEED, TRAIN_FILES), ("test", TEST_SEED, TEST_FILES)):
        rng = np.random.default_rng(seed)
        names = [f"{kind}{i}.h5" for i in range(files)]
        for name in names:
            write_batches(name, rng, STRIPS_PER_FILE)
        Path(f"{kind}.txt").write_text("".join(name + "\n" for name in names))
    Path("solver.prototxt").write_text(f"""
        net: "{HERE / "train_val.prototxt"}"
        type: "Adam"  momentum: 0.9  momentum2: 0.999
        base_lr: 0.003  lr_policy: "poly"  power: 1  max_iter: {ITERATIONS}
        clip_gradients: 5
        test_iter: {STRIPS_PER_FILE // STREAMS}  test_interval: 500
        random_seed: 1  solver_mode: CPU
        snapshot_prefix: "digits"  snapshot_after_train: false
        """)
    import caffe  # type: ignore[import-not-found]  # not to be had for new Pythons

    caffe.set_mode_cpu()
    solver = caffe.get_solver("solver.prototxt")
    while solver.iter < ITERATIONS:
        solver.step(100)
        print(solver.iter, f"loss {float(solver.net.blobs['loss'].data):.4f}", flush=True)
    solver.net.save(str(HERE / "digits.caffemodel"))


# --------------------------------------------------------- reading with Caffe


def load(prototxt: str) -> Net:
    import caffe

    caffe.set_mode_cpu()
    return caffe.Net(str(HERE / prototxt), caffe.TEST, weights=str(HERE / "digits.caffemodel"))


def read(net: Net, cut: Array, forget: bool = False) -> Array:
    """Softmax of a whole strip, float32 [40, 1, 11], in one call of deploy.prototxt."""
    cont = np.full((STEPS, 1), 0.0 if forget else 1.0, np.float32)
    cont[0] = 0  # 0: start from an empty state; 1: go on from the last step
    answer: Array = net.forward(data=cut, cont=cont)["prob"].copy()
    return answer


def read_stream(net: Net, cut: Array) -> Array:
    """The same, one window per call of deploy_stream.prototxt.

    Caffe's LSTM layers keep their state from one call to the next.
    """
    return np.concatenate(
        [
            net.forward(data=cut[t : t + 1], cont=np.full((1, 1), float(t > 0), np.float32))["prob"].copy()
            for t in range(STEPS)
        ]
    )


def check(count: int) -> None:
    net, stream = load("deploy.prototxt"), load("deploy_stream.prototxt")
    for title, seed, hard in (("ordinary", CHECK_SEED, False), ("hard", HARD_SEED, True)):
        rng = np.random.default_rng(seed)
        right = streamed = forgetful = digits = 0
        for _ in range(count):
            text, strip, _ = render(rng, hard=hard)
            cut = windows(strip)
            right += decode(read(net, cut)) == text
            streamed += decode(read_stream(stream, cut)) == text
            forgetful += decode(read(net, cut, forget=True)) == text
            digits += len(text)
        print(
            f"{count} fresh {title} strips, {digits} digits: {right} read right, "
            f"{streamed} window by window, {forgetful} with the state emptied at each step"
        )


def samples() -> None:
    """Twelve strips: eight ordinary ones, then four hard ones."""
    texts = [None, None, "7700177", "888", None, "112233445", None, None, None, "5566", None, None]
    rng = np.random.default_rng(SAMPLE_SEED)
    net, stream = load("deploy.prototxt"), load("deploy_stream.prototxt")
    (HERE / "strips").mkdir(exist_ok=True)
    names, all_texts, data, prob = [], [], [], []
    for i, text in enumerate(texts):
        text, strip, _ = render(rng, text, hard=i >= 8)
        name = f"{i + 1:02d}.png"
        Image.fromarray(strip).save(HERE / "strips" / name)
        names.append(name)
        all_texts.append(text)
        data.append(windows(strip))
        prob.append(read(net, data[-1]))
        print(name, text, "read as", decode(prob[-1]))
    chosen = [2, 9]  # these two also window by window
    stream_prob = [read_stream(stream, data[i]) for i in chosen]
    largest = max(np.abs(s - prob[i]).max() for s, i in zip(stream_prob, chosen, strict=True))
    print(f"largest difference between the whole strip and window by window: {largest:.2g}")
    (HERE / "strips" / "labels.txt").write_text(
        "".join(f"{n} {t}\n" for n, t in zip(names, all_texts, strict=True))
    )
    np.savez_compressed(
        HERE / "expected.npz",
        names=np.array(names),
        texts=np.array(all_texts),
        data=np.stack(data),
        prob=np.stack(prob),
        stream_index=np.array(chosen),
        stream_prob=np.stack(stream_prob),
    )


if __name__ == "__main__":
    args = sys.argv[1:]
    if len(args) == 2 and args[0] == "train":
        train(Path(args[1]))
    elif args and args[0] == "check" and len(args) <= 2:
        check(int(args[1]) if args[1:] else 1000)
    elif args == ["samples"]:
        samples()
    else:
        sys.exit(__doc__)
