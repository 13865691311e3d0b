"""Makes captions, word by word: see docs/recipes/lrcn.md."""

from pathlib import Path

import numpy as np

import prototrt

words = ["<end>", *Path("vocabulary.txt").read_text().split()]  # word 0 begins and ends a sentence
session = prototrt.Session("caption.onnx")  # feeds the state back


def caption(features, temperature=0.0, longest=20, seed=0):
    """A sentence: of the likeliest words, or with a temperature of words drawn by their probability."""
    random = np.random.default_rng(seed)
    session.reset()
    word, sentence = 0, []
    for step in range(longest):
        feeds = {
            "input_sentence": np.full((1, 1), word, np.float32),
            "cont_sentence": np.full((1, 1), step > 0, np.float32),
            "image_features": features,
        }
        probs = session.run(feeds)["probs"].ravel()
        word = int(probs.argmax()) if temperature == 0 else drawn(probs, temperature, random)
        if word == 0:
            break
        sentence.append(words[word])
    return " ".join(sentence)


def drawn(probs, temperature, random):
    """A word by its probability; a low temperature prefers likely words."""
    shares = np.exp(np.log(np.maximum(probs, 1e-30)) / temperature)
    return int(random.choice(len(probs), p=shares / shares.sum()))


features = np.load("features.npy")
print(caption(features))
print(caption(features, temperature=0.5, seed=1))
