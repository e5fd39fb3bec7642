"""The conversations and variables over which template_compare.py renders the templates of model families."""

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Weather at a place, today or on a day.",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "City, as in \"Oslo\" <Norway> & more"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
        "days": {"type": ["integer", "null"], "description": "How far ahead"},
        "where": {"type": "object", "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}}, "required": ["lat"]},
        "tags": {"type": "array", "items": {"type": "string"}}},
        "required": ["city"]},
    "return": {"type": "string"}}}
CLOCK = {"type": "function", "function": {"name": "clock", "description": "Das Datum – 日付", "parameters": {"type": "object", "properties": {}}}}
TOOLS = [WEATHER, CLOCK]


def call(name, arguments, call_id="abcdefghi"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


SYSTEM = {"role": "system", "content": "You are terse.  \nAlways.\n"}
HELLO = {"role": "user", "content": "  Hello, \"world\" <b> & it's 日本 🎉\n"}
ANSWER = {"role": "assistant", "content": "Hi there.\n"}
AGAIN = {"role": "user", "content": "And again?"}
OSLO = call("get_weather", {"city": "Oslo", "days": 3, "where": {"lat": 59.9, "lon": -10.75}, "tags": ["a", "b"], "now": True, "x": None})
OSLO_RESULT = {"role": "tool", "tool_call_id": "abcdefghi", "name": "get_weather", "content": "{\"t\": -3.5}"}


def conversations():
    """(label, messages, tools) triples."""
    turns = [HELLO, ANSWER, AGAIN]
    tool_turns = [HELLO, {"role": "assistant", "content": None, "tool_calls": [OSLO]}, OSLO_RESULT]
    two_calls = [HELLO, {"role": "assistant", "content": "Let me look.", "tool_calls": [OSLO, call("clock", {}, "jklmnopqr")]},
                 OSLO_RESULT, {"role": "tool", "tool_call_id": "jklmnopqr", "name": "clock", "content": "12:00"}]
    thinking = [HELLO, {"role": "assistant", "content": "Done.", "reasoning_content": "First I think.\nThen more."}, AGAIN]
    inline = [HELLO, {"role": "assistant", "content": "<think>\nhmm\n</think>\n\nDone."}, AGAIN]
    parts = [{"role": "user", "content": [{"type": "text", "text": "Look: "}, {"type": "image"}, {"type": "text", "text": "what?"}]}]
    think_call = [SYSTEM, HELLO, {"role": "assistant", "reasoning": "Need the weather.", "content": "", "tool_calls": [OSLO]},
                  OSLO_RESULT, {"role": "assistant", "content": "It is -3.5."}, AGAIN]
    yield "user", [HELLO], None
    yield "system", [SYSTEM, HELLO], None
    yield "turns", [SYSTEM] + turns, None
    yield "no system turns", turns, None
    yield "ends with assistant", [HELLO, ANSWER], None
    yield "tools", [HELLO], TOOLS
    yield "system and tools", [SYSTEM] + turns, TOOLS
    yield "tool call", tool_turns, TOOLS
    yield "tool call, system", [SYSTEM] + tool_turns + [{"role": "assistant", "content": "Cold."}, AGAIN], TOOLS
    yield "two calls", two_calls, TOOLS
    yield "call without tools", tool_turns, None
    yield "reasoning", thinking, None
    yield "reasoning and call", think_call, TOOLS
    yield "inline reasoning", inline, None
    yield "parts", parts, None
    yield "developer", [{"role": "developer", "content": "Be good."}, HELLO], None
    yield "roles out of order", [HELLO, HELLO], None
    yield "unknown role", [{"role": "clown", "content": "x"}], None
    yield "empty", [], None
    yield "empty content", [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}], None
    yield "null content", [HELLO, {"role": "assistant", "content": None}, AGAIN], None


def variable_sets():
    tokens = {"bos_token": "<s>", "eos_token": "</s>"}
    yield tokens
    yield {**tokens, "enable_thinking": False, "reasoning_effort": "low", "thinking": False}
    yield {**tokens, "enable_thinking": True, "reasoning_effort": "high", "thinking": True, "date_string": "2 Mar 2025",
           "preserve_thinking": True, "tools_in_user_message": False}
