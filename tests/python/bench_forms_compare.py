"""The forms of `loft bench` through the readers that others use: sqlite3, csv and json of Python. Called with the build folder.

A tiny checkpoint whose name has quotes, commas and a semicolon is measured once in each form; every reader
must give back the same text, numbers and nested values as the JSON of that run has.
"""
import csv
import io
import json
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

CONFIG = {"model_type": "llama", "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "intermediate_size": 256, "vocab_size": 320, "max_position_embeddings": 512,
          "rms_norm_eps": 1e-5, "tie_word_embeddings": False}
NAME = "it's a \"tiny\", plain; model"
FIGURES = ("avg_ns", "stddev_ns", "avg_ts", "median_ts", "min_ts", "max_ts", "bytes", "gbps", "tflops", "n_forwards")
NESTED = ("build", "host", "qmm", "mem", "counters", "options", "kernels")


def refuse_constant(word):
    raise ValueError(f"{word} is no JSON number")


def parsed(text):
    return json.loads(text, parse_constant=refuse_constant)


def main():
    loft = str(pathlib.Path(sys.argv[1]) / "loft")
    faults = []

    def same(what, found, wanted):
        if found != wanted:
            faults.append(f"{what}: found {found!r}, wanted {wanted!r}")

    with tempfile.TemporaryDirectory() as temp:
        folder = pathlib.Path(temp)
        (folder / "config.json").write_text(json.dumps(CONFIG))
        model = folder / NAME
        subprocess.run([loft, "synth", folder / "config.json", model, "--quiet"], check=True)
        common = [loft, "bench", model, "-p", "8", "-n", "4", "-r", "3", "--ceiling", "nominal:20", "--kernels",
                  "--opt", "qmm-activations=a16,f32"]

        def run(*args):
            done = subprocess.run([*common, *args], capture_output=True)
            if done.returncode:
                raise SystemExit(f"loft bench {' '.join(map(str, args))}: {done.stderr.decode()}")
            return done.stdout.decode()  # with its line ends as they are

        for form in ("sql", "csv", "jsonl"):
            file = folder / f"{form}.json"
            text = run("-o", form, "--json-file", file)  # both forms of one run
            rows = parsed(file.read_text())["results"]
            same(f"{form}: rows", len(rows), 4)
            if form == "sql":
                base = sqlite3.connect(":memory:")
                base.row_factory = sqlite3.Row
                base.executescript(text)
                base.executescript(text)  # the table may be there already
                got = [dict(row) for row in base.execute("SELECT * FROM loft_bench LIMIT 4")]
                same("sql: rows after two loads", base.execute("SELECT count(*) FROM loft_bench").fetchone()[0], 8)
                mean = base.execute("SELECT avg(median_ts) FROM (SELECT * FROM loft_bench LIMIT 4)").fetchone()[0]
                if abs(mean - sum(row["median_ts"] for row in rows) / 4) > 1e-6 * mean:
                    faults.append(f"sql: mean of median_ts {mean}")
                number = lambda value: value  # noqa: E731: the column's type makes it one
            elif form == "csv":
                got = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
                same("csv: line ends", text.count("\n"), text.count("\r\n"))
                number = float
            else:
                got = [parsed(line) for line in text.splitlines()]
                same("jsonl: rows are those of the JSON", got, rows)
                number = lambda value: value  # noqa: E731
            same(f"{form}: number of rows", len(got), len(rows))
            for one, row in zip(got, rows):
                same(f"{form}: model", one["model_filename"], str(model))
                same(f"{form}: test", (one["test"], one["status"]), (row["test"], row["status"]))
                for key in FIGURES:
                    same(f"{form}: {key}", number(one[key]), row[key])
                for key in NESTED:
                    value = one[key] if form == "jsonl" else parsed(one[key])
                    same(f"{form}: {key}", value, row[key])
                empty = {"sql": None, "csv": "", "jsonl": None}[form]
                same(f"{form}: a figure that is not there", one["guard"], empty)
    for fault in faults:
        print(fault)
    print(f"forms of loft bench: {len(faults)} differences")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
