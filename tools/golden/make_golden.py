#!/usr/bin/env python3
"""Golden logits, greedy tokens and perplexity of an MLX checkpoint folder, computed by NumPy in float32.

Independent of mlx and of loft: this file reads safetensors, decodes the quantized weights and runs Llama and Gemma 3 by
itself. It needs numpy and, for the prompts, the package tokenizers. Usage:

    make_golden.py MODEL_FOLDER OUT.json [--text FILE]

Perplexity: the first 4096 tokens of the text (default: Debian's /usr/share/common-licenses/GPL-3) in 8 windows of 512
without overlap, a fresh cache each; positions 256..510 predict 257..511. Where the tokenizer adds a BOS token, it is
the first of every window and 511 tokens of text follow. The ids are stored, so that a test needs no tokenizer.
"""
import argparse
import hashlib
import json
import math
import pathlib
import struct

import numpy as np

PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a small village near the sea, there lived",
    "def fibonacci(n):\n    ",
    "Water boils at 100 degrees Celsius because",
    "1, 2, 3, 5, 8, 13,",
    "Dear Sir or Madam,\n\nI am writing to",
    "The three laws of motion were first stated by Isaac Newton in",
    "A list of fruits:\n- apple\n- banana\n-",
]
N_GREEDY = 48
WINDOW, N_WINDOWS = 512, 8
E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def bf16(u16):
    return (u16.astype(np.uint32) << 16).view(np.float32)


def e4m3_table():
    out = np.empty(256, np.float32)
    for code in range(256):
        exponent, mantissa = (code >> 3) & 15, code & 7
        value = mantissa * 2.0 ** -9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)
        out[code] = math.nan if code & 127 == 127 else (-value if code & 128 else value)
    return out


class Checkpoint:
    """Tensors of all shards; dequantized on demand by the settings of config.json."""

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        self.config = json.loads((folder / "config.json").read_text())
        self.tensors, self.digest = {}, hashlib.sha256()
        for path in sorted(folder.glob("model*.safetensors")):
            data = np.memmap(path, np.uint8, "r")
            size = struct.unpack("<Q", data[:8].tobytes())[0]
            header = json.loads(data[8:8 + size].tobytes())
            for name, info in sorted(header.items()):
                if name == "__metadata__":
                    continue
                begin, end = info["data_offsets"]
                raw = data[8 + size + begin:8 + size + end]
                self.digest.update(f"{name} {info['dtype']} {info['shape']}\n".encode())
                self.digest.update(raw.tobytes())
                self.tensors[name] = (info["dtype"], info["shape"], raw)

    def array(self, name):
        dtype, shape, raw = self.tensors[name]
        kind = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16, "U32": np.uint32, "U8": np.uint8}[dtype]
        values = np.frombuffer(raw.tobytes(), kind).reshape(shape)
        return bf16(values) if dtype == "BF16" else values.astype(np.float32) if dtype in ("F32", "F16") else values

    def weight(self, path, k):
        """[n, k] float32."""
        words = self.array(path + ".weight")
        if words.dtype != np.uint32:
            return words
        scales = self.array(path + ".scales")
        n, group, bits = words.shape[0], k // scales.shape[1], words.shape[1] * 32 // k
        stream = np.unpackbits(words.view(np.uint8), bitorder="little").reshape(n, k, bits)
        codes = np.zeros((n, k), np.uint8)
        for bit in range(bits):
            codes |= stream[:, :, bit] << np.uint8(bit)
        if scales.dtype != np.uint8:
            codes = codes.astype(np.float32).reshape(n, k // group, group)
            return (codes * scales[..., None] + self.array(path + ".biases")[..., None]).reshape(n, k)
        values = (E2M1 if bits == 4 else e4m3_table())[codes]
        factors = e4m3_table()[scales] if group == 16 else np.exp2(scales.astype(np.float32) - 127)
        return (values.reshape(n, k // group, group) * factors[..., None]).reshape(n, k).astype(np.float32)


def inv_freq(theta, scaling, dim):
    freq = theta ** (-np.arange(0, dim, 2, dtype=np.float64) / dim)
    kind = (scaling or {}).get("rope_type") or (scaling or {}).get("type") or "default"
    if kind == "linear":
        freq = freq / scaling["factor"]
    elif kind == "llama3":
        wave, old, factor = 2 * math.pi / freq, scaling["original_max_position_embeddings"], scaling["factor"]
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        smooth = np.clip((old / wave - low) / (high - low), 0, 1)
        freq = freq * ((1 - smooth) / factor + smooth)
    elif kind != "default":
        raise SystemExit(f"rope type {kind} is not in this script")
    return freq


class Net:
    def __init__(self, checkpoint):
        outer = checkpoint.config
        self.c = c = outer.get("text_config", outer)
        prefix = "language_model." if "text_config" in outer else ""
        self.is_gemma = c["model_type"] == "gemma3_text"
        self.heads = c["num_attention_heads"]
        self.kv_heads = c.get("num_key_value_heads") or self.heads
        self.dim = c.get("head_dim") or c["hidden_size"] // self.heads
        self.eps = np.float32(c["rms_norm_eps"])
        hidden, inner = c["hidden_size"], c["intermediate_size"]
        take = lambda path, k: np.ascontiguousarray(checkpoint.weight(prefix + path, k).T)
        offset = 1 if self.is_gemma else 0
        norm = lambda path: (checkpoint.array(prefix + path + ".weight") + np.float32(offset)).astype(np.float32)
        self.layers = []
        names = ["input_layernorm", "post_attention_layernorm"]
        if self.is_gemma:
            names += ["pre_feedforward_layernorm", "post_feedforward_layernorm", "self_attn.q_norm", "self_attn.k_norm"]
        for i in range(c["num_hidden_layers"]):
            at = f"model.layers.{i}."
            layer = {name: norm(at + name) for name in names}
            for name, k in [("q", hidden), ("k", hidden), ("v", hidden), ("o", self.heads * self.dim)]:
                layer[name] = take(f"{at}self_attn.{name}_proj", k)
            for name, k in [("gate", hidden), ("up", hidden), ("down", inner)]:
                layer[name] = take(f"{at}mlp.{name}_proj", k)
            layer["window"] = 0
            theta, scaling = c.get("rope_theta", 1e6 if self.is_gemma else 1e4), c.get("rope_scaling")
            if self.is_gemma and (i + 1) % c.get("sliding_window_pattern", 6) != 0:
                layer["window"] = c["sliding_window"]
                theta, scaling = c.get("rope_local_base_freq", 1e4), None
            layer["freq"] = inv_freq(theta, scaling, self.dim)
            self.layers.append(layer)
        self.norm = norm("model.norm")
        self.embed = checkpoint.weight(prefix + "model.embed_tokens", hidden)
        has_head = prefix + "lm_head.weight" in checkpoint.tensors and not c.get("tie_word_embeddings", False)
        self.head = take("lm_head", hidden) if has_head else self.embed.T
        self.scale = np.float32(1)
        self.attention_scale = np.float32(self.dim ** -0.5)
        if self.is_gemma:
            root = np.array([math.sqrt(hidden)], np.float32).view(np.uint32)  # rounded to bf16, as published
            self.scale = ((root + 0x7fff + ((root >> 16) & 1)) & 0xffff0000).view(np.float32)[0]
            self.attention_scale = np.float32(c.get("query_pre_attn_scalar", 256) ** -0.5)

    def rms(self, x, weight):
        return x / np.sqrt((x * x).mean(-1, keepdims=True, dtype=np.float32) + self.eps) * weight

    def rope(self, x, positions, freq):
        angle = positions[:, None] * freq[None]
        cos, sin = np.cos(angle).astype(np.float32)[:, None], np.sin(angle).astype(np.float32)[:, None]
        a, b = x[..., :self.dim // 2], x[..., self.dim // 2:]
        return np.concatenate([a * cos - b * sin, a * sin + b * cos], -1)

    def attend(self, layer, x, parts):
        """x [m, hidden]: the rows of all parts. A part is (rows, cache, past): a slice, keys and values, their number."""
        q = (x @ layer["q"]).reshape(-1, self.heads, self.dim)
        k = (x @ layer["k"]).reshape(-1, self.kv_heads, self.dim)
        v = (x @ layer["v"]).reshape(-1, self.kv_heads, self.dim)
        if self.is_gemma:
            q, k = self.rms(q, layer["self_attn.q_norm"]), self.rms(k, layer["self_attn.k_norm"])
        out = np.empty_like(q)
        for rows, cache, past in parts:
            out[rows] = self.attend_one(layer, q[rows], k[rows], v[rows], cache, past)
        return out.reshape(len(x), -1) @ layer["o"]

    def attend_one(self, layer, q, k, v, cache, past):
        positions = np.arange(past, past + len(q))
        q, k = self.rope(q, positions, layer["freq"]), self.rope(k, positions, layer["freq"])
        if cache:
            k, v = np.concatenate([cache[0], k]), np.concatenate([cache[1], v])
        cache[:] = [k, v]
        seen = positions[:, None] - np.arange(past + len(q))[None]
        mask = seen < 0
        if layer["window"]:
            mask |= seen >= layer["window"]
        out = np.empty_like(q)
        for head in range(self.heads):
            j = head // (self.heads // self.kv_heads)
            scores = (q[:, head] @ k[:, j].T) * self.attention_scale
            scores[mask] = -np.inf
            p = np.exp(scores - scores.max(-1, keepdims=True))
            out[:, head] = (p / p.sum(-1, keepdims=True)) @ v[:, j]
        return out

    def mlp(self, layer, x):
        gate, up = x @ layer["gate"], x @ layer["up"]
        if self.is_gemma:
            root = np.float32(math.sqrt(2 / math.pi))
            gate = 0.5 * gate * (1 + np.tanh(root * (gate + np.float32(0.044715) * gate ** 3)))
        else:
            gate = gate / (1 + np.exp(-gate))
        return (gate * up) @ layer["down"]

    def forward(self, batch):
        """batch: a list of (ids, sequence). Runs them together and returns the normed hidden rows of each."""
        parts, first = [], 0
        for ids, sequence in batch:
            parts.append((slice(first, first + len(ids)), sequence, sequence.past))
            first, sequence.past = first + len(ids), sequence.past + len(ids)
        h = self.embed[np.concatenate([ids for ids, _ in batch])] * self.scale
        for i, layer in enumerate(self.layers):
            caches = [(rows, sequence.caches[i], past) for rows, sequence, past in parts]
            r = self.attend(layer, self.rms(h, layer["input_layernorm"]), caches)
            if self.is_gemma:
                h = h + self.rms(r, layer["post_attention_layernorm"])
                r = self.mlp(layer, self.rms(h, layer["pre_feedforward_layernorm"]))
                h = h + self.rms(r, layer["post_feedforward_layernorm"])
            else:
                h = h + r
                h = h + self.mlp(layer, self.rms(h, layer["post_attention_layernorm"]))
        h = self.rms(h, self.norm)
        return [h[rows] for rows, _, _ in parts]


class Sequence:
    """Keys and values of each layer, and how many tokens they hold."""

    def __init__(self, net):
        self.caches, self.past = [[] for _ in net.layers], 0


def top(logits, n):
    order = np.argpartition(-logits, n)[:n]
    order = order[np.argsort(-logits[order], kind="stable")]
    return [int(i) for i in order], [float(logits[i]) for i in order]


def golden_prompts(net, texts, prompts):
    sequences = [Sequence(net) for _ in prompts]
    last = [rows[-1] for rows in net.forward(list(zip(prompts, sequences)))]
    logits = np.stack(last) @ net.head
    out = []
    for text, ids, row in zip(texts, prompts, logits):
        top_ids, top_values = top(row, 16)
        out.append({"text": text, "ids": ids, "top_ids": top_ids, "top_values": top_values,
                    "logit_min": float(row.min()), "logit_max": float(row.max()), "greedy_ids": [], "greedy_gaps": []})
    for _ in range(N_GREEDY):
        for row, golden in zip(logits, out):
            best, values = top(row, 2)
            golden["greedy_ids"].append(best[0])
            golden["greedy_gaps"].append(round(values[0] - values[1], 6))
        rows = net.forward([(golden["greedy_ids"][-1:], sequence) for golden, sequence in zip(out, sequences)])
        logits = np.concatenate(rows) @ net.head
    return out


def golden_perplexity(net, ids, bos):
    width = WINDOW - len(bos)
    total, count = 0.0, 0
    for i in range(N_WINDOWS):
        window = bos + ids[i * width:(i + 1) * width]
        hidden = net.forward([(window, Sequence(net))])[0]
        rows = (hidden[256:-1] @ net.head).astype(np.float64)
        rows -= rows.max(-1, keepdims=True)
        targets = window[257:]
        chosen = rows[np.arange(len(targets)), targets] - np.log(np.exp(rows).sum(-1))
        total, count = total - chosen.sum(), count + len(targets)
    return math.exp(total / count)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--text", default="/usr/share/common-licenses/GPL-3")
    options = parser.parse_args()
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(pathlib.Path(options.model) / "tokenizer.json"))
    checkpoint = Checkpoint(options.model)
    net = Net(checkpoint)
    raw = pathlib.Path(options.text).read_bytes()
    plain = tokenizer.encode("a", add_special_tokens=False).ids
    special = tokenizer.encode("a").ids
    bos = special[:len(special) - len(plain)]
    ids = tokenizer.encode(raw.decode(), add_special_tokens=False).ids[:N_WINDOWS * (WINDOW - len(bos))]
    result = {
        "model": pathlib.Path(options.model).name,
        "made_by": "tools/golden/make_golden.py, NumPy float32",
        "weights_sha256": checkpoint.digest.hexdigest(),
        "prompts": golden_prompts(net, PROMPTS, [tokenizer.encode(text).ids for text in PROMPTS]),
        "perplexity": {
            "text": options.text, "text_sha256": hashlib.sha256(raw).hexdigest(), "window": WINDOW, "bos": bos,
            "value": golden_perplexity(net, ids, bos), "ids": ids,
        },
    }
    pathlib.Path(options.out).write_text(json.dumps(result) + "\n")
    print(result["model"], "perplexity", result["perplexity"]["value"])


if __name__ == "__main__":
    main()
