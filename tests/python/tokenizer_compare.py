"""Ids and texts of loft's tokenizer against the Python package `tokenizers`: tokenizer_compare.py BUILD_DIR.

Small BPE models are trained on licence texts with the settings of the supported families and written as tokenizer.json;
the same seeded strings go through both. Exit status 0 only when nothing differs.
"""
import glob
import json
import os
import random
import subprocess
import sys
import tempfile
import unicodedata

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
KIMI = r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?"
KIMI += r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+|\p{N}{1,3}|\s+|."
DEEPSEEK = [r"[\r\n]", r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-Ֆ]+",
            r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", r"[一-龥ࠀ-一가-퟿]+"]


def corpus():
    lines = []
    for path in sorted(glob.glob("/usr/share/common-licenses/*")):
        with open(path, encoding="utf-8", errors="replace") as f:
            lines += f.read().splitlines(keepends=True)
    lines += ["日本語のテキスト、漢字とかな。\n", "한국어 문장입니다.\n", "Ελληνικά και Русский язык\n", "for (int i = 0; i < n; ++i) {\n\t\treturn x[i];\n}\n"] * 40
    return lines


def bpe(pre, normalizer=None, decoder=None, byte_level=True, vocab=1200, special=("<s>", "</s>"), **model):
    tokenizer = Tokenizer(models.BPE(**model))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if pre is not None:
        tokenizer.pre_tokenizer = pre
    trainer = trainers.BpeTrainer(vocab_size=vocab, show_progress=False, special_tokens=list(special), max_token_length=16,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if byte_level else [])
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.decoder = decoder if decoder is not None else decoders.ByteLevel()
    return tokenizer


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def level(regex=False, prefix=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex)


def template(tokenizer, text, names):
    tokenizer.post_processor = processors.TemplateProcessing(
        single=text, special_tokens=[(n, tokenizer.token_to_id(n)) for n in names])


def with_bytes(tokenizer):
    """A SentencePiece-style model: byte pieces stand behind the special tokens."""
    data = json.loads(tokenizer.to_str())
    vocab = data["model"]["vocab"]
    special = [t["content"] for t in data["added_tokens"]]
    pieces = special + ["<0x%02X>" % b for b in range(256)] + [p for p, _ in sorted(vocab.items(), key=lambda x: x[1])
                                                              if p not in special]
    data["model"]["vocab"] = {p: i for i, p in enumerate(pieces)}
    data["model"]["byte_fallback"] = True
    data["model"]["fuse_unk"] = True
    data["model"]["unk_token"] = "<unk>"
    for token in data["added_tokens"]:
        token["id"] = pieces.index(token["content"])
    return Tokenizer.from_str(json.dumps(data))


def sp_decoder(strip):
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence(parts + ([decoders.Strip(" ", 1, 0)] if strip else []))


def families():
    """Name and tokenizer, one for each family of settings."""
    out = {}
    out["gpt2"] = bpe(level(regex=True))
    out["gpt2_prefix"] = bpe(level(regex=True, prefix=True))
    out["llama3"] = bpe(pre_tokenizers.Sequence([split(LLAMA3), level()]), ignore_merges=True,
                        special=("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"))
    out["llama3"].post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", 0)])])
    out["qwen2"] = bpe(pre_tokenizers.Sequence([split(QWEN2), level()]), normalizer=normalizers.NFC(),
                       special=("<|endoftext|>", "<|im_start|>", "<|im_end|>"))
    out["qwen2"].add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False)])
    out["qwen3.5"] = bpe(pre_tokenizers.Sequence([split(QWEN35), level()]), normalizer=normalizers.NFC())
    out["smollm"] = bpe(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), level(regex=True)]))
    out["o200k"] = bpe(pre_tokenizers.Sequence([split(O200K), level()]))
    out["kimi"] = bpe(pre_tokenizers.Sequence([split(KIMI), level()]))
    out["deepseek"] = bpe(pre_tokenizers.Sequence([split(p) for p in DEEPSEEK] + [pre_tokenizers.Digits(True), level()]))
    out["phi"] = bpe(pre_tokenizers.Sequence([split(O200K), level()]), special=("<|endoftext|>",))
    out["phi"].add_special_tokens([AddedToken("<|user|>", rstrip=True, normalized=False),
                                   AddedToken("<|end|>", lstrip=True, rstrip=True, normalized=False),
                                   AddedToken("<|sys|>", single_word=True, normalized=False)])
    out["phi"].add_tokens([AddedToken("\n\n", normalized=False), AddedToken("the", single_word=True, normalized=True),
                           AddedToken("licens", lstrip=True, normalized=True)])

    replace = normalizers.Replace(" ", "▁")
    unk = ("<unk>", "<s>", "</s>")
    out["gemma"] = with_bytes(bpe(pre_tokenizers.Split(" ", "merged_with_previous"), normalizer=replace, byte_level=False,
                                  special=("<pad>", "<eos>", "<bos>", "<unk>"), decoder=sp_decoder(False)))
    out["gemma"].add_tokens([AddedToken("▁▁", normalized=False), AddedToken("\n\n", normalized=False)])
    template(out["gemma"], "<bos> $A", ["<bos>"])
    prepend = normalizers.Sequence([normalizers.Prepend("▁"), replace])
    out["llama2"] = with_bytes(bpe(None, normalizer=prepend, byte_level=False, special=unk, decoder=sp_decoder(True)))
    template(out["llama2"], "<s> $A", ["<s>"])
    out["mistral"] = with_bytes(bpe(pre_tokenizers.Metaspace(prepend_scheme="first", split=False), byte_level=False,
                                    special=unk, decoder=sp_decoder(True)))
    template(out["mistral"], "<s> $A </s>", ["<s>", "</s>"])
    out["metaspace"] = bpe(pre_tokenizers.Metaspace(), byte_level=False, special=unk, unk_token="<unk>",
                           decoder=decoders.Metaspace())
    out["metaspace_never"] = bpe(pre_tokenizers.Metaspace(prepend_scheme="never"), byte_level=False, special=unk,
                                 unk_token="<unk>", fuse_unk=True, decoder=decoders.Metaspace(prepend_scheme="never"),
                                 normalizer=normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(),
                                                                  normalizers.Strip()]))
    out["suffix"] = bpe(pre_tokenizers.Whitespace(), byte_level=False, special=unk, unk_token="<unk>",
                        end_of_word_suffix="</w>", decoder=decoders.BPEDecoder(),
                        normalizer=normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]))
    out["plain"] = bpe(pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]),
                       byte_level=False, special=unk, continuing_subword_prefix="##", decoder=decoders.Fuse(),
                       normalizer=normalizers.NFKD())
    behaviors = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
    out["naive"] = bpe(pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r"\w{2,4}|\d+"), behaviors[2]), pre_tokenizers.Split("e", behaviors[3]),
         pre_tokenizers.Split(Regex(r"[[:punct:]]"), behaviors[4]), pre_tokenizers.Split(Regex(r"\s+"), behaviors[0]),
         pre_tokenizers.Split(Regex(r"[\p{L}\-x&&[^a-c]]+|(?i:K|S)"), behaviors[1], invert=True)]), byte_level=False,
        special=unk, unk_token="<unk>", normalizer=normalizers.Replace(Regex(r"\s{2,}|\bof\b"), " "))
    out["normalized"] = bpe(None, normalizer=prepend, byte_level=False, special=("<unk>",), unk_token="<unk>",
                            decoder=decoders.Sequence([]))
    out["normalized"].add_tokens([AddedToken("the"), AddedToken("\n", lstrip=True, rstrip=True), AddedToken("licens", lstrip=True)])
    data = json.loads(out["naive"].to_str())
    data["decoder"] = None
    out["naive"] = Tokenizer.from_str(json.dumps(data))
    return out


def strings(rng):
    """Bytes to encode: every script, emoji, white space, code, prose, numbers, broken UTF-8."""
    out = []
    blocks = [[chr(c) for c in range(b, b + 256) if unicodedata.category(chr(c)) not in ("Cs",)]
              for b in list(range(0, 0x20000, 256)) + list(range(0xE0000, 0xE0200, 256))]
    blocks = [b for b in blocks if b]
    for block in blocks:  # every script: runs from each block, alone and among Latin text
        for n in (3, 12):
            out.append("".join(rng.choice(block) for _ in range(n)))
            out.append("a " + "".join(rng.choice(block + [" ", "'", "s"]) for _ in range(n)) + " b1")
    while len(out) < 4000:
        out.append("".join(rng.choice(rng.choice(blocks)) for _ in range(rng.randrange(1, 12))))
    emoji = ["😀", "👩\u200d👩\u200d👧\u200d👦", "🇩🇪", "👍🏽", "❤️", "1️⃣", "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "⊕", "⊻", "∧", "¬", "é", "e\u0301", "日本語", "한국어", "각", "ﬁ", "ſ", "K",
             "İ", "ς", "ΑΣ", "ǆ", "\u200d", "\ufeff", "\u0300\u0327"]
    spaces = [" ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "\u2028", "\u0085", "\x0b", "\x1c", "\u200b", "   \n ", "\r"]
    words = ["the", "The", "LICENSE", "don't", "I'LL", "we'Ve", "'s", "'S", "'ſ", "'T", "x'Re", "<s>", "</s>", "<|user|>", "<|end|>",
             "<|sys|>", "<think>", "</think>", "<|im_start|>", "<unk>", "<bos>", "▁", "▁▁", "licenses", "<0x41>", "of", "Ġ", "##a",
             "if(x){", "};", "//", "->", "a_b", "0x1F", "!=", "...", "¿", "«", "—", "3.14", "1234567", "٣٤", "Ⅷ", "½", "¹²"]
    pool = emoji + spaces + words
    while len(out) < 14000:
        out.append("".join(rng.choice(pool) + rng.choice(["", "", " "]) for _ in range(rng.randrange(1, 14))))
    lines = corpus()
    while len(out) < 18000:
        begin = rng.randrange(len(lines) - 4)
        text = "".join(lines[begin:begin + rng.randrange(1, 4)])
        out.append(text[rng.randrange(len(text)):])
    result = [s.encode("utf-8", "surrogatepass") for s in out]
    while len(result) < 20500:  # broken UTF-8
        base = bytearray(rng.choice(out).encode("utf-8", "surrogatepass"))
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(base) + 1)
            base[at:at + rng.randrange(2)] = bytes(rng.randrange(128, 256) for _ in range(rng.randrange(1, 4)))
        result.append(bytes(base))
    return result


def main():
    probe = os.path.join(sys.argv[1], "probe_tokenizer")
    only = sys.argv[2:]
    rng = random.Random(20261201)
    texts = strings(rng)
    n_bad = n_done = 0
    for i, (name, tokenizer) in enumerate(families().items()):
        if only and name not in only:
            continue
        # Every family sees the fixed half of the hard strings and its own part of the rest; all together see all.
        mine = texts[i % 4::4] + texts[4000:6000]
        decoded = [t.decode("utf-8", "replace") for t in mine]
        plain = [e.ids for e in tokenizer.encode_batch(decoded, add_special_tokens=False)]
        full = [e.ids for e in tokenizer.encode_batch(decoded, add_special_tokens=True)]
        size = tokenizer.get_vocab_size()
        random_ids = [[rng.randrange(size) for _ in range(rng.randrange(1, 30))] for _ in range(500)]
        lines = ["e " + t.hex() for t in mine] + ["d " + " ".join(map(str, ids)) for ids in random_ids]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tokenizer.json")
            tokenizer.save(path)
            run = subprocess.run([probe, path], input="\n".join(lines) + "\n", capture_output=True, text=True)
        if run.returncode != 0:
            print(f"{name}: the probe failed: {run.stderr}")
            n_bad += 1
            continue
        answers = iter(run.stdout.split("\n"))
        shown = 0
        for text, ids, all_ids in zip(mine, plain, full):
            wanted = (ids, all_ids, tokenizer.decode(all_ids, skip_special_tokens=False))
            found = ([int(x) for x in next(answers).split()], [int(x) for x in next(answers).split()],
                     bytes.fromhex(next(answers)).decode("utf-8"))
            if found != wanted:
                n_bad += 1
                shown += 1
                if shown <= 3:
                    print(f"{name}: {text!r}\n  found  {found}\n  wanted {wanted}")
        for ids in random_ids:
            wanted = tuple(tokenizer.decode(ids, skip_special_tokens=skip) for skip in (False, True))
            found = tuple(bytes.fromhex(next(answers)).decode("utf-8") for _ in range(2))
            if found != wanted:
                n_bad += 1
                shown += 1
                if shown <= 3:
                    print(f"{name}: decode {ids}\n  found  {found}\n  wanted {wanted}")
        n_done += len(mine)
        print(f"{name}: {len(mine)} strings, {shown} differ")
    print(f"{n_done} encodes of {len(texts)} strings, {n_bad} differ")
    return 1 if n_bad or not n_done else 0


if __name__ == "__main__":
    sys.exit(main())
