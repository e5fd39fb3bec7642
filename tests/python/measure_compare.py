"""loft trace and loft perplexity against an independent NumPy float32 forward (tools/golden/make_trace.py).

Called with the build folder. Two tiny seeded checkpoints: a Llama in f16 without a begin token, a Gemma 3 in bf16 with
one and with windows of 16. Traces of several shapes: header lines and targets equal, likeliest ids equal where the
reference tells them apart, losses and logits within the tolerance. Perplexity by its four definitions: counts equal,
loss and both standard errors within the tolerance.

Tolerance, as a share of the largest logit of a row: two f32 implementations that sum in different orders through a few
layers. Measured: 1.5e-6 on these models.
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools" / "golden"))
import make_trace  # noqa: E402
from make_golden import Checkpoint, Net  # noqa: E402

TOLERANCE = 2e-5
APART = 1e-4
EXACT = ["--qmm-activations", "f32", "--kv-dtype", "f32"]

LLAMA = {"model_type": "llama", "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "intermediate_size": 256, "vocab_size": 320, "max_position_embeddings": 512,
         "rms_norm_eps": 1e-5, "tie_word_embeddings": False}
GEMMA = {"model_type": "gemma3_text", "hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4,
         "num_key_value_heads": 1, "head_dim": 32, "intermediate_size": 256, "vocab_size": 320,
         "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "sliding_window": 16, "sliding_window_pattern": 3,
         "query_pre_attn_scalar": 32}
# chunk, max_chunks, topk, prefill, start
SHAPES = [(16, 4, 8, 0, 0), (1, 12, 3, 0, 0), (40, 9, 5, 24, 0), (8, 6, 8, 64, 100), (128, 2, 2, 0, 7)]
MODES = [("mlx", 64, None), ("chunk", 60, None), ("llama", 65, None), ("stride", 64, 20)]


def some_text():
    """900 bytes of words; bytes are tokens."""
    state, out = 1, []
    while sum(len(word) + 1 for word in out) < 900:
        state = (state * 1103515245 + 12345) % 2 ** 31
        out.append("".join(chr(97 + (state >> (3 * i)) % 26) for i in range(1 + state % 7)))
    return " ".join(out)[:900]


def run(loft, *args):
    done = subprocess.run([loft, *map(str, args)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"loft {' '.join(map(str, args))}: {done.stderr}")
    return done.stdout


def give_begin_token(folder):
    """The one special token of the synthetic tokenizer is put before every text."""
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    token = tokenizer["added_tokens"][0]
    special = {"SpecialToken": {"id": token["content"], "type_id": 0}}
    first, second = [{"Sequence": {"id": name, "type_id": i}} for i, name in enumerate("AB")]
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing", "single": [special, first], "pair": [special, first, second],
        "special_tokens": {token["content"]: {"id": token["content"], "ids": [token["id"]],
                                              "tokens": [token["content"]]}}}
    path.write_text(json.dumps(tokenizer))


def difference_of_rows(got, wanted):
    """What differs, or the largest difference of a number."""
    a, b = [line.split("\t") for line in (got, wanted)]
    if a[:3] != b[:3]:
        return f"found {a[:3]}, wanted {b[:3]}"
    worst = abs(float(a[3]) - float(b[3]))
    values, wanted_values = [[float(x) for x in line[5].split(",")] for line in (a, b)]
    worst = max([worst] + [abs(x - y) for x, y in zip(values, wanted_values)]) / max(1.0, abs(wanted_values[0]))
    for i, (x, y) in enumerate(zip(a[4].split(","), b[4].split(","))):
        neighbours = [abs(wanted_values[j] - wanted_values[i]) for j in (i - 1, i + 1) if 0 <= j < len(wanted_values)]
        if x != y and i + 1 < len(wanted_values) and min(neighbours) > APART:
            return f"place {i} of {a[:3]}: found id {x}, wanted {y}"
    return worst if len(values) == len(wanted_values) else f"found {len(values)} logits, wanted {len(wanted_values)}"


def compare_trace(loft, net, tokenizer, model, text, shape):
    chunk, max_chunks, topk, prefill, start = shape
    got = run(loft, "trace", model, text, chunk, max_chunks, topk, prefill, "--start-token", start, "--plain",
              *EXACT).splitlines()
    ids = tokenizer.encode(text.read_text(), add_special_tokens=False).ids
    wanted = list(make_trace.trace_lines(net, model, text, ids, make_trace.begin_token(tokenizer), *shape))
    if got[:4] != wanted[:4] or len(got) != len(wanted):
        return [f"{shape}: found {len(got)} lines, {got[:4]}; wanted {len(wanted)}, {wanted[:4]}"], 0
    rows = [difference_of_rows(a, b) for a, b in zip(got[4:], wanted[4:])]
    faults = [f"{shape}: {row}" for row in rows if isinstance(row, str)]
    worst = max([row for row in rows if not isinstance(row, str)], default=0)
    if worst > TOLERANCE:
        faults.append(f"{shape}: numbers differ by {worst:.2e}, allowed {TOLERANCE}")
    return faults, worst


def compare_perplexity(loft, net, tokenizer, model, text, mode, length, stride):
    more = ["--stride", stride] if stride else []
    got = json.loads(run(loft, "perplexity", model, text, "--mode", mode, "-c", length, *more, "--json", "-q", *EXACT))
    cut = make_trace.windows(mode, length, stride, tokenizer, text.read_text())
    wanted = make_trace.perplexity(net, cut)
    faults = []
    if (got["windows"], got["tokens"]) != (len(cut), wanted["tokens"]):
        faults.append(f"{mode}: found {got['windows']} windows, {got['tokens']} tokens; wanted {len(cut)}, "
                      f"{wanted['tokens']}")
    worst = 0
    for key in ("nll", "ppl", "token_error", "window_error"):
        part = abs(got[key] / wanted[key] - 1)
        worst = max(worst, part)
        if not part <= TOLERANCE:
            faults.append(f"{mode}: {key} {got[key]}, wanted {wanted[key]}")
    return faults, worst


def main():
    loft = pathlib.Path(sys.argv[1]) / "loft"
    faults, worst, count = [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        text = folder / "text.txt"
        text.write_text(some_text())
        for name, config, dtype, has_bos in [("llama", LLAMA, "f16", False), ("gemma", GEMMA, "bf16", True)]:
            (folder / f"{name}.json").write_text(json.dumps(config))
            model = folder / name
            run(loft, "synth", folder / f"{name}.json", model, "--weight-dtype", dtype, "--seed", 3)
            if has_bos:
                give_begin_token(model)
            net, tokenizer = Net(Checkpoint(model)), make_trace.load_tokenizer(model)
            results = [compare_trace(loft, net, tokenizer, model, text, shape) for shape in SHAPES]
            results += [compare_perplexity(loft, net, tokenizer, model, text, *mode) for mode in MODES]
            for some, part in results:
                faults += [f"{name}: {fault}" for fault in some]
                worst, count = max(worst, part), count + 1
    for fault in faults:
        print(fault)
    print(f"{count} comparisons, {len(faults)} faults; largest difference {worst:.2e}")
    sys.exit(1 if faults or not count or math.isnan(worst) else 0)


if __name__ == "__main__":
    main()
