#!/usr/bin/python3
"""Trains one of the tiny byte-level models.

    train.py FOLDER        FOLDER/config.json -> FOLDER/model.safetensors, FOLDER/loss.csv

Needs Debian's python3-torch, python3-numpy, bible-kjv and bible-kjv-text. The seed is fixed; one
thread. A model takes about 20 minutes of one core where torch finds a fast BLAS (libopenblas0), and
ten times that with the reference BLAS.

2,500 steps of 4,096 bytes, AdamW, the rate warmed up and then lowered along a cosine. The last 500
steps have rows of 512 bytes instead of 256, so that the model knows its whole context. Weights are
rounded to bf16 at the end (the router's bias stays F32), which is what the last line of the loss
curve is measured on.
"""
import json
import math
import pathlib
import sys
import time

import torch
from torch.nn import functional as F

import corpus
import tensors
from model import Experts, Model

SEED, STEPS, LONG_STEPS, BYTES = 1611, 2500, 500, 4096
RATE, WARM_UP, DECAY, BALANCE = 4e-3, 100, 0.05, 1e-3
EVERY = 50


def rate_at(step):
    if step < WARM_UP:
        return RATE * (step + 1) / WARM_UP
    done = (step - WARM_UP) / (STEPS - WARM_UP)
    return RATE * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done)))


def batch(text, step, generator):
    length = 512 if step >= STEPS - LONG_STEPS else 256
    start = torch.randint(len(text) - length, (BYTES // length,), generator=generator)
    return torch.stack([text[i:i + length + 1] for i in start.tolist()])


@torch.no_grad()
def held_out_loss(model, text, length=256):
    """Mean over windows of `length` bytes; each one's first byte is given."""
    count = len(text) // length
    rows = text[:count * length].view(count, length)
    logits = model(rows[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten()).item()


def main(folder):
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(SEED)
    train, held_out = (torch.tensor(list(text)) for text in corpus.read())
    model = Model(json.loads((folder / "config.json").read_text()))
    matrices = [p for p in model.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimiser = torch.optim.AdamW([{"params": matrices, "weight_decay": DECAY},
                                   {"params": vectors, "weight_decay": 0.0}], betas=(0.9, 0.98))
    curve, total, begin = ["step,bytes,loss_train_nats,loss_held_out_nats"], 0.0, time.time()
    curve.append(f"0,0,,{held_out_loss(model, held_out):.4f}")
    for step in range(STEPS):
        for group in optimiser.param_groups:
            group["lr"] = rate_at(step)
        rows = batch(train, step, generator)
        loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        for module in model.modules():
            if isinstance(module, Experts):
                module.balance(BALANCE * rate_at(step) / RATE)
        total += loss.item()
        if (step + 1) % EVERY == 0:
            if step + 1 == STEPS:
                round_weights(model)
            curve.append(f"{step + 1},{(step + 1) * BYTES},{total / EVERY:.4f},"
                         f"{held_out_loss(model, held_out):.4f}")
            print(curve[-1], f"{time.time() - begin:.0f} s", flush=True)
            total = 0.0
    (folder / "loss.csv").write_text("\n".join(curve) + "\n")
    tensors.write(folder / "model.safetensors",
                  {name: value if name.endswith("_bias") else value.bfloat16()
                   for name, value in model.state_dict().items()})


@torch.no_grad()
def round_weights(model):
    for weight in model.parameters():
        weight.copy_(weight.bfloat16().float())


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
