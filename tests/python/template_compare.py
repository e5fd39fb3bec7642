"""Chat templates against jinja2 as transformers sets it up, byte for byte: snippets for every construct, and the templates
of many model families over a matrix of conversations. Usage: template_compare.py BUILD_DIR (after tools/fetch_templates)."""
import datetime
import json
import pathlib
import re
import subprocess
import sys

import transformers.utils.chat_template_utils as reference

from template_inputs import conversations, variable_sets
from template_snippets import CONTEXT, SNIPPETS

NOW = 1735689599  # 2024-12-31 23:59:59 UTC
MIN_FAMILY_TEMPLATES = 70
# Templates that jinja2 loads although they call a filter that does not exist: it would fail only where it is reached.
# loft refuses those by name when it loads them.
REFUSED_AT_LOAD = {}


class FixedClock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(NOW, tz)


reference.datetime = FixedClock


def render_reference(case):
    messages = reference._normalize_chat_messages(case["messages"])
    try:
        rendered, _ = reference.render_jinja_template(
            [messages], tools=case["tools"], chat_template=case["template"],
            add_generation_prompt=case["add_generation_prompt"], **case["variables"])
        rendered[0].encode("utf-8")
        return rendered[0]
    except Exception as error:  # whatever Python refuses, loft must refuse as well
        return error


def render_loft(build_dir, cases):
    lines = "".join(json.dumps({**case, "id": i, "now": NOW}) + "\n" for i, case in enumerate(cases))
    done = subprocess.run([str(build_dir / "probe_template")], input=lines.encode(), capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(f"probe_template ended with {done.returncode}: {done.stderr.decode()[-2000:]}")
    return [json.loads(line) for line in done.stdout.decode("utf-8").split("\n") if line]


def snippet_cases():
    for text in SNIPPETS:
        yield {"name": f"snippet {text!r}", "template": text, "messages": CONTEXT["messages"], "tools": CONTEXT["tools"],
               "add_generation_prompt": True, "variables": CONTEXT["variables"]}


def family_cases(folder):
    paths = sorted(folder.glob("*.jinja"))
    if len(paths) < MIN_FAMILY_TEMPLATES:
        sys.exit(f"{folder} holds {len(paths)} templates, wanted {MIN_FAMILY_TEMPLATES}: run tools/fetch_templates first")
    for path in paths:
        if path.name in REFUSED_AT_LOAD:
            continue
        text = path.read_text(encoding="utf-8")
        for label, messages, tools in conversations():
            for variables in variable_sets():
                for prompt in (True, False):
                    yield {"name": f"{path.name} {label} {variables} prompt={prompt}", "template": text, "messages": messages,
                           "tools": tools, "add_generation_prompt": prompt, "variables": variables}


def unprintable(expected):  # Python printed an address, which loft refuses to invent
    return isinstance(expected, str) and re.search(r"<[^<>]* at 0x[0-9a-f]+>", expected) is not None


def difference(expected, reply):
    if isinstance(expected, Exception) or unprintable(expected):
        return None if "error" in reply else f"expected an error ({expected!r:.200}), got {reply['text']!r:.300}"
    if "error" in reply:
        return f"expected {expected!r:.300}, got the error {reply['error']}"
    if reply["text"] == expected:
        return None
    at = next((i for i, (a, b) in enumerate(zip(expected, reply["text"])) if a != b), min(len(expected), len(reply["text"])))
    start = max(0, at - 60)
    return f"differs at {at}: expected ...{expected[start:at + 80]!r}, got ...{reply['text'][start:at + 80]!r}"


def main():
    build_dir = pathlib.Path(sys.argv[1])
    root = pathlib.Path(__file__).resolve().parents[2]
    cases = list(snippet_cases()) + list(family_cases(root / ".cache" / "templates"))
    replies = render_loft(build_dir, cases)
    if len(replies) != len(cases):
        sys.exit(f"{len(replies)} replies to {len(cases)} cases")
    n_errors = 0
    wrong_by_template = {}
    for case, reply in zip(cases, replies):
        expected = render_reference(case)
        n_errors += isinstance(expected, Exception)
        wrong = difference(expected, reply)
        if wrong:
            wrong_by_template.setdefault(case["template"], []).append(f"{case['name'][:300]}\n  {wrong}")
    for found in list(wrong_by_template.values())[:30]:
        print(f"{found[0]}\n  ({len(found)} cases of this template differ)")
    n_wrong = sum(len(found) for found in wrong_by_template.values())
    print(f"{len(cases)} cases ({len(SNIPPETS)} snippets), {n_errors} of them errors in both, {n_wrong} differences")
    sys.exit(1 if n_wrong else 0)


if __name__ == "__main__":
    main()
