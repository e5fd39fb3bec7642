#!/usr/bin/env python3
"""tools/results as a user calls it, on pages made here. Called as: python3 results_test.py"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "results"

BENCH = {"model": "m", "total": 400, "tests": [
    {"name": "pp512", "n_gen": 0, "median": 1234.56, "min": 1200, "max": 1300.04, "peak": 4520000000},
    {"name": "tg128", "n_gen": 128, "median": 62.75, "min": 62.68, "max": 62.76, "peak": None}]}
TABLES = {
    "speed": {"rows": [{"file": "bench.json", "each": "tests", "set": {"arm": "before|x"}}],
              "columns": [{"title": "arm", "cell": "{arm}"}, {"title": "test", "cell": "{name}"},
                          {"title": "tok/s", "cell": "{median:,.1f} ({min:.1f}-{max:.1f})"},
                          {"title": "peak GB", "cell": "{peak / 1e9:.2f}"}, {"title": "note", "cell": "{note?}"}]},
    "turned": {"rows": [{"file": "bench.json", "each": "tests", "where": {"n_gen": 128}}], "transpose": True,
               "columns": [{"title": "test", "cell": "{name}"}, {"title": "share", "cell": "{median / $.total:.1%}"}]},
    "lines": {"rows": [{"file": "rounds.jsonl", "each": ""}],
              "columns": [{"title": "round", "cell": "{@key:d}"}, {"title": "last", "cell": "{s.-1:.3g} of {s.#:d}"}]},
    "gain": {"file": "bench.json", "cell": "{tests.0.median / tests.1.median:.2f}"},
    "log": {"text": "run.log"},
}
PAGE = """# A page
<!-- loft:begin speed -->
<!-- loft:end -->
<!-- loft:begin turned -->
old
<!-- loft:end -->
<!-- loft:begin lines -->
<!-- loft:end -->
The gain is <!-- loft:begin gain -->?<!-- loft:end --> times, <!-- loft:begin gain -->?<!-- loft:end -->.
<!-- loft:begin log -->
<!-- loft:end -->
```
<!-- loft:begin in a fence -->
```
"""
FILLED = """# A page
<!-- loft:begin speed -->
| arm | test | tok/s | peak GB | note |
|---|---|---:|---:|---|
| before\\|x | pp512 | 1,234.6 (1200.0-1300.0) | 4.52 | - |
| before\\|x | tg128 | 62.8 (62.7-62.8) | - | - |
<!-- loft:end -->
<!-- loft:begin turned -->
| test | tg128 |
|---|---:|
| share | 15.7% |
<!-- loft:end -->
<!-- loft:begin lines -->
| round | last |
|---:|---:|
| 0 | 2 of 2 |
| 1 | 0.333 of 1 |
<!-- loft:end -->
The gain is <!-- loft:begin gain -->19.67<!-- loft:end --> times, <!-- loft:begin gain -->19.67<!-- loft:end -->.
<!-- loft:begin log -->
```
one
 two
```
<!-- loft:end -->
```
<!-- loft:begin in a fence -->
```
"""


class Results(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.page = pathlib.Path(self.folder.name) / "a page.md"
        self.data = self.page.parent / "data" / "a page"
        self.data.mkdir(parents=True)
        self.page.write_text(PAGE)
        (self.data / "bench.json").write_text(json.dumps(BENCH))
        (self.data / "rounds.jsonl").write_text('{"s": [1, 2]}\n{"s": [0.33333]}\n')
        (self.data / "run.log").write_text("one\n two \n")
        self.tables(TABLES)

    def tables(self, entries):
        (self.data / "tables.json").write_text(json.dumps(entries))

    def call(self, status, *args):
        done = subprocess.run([sys.executable, str(TOOL), *map(str, args)], capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr

    def sealed_and_filled(self):
        self.call(0, "--seal", self.data)
        self.call(0, self.page)

    def test_fills_every_kind_of_block_and_then_agrees(self):
        self.call(1, "--check", self.page)
        self.assertEqual(self.page.read_text(), PAGE)
        self.sealed_and_filled()
        self.assertEqual(self.page.read_text(), FILLED)
        self.call(0, "--check", self.page)
        self.call(0, self.page)
        self.assertEqual(self.page.read_text(), FILLED)

    # Seen to fail: check_page compares nothing.
    def test_an_edited_cell_is_found(self):
        self.sealed_and_filled()
        for before, after in (("62.8 (", "62.9 ("), ("| 1 | 0.333 of 1 |\n", ""), (">19.67<!-- loft:end -->.", ">19.68<!-- loft:end -->."),
                              (" two", " too")):
            edited = FILLED.replace(before, after)
            self.assertNotEqual(edited, FILLED)
            self.page.write_text(edited)
            self.assertIn("the data says", self.call(1, "--check", self.page))
            self.assertEqual(self.page.read_text(), edited)

    # Seen to fail: check_sums looks at no sum.
    def test_data_that_changed_after_its_seal_is_found(self):
        self.sealed_and_filled()
        (self.data / "bench.json").write_text(json.dumps(BENCH) + "\n")
        self.assertIn("bench.json is not the file that was sealed", self.call(1, "--check", self.page))
        (self.data / "bench.json").write_text(json.dumps(BENCH))
        self.call(0, "--check", self.page)
        (self.data / "more.txt").write_text("x\n")
        self.assertIn("more.txt is not the file that was sealed", self.call(1, "--check", self.page))
        (self.data / "SHA256SUMS").unlink()
        self.assertIn("is missing", self.call(1, "--check", self.page))

    def test_sums_are_those_of_sha256sum(self):
        self.call(0, "--seal", self.data, "--note", "device=a fake one")
        self.assertIn("device: a fake one\n", (self.data / "METADATA.txt").read_text())
        subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=self.data, check=True)

    # Seen to fail: seal writes files back as they were.
    def test_private_paths_are_shortened_and_machine_paths_stay(self):
        log = self.data / "run.log"
        log.write_text("one /sys/class/kfd/proc and /home/me/models/M-4bit, https://x.org/a/b tok/s\n")
        self.sealed_and_filled()
        self.assertEqual(log.read_text(), "one /sys/class/kfd/proc and M-4bit, https://x.org/a/b tok/s\n")
        self.call(0, "--check", self.page)
        log.write_text("/home/me/models/M\n")
        sums = subprocess.run(["sha256sum", "METADATA.txt", "bench.json", "rounds.jsonl", "run.log"], cwd=self.data,
                              capture_output=True, text=True, check=True).stdout
        (self.data / "SHA256SUMS").write_text(sums)
        self.page.write_text(FILLED.replace("one\n two\n", "/home/me/models/M\n"))
        self.assertIn("a private path, /home/me/models/M", self.call(1, "--check", self.page))

    def test_malformed_pages_and_data_end_with_3_and_say_where(self):
        row = {"file": "bench.json", "each": "tests"}
        for entry, message in (
                ({"rows": [row], "columns": [{"title": "t", "cell": "{speed:.1f}"}]}, "the data has no 'speed'"),
                ({"rows": [row], "columns": [{"title": "t", "cell": "{name:.1f}"}]}, "wanted a number"),
                ({"rows": [row], "columns": [{"title": "t", "cell": "{median:>9}"}]}, "number format '>9'"),
                ({"rows": [row], "columns": [{"title": "t", "cell": "{n_gen / n_gen:d}"}]}, "zero"),
                ({"rows": [row], "columns": [{"title": "t", "cell": "{median/min}"}]}, "the data has no"),
                ({"rows": [{**row, "where": {"n_gen": 5}}], "columns": []}, "no row of bench.json fits"),
                ({"rows": [{**row, "were": {}}], "columns": []}, "wanted file"),
                ({"rows": [{"file": "none.json"}], "columns": []}, "none.json"),
                ({"file": "bench.json", "each": "tests", "cell": "{name}"}, "2 rows fit"),
                ({"columns": []}, "not an entry")):
            self.tables({**TABLES, "speed": entry})
            error = self.call(3, "--check", self.page)
            self.assertIn(message, error)
            self.assertIn("none.json" if "none.json" in message else "a page.md:2: speed", error)
        self.tables({k: v for k, v in TABLES.items() if k != "log"})
        self.assertIn("log: no such entry", self.call(3, self.page))
        self.tables(TABLES)
        (self.data / "bench.json").write_text('{"tests": [NaN]}')
        self.assertIn("NaN is no JSON number", self.call(3, self.page))
        (self.data / "bench.json").write_text(json.dumps(BENCH))
        for page, message in ((PAGE.replace("<!-- loft:end -->", "", 1), "has no end"), ("<!-- loft:end -->\n", "without a begin"),
                              ("no table\n", "no block")):
            self.page.write_text(page)
            self.assertIn(message, self.call(3, self.page))
            self.assertEqual(self.page.read_text(), page)

    def test_usage_errors_end_with_2(self):
        self.call(2, "--chek")
        self.call(2, "--seal", self.data, self.page)
        self.call(2, "--note", "a=b", self.page)
        self.call(2, "--seal", self.data, "--note", "a")
        self.call(3, "--seal", self.data / "none")


if __name__ == "__main__":
    unittest.main()
