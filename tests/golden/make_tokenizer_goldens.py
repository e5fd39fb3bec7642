"""Writes the tokenizer goldens beside this file: make_tokenizer_goldens.py. Needs the Python package `tokenizers`.

Each file holds cases: a small tokenizer.json, and texts with the ids and the decoded text that `tokenizers` gives.
"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "python"))
import tokenizer_compare as families  # noqa: E402
from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers  # noqa: E402


def byte_level(pattern, normalizer=None, vocab=420):
    pre = pre_tokenizers.Sequence([families.split(pattern), families.level()])
    return families.bpe(pre, normalizer=normalizer, vocab=vocab)


def sentence_piece(strip, vocab=420):
    steps = [normalizers.Prepend("▁")] if strip else []
    normalizer = normalizers.Sequence(steps + [normalizers.Replace(" ", "▁")])
    return families.with_bytes(families.bpe(None, normalizer=normalizer, byte_level=False, vocab=vocab,
                                            special=("<unk>", "<s>", "</s>"), decoder=families.sp_decoder(strip)))


def metaspace():
    return families.bpe(pre_tokenizers.Metaspace(), byte_level=False, vocab=420, special=("<unk>",), unk_token="<unk>",
                        decoder=decoders.Metaspace())


def without_decoder(tokenizer):
    data = json.loads(tokenizer.to_str())
    data["decoder"] = None
    return Tokenizer.from_str(json.dumps(data))


def case(name, tokenizer, texts):
    rows = []
    for text in texts:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        rows.append({"text": text, "ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False)})
    return {"name": name, "tokenizer": json.loads(tokenizer.to_str()), "texts": rows}


def write(name, cases):
    with open(os.path.join(HERE, name), "w", encoding="utf-8") as f:
        json.dump({"cases": cases}, f, ensure_ascii=True, separators=(",", ":"))
        f.write("\n")


def a07():
    texts = ["⊕ ⊻ ∧ ¬", "日本語テスト", "👩\u200d👩\u200d👧\u200d👦", "🇩🇪", "caf\u00e9", "cafe\u0301", " two  spaces ", "plain text", ""]
    return [case("byte-level", byte_level(families.LLAMA3), texts), case("sentencepiece, strip", sentence_piece(True), texts),
            case("sentencepiece", sentence_piece(False), texts), case("metaspace", metaspace(), texts),
            case("no decoder", without_decoder(byte_level(families.QWEN2)), texts)]


def a08():
    texts = ["<|user|>Hello", "<|user|> Hello", "<|user|>  Hello", "<|user|>\nHello", "say <|user|>", "<|user|>", "<|user|>\n\n",
             "<|user|> <|user|> \t x", "<|user", "a<|user|>b"]
    cases = []
    for rstrip in (True, False):
        tokenizer = byte_level(families.O200K)
        tokenizer.add_special_tokens([AddedToken("<|user|>", rstrip=rstrip, normalized=False)])
        cases.append(case("rstrip" if rstrip else "no rstrip", tokenizer, texts))
    return cases


def a09():
    parts = ["don't I'll WE'VE they'Re 'S x's", "ABC Abc aBC camelCase SNAKE_CASE", "1 12 123 1234 12345 123456 1234567 91234 9123456",
             "日本語のテキスト、漢字とかな。", "العربية ١٢٣ والنص", "for (int i = 0; i < n; ++i) { x[i] += 0x1F; }", "\tif x:\n\t\treturn y",
             "a  b   c    d", "one\ntwo\n\nthree\r\n\r\nfour", "👍🏽 🇩🇪 ❤️ 👩\u200d👩\u200d👧\u200d👦", "v1.2.3-rc4+build5", "naïve café e\u0301 ﬁ ½ Ⅷ",
             "...!!! ??? -- __ ==", " leading and trailing ", "https://example.org/a?b=c&d=%20#e", "\u00a0\u3000\u2028 spaces",
             "हिन्दी में लिखा", "한국어 문장입니다", "Ελληνικά Русский ΑΣ", "\"quoted\" 'single' «guillemets»"]
    lines = [parts[i % len(parts)] + ("" if i < len(parts) else [" ", "\n", "", "\t", "'s "][i % 5] + parts[(7 * i + i // 20) % len(parts)])
             for i in range(200)]
    # Merges of digits, so that the ids show where a run of digits was cut.
    licences = families.corpus
    families.corpus = lambda: licences() + ["1234567 123456 12345 1234 123 12 1234\n"] * 200
    return [case("llama3", byte_level(families.LLAMA3), lines),
            case("qwen2", byte_level(families.QWEN2, normalizers.NFC()), lines), case("sentencepiece", sentence_piece(True), lines)]


if __name__ == "__main__":
    write("tokenizer_a07.json", a07())
    write("tokenizer_a08.json", a08())
    write("tokenizer_a09.json", a09())
