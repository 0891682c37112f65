#!/usr/bin/python3
"""What PyTorch says of a trained model, for the engine to be held against.

    reference.py FOLDER      FOLDER/model.safetensors -> FOLDER/reference.json

Weights as in the file, everything else in FP32. Logits of a few positions of the held-out text's
first window, and the loss on all of it as `kvcap engine eval` counts it (windows of 256 bytes, the
last one shorter, each one's first byte given). Also what simple byte models reach, trained on the
same text: one byte alone, and one byte after another.
"""
import json
import math
import pathlib
import sys
from collections import Counter

import torch
from torch.nn import functional as F

import corpus
import tensors
from model import Model

WINDOW, POSITIONS = 256, (0, 1, 7, 31, 100, 254)


@torch.no_grad()
def text_loss(model, text):
    total, count = 0.0, 0
    for start in range(0, len(text) - 1, WINDOW):
        row = text[start:start + WINDOW]
        if len(row) < 2:
            break
        logits = model(row[None, :-1])[0]
        total += F.cross_entropy(logits.double(), row[1:], reduction="sum").item()
        count += len(row) - 1
    return total / count


def simple_losses(train, text):
    """Half a count is added to every byte."""
    single, pair = Counter(train), Counter(zip(train, train[1:]))
    size = len(train)
    unigram = [-math.log((single[b] + 0.5) / (size + 128)) for b in text[1:]]
    bigram = [-math.log((pair[a, b] + 0.5) / (single[a] + 128)) for a, b in zip(text, text[1:])]
    return sum(unigram) / len(unigram), sum(bigram) / len(bigram)


@torch.no_grad()
def main(folder):
    torch.set_num_threads(1)
    train, held_out = corpus.read()
    text = torch.tensor(list(held_out))
    config = json.loads((folder / "config.json").read_text())
    model = Model(config)
    untrained = text_loss(model, text)
    model.load_state_dict(tensors.read(folder / "model.safetensors"))
    logits = model(text[None, :WINDOW - 1])[0]
    unigram, bigram = simple_losses(train, held_out)
    document = {
        "source": f"PyTorch {torch.__version__}, FP32 activations, by training/reference.py",
        "window": WINDOW,
        "nll_nats": round(text_loss(model, text), 6),
        "nll_nats_untrained": round(untrained, 4),
        "nll_nats_unigram": round(unigram, 4),
        "nll_nats_bigram": round(bigram, 4),
        "positions": list(POSITIONS),
        "logits": [[round(x, 4) for x in logits[p].tolist()] for p in POSITIONS],
    }
    (folder / "reference.json").write_text(json.dumps(document) + "\n")
    print({key: document[key] for key in document if key.startswith("nll")})


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
