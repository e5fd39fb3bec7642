"""Compares loft's quantizers and decoders with mlx's on the CPU, byte for byte.

Called with the build folder; exits with 0 only when nothing differs. Inputs: random rows, all zero, constant, one huge
outlier, negative and positive dominance, subnormals, ranges below the smallest scale, ties, signed zeros, one-ulp steps
around the values at which an exponent changes.
"""

import pathlib
import subprocess
import sys
import tempfile

import mlx.core as mx
import numpy as np

BUILD = pathlib.Path(sys.argv[1])
PROBE = BUILD / "probe_quantize"
DTYPES = {"f32": mx.float32, "f16": mx.float16, "bf16": mx.bfloat16}
AFFINE = [("affine", bits, group) for bits in (2, 3, 4, 5, 6, 8) for group in (32, 64, 128)]
FP = [("mxfp4", 4, 32), ("mxfp8", 8, 32), ("nvfp4", 4, 16)]
K = 256

failures = 0


def check(what, ours, theirs):
    global failures
    ours = np.frombuffer(ours, np.uint8)
    theirs = np.frombuffer(theirs, np.uint8)
    if ours.size == theirs.size and np.array_equal(ours, theirs):
        return
    failures += 1
    where = np.flatnonzero(ours[: theirs.size] != theirs[: ours.size])
    print(f"DIFFERS {what}: {ours.size} and {theirs.size} bytes, {where.size} differ, first at {where[:4]}")


def raw(array):
    """The bytes of an mlx array."""
    if array.dtype in (mx.float16, mx.bfloat16):
        array = array.view(mx.uint16)
    return np.array(array).tobytes()


def rows(rng):
    """Test rows [n, K] in f32, with the hard cases."""
    normal = rng.standard_normal((24, K)).astype(np.float32)
    cases = [normal[:8] * 0.02, normal[8:12] * 100, np.abs(normal[12:14]), -np.abs(normal[14:16])]
    outlier = normal[16:18] * 0.01
    outlier[:, ::50] = [[60000.0], [-60000.0]]
    cases += [outlier, normal[18:20] - 3, normal[20:22] + 3]
    fixed = [np.zeros(K), -np.zeros(K), np.full(K, 0.37), np.full(K, -0.37), np.full(K, 65504.0)]
    fixed += [np.linspace(-1, 2, K), np.linspace(-2, 1, K), np.arange(K) % 16 * 0.5 - 3.75]
    fixed += [np.where(np.arange(K) % 3 == 0, -0.0, 1.0), np.where(np.arange(K) % 32 == 5, 1e-3, 0.0)]
    # Ranges below the smallest affine scale, subnormals of f16, and values that f16 rounds to them.
    for size in (1e-4, 1e-6, 3e-7, 1e-7, 1e-8, 1e-10):
        fixed += [normal[22] * size, 1 + normal[23] * size, -1 + normal[22] * size]
    # Midpoints of E2M1 and E4M3, both signs, under scales from tiny to large.
    ties = np.tile([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0, -0.25, -0.75, -1.25, -1.75, -2.5, -3.5, -5.0, -6.0], K // 16)
    for power in range(-12, 13, 3):
        fixed.append(ties * 2.0**power)
        fixed.append(np.exp2(np.linspace(-9, 8, K)) * 2.0**power * np.sign(normal[0]))
    # The exponent of an E8M0 scale changes at odd half powers of two.
    for power in np.linspace(-8, 8, 40):
        row = normal[1] * 0
        row[::16] = 6 * 2.0**power
        row[1::16] = -448 * 2.0 ** (power - 7)
        fixed.append(row)
    everything = np.concatenate(cases + [np.stack(fixed).astype(np.float32)])
    return np.clip(everything, -65504, 65504)  # finite in f16 too


def wide_rows(rng):
    """Rows of f32 and bf16 range: largest values from 2^-110 to 2^120, and steps of one ulp around scale boundaries."""
    exponents = np.linspace(-110, 120, 61)
    random = (rng.uniform(-1, 1, (61, K)) * np.exp2(exponents)[:, None]).astype(np.float32)
    boundaries = []
    for power in range(-100, 110, 7):
        for largest in (6.0, 448.0):
            bits = np.full(K, largest * 2.0**power, np.float32).view(np.int32)
            row = (bits + np.arange(K, dtype=np.int32) // 32 - 3).view(np.float32)
            boundaries.append(np.where(np.arange(K) % 5 == 0, row, -row / 3))
    return np.concatenate([random, np.stack(boundaries).astype(np.float32)])


def run(*arguments):
    subprocess.run([str(PROBE), *map(str, arguments)], check=True)


def compare_quantize(tmp, data, mode, bits, group, dtype_name):
    dtype = DTYPES[dtype_name]
    dense = mx.array(data).astype(dtype)
    parts = mx.quantize(dense, group_size=group, bits=bits, mode=mode)
    (tmp / "in").write_bytes(raw(dense))
    name = f"{mode}{bits}g{group}"
    run("quantize", name, dtype_name, data.shape[0], data.shape[1], tmp / "in", tmp / "out")
    out = (tmp / "out").read_bytes()
    at = 0
    for part, part_name in zip(parts, ("words", "scales", "biases")):
        theirs = raw(part)
        check(f"quantize {name} {dtype_name} {part_name}", out[at : at + len(theirs)], theirs)
        at += len(theirs)
    if at != len(out):
        check(f"quantize {name} {dtype_name} size", out, b"")


def compare_dequantize(tmp, rng, mode, bits, group):
    n, k = 17, 2 * 128
    words = rng.integers(0, 2**32, (n, k * bits // 32), np.uint32)
    name = f"{mode}{bits}g{group}"
    if mode == "affine":
        scales = rng.standard_normal((n, k // group)).astype(np.float32)
        biases = rng.standard_normal((n, k // group)).astype(np.float32) * 3
        theirs = mx.dequantize(mx.array(words), mx.array(scales), mx.array(biases), group_size=group, bits=bits)
        (tmp / "in").write_bytes(words.tobytes() + scales.tobytes() + biases.tobytes())
        run("dequantize", name, "f32", n, k, 1, tmp / "in", tmp / "out")
        check(f"dequantize {name}", (tmp / "out").read_bytes(), np.array(theirs).tobytes())
        # 16-bit scales: widened to f32 first, so they must equal mlx's result for the widened scales.
        for dtype_name in ("f16", "bf16"):
            s, b = (mx.array(x).astype(DTYPES[dtype_name]) for x in (scales, biases))
            wide = mx.dequantize(mx.array(words), s.astype(mx.float32), b.astype(mx.float32), group_size=group, bits=bits)
            (tmp / "in").write_bytes(words.tobytes() + raw(s) + raw(b))
            run("dequantize", name, dtype_name, n, k, 1, tmp / "in", tmp / "out")
            check(f"dequantize {name} {dtype_name}", (tmp / "out").read_bytes(), np.array(wide).tobytes())
        return
    scales = rng.integers(0, 256, (n, k // group)).astype(np.uint8)
    for global_scale in (None, 1.0, 2688.0, 3.3, 0.017) if mode == "nvfp4" else (None,):
        options = {} if global_scale is None else {"global_scale": mx.array(global_scale, mx.float32)}
        theirs = np.array(
            mx.dequantize(mx.array(words), mx.array(scales), None, group, bits, mode, dtype=mx.float32, **options)
        )
        factor = 1.0 if global_scale is None else np.float32(global_scale) / np.float32(448 * 6)
        (tmp / "in").write_bytes(words.tobytes() + scales.tobytes())
        run("dequantize", name, "f32", n, k, repr(float(factor)), tmp / "in", tmp / "out")
        ours = np.frombuffer((tmp / "out").read_bytes(), np.float32).reshape(n, k)
        both_nan = np.isnan(ours) & np.isnan(theirs)  # the payload of a NaN is nobody's promise
        check(
            f"dequantize {name} {global_scale}",
            np.where(both_nan, np.float32(0), ours).tobytes(),
            np.where(both_nan, np.float32(0), theirs).tobytes(),
        )


def compare_tiny_groups(tmp):
    """Below the smallest E8M0 scale mlx wraps around; loft must stay within half a step of the smallest scale."""
    data = np.full((4, 32), 1e-39, np.float32) * np.array([[1], [-1], [0.25], [3]], np.float32)
    for mode, bits, group in FP[:2]:
        words, scales = mx.quantize(mx.array(data), mode=mode)
        if np.array(scales).max() < 200:
            print(f"note: mlx no longer wraps tiny {mode} scales; compare them byte for byte")
        (tmp / "in").write_bytes(data.tobytes())
        run("quantize", mode, "f32", 4, 32, tmp / "in", tmp / "packed")
        run("dequantize", mode, "f32", 4, 32, 1, tmp / "packed", tmp / "out")
        ours = np.frombuffer((tmp / "out").read_bytes(), np.float32).reshape(4, 32)
        if not np.all(np.abs(ours.astype(np.float64) - data) <= 2.0**-127 * 0.25):
            check(f"tiny groups {mode}", ours.tobytes(), data.tobytes())


def main():
    mx.set_default_device(mx.cpu)
    rng = np.random.default_rng(20)
    data, wide = rows(rng), wide_rows(rng)
    with tempfile.TemporaryDirectory() as folder:
        tmp = pathlib.Path(folder)
        for mode, bits, group in AFFINE + FP:
            for dtype_name in DTYPES:
                compare_quantize(tmp, data, mode, bits, group, dtype_name)
                if dtype_name != "f16":
                    compare_quantize(tmp, wide, mode, bits, group, dtype_name)
            compare_dequantize(tmp, rng, mode, bits, group)
        compare_tiny_groups(tmp)
    print(f"{failures} differences")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
