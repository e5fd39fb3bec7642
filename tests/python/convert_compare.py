"""Converts the demo GGUF models and compares the result with independent readers: weights with gguf.quants (undoing the
row permutation), tokenizer ids with published ones, logits with mlx-lm. Called with the build folder; 0: nothing differs."""
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import mlx.core as mx
import numpy as np
from gguf.quants import dequantize
from tokenizers import Tokenizer

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / ".cache" / "models"
# Prompt ids and top logits come from three independent float32 forwards of the same GGUF files that agree.
CASES = [
    {
        "file": "smollm2-135m-instruct-q4_1.gguf", "permuted": True, "norm_offset": 0.0,
        "prompt": "The capital of France is", "ids": [504, 3575, 282, 4649, 314],
        "top": [(7042, 17.3712), (260, 14.8886), (4528, 13.2450), (2250, 13.0095), (1315, 12.9515)], "tolerance": 0.01,
        "rounded": 0,
    },
    {
        "file": "gemma-3-270m-q4_k_m.gguf", "permuted": False, "norm_offset": 1.0,
        "prompt": "The capital of France is", "ids": [2, 818, 5279, 529, 7001, 563],
        # mlx-lm rounds sqrt(640) to bf16, which moves these logits by up to 0.05; the requantized Q6_K adds the rest.
        "top": [(506, 19.0915), (496, 18.5476), (9079, 18.2686)], "tolerance": 0.2, "rounded": 36,
    },
]
TEXTS = [
    "Hello, world!", "  two  spaces   three\n\n\nlines\tand\ttabs", "don't you'll we've I'D", "12345 6 78 3.14159", "日本語テスト 中文 한국어",
    "naïve café e\u0301 Ω ≈ ç", "\U0001F469\u200D\U0001F469\u200D\U0001F467 🇩🇪 ⊕ ⊻", "def f(x):\n    return x ** 2  # ok", "مرحبا بالعالم", "<b>html</b> & \"quotes\"", " leading", "trailing ",
    "a" * 50, "\u0000\u0001\u007f", "x\r\ny",
]
failures = []


def check(ok, what):
    if not ok:
        failures.append(what)
        print("FAIL", what)


def module_name(name, arch):
    """The MLX module of a GGUF tensor, written down independently of the converter's table."""
    top = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    layer = {
        "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
        "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm", "post_attention_norm": "post_attention_layernorm",
        "post_ffw_norm": "post_feedforward_layernorm",
        "ffn_norm": "pre_feedforward_layernorm" if arch == "gemma3" else "post_attention_layernorm",
    }
    parts = name.split(".")
    if parts[0] != "blk":
        return top[parts[0]]
    return f"model.layers.{parts[1]}.{layer[parts[2]]}"


def unpermute(w, heads):
    d = w.shape[0] // heads
    return w.reshape(heads, d // 2, 2, -1).swapaxes(1, 2).reshape(w.shape)


def compare_weights(case, folder, scales):
    reader = gguf.GGUFReader(MODELS / case["file"])
    arch = reader.fields["general.architecture"].contents()
    heads = reader.fields[f"{arch}.attention.head_count"].contents()
    kv_heads = reader.fields[f"{arch}.attention.head_count_kv"].contents()
    config = json.loads((folder / "config.json").read_text())
    stored = mx.load(str(folder / "model.safetensors"))
    used = set()
    inexact = 0
    for t in reader.tensors:
        module = module_name(t.name, arch)
        wanted = dequantize(t.data, t.tensor_type).astype(np.float32).reshape(list(reversed(t.shape.tolist())))
        if case["permuted"] and ".attn_q." in t.name:
            wanted = unpermute(wanted, heads)
        if case["permuted"] and ".attn_k." in t.name:
            wanted = unpermute(wanted, kv_heads)
        if "norm" in t.name:
            wanted = wanted - np.float32(case["norm_offset"])
        parts = [module + ".weight"]
        if module + ".scales" in stored:
            q = config["quantization"].get(module, config["quantization"])
            parts += [module + ".scales", module + ".biases"]
            w, s, b = (stored[p] for p in parts)
            found = mx.dequantize(w, s.astype(mx.float32), b.astype(mx.float32), group_size=q["group_size"], bits=q["bits"], mode=q["mode"])
        else:
            found = stored[parts[0]].astype(mx.float32)
        used.update(parts)
        found = np.array(found)
        check(found.shape == wanted.shape, f"{t.name}: shape {found.shape}, wanted {wanted.shape}")
        kind = t.tensor_type.name
        off = float(np.abs(found - wanted).max())
        inexact += off > 0
        if kind in ("Q6_K", "Q2_K", "Q3_K"):
            groups = wanted.reshape(-1, 32)
            step = (groups.max(axis=1) - groups.min(axis=1)) / 255
            ratio = float((np.abs(found - wanted).reshape(-1, 32).max(axis=1) / np.maximum(step, 1e-12)).max())
            check(ratio < 0.56, f"{t.name} ({kind}): off by {ratio} steps of 8 bits")
        elif kind in ("Q4_K", "Q5_K") and scales == "f16":
            check(off < 2e-3 * float(np.abs(wanted).max()), f"{t.name} ({kind}): off by {off}")
        else:
            check(off == 0, f"{t.name} ({kind}): off by {off}, wanted equal")
    check(used == set(stored), f"{case['file']}: other tensors: {sorted(set(stored) ^ used)[:5]}")
    return inexact


def compare_tokenizer(case, folder):
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids = tokenizer.encode(case["prompt"]).ids
    check(ids == case["ids"], f"{case['file']}: ids {ids}, wanted {case['ids']}")
    for text in TEXTS:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        back = tokenizer.decode(ids, skip_special_tokens=False)
        check(back == text, f"{case['file']}: {text!r} came back as {back!r}")
    from transformers import AutoTokenizer
    auto = AutoTokenizer.from_pretrained(str(folder))
    check(auto(case["prompt"])["input_ids"] == case["ids"], f"{case['file']}: AutoTokenizer gives other ids")
    wanted = json.loads((folder / "generation_config.json").read_text())["eos_token_id"]
    check(auto.eos_token_id in wanted, f"{case['file']}: eos {auto.eos_token_id} is not in {wanted}")
    if (folder / "chat_template.jinja").exists():
        text = auto.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True)
        check("Hi" in text and text == auto.apply_chat_template(
            [{"role": "user", "content": "Hi"}], chat_template=(folder / "chat_template.jinja").read_text(), tokenize=False,
            add_generation_prompt=True), f"{case['file']}: chat template")


def compare_logits(case, folder):
    from mlx.utils import tree_map
    from mlx_lm import load
    model, _ = load(str(folder))
    # f32 everywhere: mlx's CPU code is both slow and coarse in 16 bits.
    model.update(tree_map(lambda a: a.astype(mx.float32) if a.dtype in (mx.float16, mx.bfloat16) else a, model.parameters()))
    logits = np.array(model(mx.array([case["ids"]]))[0, -1].astype(mx.float32))
    top = list(np.argsort(-logits)[: len(case["top"])])
    check(top == [i for i, _ in case["top"]], f"{case['file']}: top ids {top}")
    for i, wanted in case["top"]:
        check(abs(logits[i] - wanted) < case["tolerance"], f"{case['file']}: logit of {i} is {logits[i]}, wanted {wanted}")


def compare_cuts(case, probe, work):
    """A file cut at each hundredth of its length is refused with the exit code of a corrupt file, and nothing is left."""
    whole = (MODELS / case["file"]).read_bytes()
    cut = work / "cut.gguf"
    for percent in range(0, 100):
        cut.write_bytes(whole[: len(whole) * percent // 100])
        run = subprocess.run([probe, cut, work / "cut"], capture_output=True, text=True)
        check(run.returncode == 3 and run.stderr.lower().startswith("corrupt"), f"cut at {percent} %: exit {run.returncode}: {run.stderr}")
    check(sorted(p.name for p in work.iterdir() if p.name.startswith("cut")) == ["cut.gguf"], "a cut file left something behind")


def main():
    probe = Path(sys.argv[1]) / "probe_convert"
    missing = [c["file"] for c in CASES if not (MODELS / c["file"]).exists()]
    if missing:
        sys.exit(f"{', '.join(missing)}: not in {MODELS.relative_to(ROOT)}; run tools/fetch_models all")
    work = Path(tempfile.mkdtemp(prefix="loft-convert-"))
    try:
        for case in CASES:
            for scales in ("f16", "f32"):
                folder = work / f"{case['file']}-{scales}"
                run = subprocess.run([probe, MODELS / case["file"], folder, scales], capture_output=True, text=True)
                print(run.stdout, run.stderr)
                check(run.returncode == 0, f"{case['file']}: exit {run.returncode}")
                inexact = compare_weights(case, folder, scales)
                check(inexact <= (case["rounded"] if scales == "f16" else case["rounded"] // 4), f"{case['file']} {scales}: {inexact} inexact tensors")
                if scales == "f16":
                    compare_tokenizer(case, folder)
                    compare_logits(case, folder)
                shutil.rmtree(folder)
        compare_cuts(CASES[0], probe, work)
    finally:
        shutil.rmtree(work)
    print(f"{len(failures)} differences")
    sys.exit(1 if failures else 0)


main()
