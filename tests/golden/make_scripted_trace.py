#!/usr/bin/env python3
"""Prints the trace that src/measure/logit_trace_test.cc wants of its scripted model: logits that are a hash of all tokens
so far (scripted::hashed_logits), a vocabulary of 257, begin token 256, twelve tokens, chunks of four, three ids a row.
"""
import math
import struct

VOCAB, BOS, CHUNK, TOPK = 257, 256, 4, 3
IDS = [(i * 37 + 11) % 200 for i in range(12)]
MASK = (1 << 64) - 1


def logits(tokens):
    state = 0x9E3779B97F4A7C15
    for token in tokens:
        state = ((state ^ token) * 0xBF58476D1CE4E5B9 + 1) & MASK
    row = []
    for _ in range(VOCAB):
        state ^= (state << 13) & MASK
        state ^= state >> 7
        state ^= (state << 17) & MASK
        row.append((state >> 40) * 2.0 ** -24 * 8)
    return row


def main():
    n = (len(IDS) - 1) // CHUNK
    print(f"# model\tscripted\n# corpus\ttext.txt\ttokens\t{len(IDS)}")
    print(f"# chunks\t{n}\tchunk_tokens\t{CHUNK}\ttopk\t{TOPK}\tprefill\t0")
    print("# columns\tchunk\tpos\ttarget\tnll\ttop_ids\ttop_logits")
    for chunk in range(n):
        begin = chunk * CHUNK
        before = [BOS] if begin else []
        for pos in range(CHUNK):
            row = logits(before + IDS[begin:begin + pos + 1])
            target = IDS[begin + pos + 1]
            nll = math.log(math.fsum(math.exp(x) for x in row)) - row[target]
            nll = struct.unpack("f", struct.pack("f", nll))[0]
            best = sorted(range(VOCAB), key=lambda i: (-row[i], i))[:TOPK]
            print(f"{chunk}\t{pos}\t{target}\t{nll:.6f}\t{','.join(map(str, best))}\t"
                  + ",".join(f"{row[i]:.6f}" for i in best))


main()
