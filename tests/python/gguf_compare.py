"""Decoders and re-packing of GGUF blocks against gguf.quants.dequantize, on random blocks of every type, bit for bit (a zero
may differ in sign after re-packing). Called with the build folder; 0: nothing differs."""
import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np
from gguf.quants import dequantize

N_BLOCKS = 2000
TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "MXFP4"]
F16_AT = {"F16": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}
REQUANTIZED = {"Q2_K", "Q3_K", "Q6_K"}


def random_blocks(name, rng):
    values, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    blocks = rng.integers(0, 256, (N_BLOCKS, size), dtype=np.uint8)
    for at in F16_AT.get(name, []):  # finite ones, over the whole range, subnormals and both zeros included
        bits = rng.integers(0, 0x7C00, N_BLOCKS, dtype=np.uint16) | rng.integers(0, 2, N_BLOCKS, dtype=np.uint16) << 15
        bits[:2] = [0, 0x8000]
        blocks[:, at : at + 2] = bits.view(np.uint8).reshape(-1, 2)
    if name == "MXFP4":
        blocks[:, 0] = np.minimum(blocks[:, 0], 252)
        blocks[:3, 0] = [0, 1, 2]
    if name in ("F32", "BF16"):  # no NaN: its payload need not survive
        blocks[:, size - 1] &= 0xBF
    return blocks, values * N_BLOCKS


def main():
    probe = Path(sys.argv[1]) / "probe_gguf"
    rng = np.random.default_rng(20)
    bad = 0
    for name in TYPES:
        blocks, n = random_blocks(name, rng)
        run = subprocess.run([probe, name, str(n)], input=blocks.tobytes(), capture_output=True)
        if run.returncode != 0:
            print(f"{name}: the probe ended with {run.returncode}")
            bad += 1
            continue
        wanted = np.ascontiguousarray(dequantize(blocks, gguf.GGMLQuantizationType[name]).astype(np.float32)).ravel()
        out = np.frombuffer(run.stdout, np.float32)
        decoded, repacked = out[:n], out[n:]
        differ = int((decoded.view(np.uint32) != wanted.view(np.uint32)).sum())
        lines = [f"{name}: {differ} of {n} decoded values differ"]
        bad += differ
        if name in REQUANTIZED:
            groups = wanted.reshape(-1, 32).astype(np.float64)
            step = (groups.max(axis=1) - groups.min(axis=1)) / 255
            off = np.abs(repacked.reshape(-1, 32) - groups).max(axis=1)
            # Half a step, and what scale * q + bias loses in f32 where the bias is large beside the step.
            allowed = 0.5001 * step + 2.0**-22 * np.abs(groups).max(axis=1)
            outside = int((off > allowed).sum())
            lines.append(f"{outside} requantized groups are off by more than half a step")
            bad += outside
        elif repacked.size:
            differ = int((repacked != wanted).sum())
            lines.append(f"{differ} re-packed values differ")
            bad += differ
        print(", ".join(lines))
    sys.exit(1 if bad else 0)


main()
