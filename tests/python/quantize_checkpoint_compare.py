"""Compares `loft quantize` with mlx_lm's convert -q on tiny seeded checkpoints, byte for byte.

Called with the build folder; exits with 0 only when nothing differs: every tensor, config.json as text, and the logits of
loft's result in mlx-lm. That every format has the right bytes is quantize_compare.py's part.
"""

import contextlib
import importlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten, tree_map
from mlx_lm import utils
from mlx_lm.models import gemma3, gemma3_text, llama

convert = importlib.import_module("mlx_lm.convert")
PROBE = pathlib.Path(sys.argv[1]) / "probe_quantize_checkpoint"
DTYPES = {"f32": mx.float32, "f16": mx.float16, "bf16": mx.bfloat16}
WORDS = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}

FORMATS = {
    "f32": [("affine", 2, 32), ("affine", 5, 128), ("mxfp8", 8, 32)],
    "f16": [("affine", 3, 64), ("affine", 8, 128), ("nvfp4", 4, 16)],
    "bf16": [("affine", 4, 64), ("affine", 6, 32), ("mxfp4", 4, 32)],
}

LLAMA = {
    "model_type": "llama",
    "hidden_size": 128,
    "num_hidden_layers": 9,
    "intermediate_size": 192,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "vocab_size": 160,
    "rope_theta": 500000.0,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "attention_bias": True,
    "eos_token_id": [2, 3],
    "_name_or_path": "somewhere",
}
GEMMA = {
    "model_type": "gemma3_text",
    "hidden_size": 128,
    "num_hidden_layers": 7,
    "intermediate_size": 256,
    "num_attention_heads": 2,
    "head_dim": 64,
    "num_key_value_heads": 1,
    "rms_norm_eps": 1e-6,
    "vocab_size": 192,
    "rope_theta": 1000000.0,
    "rope_local_base_freq": 10000.0,
    "query_pre_attn_scalar": 64,
    "sliding_window": 32,
    "sliding_window_pattern": 6,
    "max_position_embeddings": 512,
}

failures = 0


def report(text):
    global failures
    failures += 1
    print("DIFFERS", text)


def make_source(folder, config, dtype):
    """Writes a dense checkpoint of random weights; returns its folder."""
    folder.mkdir()
    if config["model_type"] == "llama":
        model = llama.Model(llama.ModelArgs.from_dict(config))
    elif config["model_type"] == "gemma3_text":
        model = gemma3_text.Model(gemma3_text.ModelArgs.from_dict(config))
    else:
        model = gemma3.Model(gemma3.ModelArgs.from_dict(config))
    weights = dict(tree_flatten(model.parameters()))
    if "tie_word_embeddings" not in config:  # gemma3: tied when the head is absent
        weights = {k: v for k, v in weights.items() if "lm_head" not in k}
    keys = mx.random.split(mx.random.key(7), len(weights))
    weights = {
        name: (mx.random.normal(value.shape, key=key) * 0.05).astype(DTYPES[dtype])
        for key, (name, value) in zip(keys, sorted(weights.items()))
    }
    if "vision_config" in config:
        weights["vision_tower.patch.weight"] = mx.zeros((64, 64), DTYPES[dtype])
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    utils.save_config(dict(config), folder / "config.json", keep_vision_config=True)
    (folder / "tokenizer_config.json").write_text("{}")
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    (folder / "model.py").write_text("raise SystemExit")
    return folder


def run_mlx(src, dst, mode, bits, group, recipe, dtype):
    """mlx_lm.convert with the tokenizer left out."""

    def load(path, **_):
        model, config = utils.load_model(pathlib.Path(path), lazy=True)
        return model, None, config

    def save(path, _, model, __, config):
        utils.save_model(path, model)
        utils.save_config(config, pathlib.Path(path) / "config.json")

    convert.load, convert.save = load, save
    with contextlib.redirect_stdout(io.StringIO()):
        convert.convert(
            str(src), str(dst), quantize=True, q_group_size=group, q_bits=bits, q_mode=mode,
            quant_predicate=recipe, dtype=WORDS.get(dtype),
        )


def run_loft(src, dst, mode, bits, group, recipe, dtype):
    command = [PROBE, src, dst, f"{mode}{bits}g{group}", recipe or "-"] + ([dtype] if dtype else [])
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)


def raw(array):
    if array.dtype in (mx.float16, mx.bfloat16):
        array = array.view(mx.uint16)
    return np.array(array).tobytes()


def compare_folders(what, ours, theirs, has_entries=False):
    a, b = (mx.load(str(folder / "model.safetensors")) for folder in (ours, theirs))
    if a.keys() != b.keys():
        report(f"{what}: only one has {sorted(a.keys() ^ b.keys())[:5]}")
    for name in sorted(a.keys() & b.keys()):
        if a[name].dtype != b[name].dtype or a[name].shape != b[name].shape or raw(a[name]) != raw(b[name]):
            report(f"{what}: {name} {a[name].dtype} {a[name].shape}, {b[name].dtype} {b[name].shape}")
    texts = [(folder / "config.json").read_text() for folder in (ours, theirs)]
    # Entries of modules stand in the order of each one's own list of modules.
    if texts[0] != texts[1] and not (has_entries and json.loads(texts[0]) == json.loads(texts[1])):
        report(f"{what}: config.json\n{texts[0]}\n{texts[1]}")


def logits(folder):
    model, _ = utils.load_model(folder)
    return model(mx.array([[1, 5, 9, 100, 3]]))


def compare(tmp, name, src, mode, bits, group, recipe=None, dtype=None):
    what = f"{name} {mode} {bits} bits group {group} {recipe or ''} {dtype or ''}"
    ours, theirs = tmp / "ours", tmp / "theirs"
    run_mlx(src, theirs, mode, bits, group, recipe, dtype)
    run_loft(src, ours, mode, bits, group, recipe, dtype)
    compare_folders(what, ours, theirs, recipe is not None)
    a, b = logits(ours), logits(theirs)
    if not mx.array_equal(a, b):
        report(f"{what}: logits")
    if sorted(p.name for p in ours.iterdir()) != ["chat_template.jinja", "config.json", "model.safetensors", "tokenizer_config.json"]:
        report(f"{what}: files {sorted(p.name for p in ours.iterdir())}")
    # The same settings once more: every quantized module is copied.
    run_loft(ours, tmp / "again", mode, bits, group, recipe, dtype)
    compare_folders(what + " again", tmp / "again", ours)
    for folder in (ours, theirs, tmp / "again"):
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


def compare_requantized(tmp, src):
    """8 to 4 bits: mlx decodes in the float type, loft in f32; for f32 both are the same."""
    run_mlx(src, tmp / "eight", "affine", 8, 64, None, None)
    run_loft(tmp / "eight", tmp / "four", "affine", 4, 32, None, None)
    model, config = utils.load_model(tmp / "eight")
    model = utils.dequantize_model(model)
    for key in ("quantization", "quantization_config"):
        config.pop(key)
    with contextlib.redirect_stdout(io.StringIO()):
        model, config = utils.quantize_model(model, config, 32, 4)
    utils.save_model(tmp / "theirs4", model)
    utils.save_config(config, tmp / "theirs4" / "config.json")
    compare_folders("8 to 4 bits", tmp / "four", tmp / "theirs4")


def main():
    mx.set_default_device(mx.cpu)
    wrapped = {
        "model_type": "gemma3", "text_config": dict(GEMMA, dtype="bfloat16"), "vision_config": {"hidden_size": 8}, "vocab_size": 192,
    }
    with tempfile.TemporaryDirectory() as folder:
        tmp = pathlib.Path(folder)
        for dtype in DTYPES:
            src = make_source(tmp / f"llama_{dtype}", dict(LLAMA, torch_dtype=WORDS[dtype]), dtype)
            for mode, bits, group in FORMATS[dtype]:
                compare(tmp, f"llama {dtype}", src, mode, bits, group)
        src = tmp / "llama_bf16"
        for recipe in ("mixed_2_6", "mixed_3_4", "mixed_3_6", "mixed_4_6"):
            compare(tmp, "llama bf16", src, "affine", 4, 64, recipe)
        compare(tmp, "llama bf16", src, "affine", 4, 64, None, "f16")
        compare(tmp, "llama f32", tmp / "llama_f32", "affine", 4, 64, "mixed_3_6", "bf16")
        tied = make_source(tmp / "tied", dict(LLAMA, tie_word_embeddings=True), "f16")
        compare(tmp, "llama tied, no torch_dtype", tied, "affine", 4, 64)
        compare(tmp, "gemma3_text", make_source(tmp / "gemma", GEMMA, "bf16"), "affine", 4, 64)
        compare(tmp, "gemma3_text", tmp / "gemma", "affine", 6, 128, "mixed_3_6")
        compare(tmp, "gemma3", make_source(tmp / "wrapped", wrapped, "f32"), "affine", 4, 32, "mixed_4_6")
        compare_requantized(tmp, tmp / "llama_f32")
    print(f"{failures} differences")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
