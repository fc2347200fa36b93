#!/usr/bin/env python3
"""Writes jinja_snippets.json: snippets, their variables and what Jinja2 makes of them.

Jinja2 is configured as transformers configures it for chat templates. A case that cannot be rendered has "error": true instead of "expected".
"""

import json
import pathlib

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

MESSAGES = [
    {'role': 'system', 'content': ' Be brief. '},
    {'role': 'user', 'content': 'Hi\nthere'},
    {'role': 'assistant', 'content': None, 'tool_calls': [{'function': {'name': 'f', 'arguments': {'x': 1, 'y': [1.5, None, True]}}}]},
    {'role': 'tool', 'content': '{"a": "é<b>"}'},
]
V = {'messages': MESSAGES, 'n': 3, 'pi': 3.5, 'name': 'Zoë', 'empty': [], 'd': {'b': 2, 'a': 1, 'get': 'member'}, 'yes': True, 'none': None, 'words': ['pear', 'Apple', 'fig'],
     'long': 'one two  three\n four\tfive ', 'text': 'a,b,,c', 'nested': {'x': {'y': [10, 20, {'z': 'deep'}]}}, 'rows': [{'k': 'b', 'v': 2}, {'k': 'a', 'v': 1}, {'k': 'B', 'v': 3}, {'k': 'c'}]}

SNIPPETS = [
    # white space control
    'a\n{% if yes %}\nb\n{% endif %}\nc\n', '  {% if yes %}\n  x\n  {% endif %}\n', 'a  {%- if yes -%}  b  {%- endif -%}  c', '{%+ if yes %}x{% endif %}', '   {%+ if yes %}\nx{% endif +%}\ny',
    'a {{- name -}} b', 'a\n\n{#- gone -#}\n\nb', '  {# lead #}\nx', 'x {# mid #}\ny', '{% for i in [1,2] %}\n  {{ i }}\n{% endfor %}\nend', '\n\n{{ name }}\n\n', 'a\r\nb\rc{{ 1 }}\r\n',
    '{% raw %}{{ not }} {% this %}{% endraw %}', 'a {%- raw -%}  {{ x }}  {%- endraw -%} b', '{{ "}}" }}', '{{ {"a": {"b": 1}} }}', '{{ 1 }}\n{{ 2 }}', '{{ 1 -}}\n {{ 2 }}', 'x\n    {%- set a = 1 %}\ny',
    '\t{% set a = 1 %}\t\nz', '{% if yes %}{% if no %}{% endif %}\n{% endif %}\nq', '{{ "a" }}   {% if yes %}x{% endif %}', '{% raw %}\n  {% endraw %}\nx',
    # loops
    '{% for m in messages %}{{ loop.index }}/{{ loop.length }}{{ loop.first }}{{ loop.last }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }};{% endfor %}', '{% for x in empty %}{{ x }}{% else %}none{% endfor %}',
    '{% for m in messages if m.role == "user" %}{{ loop.index }}{{ m.content }}{% endfor %}', '{% for k, v in d.items() %}{{ k }}={{ v }},{% endfor %}', '{% for k in d %}{{ k }}{% endfor %}', '{% for c in name %}[{{ c }}]{% endfor %}',
    '{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}', '{% for i in range(2) %}{% for j in range(2) %}{{ loop.index }}{{ i }}{{ j }} {% endfor %}{% endfor %}',
    '{% for i in range(4) %}{{ loop.cycle("a", "b") }}{% endfor %}', '{% for x in [1,1,2] %}{{ loop.changed(x) }}{% endfor %}', '{% for x in [1,2,3] %}{{ loop.previtem }}-{{ loop.nextitem }} {% endfor %}', '{% set x = 1 %}{% for i in [1,2] %}{% set x = i + 10 %}{{ x }}{% endfor %}{{ x }}',
    '{% set ns = namespace(x=0, l=[]) %}{% for i in range(4) %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}', '{% for (a, b) in [(1, 2), [3, 4]] %}{{ a }}{{ b }}{% endfor %}', '{% for m in messages[1:] %}{{ m.role }}{% endfor %}', '{% for m in messages[::-1] %}{{ m["role"][0] }}{% endfor %}',
    '{% for x in undefined_name %}{{ x }}{% else %}nothing{% endfor %}', '{% for i in range(3) %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}', '{% for x in none %}{% endfor %}', '{% for i in 5 %}{% endfor %}', '{% for a, b in [1] %}{% endfor %}',
    # conditions and logic
    '{% if n > 2 and n < 4 %}a{% elif n == 5 %}b{% else %}c{% endif %}', '{{ "a" if n > 5 else "b" }}', '{{ "a" if no }}|', '{{ n if n is defined else 0 }}', '{{ not yes or n }}', '{{ empty or "fallback" }}', '{{ none and 1 }}', '{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }}', '{{ 1 == 1.0 }} {{ "1" == 1 }} {{ true == 1 }}',
    '{{ "x" in "xyz" }} {{ "q" not in "xyz" }} {{ 2 in [1,2] }} {{ "a" in d }}', '{{ not not n }}', '{{ (1, 2) < (1, 3) }} {{ [1] == [1] }} {{ [1] == (1,) }}', '{{ "b" > "a" }}', '{{ n is odd }} {{ n is even }} {{ n is divisibleby 3 }} {{ n is divisibleby(2) }}',
    '{{ x is defined }} {{ n is defined }} {{ n is not none }} {{ none is none }}', '{{ name is string }} {{ d is mapping }} {{ empty is iterable }} {{ pi is number }} {{ pi is float }} {{ n is integer }} {{ yes is integer }} {{ yes is number }} {{ yes is boolean }}',
    '{{ yes is true }} {{ yes is false }} {{ n is eq 3 }} {{ n is equalto(3) }} {{ n is ne 3 }} {{ n is gt 2 }} {{ n is lt(2) }} {{ n is in [1,3] }} {{ n is sameas 3 }}', '{{ empty is sequence }} {{ name is sequence }} {{ d is sequence }} {{ n is sequence }} {{ range is callable }}', '{{ "abc" is lower }} {{ "ABC" is upper }}', '{{ n is undefined }}{{ zz is undefined }}', '{{ zz == zz2 }} {{ zz is none }} {{ zz == "" }}',
    '{{ 1 < "a" }}', '{{ n in n }}', '{{ n is nosuchtest }}',
    # arithmetic and strings
    '{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }}', '{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }}', '{{ 1.5 + 1 }} {{ 3.0 }} {{ 1e3 }} {{ 1e16 }} {{ 1.0e-5 }} {{ 0.1 + 0.2 }} {{ 1_000 }}', '{{ "a" + "b" }} {{ "a" * 3 }} {{ [1] + [2] }} {{ [0] * 3 }} {{ 3 * "x" }}', '{{ "a" ~ 1 ~ none ~ true ~ 1.5 ~ [1, "x"] }}',
    '{{ -n }} {{ +n }} {{ - n + 1 }}', '{{ 5.5 // 2 }} {{ 5.5 % 2 }} {{ -5.5 % 2 }}', '{{ "a" + 1 }}', '{{ 1 + none }}', '{{ 1 / 0 }}', '{{ zz + 1 }}', '{{ zz }}|{{ d.zz }}|{{ messages[99] }}', '{{ zz.a }}', '{{ d.zz.a }}', "{{ 'it''s' }} {{ 'a' 'b' }}", "{{ 'q\\'s \\n \\t \\\\ \\x41 \\u00e9 \\d' }}", '{{ "%s is %d or %.2f%%" % ("x", 3, 2.5) }}', '{{ "%s" % name }}',
    '{{ -2 | abs }} {{ 2 - 1 | abs }} {{ "a" ~ "b" | upper }}', '{{ 10 ** 3 ** 1 }}', '{{ 3 - 2 - 1 }} {{ 8 / 2 / 2 }}',
    # printing
    '{{ [1, "a", none, true, 1.5, {"k": "v"}] }}', '{{ (1,) }} {{ () }} {{ (1, "b") }}', '{{ ["it\'s", \'q"\', "b\\\\s", "\\n\\t", "é", "\\x00\\x7f"] }}', '{{ {"a": [1], 2: "x", none: 1} }}', '{{ none }} {{ true }} {{ false }}', '{{ 1, 2 }}', '{{ 12345678901234567 }} {{ 1.0 }} {{ 100000.0 }} {{ 123456789.123 }} {{ 1e100 }} {{ 1e-10 }}', '{{ messages[2] }}',
    # access
    '{{ nested.x.y[2].z }} {{ nested["x"]["y"][-1]["z"] }} {{ nested.x.y.1 }}', '{{ d.get("a") }} {{ d["get"] }} {{ d.get("q", 5) }} {{ d.get("q") }}', '{{ "hello"[1] }} {{ "hello"[-1] }} {{ "hello"[1:3] }} {{ "héllo"[:2] }} {{ "hello"[::-1] }} {{ "hello"[::2] }} {{ "hello"[10:] }}', '{{ [1,2,3,4][1:-1] }} {{ [1,2,3][-2:] }} {{ (1,2,3)[::2] }} {{ [1,2,3][5:] }} {{ [1,2,3][::-2] }}',
    '{{ d.keys() | list }} {{ d.values() | list }} {{ d.items() | list }}', '{{ words.index("fig") }} {{ words.count("fig") }}', '{{ d["nope"] is defined }}', '{{ messages[0]["content"].strip() }}', '{{ "abc"[zz] }}', '{{ n.foo is defined }} {{ name.foo is defined }}',
    # string methods
    '{{ "  x ".strip() }}|{{ " x ".lstrip() }}|{{ " x ".rstrip() }}|{{ "xxaxx".strip("x") }}|{{ "ab-ba".lstrip("ab") }}', '{{ text.split(",") }} {{ long.split() }} {{ text.split(",", 1) }} {{ long.split(none, 2) }} {{ text.rsplit(",", 1) }} {{ "".split() }} {{ "".split(",") }} {{ long.rsplit(none, 1) }}',
    '{{ "a</think>b".split("</think>")[-1] }} {{ "abc".startswith("ab") }} {{ "abc".endswith(("x", "bc")) }}', '{{ "hello World".upper() }} {{ "HeLLo".lower() }} {{ "hello world".title() }} {{ "hELLO".capitalize() }} {{ "ÀÉß".lower() }} {{ "àéß".upper() }}', '{{ "aXbXc".replace("X", "--") }} {{ "aXbXc".replace("X", "", 1) }} {{ "ab".replace("", "-") }}',
    '{{ "abcabc".find("c") }} {{ "abcabc".rfind("c") }} {{ "abc".find("z") }} {{ "aaa".count("a") }} {{ "éa".find("a") }}', '{{ ",".join(["a", "b"]) }}', '{{ "123".isdigit() }} {{ "12a".isdigit() }} {{ "abc".isalpha() }} {{ " ".isspace() }} {{ "".isdigit() }} {{ "A1".isalnum() }}', '{{ "a\\nb\\r\\nc\\n".splitlines() }} {{ "a\\nb".splitlines(true) }}', '{{ "{} and {}".format(1, "b") }} {{ "{1}{0}".format("a", "b") }} {{ "{x}".format(x=3) }}',
    '{{ "prefix-x".removeprefix("prefix-") }} {{ "x.txt".removesuffix(".txt") }}', '{{ "k=v=w".partition("=") }}', '{{ "7".zfill(3) }} {{ "-7".zfill(4) }}', '{{ "a".nosuch() }}', '{{ ",".join([1]) }}', '{{ "abc".split("") }}', '{% set f = "a b".split %}{{ f() }}',
    # filters
    '{{ " x " | trim }}|{{ "xxaxx" | trim("x") }}', '{{ name | upper }} {{ name | lower }} {{ "foo bar-baz (qux)" | title }} {{ "fOO bar" | capitalize }}', '{{ messages | length }} {{ name | length }} {{ d | count }} {{ zz | length }}', '{{ words | join(", ") }} {{ [1, none, "x"] | join }} {{ rows | join("/", attribute="k") }}',
    '{{ zz | default("d") }} {{ "" | default("d") }} {{ "" | default("d", true) }} {{ none | d("q") }} {{ zz | default }}|', '{{ words | first }} {{ words | last }} {{ empty | first }}| {{ "abc" | last }}', '{{ words | sort }} {{ words | sort(reverse=true) }} {{ words | sort(case_sensitive=true) }} {{ rows | sort(attribute="k") | map(attribute="k") | list }}', '{{ [3, 1, 2] | sort | list }} {{ [3, 1, 2] | max }} {{ [3, 1, 2] | min }} {{ [3, 1, 2] | sum }} {{ [1.5, 2] | sum }}',
    '{{ rows | map(attribute="v", default="?") | list }} {{ words | map("upper") | list }} {{ words | map("length") | list }} {{ ["a b"] | map("replace", " ", "_") | list }}', '{{ rows | selectattr("v", "defined") | list | length }} {{ rows | selectattr("k", "equalto", "a") | list }} {{ rows | rejectattr("v", "gt", 1) | map(attribute="k") | list }}', '{{ [0, 1, 2, none] | select | list }} {{ [1, 2, 3] | select("odd") | list }} {{ [1, 2, 3] | reject("odd") | list }} {{ messages | selectattr("role", "in", ["user", "tool"]) | map(attribute="role") | join(",") }}',
    '{{ "a-b-a" | replace("a", "x") }} {{ "a-b-a" | replace("a", "x", 1) }}', '{{ "3" | int + 1 }} {{ "x" | int }} {{ "x" | int(7) }} {{ 3.9 | int }} {{ "3.7" | int }} {{ true | int }} {{ " 42 " | int }} {{ "ff" | int(0, 16) }}', '{{ "1.5" | float }} {{ "x" | float }} {{ 2 | float }}', '{{ 42 | string + "x" }} {{ none | string }}', '{{ [1,2] | string }} {{ "x" | safe }}', '{{ "abc" | list }} {{ d | list }} {{ (1,2) | list }}', '{{ [1,2,3] | reverse | list }} {{ "abc" | reverse }}',
    '{{ d | items | list }} {{ d | dictsort }} {{ d | dictsort(by="value") }} {{ d | dictsort(reverse=true) }}' if False else '{{ {"b": 2, "a": 1} | items | list }} {{ {"b": 2, "a": 1} | dictsort }} {{ {"b": 1, "a": 2} | dictsort(by="value") }} {{ {"b": 2, "a": 1} | dictsort(reverse=true) }}', '{{ [1, 2, 1, 3] | unique | list }} {{ ["a", "A", "b"] | unique | list }}', '{% for k, g in rows | groupby("k") %}{{ k }}:{{ g | length }} {% endfor %}', '{{ [1,2,3,4,5] | batch(2) | list }} {{ [1,2,3] | batch(2, 0) | list }}',
    '{{ "a\\nb\\n\\nc" | indent }}|{{ "a\\nb" | indent(2, true) }}|{{ "a\\n\\nb" | indent("> ", blank=true) }}|{{ "x\\n" | indent(2) }}|', '{{ "<a href=\'x\'>&\\"" | e }}', '{{ 2.567 | round(2) }} {{ 2.5 | round }} {{ 2.1 | round(method="ceil") }} {{ 2.99 | round(1, "floor") }} {{ 7 | round }} {{ 1.005 | round(2) }}', '{{ -5 | abs }} {{ -5.5 | abs }}', '{{ "hello big world" | wordcount }}', '{{ "%s-%s" | format("a", 1) }}', '{{ "a b/é" | urlencode }}', '{{ {"a": 1} | attr("a") }}|{{ words | nosuch }}', '{{ 5 | length }}', '{{ [3, "a"] | sort }}',
    # tojson
    '{{ messages[2].tool_calls | tojson }}', '{{ {"a": "é<>&\'\\"", "b": [1.0, 1e22, -0.0, true, none], "c": {}, "d": [], "e": "\\n\\t\\u0001"} | tojson }}', '{{ nested | tojson(indent=2) }}', '{{ {"b": 1, "a": [1, {"c": []}]} | tojson(indent=4, sort_keys=true) }}', '{{ {"a": [1, 2]} | tojson(separators=(",", ":")) }}', '{{ "é😀\\x7f" | tojson(ensure_ascii=true) }}', '{{ {1: 2, none: 3, true: 4} | tojson }}', '{{ zz | tojson }}', '{{ (1, 2) | tojson }}', '{{ "a" | tojson ~ "b" }}',
    # macros, call, set blocks, filter blocks, with
    '{% macro m(a, b=2) %}[{{ a }}-{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(a=4) }}{{ m() }}', '{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}', '{% set x = "outer" %}{% macro g() %}{{ x }}{% endmacro %}{% set x = "later" %}{{ g() }}', '{% macro w() %}<{{ caller() }}>{% endmacro %}{% call w() %}in{% endcall %}', '{% macro w(items) %}{% for i in items %}{{ caller(i) }}{% endfor %}{% endmacro %}{% call(x) w([1, 2]) %}({{ x }}){% endcall %}', '{% macro v() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ v(1, 2, z=3) }}',
    '{% set b %}a{{ n }}b{% endset %}{{ b | upper }}', '{% set b | upper %}a{{ n }}b{% endset %}{{ b }}', '{% filter upper %}a{{ name }}{% endfilter %}', '{% filter replace("a", "b") | upper %}aa{% endfilter %}', '{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}|', '{% set a, b = 1, 2 %}{{ a }}{{ b }}', '{% set t = 1, 2 %}{{ t }}', '{% if yes %}{% set q = 5 %}{% endif %}{{ q }}', '{% macro m(x) %}{{ x.y }}{% endmacro %}{{ m({"y": 5}) }}', '{% macro a(x) %}{{ x }}{% endmacro %}{{ a("p") | upper ~ a("q") }}',
    # functions
    '{{ range(3) | list }} {{ range(1, 4) | list }} {{ range(5, 0, -2) | list }}', '{{ dict(a=1, b=2) }} {{ dict({"x": 1}, y=2) }}', '{{ raise_exception("no " ~ n) }}', '{% set ns = namespace() %}{% set ns.a = 1 %}{{ ns.a }}{{ ns.b }}', '{% set ns = namespace({"q": 1}) %}{{ ns.q }}', '{{ nosuchfunction() }}', '{% set ns.x = 1 %}', '{% set d.x = 1 %}', '{{ range(3)[1] }}', '{{ strftime_now is defined }}',
    # syntax errors
    '{% if %}', '{{ }}', '{{ 1 + }}', '{% for x in %}{% endfor %}', '{% endif %}', '{% if yes %}', '{% nosuch %}', '{{ "unclosed }}', '{{ (1 }}', '{% break %}', '{{ a b }}', '{% set = 1 %}', '{{ [1, }}', '{% macro %}{% endmacro %}', '{{ 1 is is none }}', '{# open', '{% raw %} x', '{{ x | }}', '{{ 1.2.3 }}', '{{ "a" if }}', '{% set true = 1 %}',
    # idioms of real templates
    "{%- if messages[0]['role'] == 'system' -%}{%- set system_message = messages[0]['content'] | trim + '\\n\\n' -%}{%- set messages = messages[1:] -%}{%- else -%}{%- set system_message = '' -%}{%- endif -%}{{ system_message }}{{ messages | length }}",
    "{%- for message in messages %}{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) and false %}{{ raise_exception('alternate') }}{%- endif %}{{ '<|im_start|>' + message.role + '\\n' }}{% if message.content is string %}{{ message.content }}{% endif %}{% endfor %}",
    "{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}{%- for message in messages[::-1] %}{%- set index = (messages|length - 1) - loop.index0 %}{%- if ns.multi_step_tool and message.role == 'user' and message.content is string %}{%- set ns.multi_step_tool = false %}{%- set ns.last_query_index = index %}{%- endif %}{%- endfor %}{{ ns.last_query_index }}",
    "{%- for tc in messages[2].tool_calls %}{%- set tc = tc.function if tc.function is defined else tc %}{{- '{\"name\": \"' ~ tc.name ~ '\", \"arguments\": ' ~ (tc.arguments | tojson) ~ '}' }}{%- endfor %}",
    "{%- macro render(schema, depth) -%}{%- for k, v in schema.items() -%}{{ '  ' * depth }}{{ k }}:{% if v is mapping %}\n{{ render(v, depth + 1) }}{% else %} {{ v }}\n{% endif %}{%- endfor -%}{%- endmacro -%}{{ render(nested, 0) }}",
    "{% set content = 'x<think>r</think>\\n\\nanswer' %}{% if '</think>' in content %}{% set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}{% set content = content.split('</think>')[-1].lstrip('\\n') %}{{ reasoning }}|{{ content }}{% endif %}",
    "{{ (messages | selectattr('role', 'equalto', 'user') | list | last).content }}", "{% set roles = messages | map(attribute='role') | unique | join('/') %}{{ roles }}", '{{ "system" if messages[0].role == "system" and loop is not defined else "other" }}', '{% generation %}x{{ n }}{% endgeneration %}',
]


class Generation(jinja2.ext.Extension):
    tags = {'generation'}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(['name:endgeneration'], drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def main():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation])
    env.filters['tojson'] = tojson
    env.globals['raise_exception'] = raise_exception
    env.globals['strftime_now'] = lambda format: 'now'
    cases = []
    for source in SNIPPETS:
        try:
            cases.append({'template': source, 'expected': env.from_string(source).render(**V)})
        except Exception:
            cases.append({'template': source, 'error': True})
    path = pathlib.Path(__file__).with_name('jinja_snippets.json')
    path.write_text(json.dumps({'variables': V, 'cases': cases}, ensure_ascii=False, indent=1) + '\n', encoding='utf-8')
    print(len(cases), 'cases,', sum('error' in case for case in cases), 'of them errors')


main()
