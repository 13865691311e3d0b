"""Makes text of sound, piece by piece: see docs/recipes/speech.md."""

import numpy as np

import prototrt

STEP, WINDOW = 160, 320  # 10 and 20 ms at 16 kHz
ALPHABET = "_ 'abcdefghijklmnopqrstuvwxyz"  # the first is the blank


def spectrum(sound):
    """Samples from -1 to 1 -> (T, 161), a row for each window that they fill."""
    windows = np.lib.stride_tricks.sliding_window_view(sound, WINDOW)[::STEP]
    return np.log1p(np.abs(np.fft.rfft(windows * np.hanning(WINDOW)))).astype(np.float32)


def steps_of(pieces):
    """The inputs of each call. A window may begin in one piece and end in the next."""
    rest = np.zeros(0, np.float32)
    for piece in pieces:
        rest = np.concatenate([rest, piece])
        steps = (len(rest) - WINDOW) // STEP + 1
        if steps > 0:
            yield {"data": spectrum(rest)[:, None]}
            rest = rest[steps * STEP :]


def texts(session, pieces):
    """What each call adds to the text. A letter that lasts into the next call counts once."""
    last = 0
    with session.stream(steps_of(pieces)) as outputs:
        for output in outputs:
            places = output["prob"][:, 0].argmax(1)
            before = [last, *places[:-1]]
            yield "".join(
                ALPHABET[place] for place, old in zip(places, before, strict=True) if place not in (0, old)
            )
            last = places[-1]


sound = np.load("sound.npy")
pieces = np.split(sound, range(4000, len(sound), 4000))  # as a microphone would give them
session = prototrt.Session("speech.onnx")
text = "".join(texts(session, pieces))
