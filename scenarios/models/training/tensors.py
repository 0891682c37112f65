"""Reads and writes safetensors files of BF16 and F32 tensors."""
import json
import struct

import torch

TYPES = {"BF16": (torch.bfloat16, torch.int16, 2), "F32": (torch.float32, torch.float32, 4)}


def write(path, tensors):
    """`tensors`: name -> tensor; dtype bfloat16 or float32."""
    header, data, offset = {}, [], 0
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        kind = "BF16" if tensor.dtype == torch.bfloat16 else "F32"
        raw = tensor.view(TYPES[kind][1]).numpy().tobytes()
        header[name] = {"dtype": kind, "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + len(raw)]}
        data.append(raw)
        offset += len(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def read(path):
    """Name -> tensor as float32."""
    with open(path, "rb") as file:
        raw = file.read()
    length = struct.unpack("<Q", raw[:8])[0]
    tensors = {}
    for name, entry in json.loads(raw[8:8 + length]).items():
        kind, integer, _ = TYPES[entry["dtype"]]
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        flat = torch.frombuffer(bytearray(raw[begin:end]), dtype=integer)
        tensors[name] = flat.view(kind).float().view(entry["shape"])
    return tensors
