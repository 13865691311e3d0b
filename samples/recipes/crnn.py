"""Reads the text of a line: see docs/recipes/crnn.md."""

import numpy as np
import onnxruntime
from PIL import Image

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"  # class 1 is "0"
session = onnxruntime.InferenceSession("crnn.onnx", providers=["CPUExecutionProvider"])


def columns(file):
    """The probabilities (T, classes) of an image of a line."""
    image = Image.open(file).convert("RGB")
    width = min(max(round(image.width * 32 / image.height), 32), 400)
    pixels = np.asarray(image.resize((width, 32)), np.float32)
    data = (pixels[:, :, ::-1] - 127.5) / 127.5  # BGR, as your net was trained: look at its data layer
    return session.run(["probs"], {"data": data.transpose(2, 0, 1)[None]})[0][:, 0]


def best_path(prob):
    """The likeliest class of each column, without repetitions and blanks."""
    best = prob.argmax(1)
    changes = np.flatnonzero(np.diff(best, prepend=-1))
    return "".join(ALPHABET[best[at] - 1] for at in changes if best[at] != 0)


def best_text(prob, beams=20):
    """The likeliest text: all ways to write it, with blanks and repetitions, count together."""
    texts = {
        "": (1.0, 0.0)
    }  # by text: the probability of the ways that end in a blank, and in its last letter
    for row in prob:
        longer = {}
        for text, (blank, letter) in texts.items():
            add(longer, text, (blank + letter) * row[0], 0.0)
            for place, character in enumerate(ALPHABET[: len(row) - 1], 1):
                if text.endswith(character):
                    add(longer, text, 0.0, letter * row[place])
                    add(longer, text + character, 0.0, blank * row[place])
                else:
                    add(longer, text + character, 0.0, (blank + letter) * row[place])
        texts = dict(sorted(longer.items(), key=lambda item: -sum(item[1]))[:beams])
    return max(texts, key=lambda text: sum(texts[text]))


def add(texts, text, blank, letter):
    before = texts.get(text, (0.0, 0.0))
    texts[text] = (before[0] + blank, before[1] + letter)


prob = columns("line.png")
print(best_path(prob), best_text(prob))
