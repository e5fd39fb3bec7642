"""Tiny random models made, quantized and run by mlx-lm: loft gives the same logits from the same files.

Called with the build folder. Every case is a config, a way to quantize and a stored dtype. The checkpoint is written in
the form of mlx_lm.convert -q; mlx-lm loads it and computes in float32 (its scales are widened, which is exact); loft
computes in f32 with f32 keys and values, the prompt at once, in chunks of 7 and token by token.

Tolerance: both sides sum at most 256 products per output in float32, in different orders, through up to 7 layers. A sum
of k terms in another order moves by about eps * sqrt(k) of its size (6e-8 * 16 = 1e-6); some 20 products in a row and
the normalisations between them make 2e-5. Allowed is 1e-4 of the largest logit; a wrong group, bit or position is four
orders above that.
"""
import copy
import json
import pathlib
import subprocess
import sys
import tempfile

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten, tree_map_with_path
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import _get_classes, load_model, quantize_model

TOLERANCE = 1e-4
N_TOKENS = 40
CHUNKS = [N_TOKENS, 7, 1]
VOCAB = 320

LLAMA = dict(model_type="llama", hidden_size=128, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=256, vocab_size=VOCAB, max_position_embeddings=512, rms_norm_eps=1e-5, rope_theta=10000.0,
             tie_word_embeddings=True)
GEMMA = dict(model_type="gemma3_text", hidden_size=128, num_hidden_layers=7, num_attention_heads=4,
             num_key_value_heads=2, head_dim=64, intermediate_size=256, vocab_size=VOCAB, max_position_embeddings=512,
             rms_norm_eps=1e-6, rope_theta=1e6, rope_local_base_freq=1e4, query_pre_attn_scalar=64, sliding_window=16,
             sliding_window_pattern=3)
WRAPPER = dict(model_type="gemma3", vocab_size=VOCAB, text_config={k: v for k, v in GEMMA.items() if k != "vocab_size"})
LLAMA3_ROPE = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=64)


def llama(**changes):
    return {**LLAMA, **changes}


def gemma(**changes):
    return {**GEMMA, **changes}


def wrapper(**changes):
    return {**WRAPPER, "text_config": {**WRAPPER["text_config"], **changes}}


def affine(bits, group):
    return dict(bits=bits, group_size=group, mode="affine")


FP_MODES = {"mxfp4": (4, 32), "mxfp8": (8, 32), "nvfp4": (4, 16)}


def fp(mode):
    return dict(bits=FP_MODES[mode][0], group_size=FP_MODES[mode][1], mode=mode)


def overrides(path, module):
    """Objects, false and true in one dict, embedding included."""
    if path.endswith("embed_tokens"):
        return affine(8, 64)
    if "layers.0.mlp.down_proj" in path:
        return False
    if "layers.1.self_attn.v_proj" in path:
        return affine(6, 32)
    if "layers.1.mlp.up_proj" in path:
        return fp("nvfp4")
    return True


def dense_embedding(path, module):
    return not path.endswith("embed_tokens")


def mixed(path, module):
    """mixed_2_6 in small: the high bits go to the head, to v_proj and down_proj."""
    is_high = any(part in path for part in ("lm_head", "v_proj", "down_proj"))
    return affine(6 if is_high else 2, 64)


def cases():
    """(name, config, quantization or None, predicate, stored dtype, shards)"""
    out = []
    kinds = {"llama": llama(), "gemma3_text": gemma()}
    for bits in (2, 3, 4, 5, 6, 8):
        for group in (32, 64, 128):
            kind = list(kinds)[(bits + group // 32) % 2]
            dtype = [mx.bfloat16, mx.float16, mx.float32][(bits + group // 64) % 3]
            out.append((f"{kind} affine{bits}g{group}", kinds[kind], affine(bits, group), None, dtype, 1))
    for mode in FP_MODES:
        out.append((f"llama {mode}", llama(tie_word_embeddings=False), fp(mode), None, mx.bfloat16, 1))
        out.append((f"gemma3 {mode}", gemma(), fp(mode), None, mx.bfloat16, 1))
    four = affine(4, 64)
    out += [
        ("llama dense", llama(), None, None, mx.bfloat16, 1),
        ("llama untied", llama(tie_word_embeddings=False), four, None, mx.bfloat16, 1),
        ("llama 3 shards", llama(tie_word_embeddings=False), four, None, mx.float16, 3),
        ("llama overrides", llama(), four, overrides, mx.bfloat16, 1),
        ("llama overrides untied", llama(tie_word_embeddings=False), affine(3, 32), overrides, mx.float16, 2),
        ("llama dense embedding", llama(), four, dense_embedding, mx.bfloat16, 1),
        ("llama mixed recipe", llama(tie_word_embeddings=False), affine(2, 64), mixed, mx.bfloat16, 1),
        ("llama biases", llama(attention_bias=True, mlp_bias=True), four, None, mx.bfloat16, 1),
        ("llama head_dim", llama(head_dim=64), four, None, mx.bfloat16, 1),
        ("llama llama3 rope", llama(rope_scaling=LLAMA3_ROPE), four, None, mx.bfloat16, 1),
        ("llama linear rope", llama(rope_scaling=dict(type="linear", factor=2.5)), four, None, mx.bfloat16, 1),
        ("llama yarn rope", llama(rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32)),
         four, None, mx.bfloat16, 1),
        ("llama sliding layers", llama(sliding_window=16, layer_types=["full_attention", "sliding_attention",
                                                                       "sliding_attention"]), four, None, mx.bfloat16, 1),
        ("mistral", llama(model_type="mistral", tie_word_embeddings=False), four, None, mx.bfloat16, 1),
        ("mistral, sliding_window null", llama(model_type="mistral", sliding_window=None), four, None, mx.float32, 1),
        ("gemma3_text untied", gemma(tie_word_embeddings=False), four, None, mx.bfloat16, 1),
        ("gemma3_text overrides", gemma(), four, overrides, mx.bfloat16, 2),
        ("gemma3_text linear rope", gemma(rope_scaling=dict(rope_type="linear", factor=8.0)), four, None, mx.float32, 1),
        ("gemma3", wrapper(), four, None, mx.bfloat16, 1),
        ("gemma3 overrides", wrapper(), four, overrides, mx.bfloat16, 2),
        ("gemma3 dense", wrapper(), None, None, mx.float32, 1),
    ]
    return out


def randomized(config, dtype):
    """A model with weights of a size that keeps every layer at work; norms away from their initial constant."""
    model_class, args_class = _get_classes(config)
    model = model_class(args_class.from_dict(copy.deepcopy(config)))
    is_gemma = "gemma" in config["model_type"]

    def draw(path, weight):
        if weight.ndim == 1:
            center = 1.0 if "norm" in path and not is_gemma else 0.0
            return (center + 0.3 * mx.random.normal(weight.shape)).astype(dtype)
        scale = 0.7 if "embed_tokens" in path else 1.5 / weight.shape[-1] ** 0.5
        return (scale * mx.random.normal(weight.shape)).astype(dtype)

    model.update(tree_map_with_path(draw, model.parameters()))
    tie = config.get("tie_word_embeddings", True)
    text = model.language_model if hasattr(model, "language_model") else model
    if is_gemma and tie:
        text.pop("lm_head")
        text.tie_word_embeddings = True
    return model


def save(folder, model, config, n_shards):
    weights = sorted(dict(tree_flatten(model.parameters())).items())
    names = ["model.safetensors"]
    if n_shards > 1:
        names = [f"model-{i + 1:05}-of-{n_shards:05}.safetensors" for i in range(n_shards)]
    weight_map = {}
    for i, name in enumerate(names):
        part = dict(weights[i::n_shards])
        mx.save_safetensors(str(folder / name), part, metadata={"format": "mlx"})
        weight_map.update({key: name for key in part})
    index = {"metadata": {"total_size": sum(w.nbytes for _, w in weights)}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    if "quantization" in config:
        config["quantization_config"] = config["quantization"]
    (folder / "config.json").write_text(json.dumps(config, sort_keys=True))


def reference_logits(folder, ids):
    """Whole prompt without a cache, then through mlx-lm's caches in passes of 7."""
    model, _ = load_model(folder)
    model.set_dtype(mx.float32)
    tokens = mx.array([ids])
    text = model.language_model if hasattr(model, "language_model") else model
    # mlx looks rows of the fp modes up in bf16 (exact), and Gemma would round its scaled rows there: widen them first.
    rows = text.model.embed_tokens(tokens).astype(mx.float32)
    whole = np.array(model(tokens, input_embeddings=rows + 0))[0]  # + 0: the model scales its argument in place
    cache = make_prompt_cache(model)
    parts = [np.array(model(tokens[:, i:i + 7], cache=cache, input_embeddings=rows[:, i:i + 7] + 0))[0]
             for i in range(0, len(ids), 7)]
    return whole, np.concatenate(parts)


def compare(probe, case, folder):
    name, config, quantization, predicate, dtype, n_shards = case
    config = copy.deepcopy(config)
    model = randomized(config, dtype)
    if quantization:
        flags = {}

        def recording(path, module, inner=predicate):
            answer = inner(path, module)
            if isinstance(answer, bool):
                flags[path] = answer
            return answer

        model, config = quantize_model(model, config, quantization["group_size"], quantization["bits"],
                                       mode=quantization["mode"], quant_predicate=recording if predicate else None)
        config["quantization"].update(flags)  # the true and false forms of an entry, which mlx-lm reads but never writes
    save(folder, model, config, n_shards)
    ids = np.random.randint(0, VOCAB, N_TOKENS).tolist()
    whole, cached = reference_logits(folder, ids)
    out = folder / "logits.bin"
    done = subprocess.run([probe, folder, out, "f32", *map(str, CHUNKS)], input=" ".join(map(str, ids)), text=True,
                          capture_output=True)
    if done.returncode != 0:
        print(f"{name}: loft failed: {done.stderr.strip()}")
        return False
    got = np.fromfile(out, np.float32).reshape(len(CHUNKS), N_TOKENS, VOCAB)
    size = np.abs(whole).max()
    worst = max(np.abs(rows - wanted).max() / size for rows in got for wanted in (whole, cached))
    if not worst <= TOLERANCE:
        print(f"{name}: differs by {worst:.2e} of the largest logit {size:.3f}, allowed {TOLERANCE}")
        return False
    if not (got[0] == got[1]).all() or not (got[0] == got[2]).all():
        print(f"{name}: logits depend on how the prompt is cut")
        return False
    return worst


def main():
    probe = pathlib.Path(sys.argv[1]) / "probe_forward"
    results = []
    for i, case in enumerate(cases()):
        np.random.seed(i)
        mx.random.seed(i)
        with tempfile.TemporaryDirectory() as folder:
            results.append(compare(probe, case, pathlib.Path(folder)))
    failed = sum(result is False for result in results)
    worst = max((result for result in results if result is not False), default=0)
    print(f"{len(results)} models, {failed} differ; largest difference of the others {worst:.2e} of the largest logit")
    sys.exit(1 if failed or not results else 0)


if __name__ == "__main__":
    main()
