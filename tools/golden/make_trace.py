#!/usr/bin/env python3
"""Teacher-forced logit trace of an MLX checkpoint folder, by the NumPy float32 forward of make_golden.py: the published
TSV form (its four comment lines and the rows), independent of loft. Usage:

    make_trace.py MODEL_FOLDER TEXT OUT.tsv [--chunk 256] [--max-chunks 4] [--topk 8] [--prefill 0] [--start 0]

Also imported by tests/python/measure_compare.py, with perplexity by the four definitions of docs/tools/perplexity.md.
"""
import argparse
import math
import pathlib

import numpy as np

from make_golden import Checkpoint, Net, Sequence


def load_tokenizer(folder):
    from tokenizers import Tokenizer
    return Tokenizer.from_file(str(pathlib.Path(folder) / "tokenizer.json"))


def begin_token(tokenizer):
    """[] or [id]."""
    return tokenizer.encode("").ids[:1]


def losses(net, context, ids, first):
    """Logits [rows, vocab] and nll of rows first.. of ids[:-1] on a fresh state, after the context."""
    sequence = Sequence(net)
    if context:
        net.forward([(context, sequence)])
    hidden = net.forward([(ids[:-1], sequence)])[0][first:]
    logits = (hidden @ net.head).astype(np.float32)
    wide = logits.astype(np.float64)
    wide -= wide.max(-1, keepdims=True)
    targets = np.array(ids[first + 1:])
    nll = np.log(np.exp(wide).sum(-1)) - wide[np.arange(len(targets)), targets]
    return logits, nll.astype(np.float32)


def trace_lines(net, model, corpus, ids, bos, chunk, max_chunks, topk, prefill, start):
    n = min(max_chunks, (len(ids) - 1 - start) // chunk)
    yield f"# model\t{model}"
    yield f"# corpus\t{corpus}\ttokens\t{len(ids)}"
    yield f"# chunks\t{n}\tchunk_tokens\t{chunk}\ttopk\t{topk}\tprefill\t{prefill}"
    yield "# columns\tchunk\tpos\ttarget\tnll\ttop_ids\ttop_logits"
    for c in range(n):
        begin = start + c * chunk
        segment = ids[begin:begin + chunk + 1]
        context = ids[max(0, begin - prefill):begin]
        prefix = bos if begin > 0 else []
        if context:
            logits, nll = losses(net, prefix + context, segment, 0)
        else:
            logits, nll = losses(net, [], prefix + segment, len(prefix))
        for pos, (row, loss) in enumerate(zip(logits, nll)):
            best = np.argsort(-row, kind="stable")[:topk]
            yield (f"{c}\t{pos}\t{segment[pos + 1]}\t{loss:.6f}\t{','.join(str(i) for i in best)}\t"
                   + ",".join(f"{row[i]:.6f}" for i in best))


def windows(mode, length, stride, tokenizer, text):
    """(ids with the last target, first scored row) of every window of a text."""
    bos = begin_token(tokenizer)
    ids = tokenizer.encode(text, add_special_tokens=mode != "mlx").ids
    if mode == "mlx":
        return [(ids[i:i + length], 0) for i in range(0, len(ids) - length + 1, length)]
    if mode == "chunk":
        return [((bos if c else []) + ids[c * length:(c + 1) * length + 1], len(bos) if c else 0)
                for c in range((len(ids) - 1) // length)]
    if mode == "llama":
        cut = [ids[i:i + length] for i in range(0, len(ids) - length + 1, length)]
        return [(bos + window[len(bos):], length // 2) for window in cut]
    return [(ids[i:i + length], max(0, length - 1 - stride)) for i in range(0, len(ids) - length + 1, stride)]


def perplexity(net, cut):
    """tokens, nll, ppl, standard error with tokens as units, with windows as units."""
    parts = [losses(net, [], ids, first)[1].astype(np.float64) for ids, first in cut]
    every = np.concatenate(parts)
    mean = every.mean()
    ppl = math.exp(mean)
    token_error = ppl * every.std(ddof=1) / math.sqrt(len(every))
    totals = np.array([part.sum() - mean * len(part) for part in parts])
    window_error = ppl * math.sqrt((totals ** 2).sum() * len(parts) / (len(parts) - 1)) / len(every)
    return {"tokens": len(every), "nll": mean, "ppl": ppl, "token_error": token_error, "window_error": window_error}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("text")
    parser.add_argument("out")
    for name, value in [("chunk", 256), ("max-chunks", 4), ("topk", 8), ("prefill", 0), ("start", 0)]:
        parser.add_argument(f"--{name}", type=int, default=value)
    o = parser.parse_args()
    tokenizer = load_tokenizer(o.model)
    ids = tokenizer.encode(pathlib.Path(o.text).read_text(), add_special_tokens=False).ids
    net = Net(Checkpoint(o.model))
    lines = trace_lines(net, pathlib.Path(o.model).name, o.text, ids, begin_token(tokenizer), o.chunk, o.max_chunks,
                        o.topk, o.prefill, o.start)
    pathlib.Path(o.out).write_text("".join(line + "\n" for line in lines))


if __name__ == "__main__":
    main()
