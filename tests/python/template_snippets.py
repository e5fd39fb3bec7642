"""Small templates for every construct, with the data they see."""

CONTEXT = {
    "messages": [
        {"role": "system", "content": "Sys"},
        {"role": "user", "content": "Hello <b>&\"'"},
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1, "b": [1.5, None, True]}}}]},
        {"role": "user", "content": "Bye é日本🎉"},
    ],
    "tools": None,
    "variables": {
        "bos_token": "<s>", "eos_token": "</s>", "name": "World", "n": 7, "neg": -7, "f": 2.5, "big": 12345678901234567890,
        "t": True, "no": False, "none_value": None, "empty": "", "s": "  Hello World  ", "uni": "Ünïcödé ß ǆ Σίσυφος ΑΣ",
        "words": ["b", "C", "a", "B"], "nums": [3, 1, 2, 3], "mixed": [1, "a", None, 2.0, True, [1], {"k": "v"}],
        "d": {"b": 1, "a": 2, "C": 3, "items": "shadow", "key with space": [1, 2]}, "nested": {"a": {"b": [{"c": "deep"}]}},
        "people": [{"name": "Zoe", "age": 30, "tags": ["x"]}, {"name": "adam", "age": 25}, {"name": "Bob", "age": 30, "tags": []}],
        "lines": "one\ntwo\r\nthree\n\nfive", "quotes": "it's \"q\" \\ \t\u200b\x7f\xa0", "matrix": [[1, 2], [3, 4]],
        "many": {str(i): i for i in range(20)}, "floats": [0.1, 1e16, 1e-5, 123456789.125, 1e22, -0.0, 3.0, 1.5e300],
    },
}

SNIPPETS = []


def add(text):
    SNIPPETS.extend(line for line in text.strip("\n").split("\n") if line and not line.startswith("##"))


add(r"""
## printing
{{ n }} {{ f }} {{ t }} {{ none_value }} {{ big }} {{ neg }}
{{ words }} {{ nums }} {{ mixed }} {{ d }} {{ nested }} {{ matrix }} {{ floats }}
{{ (1,) }} {{ () }} {{ (1, 2) }} {{ {} }} {{ [] }} {{ {1: 2, 'a': none} }}
{{ quotes }} {{ [quotes] }} {{ [uni] }} {{ ['\x00\x1f\u2028\ue000\U0001f600'] }}
{{ missing }}|{{ missing is defined }}|{{ d.missing }}|{{ d['missing'] }}|{{ nums[10] }}|
{{ missing.attr }}
{{ d.missing.more }}
{{ missing + 1 }}
{{ 'a' + missing }}
{{ missing ~ 'a' }} {{ [missing] }}
{{ missing == missing }} {{ missing == none }} {{ not missing }} {{ missing|length }} {{ missing|list }}
{{ missing() }}
{{ d.missing() }}
{{ 1.0 }} {{ 1e3 }} {{ 1.5e-7 }} {{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_0.5_0 }} {{ 00 }}
{{ 100000000000000000000 }} {{ 2**64 }} {{ -2**63 }} {{ 10**30 }}
{{ 'a' 'b' "c" }} {{ 'it''s' }}
{{ "\n\t\\\"\'" }} {{ '\x41\u00e9\101\0' }} {{ '\q\é' }} {{ 'a\
b' }}
{{ true }} {{ True }} {{ false }} {{ False }} {{ none }} {{ None }} {{ null }}
{{ range(3) }} {{ range(1, 10, 2) }} {{ range(5)[1:3] }} {{ range(0) }}
{{ d.items() }} {{ d.keys() }} {{ d.values() }} {{ d.items()|list }}
{{ namespace(a=1, b='x') }}
{{ loop }}
## arithmetic
{{ 7 + 2 }} {{ 7 - 2 }} {{ 7 * 2 }} {{ 7 / 2 }} {{ 8 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }}
{{ 7.5 // 2 }} {{ -7.5 // 2 }} {{ 7.5 % 2 }} {{ -7.5 % 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2.0 ** 3 }} {{ 2 ** 0.5 }} {{ -2 ** 2 }}
{{ 0.1 + 0.2 }} {{ 1 / 3 }} {{ 10 / 4 }} {{ 1e308 * 10 }} {{ -1e308 * 10 }}
{{ 1 // 0 }}
{{ 1 / 0 }}
{{ 1 % 0 }}
{{ 1.0 / 0 }}
{{ true + true }} {{ true * 3 }} {{ -true }} {{ +true }}
{{ 'a' * 3 }} {{ 3 * 'ab' }} {{ 'a' * 0 }} {{ 'a' * -1 }} {{ [1] * 3 }} {{ (1, 2) * 2 }}
{{ 'a' + 'b' }} {{ [1] + [2] }} {{ (1,) + (2,) }}
{{ 'a' + 1 }}
{{ [1] + (2,) }}
{{ 1 + none }}
{{ 'a' ~ 1 ~ none ~ 2.5 ~ [1] ~ true }}
{{ 1 + 2 ~ 3 + 4 }} {{ 2 * 3 ~ 4 }} {{ 'x' ~ 1 + 2 }}
{{ 1 - -1 }} {{ - 5 }} {{ + 5 }} {{ --5 }} {{ -f }} {{ -(1 + 2) }}
{{ 5 - 3 - 1 }} {{ 2 ** 3 ** 2 }} {{ 100 / 10 / 5 }}
{{ -5|abs }} {{ (-5)|abs }} {{ -2.5|abs }} {{ -5 is number }}
## comparison
{{ 1 == 1.0 }} {{ 1 == true }} {{ 'a' == 'a' }} {{ [1, 2] == [1, 2] }} {{ (1,) == [1] }} {{ {'a': 1} == {'a': 1.0} }} {{ none == false }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 3 > 2 >= 2 != 1 }} {{ 1 == 1 == 1 }} {{ 'a' < 'b' }} {{ 'B' < 'a' }} {{ [1, 2] < [1, 3] }} {{ [1] < [1, 0] }}
{{ 'a' < 1 }}
{{ none < 1 }}
{{ {} < {} }}
{{ missing < 1 }}
{{ 1 in [1, 2] }} {{ 'a' in 'cat' }} {{ 'x' not in 'cat' }} {{ 'a' in d }} {{ 3 in range(5) }} {{ 'b' in d.keys() }} {{ 1 in d.values() }} {{ none in mixed }}
{{ 1 in 'abc' }}
{{ 1 in 5 }}
{{ [] in d }}
{{ 'x' in missing }}
{{ not 1 in [1] }} {{ not true and false }} {{ not (true and false) }} {{ true or false and false }}
{{ 1 and 2 }} {{ 0 and 2 }} {{ 0 or 'x' }} {{ '' or none or [] }} {{ 'a' and [] }} {{ none and missing.x }}
{{ 1 == 1 and 2 != 3 or false }} {{ 1 in [1] == true }}
{{ 9007199254740993 == 9007199254740992.0 }} {{ 1e400 > 1 }}
## subscripts and slices
{{ nums[0] }} {{ nums[-1] }} {{ nums[1:] }} {{ nums[:2] }} {{ nums[::2] }} {{ nums[::-1] }} {{ nums[-2:] }} {{ nums[3:1:-1] }} {{ nums[10:] }} {{ nums[:] }}
{{ s[2:7] }} {{ s[::-1] }} {{ uni[1:5] }} {{ uni[-3:] }} {{ uni[::-2] }} {{ uni[0] }} {{ uni[-1] }} {{ 'abc'[5] }}| {{ 'abc'[1:100] }}
{{ nums[::0] }}
{{ nums['a'] }}| {{ nums[1.0] }}| {{ nums[true] }} {{ d[1] }}| {{ d[[]] }}| {{ 5[0] }}|
{{ d['a'] }} {{ d.a }} {{ d['key with space'][1] }} {{ nested.a.b[0].c }} {{ nested['a']['b'][0]['c'] }} {{ nested.a.b.0.c }}
{{ d.items }}
{{ d['items'] }} {{ d.get('items') }} {{ d['keys'] is defined }}
{{ missing[1:] }}
{{ d[1:] }}
{{ (1, 2, 3)[1:] }} {{ (1, 2, 3)[0] }} {{ matrix[1][0] }} {{ [[1, 2], [3]][0][1] }} {{ 'abc'[:-1] }} {{ 'abc'[-100:2] }} {{ 'abc'[none:2] }}
{{ nums[1:3][0] }} {{ d.a.b }}| {{ n.real }} {{ f.real }} {{ 'x'.foo }}| {{ d.__class__ }}| {{ ''.__class__.__mro__ }}
{{ d.__class__.x }}
{{ nums[9223372036854775807] }}| {{ nums[-9223372036854775808:9223372036854775807] }}
## conditional
{{ 'a' if true else 'b' }} {{ 'a' if false else 'b' }} {{ 'a' if false }}| {{ 1 if none else 2 if false else 3 }} {{ (1 if true) + 1 }}
{{ ('x' if false) is defined }} {{ [1 if t else 2, 3] }}
{{ ('x' if false).y }}
{% if n > 5 %}big{% elif n > 2 %}mid{% else %}small{% endif %}
{% if n > 50 %}big{% elif n > 2 %}mid{% else %}small{% endif %}
{% if n > 50 %}big{% elif n > 20 %}mid{% else %}small{% endif %}
{% if not missing %}a{% endif %}{% if '' %}b{% endif %}{% if [] or {} %}c{% endif %}{% if 0.0 %}d{% endif %}{% if ' ' %}e{% endif %}
{% if 1, %}tuple{% endif %}
{% if true: %}colon{% endif %}
## loops
{% for x in nums %}{{ x }},{% endfor %}
{% for x in [] %}{{ x }}{% else %}none{% endfor %}
{% for x in nums %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}
{% for x in nums %}{{ loop.previtem }}<{{ x }}<{{ loop.nextitem }};{% endfor %}
{% for x in nums %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{{ loop.nextitem is undefined }}{% endfor %}
{% for x in nums %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x) }}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}
{% for x in [1, 1, 2, 2] %}{{ loop.changed(x, 1) }}{% endfor %}
{% for k in d %}{{ k }} {% endfor %}{% for k, v in d.items() %}{{ k }}={{ v }} {% endfor %}
{% for k, v in d|dictsort %}{{ k }}={{ v }} {% endfor %}
{% for a, b in matrix %}{{ a }}-{{ b }} {% endfor %}{% for (a, b) in matrix %}{{ a }}{% endfor %}{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a, b in nums %}{{ a }}{% endfor %}
{% for a, b in [[1, 2, 3]] %}{{ a }}{% endfor %}
{% for c in 'aé🎉' %}[{{ c }}]{% endfor %}
{% for x in 5 %}{% endfor %}
{% for x in none %}{% endfor %}
{% for x in missing %}x{% else %}e{% endfor %}
{% for x in nums if x > 1 %}{{ x }}{{ loop.index }}{{ loop.last }}{{ loop.length }};{% else %}e{% endfor %}
{% for x in nums if x > 10 %}{{ x }}{% else %}e{% endfor %}
{% for p in people if p.age == 30 %}{{ p.name }} {{ loop.nextitem.name if loop.nextitem else '-' }};{% endfor %}
{% for x in range(5) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for x in [1] %}{% continue %}{% else %}E{% endfor %}|{% for x in [1] %}{% break %}{% else %}E{% endfor %}|{% for x in [1, 2] %}{% if x == 2 %}{% break %}{% endif %}{% else %}E{% endfor %}
{% for x in nums recursive %}{{ x }}{% endfor %}
{% for p in [{'n': 1, 'c': [{'n': 2, 'c': [{'n': 3}]}]}, {'n': 4}] recursive %}{{ loop.depth }}:{{ p.n }}[{% if p.c %}{{ loop(p.c) }}{% endif %}]{% endfor %}
{% for x in [1, [2, [3]]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}{% endif %}{% endfor %}
{% for x in nums %}{{ loop(nums) }}{% endfor %}
{% for a in [1, 2] %}{% for b in [3, 4] %}{{ loop.index }}{{ a }}{{ b }} {% endfor %}{{ loop.index }}{% endfor %}
{% for a in [1, 2] %}{% set outer = loop %}{% for b in [3, 4] %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}
{% for x in nums %}{{ loop }}{% endfor %}
{% for x in nums|map('string') %}{{ x }}{{ loop.last }}{{ loop.length }}{% endfor %}
{% set g = nums|map('string') %}{% for x in g %}{{ x }}{% break %}{% endfor %}|{{ g|join(',') }}|{{ g|join(',') }}
{% set g = nums|select('odd') %}{{ g|list }}{{ g|list }}
{% for loop in nums %}{% endfor %}
{% for x in nums %}{% set loop = 1 %}{% endfor %}
{% break %}
{% for x in 1, 2, 3 %}{{ x }}{% endfor %}{% for x in (1, 2) %}{{ x }}{% endfor %}
{% for x in {'a': 1}.items() %}{{ x }}{{ x[0] }}{% endfor %}
{% for i in range(3) %}{{ i }}{% if not loop.last %}, {% endif %}{% endfor %}
{% for i in range(100001) %}{% endfor %}
{% for x in nums: %}{{ x }}{% endfor %}
""")

add(r"""
## scopes
{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = i + 10 %}{{ x }}{% endfor %}{{ x }}
{% for i in [1, 2] %}{% set y = i %}{{ y }}{% endfor %}{{ y }}|{{ y is defined }}
{% set ns = namespace(x=0, found=false) %}{% for i in nums %}{% set ns.x = ns.x + i %}{% set ns.y = i %}{% endfor %}{{ ns.x }}{{ ns.y }}{{ ns.z }}|{{ ns.found }}
{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{{ ns['a'] }}|{{ ns is mapping }}
{% set ns = namespace(_x=1) %}
{% set ns = namespace() %}{% set ns._x = 1 %}
{% set x = {} %}{% set x.a = 1 %}
{% set missing_ns.a = 1 %}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set a, b = b, a %}{{ a }}{{ b }}
{% set (a, b) = (1, 2) %}{{ a }}{{ b }}{% set a = 1, 2 %}{{ a }}{% set a = 1, %}{{ a }}
{% set ns = namespace() %}{% set ns.a, ns.b = 1, 2 %}{{ ns.a }}{{ ns.b }}
{% set x %}block {{ n }}{% endset %}[{{ x }}]{{ x is string }}
{% set x | upper %}block {{ name }}{% endset %}[{{ x }}]
{% set x | replace('b', 'B') | trim %} block {% endset %}[{{ x }}]
{% if true %}{% set z = 1 %}{% endif %}{{ z }}
{% if false %}{% set z = 1 %}{% endif %}{{ z }}|{{ z is defined }}
{% if false %}{% set name = 1 %}{% endif %}{{ name }}
{% if true %}{% set name = 1 %}{% else %}{% set name = 2 %}{% endif %}{{ name }}
{% for i in [1, 2] %}{% if i == 2 %}{% set name = 'changed' %}{% endif %}{{ name }}{% endfor %}{{ name }}
{% for i in [1, 2] %}{{ name }}{% set name = i %}{{ name }}{% endfor %}{{ name }}
{% for i in [1, 2] %}{% set name = i %}{% endfor %}{{ name }}
{{ name }}{% set name = 'x' %}{{ name }}
{% set name = name ~ '!' %}{{ name }}
{% set content %}{{ content }}{% endset %}{{ content }}|
{% set name %}{{ name }}{% endset %}{{ name }}|
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% set a = 3 %}{{ a }}{% endwith %}{{ a }}|
{% set a = 5 %}{% with a = a + 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}
{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}|
{% with (a, b) = [1, 2] %}{{ a }}{{ b }}{% endwith %}
{% if true %}{% for i in [1] %}{% set k = i %}{% if k %}{% set k = 2 %}{% endif %}{{ k }}{% endfor %}{% endif %}{{ k }}|
{% for x in [1, 2] %}{% for x in [3] %}{{ x }}{% endfor %}{{ x }}{% endfor %}{{ x }}|
{% set x = 9 %}{% for x in [1, 2] if x > 1 %}{{ x }}{% endfor %}{{ x }}
{% for x in [1, 2, 3] if x != n %}{{ x }}{% set n = 2 %}{% endfor %}
{% set ns = namespace(stop=false) %}{% for x in [1, 2, 3] if not ns.stop %}{{ x }}{% if x == 2 %}{% set ns.stop = true %}{% endif %}{% endfor %}
{% set ns = namespace(stop=false) %}{% for x in [1, 2, 3] if not ns.stop %}{{ x }}{{ loop.last }}{% if x == 2 %}{% set ns.stop = true %}{% endif %}{% endfor %}
{% set true = 1 %}
{% set 1 = 2 %}
{% set a.b.c = 2 %}
{% set [a, b] = [1, 2] %}
{% if false %}{% set zz = 1 %}{% elif true %}{% set yy = 2 %}{% endif %}{{ zz }}|{{ yy }}|
{% if n == 7 %}{% set messages = messages[1:] %}{% endif %}{{ messages|length }}{% for m in messages %}{{ m.role }}{% endfor %}
{% if messages[0].role == 'system' %}{% set sys = messages[0].content %}{% set loop_messages = messages[1:] %}{% else %}{% set loop_messages = messages %}{% endif %}{{ sys }}{{ loop_messages|length }}
## macros
{% macro m(a, b=2) %}[{{ a }},{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=5, a=4) }}{{ m() }}{{ m(1)|upper }}
{% macro m(a, b=2) %}{{ a is defined }}{{ a }}{% endmacro %}{{ m() }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, c=2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}
{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}{{ m(1) }}
{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}body {{ n }}{% endcall %}
{% macro m() %}{{ caller(1, 2) }}{% endmacro %}{% call(a, b=3) m() %}{{ a }}{{ b }}{% endcall %}
{% macro m() %}{{ caller is defined }}{% if caller %}{{ caller() }}{% endif %}{% endmacro %}{{ m() }}{% call m() %}x{% endcall %}
{% macro m(x) %}{{ x }}{% endmacro %}{% call m(1) %}unused{% endcall %}
{% macro m(caller=none) %}{{ caller() if caller else 'no' }}{% endmacro %}{{ m() }}{% call m() %}x{% endcall %}
{% macro fact(k) %}{{ k * (fact(k - 1)|int) if k > 1 else 1 }}{% endmacro %}{{ fact(10) }}
{% macro outer() %}{% macro inner(x) %}<{{ x }}{{ n }}>{% endmacro %}{{ inner(1) }}{% endmacro %}{{ outer() }}
{% macro m() %}{{ later }}{% endmacro %}{% set later = 5 %}{{ m() }}
{% macro m() %}{{ x }}{% endmacro %}{% for x in [1, 2] %}{{ m() }}|{% endfor %}
{% macro m(x=n) %}{{ x }}{% endmacro %}{{ m() }}{% set n = 8 %}{{ m() }}
{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(3) }}
{% macro m(a=b, b=1) %}{{ a }}|{{ b }}{% endmacro %}{{ m() }}
{% macro m() %}{% set n = 1 %}{{ n }}{% endmacro %}{{ m() }}{{ n }}
{% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}
{{ m }}{% macro m() %}{% endmacro %}{{ m }}{{ m.name }}
{% macro m(a, a2) %}{{ a }}{{ a2 }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 3, 'a2': 4}) }}{{ m(1, **{'a2': 5}) }}
{% macro m(a=1, b) %}{% endmacro %}
{% macro m(a) %}  {{ a }}  {% endmacro %}{{ m('x')|trim }}{% set r = m('y') %}[{{ r }}]
{% set ns = namespace() %}{% macro m() %}M{% endmacro %}{% set ns.f = m %}{{ ns.f() }}
{% macro render(items, depth=0) %}{% for i in items %}{{ '  ' * depth }}{{ i.n }};{% if i.c %}{{ render(i.c, depth + 1) }}{% endif %}{% endfor %}{% endmacro %}{{ render([{'n': 1, 'c': [{'n': 2, 'c': [{'n': 3}]}]}]) }}
{% macro m() %}{{ kwargs.items()|list }}{% endmacro %}{{ m(z=1, y=2) }}
{% macro m() %}{{ varargs|length }}{% for v in varargs %}{{ v }}{% endfor %}{% endmacro %}{{ m(1, 'a', none) }}
{% macro m(x) %}{% if x > 0 %}{{ x }}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(20) }}
{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}
## blocks
{% filter upper %}abc {{ name }}{% endfilter %}
{% filter replace('a', 'b') | upper %}abc {{ name }}{% endfilter %}
{% filter trim %}  {% for i in nums %}{{ i }} {% endfor %}{% endfilter %}|
{% set q = 1 %}{% filter upper %}{% set q = 2 %}{{ q }}{% endfilter %}{{ q }}
{% raw %}{{ not }} {% parsed %} {# kept #}{% endraw %}
{%- raw -%}  {{ x }}  {%- endraw -%}  y
a{% generation %}b{{ n }}{% endgeneration %}c
a {%- generation -%} b {%- endgeneration -%} c
{% for i in nums %}{% generation %}{% set gx = i %}{{ gx }}{{ loop.index }}{% endgeneration %}{{ gx }}{% endfor %}
{% generation %}{% set gx = 1 %}{% endgeneration %}{{ gx }}|
{% for i in nums %}{% generation %}{% break %}{% endgeneration %}{% endfor %}
{% print n %}{% print n, 'x' %}
{% frobnicate %}
{% do nums.append(1) %}
{% endif %}
{% if true %}
{% for x in nums %}{% endif %}
{% if %}x{% endif %}
{{ }}
{{ 1 +  }}
{{ (1 }}
{{ [1, 2 }}
{{ 'abc }}
{{ 1 2 }}
{{ a.b. }}
{{ $ }}
{% set %}
{% for in nums %}{% endfor %}
{# unclosed
{{ unclosed
{% raw %}unclosed
{{ foo is }}
{{ x|nosuchfilter }}
{{ x is nosuchtest }}
{{ (1, 2] }}
{{ 1 if }}
{{ f(a=1, 2) }}
{{ f(**a, b) }}
## comments
a{# comment #}b{#- c -#} d {#+ e #}f{# {{ x }} {% if %} #}g
""")

SNIPPETS += [
    "a\n{% if true %}\n  b\n{% endif %}\nc\n", "a\n  {% if true %}\n  b\n  {% endif %}\n  c\n", "  {{ n }}\n  {{ n }}\n",
    "x  {%- if true -%}  y  {%- endif -%}  z", "x\n  {%+ if true %}\n  y\n  {%+ endif %}\n", "x {{- n -}} y", "x\n\n{{- n -}}\n\ny",
    "{% if true +%}\nx{% endif +%}\ny", "a\n\t {# c #}\nb", "a\n  {#- c -#}\n  b", "a\n  {#+ c +#}\n  b", "a  {# c #}  b\n", "\n\n{% if true %}\n\nx\n\n{% endif %}\n\n",
    "a\r\nb\rc\n{{ n }}\r\n", "trailing\n", "trailing\n\n", "{{ 'a\r\nb' }}", "{% raw %}\n  a\n  {% endraw %}\nb", "{% raw -%}\n  a\n  {%- endraw %}\nb",
    "{%- for x in nums -%}\n  {{ x }}\n{%- endfor -%}\n", "{% for x in nums %}\n  {{ x }}\n{% endfor %}\n", "{% for x in nums %}\n{{ x }}{% if not loop.last %}\n{% endif %}\n{% endfor %}",
    "{% set x = 1 %}\n{% set y = 2 %}\n{{ x }}{{ y }}\n", "  {% set x = 1 %}  \n  {{ x }}", "a {% if true %} b {% endif %} c", "text {% if true %}\n  b{% endif %}\n",
    "{{ n }}\n\n{% if true %}\n{% endif %}\n{{ n }}", "{#- -#}x{#--#}y", "{{-n-}}", "{{ -n -}} x", "{{+n}}", "{%-if true-%}x{%-endif-%}", "{% if true %}{% endif %}\n\n\nx",
    "  {% raw %} x {% endraw %}\n y", "a\n {%- raw %} x {% endraw -%} \n y", "{% macro m() %}\n  x\n{% endmacro %}\n[{{ m() }}]", "{{ '{{' }}{{ '}}' }}{{ '%}' }}",
    "{{ {'a': {'b': 1}} }}{{ {'a': {'b': 1}}}}", "{{ {'a': 1}['a'] }}", "{{ [{'a': 1}][0].a }}", "{% set x = {'a': '}}'} %}{{ x.a }}", "{ { n } }{ % n % }{", "{", "}}", "%}", "{{ n }", "a{",
    "", " ", "\n", "\n\n", "{{ n }}{% if true %}\n{% endif %}", "é{{ n }}日本\n{% if true %}ü{% endif %}", "\ufeff{{ n }}", "a\u2028{% if true %}\u2028b{% endif %}", "\u3000{%- if true %}x{% endif %}", "a\x0b{%- if true %}x{% endif %}",
    "{% if true -%}\n\n  x\n\n{%- endif %}\ny", "{%- set a = 1 -%}\n\n{%- set b = 2 -%}\n{{ a }}", "x{% set a = 1 %}\n\ny", "{{ n\n}}\n{{\nn }}", "{{ n # comment\n }}", "{%\nif true\n%}x{%\nendif\n%}",
    "{% for m in messages %}{{ '<|' + m['role'] + '|>\n' + (m['content'] or '') + '\n' }}{% endfor %}", "{{ bos_token }}{% for m in messages %}{% if m.content is defined and m.content %}{{ m.content|trim }}{% endif %}{% endfor %}",
    "{% for m in messages %}{{ m }}\n{% endfor %}", "{% for m in messages %}{{ m.tool_calls|tojson if m.tool_calls else '-' }}{% endfor %}", "{{ tools }}{{ documents }}{{ add_generation_prompt }}{{ tools is none }}",
    "{% if tools is not none %}x{% endif %}{% if documents %}y{% endif %}", "{{ messages[2].content is defined }}{{ messages[2]['content'] is none }}", "{{ messages[-1]['role'] }}{{ messages[::-1][0].content }}",
    "{{ raise_exception('stop here') }}", "{% if n == 8 %}{{ raise_exception('stop') }}{% endif %}ok", "{{ strftime_now('%Y-%m-%d %d %b %Y %H:%M:%S %A %B %j %p %%') }}", "{{ strftime_now('') }}|{{ strftime_now('x') }}",
    "{{ '%s' % 'a' }}{{ '%d-%05d-%x-%X-%o' % (1, 42, 255, 255, 8) }}", "{{ '%5.2f|%-8s|%8s|%+d|% d' % (3.14159, 'ab', 'cd', 5, 5) }}", "{{ '%(a)s %(b)d' % {'a': 1, 'b': 2} }}", "{{ '%s %s' % (1,) }}", "{{ '%s' % (1, 2) }}", "{{ '%%' % () }}", "{{ '%r %s' % ('a', none) }}",
    "{{ '%s' % missing }}|{{ '%s' % [1] }}|{{ 'x' % [] }}|{{ 'x' % {} }}", "{{ 'x' % 1 }}", "{{ '%q' % 1 }}", "{{ '%d' % 'a' }}", "{{ '%d %i' % (2.9, true) }}{{ '%e %g %G' % (12345.678, 0.0001, 1e-10) }}{{ '%c%c' % ('x', 65) }}{{ '%.3s|%10.2s|' % ('abcdef', 'abc') }}{{ '%#x %#o' % (255, 8) }}{{ '%*d' % (5, 3) }}{{ '%-5d|' % 3 }}{{ '%05.1f' % -2.55 }}{{ '%.3d' % 5 }}",
    "{{ '{} {}'.format(1, 'a') }}{{ '{0}{1}{0}'.format('x', 'y') }}{{ '{a}-{b}'.format(a=1, b=[1]) }}", "{{ '{:>5}|{:<5}|{:^5}|{:*^7}|{:05d}|{:+d}|{:,}|{:_}'.format(1, 2, 3, 'x', 42, 7, 1234567, 1234567) }}", "{{ '{:.2f} {:.3} {:e} {:g} {:%} {:.1%} {:10.3f}|'.format(3.14159, 2.0, 12345.678, 0.00001, 0.5, 0.256, 2.5) }}",
    "{{ '{:x} {:X} {:b} {:o} {:#x} {:#b} {:c}'.format(255, 255, 5, 8, 255, 5, 65) }}", "{{ '{!r} {!s}'.format('a', 'b') }}{{ '{{}} {}'.format(1) }}{{ '{0[a]} {0[b][0]} {1.b}'.format({'a': 1, 'b': [2]}, {'b': 3}) }}", "{{ '{}'.format() }}", "{{ '{'.format(1) }}", "{{ '}'.format(1) }}", "{{ '{} {0}'.format(1) }}", "{{ '{x}'.format(1) }}", "{{ '{:d}'.format('a') }}", "{{ '{:>{w}}'.format('a', w=5) }}", "{{ '{}'.format(missing) }}|{{ '{}'.format(none) }}|{{ '{}'.format(true) }}|{{ '{:>6}'.format(true) }}", "{{ '{a.__class__}'.format(a=1) }}|", "{{ '{:s}'.format('x') }}{{ '{:5}|{:5}|'.format('x', 1) }}{{ '{:.2}'.format('abc') }}{{ '{:}'.format(1.5) }}{{ '{:6}|'.format(1.5) }}{{ '{:.0f}'.format(2.5) }}{{ '{: }'.format(3) }}{{ '{:010.3f}'.format(-3.14159) }}{{ '{:,.2f}'.format(1234567.891) }}{{ '{:.3}'.format(1234.5) }}{{ '{:.5}'.format(100.0) }}",
    "{{ '{a}'.format_map({'a': 1}) }}", "{{ 'x'.format }}", "{{ '{}'|format }}", "{{ '%s-%s'|format(1, 2) }}{{ '%(a)s'|format(a=1) }}",
]

add(r"""
## string methods
{{ s.strip() }}|{{ s.lstrip() }}|{{ s.rstrip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'abcba'.strip('ab') }}|{{ 'éaé'.strip('é') }}|{{ '\u3000x\u2003'.strip() }}|{{ 'x'.strip(none) }}
{{ 'a,b,c'.split(',') }}{{ 'a,b,c'.split(',', 1) }}{{ ' a  b '.split() }}{{ ' a  b c '.split(none, 1) }}{{ 'a,b,c'.rsplit(',', 1) }}{{ ' a  b c '.rsplit(none, 1) }}{{ ''.split() }}{{ ''.split(',') }}{{ 'abc'.split('x') }}{{ 'a--b'.split('--') }}{{ 'a,b'.split(sep=',', maxsplit=0) }}
{{ ' a b '.split(none, 0) }}{{ ' a b c'.rsplit() }}{{ ' a b '.rsplit(none, 0) }}{{ 'a,b,c'.rsplit(',') }}{{ ',a,'.split(',') }}
{{ 'a'.split('') }}
{{ 'abc'.startswith('a') }}{{ 'abc'.endswith('c') }}{{ 'abc'.startswith(('x', 'a')) }}{{ 'abc'.startswith('b', 1) }}{{ 'abc'.endswith('b', 0, 2) }}{{ 'abc'.startswith('') }}{{ 'abc'.startswith('', 5) }}{{ 'éa'.startswith('a', 1) }}
{{ 'abc'.startswith(1) }}
{{ 'aXbXc'.replace('X', '-') }}{{ 'aXbXc'.replace('X', '-', 1) }}{{ 'abc'.replace('', '-') }}{{ 'aé'.replace('', '.') }}{{ 'abc'.replace('b', '') }}{{ 'aaa'.replace('aa', 'b') }}{{ 'abc'.replace('', '-', 2) }}{{ ''.replace('', 'x') }}
{{ 'Hello'.upper() }}{{ 'Hello'.lower() }}{{ 'hello world it\'s'.title() }}{{ 'hELLO wORLD'.capitalize() }}{{ 'Hello'.swapcase() }}{{ 'Straße'.casefold() }}
{{ uni.upper() }}|{{ uni.lower() }}|{{ uni.title() }}|{{ uni.capitalize() }}|{{ uni.swapcase() }}|{{ 'ŉ ǰ ﬁ İI'.upper() }}|{{ 'İI'.lower() }}
{{ 'abcabc'.find('c') }}{{ 'abcabc'.rfind('c') }}{{ 'abc'.find('x') }}{{ 'abc'.find('c', 1) }}{{ 'abc'.find('a', 1) }}{{ 'éc'.find('c') }}{{ 'abc'.find('') }}{{ 'abc'.find('', 4) }}{{ 'abc'.index('b') }}{{ 'abcabc'.find('b', -2) }}{{ 'abc'.rfind('', 0, 2) }}
{{ 'abc'.index('x') }}
{{ 'abcabc'.count('c') }}{{ 'aaa'.count('aa') }}{{ 'abc'.count('') }}{{ 'éé'.count('é', 1) }}
{{ ','.join(['a', 'b']) }}{{ ''.join(words) }}{{ '-'.join('abc') }}{{ ','.join(d) }}{{ ','.join([]) }}
{{ ','.join([1, 2]) }}
{{ 'abc'.isalpha() }}{{ 'ab1'.isalnum() }}{{ '12'.isdigit() }}{{ '12'.isdecimal() }}{{ '½'.isnumeric() }}{{ ''.isalpha() }}{{ ' '.isspace() }}{{ 'abc'.islower() }}{{ 'ABC'.isupper() }}{{ 'Abc Def'.istitle() }}{{ 'a1'.islower() }}{{ '1'.isupper() }}{{ 'abc'.isascii() }}{{ 'é'.isascii() }}{{ 'a_1'.isidentifier() }}{{ '²'.isdigit() }}{{ '²'.isdecimal() }}{{ 'x\n'.isprintable() }}
{{ 'ab'.ljust(5) }}|{{ 'ab'.rjust(5) }}|{{ 'ab'.center(5) }}|{{ 'ab'.center(6, '*') }}|{{ 'abc'.center(6, '*') }}|{{ '42'.zfill(5) }}|{{ '-42'.zfill(5) }}|{{ 'é'.ljust(3, 'ü') }}|{{ 'abc'.center(2) }}
{{ 'a\nb\r\nc\u2028d\n'.splitlines() }}{{ 'a\nb'.splitlines(true) }}{{ ''.splitlines() }}{{ '\n'.splitlines() }}{{ lines.splitlines() }}
{{ 'a=b=c'.partition('=') }}{{ 'a=b=c'.rpartition('=') }}{{ 'abc'.partition('=') }}{{ 'abc'.rpartition('=') }}
{{ 'prefix-x'.removeprefix('prefix-') }}{{ 'x.py'.removesuffix('.py') }}{{ 'x'.removeprefix('y') }}{{ 'a\tb'.expandtabs(4) }}
{{ 'abc'.strip }}
{{ 'abc'.nosuch() }}
{{ 'abc'.nosuch }}|
{{ n.strip() }}
{{ none_value.strip() }}
{{ 'a'.upper().lower().strip() }}{{ ('a' ~ 'b').upper() }}{{ 'x'.join(['1', '2']).upper() }}
{{ 'abc'.upper(1) }}
## dict and list methods
{{ d.get('a') }}{{ d.get('zz') }}{{ d.get('zz', 5) }}{{ d.get('zz', none) }}{{ d['keys']()|list }}{{ nested.get('a').get('b') }}{{ d.copy() }}
{{ d.get() }}
{{ d.get([]) }}
{{ d.items()|length }}{{ d.keys()|list|sort }}{{ d.values()|first }}{% for k in d.keys() %}{{ k }}{% endfor %}{{ many.get('13') }}{{ many['19'] }}{{ many.x }}|
{{ {'a': 1, 'b': 2, 'a': 3} }}{{ {1: 'a', 1.0: 'b', true: 'c'} }}{{ {(1, 2): 3}[(1, 2)] }}
{{ {[]: 1} }}
{{ nums.append(1) }}
{{ d.update({}) }}
{{ d.pop('a') }}
{{ nums.append }}|{{ d.pop is defined }}
{{ nums.index(2) }}{{ nums.count(3) }}{{ nums.copy() }}{{ (1, 2, 1).count(1) }}{{ (1, 2).index(2) }}{{ range(5).index(3) }}
{{ nums.index(99) }}
{{ dict(a=1, b=2) }}{{ dict([('a', 1)]) }}{{ dict({'x': 1}, y=2) }}{{ dict() }}
{{ dict(1) }}
{{ 5.0.is_integer() }}
{{ f.is_integer() }}{{ n.bit_length() }}
## functions
{% set j = joiner('|') %}{{ j() }}a{{ j() }}b{{ j() }}c{% set k = joiner() %}{{ k() }}x{{ k() }}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.next() }}
{{ cycler() }}
{{ range() }}
{{ range(1, 2, 0) }}
{{ range(10, 0, -3)|list }}{{ range(-3)|list }}{{ range(3)|sum }}{{ range(4)[2] }}{{ range(4)[::-1]|list }}{{ range(true)|list }}
{{ range(1.5) }}
{{ range('a') }}
{{ nosuchfunction() }}
{{ n() }}
{{ 'a'() }}
{{ raise_exception() }}
{{ namespace(1) }}
{{ namespace is callable }}{{ n is callable }}{{ range is defined }}{{ strftime_now is defined }}{{ dict is callable }}
""")

add(r"""
## filters
{{ words|join(', ') }}{{ words|join }}{{ nums|join('-') }}{{ people|join(', ', attribute='name') }}{{ 'abc'|join('.') }}{{ d|join(',') }}{{ missing|join }}{{ mixed|join('|') }}
{{ words|first }}{{ words|last }}{{ []|first }}|{{ []|last }}|{{ 'abc'|first }}{{ 'abc'|last }}{{ d|first }}{{ d|last }}{{ range(3)|last }}
{{ missing|first }}|
{{ missing|last }}
{{ 5|first }}
{{ words|length }}{{ 'é日'|length }}{{ d|length }}{{ d|count }}{{ range(7)|length }}{{ ''|length }}
{{ 5|length }}
{{ none|length }}
{{ nums|map('string')|length }}
{{ words|sort }}{{ words|sort(reverse=true) }}{{ words|sort(case_sensitive=true) }}{{ nums|sort }}{{ people|sort(attribute='name')|map(attribute='name')|list }}{{ people|sort(attribute='age,name')|map(attribute='name')|list }}{{ people|sort(attribute='age', reverse=true)|map(attribute='name')|join(' ') }}{{ 'bca'|sort }}{{ d|sort }}
{{ mixed|sort }}
{{ d|dictsort }}{{ d|dictsort(true) }}{{ {'a': 2, 'b': 1}|dictsort(by='value') }}{{ {'a': 2, 'b': 1}|dictsort(false, 'key', true) }}{{ {}|dictsort }}
{{ nums|dictsort }}
{{ d|dictsort(by='x') }}
{{ nums|unique|list }}{{ words|unique|list }}{{ words|unique(true)|list }}{{ people|unique(attribute='age')|map(attribute='name')|list }}{{ [1, 1.0, true, 'a']|unique|list }}
{{ [[1], [1]]|unique|list }}
{{ nums|min }}{{ nums|max }}{{ words|min }}{{ words|max }}{{ []|min }}|{{ people|max(attribute='age') }}{{ people|min(attribute='name') }}
{{ nums|sum }}{{ people|sum(attribute='age') }}{{ nums|sum(start=10) }}{{ []|sum }}{{ [0.1, 0.2]|sum }}{{ matrix|sum(start=[]) }}
{{ words|sum }}
{{ nums|reverse|list }}{{ 'abé'|reverse }}{{ d|reverse|list }}{{ range(3)|reverse|list }}{{ nums|map('string')|reverse|list }}
{{ nums|reverse }}
{{ 5|reverse }}
{{ nums|map('string')|list }}{{ words|map('upper')|join }}{{ people|map(attribute='name')|join(',') }}{{ people|map(attribute='tags.0')|list }}{{ people|map(attribute='tags', default='-')|list }}{{ matrix|map('first')|list }}{{ matrix|map(attribute=1)|list }}{{ ['a-b']|map('replace', '-', '+')|list }}{{ [1.234, 2.5]|map('round', 1)|list }}{{ nums|map('default', 1)|list }}
{{ nums|map }}
{{ nums|map()|list }}
{{ nums|map('nosuch')|list }}
{{ nums|map(attribute='x', foo=1)|list }}
{{ nums|select('odd')|list }}{{ nums|reject('odd')|list }}{{ mixed|select|list }}{{ mixed|reject|list }}{{ mixed|select('string')|list }}{{ nums|select('gt', 1)|list }}{{ nums|select('>', 1)|list }}{{ words|select('in', ['a', 'b'])|list }}{{ mixed|select('none')|list }}{{ nums|select('equalto', 3)|list }}
{{ people|selectattr('tags')|map(attribute='name')|list }}{{ people|selectattr('age', 'equalto', 30)|map(attribute='name')|list }}{{ people|rejectattr('tags', 'defined')|map(attribute='name')|list }}{{ people|selectattr('name', 'eq', 'Bob')|list }}{{ messages|selectattr('role', '==', 'user')|list|length }}{{ people|selectattr('name.foo', 'undefined')|list|length }}
{{ nums|select('nosuch')|list }}
{{ nums|selectattr|list }}
{{ people|groupby('age') }}{% for age, group in people|groupby('age') %}{{ age }}:{{ group|map(attribute='name')|join('+') }};{% endfor %}{{ people|groupby('tags', default=[])|length }}{% for g in people|groupby('age') %}{{ g[0] }}{{ g[1]|length }}{% endfor %}
{{ nums|batch(2)|list }}{{ nums|batch(3, 'x')|list }}{{ nums|slice(3)|list }}{{ nums|slice(3, 'x')|list }}{{ nums|slice(10)|list }}{{ []|batch(2)|list }}
{{ nums|slice(0)|list }}
{{ 'abc'|list }}{{ d|list }}{{ range(3)|list }}{{ (1, 2)|list }}
{{ 5|list }}
{{ none|list }}
{{ d|items|list }}{% for k, v in nested|items %}{{ k }}{{ v }}{% endfor %}{{ missing|items|list }}
{{ nums|items|list }}
{{ missing|default('x') }}{{ ''|default('x') }}|{{ ''|default('x', true) }}{{ none|default('x') }}{{ none|default('x', boolean=true) }}{{ missing|d }}|{{ n|default(1) }}{{ d.q|default(none) }}{{ missing|default(default_value=3) }}
{{ '42'|int }}{{ '4.7'|int }}{{ 'x'|int }}{{ 'x'|int(5) }}{{ 4.9|int }}{{ -4.9|int }}{{ true|int }}{{ none|int }}{{ '0x1A'|int(base=16) }}{{ '1A'|int(0, 16) }}{{ ' 42 '|int }}{{ '1_000'|int }}{{ ''|int }}{{ [1]|int }}{{ '101'|int(base=2) }}{{ '+5'|int }}{{ '-5'|int }}{{ '1e3'|int }}
{{ missing|int }}
{{ '3.5'|float }}{{ 'x'|float }}{{ 'x'|float(1.5) }}{{ 2|float }}{{ none|float }}{{ '1e3'|float }}{{ 'inf'|float }}{{ 'nan'|float }}{{ '-Infinity'|float }}{{ ' 2.5 '|float }}{{ true|float }}{{ '.5'|float }}{{ '5.'|float }}{{ '1_0.5'|float }}
{{ 2.5|round }}{{ 3.5|round }}{{ 2.675|round(2) }}{{ 1.25|round(1) }}{{ 2.1|round(0, 'ceil') }}{{ 2.9|round(0, 'floor') }}{{ 2.345|round(2, 'ceil') }}{{ 5|round }}{{ 1234.5|round(-2) }}{{ 42.55|round(1) }}{{ 15|round(-1) }}{{ 25|round(-1) }}{{ 5|round(0, 'floor') }}{{ -2.5|round }}
{{ 1.5|round(1, 'x') }}
{{ 'a'|round }}
{{ 5|abs }}{{ (-5)|abs }}{{ (-2.5)|abs }}{{ true|abs }}
{{ 'a'|abs }}
{{ name|upper }}{{ name|lower }}{{ 'hello world-foo (bar) [baz] it\'s ÉA'|title }}{{ 'hELLO wORLD'|capitalize }}{{ uni|title }}{{ uni|capitalize }}{{ none|upper }}{{ 5|lower }}{{ missing|upper }}|{{ true|title }}
{{ s|trim }}|{{ 'xxaxx'|trim('x') }}|{{ 5|trim }}|{{ missing|trim }}|{{ none|trim }}|{{ ' a '|trim(none) }}|{{ '\n\n x \t'|trim }}|{{ 'xay'|trim(chars='xy') }}
{{ 'abc'|replace('b', 'x') }}{{ 'aaa'|replace('a', 'b', 2) }}{{ 123|replace(2, 9) }}{{ missing|replace('a', 'b') }}|{{ 'abc'|replace('', '-') }}{{ 'aaa'|replace('a', 'b', count=1) }}
{{ 'abc'|replace('b') }}
{{ 'ab'|center(6) }}|{{ 'ab'|center(width=5) }}|{{ 5|center(3) }}|
{{ 'a\nb\n\nc'|indent }}|{{ 'a\nb'|indent(2) }}|{{ 'a\nb'|indent(2, true) }}|{{ 'a\n\nb'|indent(2, first=true, blank=true) }}|{{ 'a\nb'|indent('> ') }}|{{ ''|indent }}|{{ 'a\n'|indent }}|{{ '\na'|indent(width=1) }}|{{ lines|indent(3) }}
{{ 5|indent }}
{{ missing|indent }}
{{ 'hello big world'|truncate(10) }}{{ 'hello big world'|truncate(8, true) }}{{ 'hello'|truncate(3, true, '', 0) }}{{ 'hello big world'|truncate(9, false, '…', 0) }}{{ 'hello world'|truncate(9) }}{{ 'short'|truncate }}
{{ 'hello world foo'|truncate(2) }}
{{ 'hello big world, ok_ay é'|wordcount }}{{ ''|wordcount }}
{{ 'a b/c?d=é&x'|urlencode }}{{ {'a b': 'c/d', 'e': 1}|urlencode }}{{ [('a', 'b')]|urlencode }}{{ 5|urlencode }}
{{ 1|filesizeformat }}{{ 500|filesizeformat }}{{ 1500|filesizeformat }}{{ 1500000|filesizeformat }}{{ 2048|filesizeformat(true) }}{{ 1e30|filesizeformat }}{{ '1000'|filesizeformat }}{{ 0|filesizeformat }}
{{ '<b>&"\''|escape }}{{ '<b>'|e }}{{ '<b>'|safe }}{{ '<b>'|e|e }}{{ '<b>'|forceescape }}{{ ('<b>'|safe) + '<i>' }}{{ '<i>' + ('<b>'|safe) }}{{ ('<b>'|safe) ~ '<i>' }}{{ 5|e }}{{ ['<'|safe] }}{{ ('<'|e) is escaped }}{{ ('<a>'|safe)|upper }}{{ ('<'|safe).upper() + '<' }}{{ none|safe }}
{{ n|string }}{{ none|string }}{{ [1, 'a']|string }}{{ (1.0|string) ~ 'x' }}{{ missing|string }}|{{ d|string|length }}
{{ d|attr('a') }}|{{ d|attr('items') is defined }}{{ 'x'|attr('upper') is defined }}{{ d|attr('nosuch') }}|
{{ [1, 2]|tojson }}{{ d|tojson }}{{ mixed|tojson }}{{ quotes|tojson }}{{ uni|tojson }}{{ none|tojson }}{{ true|tojson }}{{ floats|tojson }}{{ 'a<b>&\'"/'|tojson }}{{ (1, 2)|tojson }}{{ big|tojson }}{{ ''|tojson }}{{ '\x00\x1f\x7f\u2028🎉'|tojson }}
{{ d|tojson(indent=2) }}{{ [1, [], {}, [2]]|tojson(indent=1) }}{{ d|tojson(indent='\t') }}{{ d|tojson(indent=0) }}{{ []|tojson(indent=2) }}{{ nested|tojson(indent=4) }}
{{ d|tojson(separators=(',', ':')) }}{{ d|tojson(sort_keys=true) }}{{ uni|tojson(ensure_ascii=true) }}{{ '🎉\x7f'|tojson(ensure_ascii=true) }}{{ d|tojson(true) }}{{ d|tojson(indent=2, separators=(',', ': '), sort_keys=true) }}{{ nested|tojson(indent=none) }}{{ d|tojson(indent=2, separators=['|', '=']) }}
{{ {1: 2, 1.5: 3, none: 4, true: 5}|tojson }}{{ {2: 1, 1: 2}|tojson(sort_keys=true) }}
{{ {'a': 1, 2: 1}|tojson(sort_keys=true) }}
{{ {(1,): 2}|tojson }}
{{ missing|tojson }}
{{ d.items()|tojson }}
{{ range(3)|tojson }}
{{ [missing]|tojson }}
{{ nums|map('string')|tojson }}
{{ namespace(a=1)|tojson }}
{{ ('<'|safe)|tojson }}
{{ d|tojson|length }}{{ (d|tojson)[0:5] }}{{ 'a'|tojson ~ 'b' }}
{{ 'x'|upper|lower|trim|replace('x', 'y')|length }}{{ words|map('upper')|select('in', ['A'])|first }}{{ -1|string }}{{ (1 + 2)|string }}{{ 1 + 2|string|int }}
{{ 'a' | upper ~ 'b' }}{{ 'a,b'|replace(',', ';')|upper }}{{ not 'a'|length == 1 }}{{ 2 ** 2|string|int }}
{{ 'a'|upper() }}{{ 'a'|upper(1) }}
## tests
{{ n is defined }}{{ n is not defined }}{{ missing is undefined }}{{ none is none }}{{ missing is none }}{{ d.x is none }}{{ n is number }}{{ f is number }}{{ t is number }}{{ 'a' is number }}{{ n is integer }}{{ t is integer }}{{ f is float }}{{ n is float }}{{ t is boolean }}{{ n is boolean }}{{ t is true }}{{ 1 is true }}{{ no is false }}{{ 0 is false }}
{{ 'a' is string }}{{ n is string }}{{ ('a'|safe) is string }}{{ d is mapping }}{{ nums is mapping }}{{ nums is sequence }}{{ 'a' is sequence }}{{ d is sequence }}{{ n is sequence }}{{ missing is sequence }}{{ range(3) is sequence }}{{ d.items() is sequence }}{{ (nums|map('string')) is sequence }}
{{ nums is iterable }}{{ 'a' is iterable }}{{ d is iterable }}{{ n is iterable }}{{ none is iterable }}{{ missing is iterable }}{{ d.items() is iterable }}{{ range(1) is iterable }}{{ (nums|map('string')) is iterable }}
{{ 3 is odd }}{{ 4 is even }}{{ 9 is divisibleby 3 }}{{ 9 is divisibleby(2) }}{{ 'abc' is lower }}{{ 'ABC' is upper }}{{ 'Abc' is lower }}{{ 1 is lower }}{{ none is upper }}
{{ 'a' is odd }}
{{ 1 is divisibleby 0 }}
{{ 1 is eq 1 }}{{ 1 is == 1 }}
{{ 1 is eq 1 }}{{ 1 is equalto 2 }}{{ 1 is ne 2 }}{{ 2 is gt 1 }}{{ 2 is greaterthan 1 }}{{ 2 is ge 2 }}{{ 1 is lt 2 }}{{ 1 is lessthan 2 }}{{ 1 is le 1 }}{{ 'a' is in 'abc' }}{{ 'a' is in ['a'] }}{{ 'a' is not in ['b'] }}{{ 1 is in(nums) }}
{{ none is sameas none }}{{ true is sameas true }}{{ 1 is sameas true }}{{ n is sameas n }}{{ nums is sameas nums }}{{ nums is sameas [3, 1, 2, 3] }}
{{ 'upper' is filter }}{{ 'nosuch' is filter }}{{ 'odd' is test }}{{ 'nosuch' is test }}{{ range is callable }}{{ missing is callable }}{{ d.items is callable }}{{ joiner() is callable }}{{ cycler(1) is callable }}
{{ n is defined and n > 3 }}{{ n is defined or x }}{{ 'y' if n is defined else 'n' }}{{ (n is number) is true }}{{ not n is defined }}{{ n is not none and n is not string }}
{{ x is defined is defined }}
{{ n is defined == true }}{{ n + 1 is number }}{{ n is number + 1 }}
{{ n is number(1) }}
{{ nums is iterable and nums is not string and nums is not mapping }}
{{ messages[0].content is string }}{{ messages[0].content is iterable }}{{ messages[0] is mapping }}{{ messages is sequence }}
{{ nested.a.b is defined }}{{ nested.x is defined }}{{ nested.a.x is defined }}{{ d.a is defined and d.a.b is defined }}
{{ nested.x.y is defined }}
{{ foo.bar is defined }}
{{ foo is defined and foo.bar is defined }}
## nesting and calls
{{ range(n)|map('string')|join(',') if n < 10 else '-' }}
{{ [x for x in nums] }}
{{ {'a': [1, {'b': (2, 3)}]}['a'][1]['b'][0] }}
{{ (nums + [4])[1:]|map('string')|list|last }}
{{ dict(d, **{'z': 26}).z }}{{ dict(**d) }}
{{ 'abc'[1].upper() }}{{ ('a', 'b')[1].upper() }}{{ [1, 2].index(2) }}{{ {'a': 1}.get('a') }}{{ 'a b'.split(' ')[1] }}{{ 'a b'.split()[0].upper()|lower }}
{{ messages[2].tool_calls[0].function.arguments|tojson }}{{ messages[2].tool_calls[0]['function']['arguments'].b[0] }}
{% for k, v in messages[2].tool_calls[0].function.arguments.items() %}{{ k }}={{ v|tojson if v is not string else v }};{% endfor %}
{% set x = 'a' if n > 3 else 'b' %}{{ x }}{% set x = n > 3 and 'yes' or 'no' %}{{ x }}{% set y = [n, n] if t else [] %}{{ y }}
{{ 'a' if t else 'b' ~ 'c' }}{{ ('a' if t else 'b') ~ 'c' }}{{ 'a' ~ ('x' if no else 'y') }}
{{ none_value or 'default' }}{{ (none_value or d).a }}{{ (d.q or {}).x }}|{{ (d.get('q') or {}).get('x', 'y') }}
{{ d.items() | selectattr(0, 'eq', 'a') | list }}{{ d | dictsort | map('first') | list }}{{ d | dictsort | map(attribute=0) | list }}
{{ loop is defined }}{{ caller is defined }}{{ kwargs is defined }}{{ varargs is defined }}
{% include 'x' %}
{% import 'x' as y %}
{% extends 'x' %}
{% set x = joiner(',') %}{% for i in nums %}{{ x() }}{{ i }}{% endfor %}
{% set ns = namespace(items=[]) %}{% for i in nums %}{% set ns.items = ns.items + [i * 2] %}{% endfor %}{{ ns.items }}{{ ns.items|sum }}
{% set ns = namespace(text='') %}{% for m in messages if m.content is defined %}{% set ns.text = ns.text ~ m.content %}{% endfor %}{{ ns.text|length }}{{ ns.text }}
{{ 'A' < 'a' < 'é' }}{{ 'abc'|sort|join }}{{ ['é', 'z', 'E']|sort }}{{ [[2, 1], [1, 2]]|sort }}{{ [(1, 'b'), (1, 'a')]|sort }}
{{ 1 .real }}{{ 1.5.real }}
{{ d . a }}{{ d [ 'a' ] }}{{ range ( 2 ) | list }}{{ 'x' . upper ( ) }}
{{ words|map('length')|list }}{{ matrix|map('sum')|list }}{{ matrix|map('join', '-')|list }}{{ [' a ']|map('trim')|list }}{{ [d]|map('attr', 'a')|list }}{{ ['a']|map('upper')|map('lower')|list }}
{{ 'caf\u00e9'|length }}{{ 'cafe\u0301'|length }}{{ '👨\u200d👩\u200d👧'|length }}{{ '👨\u200d👩\u200d👧'[0] }}{{ '🎉'|upper }}{{ '日本'|center(6) }}
""")

add(r"""
## mixtures, as templates have them
{{ [1,2,3].__len__ }}|{{ (1).__class__ }}|
{{ 'abc' is sequence }}{{ none|string|length }}{{ [none, true]|map('string')|list }}
{{ "%s" % d }}{{ "%s and %s" % ("a", none) }}{{ "%5s|%-5s|" % ("é", "日") }}
{{ messages | map(attribute='role') | unique | list }}
{{ messages | length > 2 and messages[-1].role != 'system' }}
{{ messages[1:] | selectattr('role', 'equalto', 'user') | map(attribute='content') | join(' | ') }}
{% set m = messages | last %}{{ m.content[:3] }}{{ m['content'][-1] }}
{% for m in messages %}{% if loop.first and m.role == 'system' %}S{% elif m.role == 'user' %}U{{ loop.index0 % 2 }}{% else %}A{% endif %}{% endfor %}
{% set ns = namespace(last=-1) %}{% for m in messages %}{% set idx = (messages|length - 1) - loop.index0 %}{% if messages[idx].role == 'user' and ns.last < 0 %}{% set ns.last = idx %}{% endif %}{% endfor %}{{ ns.last }}
{{ (messages | selectattr('role', 'eq', 'nobody') | list | first).x is defined }}
{{ '<think>abc</think>def'.split('</think>')[-1].lstrip('\n') }}{{ '<think>abc</think>def'.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') }}
{{ {'type': 'object', 'properties': d, 'required': ['a']} | tojson(indent=4) }}
{{ 'a' * 3 ~ 'b' * 2 }}{{ '-' * 10 }}{{ '\n' * 2 }}|
{{ nested | tojson | replace('"', "'") }}{{ d.items() | list | tojson }}
{{ 'true' if true else 'false' }}{{ (true | string) | lower }}{{ true | lower }}{{ 1.0 | tojson }}{{ 1e16 | tojson }}{{ -0.0 }}
{{ [1, 2] in [[1, 2]] }}{{ (1, 2) in [(1, 2)] }}{{ {'a': 1} in [{'a': 1}] }}
{{ d == {'a': 2, 'b': 1, 'C': 3, 'items': 'shadow', 'key with space': [1, 2]} }}
{{ range(3) == range(0, 3) }}{{ d.keys() == ['b'] }}
{{ 3 | string ~ 4 }}{{ (3 ~ 4) | int + 1 }}{{ 5 // 2 * 2 }}{{ 7 % 4 ** 2 }}{{ -7 // 2 }}{{ -(7 // 2) }}{{ not 1 == 2 }}
{{ 'x' in 'xyz' and 'a' not in 'xyz' }}{{ 1 if 'a' in d else 2 }}{{ 'b' in d and d['b'] == 1 }}
{% if messages[0]['role'] == 'system' -%} sys {%- else -%} no {%- endif %} end
{% for k in d | sort %}{{ k }}{% endfor %}{% for k, v in d | items %}{{ k }}{% endfor %}{% for k in d.keys() | list | reverse %}{{ k }}{% endfor %}
{{ strftime_now('%d %B %Y') if strftime_now is defined else 'x' }}{{ date_string if date_string is defined else 'none' }}
{% macro a(x) %}{{ b(x) }}{% endmacro %}{% macro b(x) %}[{{ x }}]{% endmacro %}{{ a(1) }}
{% macro a() %}{% for i in nums %}{{ i }}{% if i == 1 %}{% break %}{% endif %}{% endfor %}{% endmacro %}{{ a() }}
{% for a in [1,2] %}{% for b in [1,2] if b != a %}{{ a }}{{ b }}{{ loop.index }} {% endfor %}{% endfor %}
{% for a in nums %}{% if loop.changed(a > 1) %}{{ a }}{% endif %}{% endfor %}
{% set x = [] %}{% for i in nums %}{% set x = x + [i] %}{% endfor %}{{ x }}
{{ namespace(a=[1, namespace(b=2)]) }}
{{ 'abc'.split('b', maxsplit=1) }}{{ 'a b c'.split(maxsplit=1) }}{{ 'a.b'.rsplit('.', maxsplit=1) }}{{ 'x'.replace('x', 'y', 1) }}
{{ '日本語'.find('語') }}{{ '日本語'[1:2] }}{{ '日本語'.replace('本', '-') }}{{ '日本語'.split('本') }}{{ '日本語'|list }}{{ '日本語'.rjust(5, '*') }}
{{ d.get('a', 0) + d.get('zz', 0) }}{{ (d.get('items')) }}{{ d['items'] }}{% for k, v in d.items() %}{{ k ~ ':' ~ v ~ ' ' }}{% endfor %}
{{ ('a' ~ 1) is string }}{{ (1, 'a') is sequence }}{{ (1, 'a') | length }}{{ [] is iterable }}{{ {} is mapping }}{{ {} is iterable }}
{{ {'a': none}.a is none }}{{ {'a': none}['a'] }}{{ {'a': none} | tojson }}{{ {'a': none}.get('a', 1) }}
{{ 'a\tb' }}{{ ['a\tb', "q'q", 'q"q', 'q\'"q', '\\'] }}
{{ 1.5 | int }}{{ '1.5' | int }}{{ '1.5' | float | int }}{{ 1e20 | int }}{{ 3.7 // 1 }}{{ 7 / 7 }}{{ 1e3 | int }}{{ 100 * 1.1 }}{{ 2 / 3 }}{{ 1e100 }}{{ 1e-10 }}{{ 123456789012345678.0 }}
{{ 'a' if missing else 'b' }}{{ missing or 'x' }}{{ missing and 'x' }}|{{ [missing, 1] | first }}|{{ missing | tojson if missing is defined else '{}' }}
{{ messages[0].content + '\n' + messages[1].content }}{{ messages[5] }}|{{ messages[5] is defined }}{{ messages[5].role is defined }}
{{ messages[10].role is defined }}
{{ 'A-B'.lower().replace('-', '_') }}{{ ' x '.strip() + '|' }}{{ 'abc'.upper()[0:2] }}{{ 'abc'[0] | upper }}{{ 'abc'[0].upper() + 'abc'[1:] }}
{% call x() %}{% endcall %}
{% set a, b = [1, 2] %}{{ a + b }}{% set a, b = 'xy' %}{{ b }}{% set a, b = d.items() | list | first %}{{ a }}{{ b }}
{% for (k, v), i in [[(1, 2), 3]] %}{{ k }}{{ v }}{{ i }}{% endfor %}
{% with x = 1 %}{% with y = x + 1 %}{{ x }}{{ y }}{% endwith %}{{ y }}{% endwith %}
{% set x %}{% for i in nums %}{{ i }}{% endfor %}{% endset %}{{ x | length }}{{ x[::-1] }}
{{ 'abc' | first | upper }}{{ ['a', 'b'] | last }}{{ 'abc' | reverse | list }}{{ 'b,a' | replace(',', '') | sort }}
{{ nums | sort(reverse=True) | first }}{{ nums | sort | reverse | list }}{{ people | map(attribute='age') | sum }}{{ people | sum('age') }}
{{ people | selectattr('age', '>', 26) | list | length }}{{ people | selectattr('tags', 'defined') | list | length }}{{ people | rejectattr('age', 'in', [25]) | map(attribute='name') | list }}
{{ people | map(attribute='missing') | list }}{{ people | map(attribute='missing', default='d') | list }}{{ people | map('attr', 'name') | list }}
{{ [{'a': {'b': 1}}] | map(attribute='a.b') | list }}{{ [[1, 2]] | map(attribute='0') | list }}{{ [{'x': 1}] | groupby('x') | list }}
{{ 10 | filesizeformat }}{{ 'x' | wordcount }}{{ 3.14159 | round(2) }}{{ 3.0 | round }}{{ 7 | round(2) }}{{ 1e16 | round }}{{ 0.5 | round }}{{ 1.5 | round }}
{{ '%d%%' % 50 }}{{ '%s' % 'é' }}{{ '%(x)s-%(y)05.1f' % {'x': 'a', 'y': 2.25} }}{{ '%s %s' % ('a', ['b']) }}{{ '%+.2e' % 12345.678 }}
{{ '{:>10}|{:^10}|{:<10}|'.format('日', 'é', 'x') }}{{ '{:08.3f}'.format(3.14159) }}{{ '{:+}'.format(5) }}{{ '{0:d} {0:x}'.format(10) }}{{ '{:.3g}'.format(1234567) }}{{ '{:g}'.format(1e20) }}
{{ '%g' % 100000 }} {{ '%g' % 1000000 }} {{ '%r' % 1.0 }} {{ '%s' % 1e20 }} {{ '%i' % 3.99 }} {{ '%x' % -255 }} {{ '%5d|%-5d|%05d' % (-3, -3, -3) }}
{{ {'b': [1, {'c': 2}]} | string }}{{ {'a': 'x'} ~ '' }}{{ [1, 2] ~ '' }}{{ (1,) ~ '' }}{{ none ~ '' }}{{ true ~ '' }}{{ 1.0 ~ '' }}
{{ loop.index is defined }}
{{ caller }}|{{ varargs }}|{{ kwargs }}|{{ loop }}|
{{ true.real }}{{ 'x'.real }}|{{ d.real }}|{{ n.numerator }}{{ f.imag }}
{% if tools is defined and tools %}T{% else %}N{% endif %}{% if not tools is defined %}U{% endif %}{% if tools is none %}0{% endif %}
{% for i in range(0, messages | length, 2) %}{{ messages[i].role }}{% endfor %}{% for i in range(messages | length - 1, -1, -1) %}{{ messages[i].role[0] }}{% endfor %}
{% set alphabet = 'abcdefghijklmnopqrstuvwxyz' %}{{ alphabet[n] }}{{ alphabet[n:n + 3] }}{{ alphabet[-n:][:2] }}{{ alphabet[::5] }}
{{ [1, 2, 3][-5:5:2] }}{{ [1, 2, 3][2::-1] }}{{ [1, 2, 3][:-4:-1] }}{{ 'abc'[::-2] }}{{ (1, 2, 3)[::-1] }}{{ range(10)[2:8:3] }}{{ range(10)[::-3] }}{{ range(10)[::-3] | list }}{{ range(5)[5:] }}
{{ 'ab' < 'abc' }}{{ [] < [1] }}{{ (1, 2) < (1, 3) }}{{ 'é' > 'z' }}{{ 1.5 >= 1 }}{{ true < 2 }}{{ 1 != 1.0 }}{{ 'a' != none }}{{ [1] != [1.0] }}
{{ 'a\\nb' }}{{ "a\"b" }}{{ 'tab\there' }}{{ '\u4e2d' }}{{ '\U0001F600' }}{{ '\x7e' }}{{ '\a\b\f\v' | tojson }}{{ '\101\60' }}
{{ '\ud83d\ude00' }}
{{ '\xZZ' }}
{{ a.b.c is defined }}
{{ dict(a=1).items() | list }}{{ dict(a=1, **{'b': 2}) }}{{ dict([['x', 1]]) }}
{{ namespace(**{'a': 1}).a }}{{ namespace([('a', 2)]).a }}
{{ [1, 2, 3,] }}{{ (1, 2,) }}{{ {'a': 1,} }}{{ [1,] }}{{ range(3,) | list }}
{{ [,] }}
{{ d.a.b.c }}
{{ [1, 2] | join(', ', 'x') }}
{{ 1 | default(2) | string | upper }}{{ missing | default([]) | length }}{{ missing | default({}) | tojson }}{{ none | default('a', true) }}{{ false | default('a', true) }}{{ 0 | d(5, true) }}
{{ ('<' | e) ~ '<' }}{{ ('<' | e) | length }}{{ ('a' | safe) == 'a' }}{{ ('a' | safe) in ['a'] }}{{ {'a': 1}['a' | safe] }}{{ ['<' | safe, 'a'] | join('&') }}{{ ('<' | safe) | replace('<', '>') }}{{ ('<x' | safe)[0] }}{{ ('a b' | safe).split() }}
""")

SNIPPETS += [
    "{% filter indent(2) %}a\nb{% endfilter %}",
    "{% for x in nums -%}\n {{ x }}\n{%- if loop.last %}!{% endif -%}\n{% endfor %}\n",
    "{% set x -%}\n  a\n{%- endset %}[{{ x }}]",
    "{%- macro m(a) -%}\n  [{{ a }}]\n{%- endmacro -%}\n{{ m(1) }}\n{{- m(2) }}",
    "   {%- if true %} a{% endif %}\n\n   {%- if true %} b{% endif %}",
    "{% if true %}\n\n{% endif %}\n\n x",
    "{{ 1 }}\n{{ 2 }}\n",
    "{#\n multi\n#}\nx",
    "{# a #}\n\n{# b #}\nx",
    "a{#- x -#}\n\nb", "\t{% if true %}\tx\t{% endif %}\t\n", "{% raw %}{% endraw %}\nx",
    "{% raw %}\n{% endraw %}\nx",
    "a\n{% raw -%}\n x {%- endraw %}\n b",
    "{%-raw-%} x {%-endraw-%} y",
]
