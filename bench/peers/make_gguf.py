#!/usr/bin/env python3
"""A GGUF file of a named shape with seeded random f16 weights and no vocabulary, for the peers' speed runs.

    make_gguf.py SHAPE OUT.gguf        needs the packages gguf and numpy

The shapes are those of `loft synth`; random weights cost the same time as real ones.
"""
import argparse

import gguf
import numpy as np

SHAPES = {
    "llama-3.2-1b": dict(arch="llama", layers=16, hidden=2048, heads=32, kv_heads=8, head_dim=64, ffn=8192, vocab=128256,
                         rope_base=500000.0),
    "gemma-3-1b": dict(arch="gemma3", layers=26, hidden=1152, heads=4, kv_heads=1, head_dim=256, ffn=6912, vocab=262144,
                       rope_base=1000000.0),
    "smollm2-135m": dict(arch="llama", layers=30, hidden=576, heads=9, kv_heads=3, head_dim=64, ffn=1536, vocab=49152,
                         rope_base=100000.0),
}


def write(shape, path):
    s = SHAPES[shape]
    random = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, s["arch"])
    writer.add_context_length(32768)
    writer.add_embedding_length(s["hidden"])
    writer.add_block_count(s["layers"])
    writer.add_feed_forward_length(s["ffn"])
    writer.add_head_count(s["heads"])
    writer.add_head_count_kv(s["kv_heads"])
    writer.add_key_length(s["head_dim"])
    writer.add_value_length(s["head_dim"])
    writer.add_rope_dimension_count(s["head_dim"])
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(s["rope_base"])
    writer.add_vocab_size(s["vocab"])
    writer.add_file_type(1)
    writer.add_tokenizer_model("none")

    def matrix(name, n, k):
        writer.add_tensor(name, (random.standard_normal((n, k), np.float32) * k ** -0.5).astype(np.float16))

    def norm(name, n):
        writer.add_tensor(name, np.ones(n, np.float32))

    q, kv = s["heads"] * s["head_dim"], s["kv_heads"] * s["head_dim"]
    matrix("token_embd.weight", s["vocab"], s["hidden"])
    norm("output_norm.weight", s["hidden"])
    if s["arch"] == "gemma3":
        writer.add_sliding_window(512)
    for i in range(s["layers"]):
        block = f"blk.{i}."
        norm(block + "attn_norm.weight", s["hidden"])
        norm(block + "ffn_norm.weight", s["hidden"])
        if s["arch"] == "gemma3":
            norm(block + "post_attention_norm.weight", s["hidden"])
            norm(block + "post_ffw_norm.weight", s["hidden"])
            norm(block + "attn_q_norm.weight", s["head_dim"])
            norm(block + "attn_k_norm.weight", s["head_dim"])
        matrix(block + "attn_q.weight", q, s["hidden"])
        matrix(block + "attn_k.weight", kv, s["hidden"])
        matrix(block + "attn_v.weight", kv, s["hidden"])
        matrix(block + "attn_output.weight", s["hidden"], q)
        matrix(block + "ffn_gate.weight", s["ffn"], s["hidden"])
        matrix(block + "ffn_up.weight", s["ffn"], s["hidden"])
        matrix(block + "ffn_down.weight", s["hidden"], s["ffn"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shape", choices=sorted(SHAPES))
    parser.add_argument("out")
    options = parser.parse_args()
    write(options.shape, options.out)
