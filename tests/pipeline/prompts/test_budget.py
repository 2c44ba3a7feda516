"""A prompt's own template does as much with a row as is decent, and no more, whatever the row holds."""

import time

import pytest

from pipeline.errors import RowError, SpecError
from tests.pipeline.prompts.test_jinja_template import fault, rendered

#: Two lists that are equal and not the same, of more parts than anybody counts.
TWINS = "{% set a = (x, x) %}{% set b = (x, x) %}" + "{% set a = (a, a) %}{% set b = (b, b) %}" * 40


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(n) %}{% for j in range(n) %}{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(n) %}x{% endfor %}{% endfor %}",
        "{{ range(n * n) }}",
        "{{ 'x' * (n ** 3) }}",
        "{{ [x] * (n ** 3) }}",
        "{{ n ** n ** n }}",
        "{{ x * n * n * n }}",
        "{% for i in range(n) %}" + "long " * 1000 + "{% endfor %}",
        "{% set ns = namespace(t=x) %}{% for i in range(99) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}",
        "{% set ns = namespace(t=x) %}{% for i in range(99) %}{% set ns.t = ns.t + ns.t %}{% endfor %}",
        "{% set ns = namespace(t=[x]) %}{% for i in range(99) %}{% set ns.t = ns.t + ns.t %}{% endfor %}",
        "{% set ns = namespace(t=x) %}{% for i in range(99) %}{% set ns.t %}{{ ns.t }}{{ ns.t }}"
        "{% endset %}{% endfor %}",
        "{% set ns = namespace(t=x) %}{% for i in range(99) %}{% set ns.t = ns.t.replace('x', 'xxxx') %}{% endfor %}",
        "{% set ns = namespace(t=x) %}{% for i in range(99) %}{% set ns.t = ns.t | replace('x', 'xxxx') %}{% endfor %}",
        "{% set ns = namespace(t=x) %}{% for i in range(99) %}{% set ns.t = [ns.t, ns.t] | join(ns.t) %}{% endfor %}",
        "{% set ns = namespace(t=[x]) %}{% for i in range(99) %}{% set ns.t = [ns.t, ns.t] %}{% endfor %}{{ ns.t }}",
        "{% set ns = namespace(t=[x]) %}{% for i in range(99) %}{% set ns.t = [ns.t, ns.t] %}{% endfor %}"
        "{{ ns.t | trim }}",
        "{% for i in range(n) %}{{ (x * 99)[:90] }}{% endfor %}",
        f"{TWINS}{{% if a == b %}}x{{% endif %}}",
        f"{TWINS}{{% if x != 'y' != a != b %}}x{{% endif %}}",
        f"{TWINS}{{% if a in [b] %}}x{{% endif %}}",
        f"{TWINS}{{% if a is eq(b) %}}x{{% endif %}}",
        f"{TWINS}{{% if a is in [b] %}}x{{% endif %}}",
        f"{TWINS}{{% if a is lower %}}x{{% endif %}}",
        f"{TWINS}{{{{ [a, b] | select('eq', a) | list | length }}}}",
        f"{TWINS}{{{{ [a, b] | sort | length }}}}",
        f"{TWINS}{{{{ [a].count(b) }}}}",
        f"{TWINS}{{{{ ({{'k': 1}}).get(a) }}}}",
        f"{TWINS}{{{{ {{a: 1}} | length }}}}",
        f"{TWINS}{{{{ ({{'k': 1}})[a] | default(1) }}}}",
        "{% set x = x * 9999 %}{% set y = x[:-1] ~ 'y' %}{% for i in range(n) %}{% if x == y %}{% endif %}{% endfor %}",
        "{% set x = x * 9999 %}{% for i in range(n) %}{% if x is lower %}{% endif %}{% endfor %}",
    ],
)
def test_no_row_keeps_a_worker_for_ever(source):
    began = time.monotonic()
    with pytest.raises((RowError, SpecError)):
        rendered(source, x="xxxxxxxxxx" * 10, n=99999)
    assert time.monotonic() - began < 60


def test_comparisons_are_those_of_python():
    source = "{{ 1 < n <= 3 }} {{ n > 1 > 2 }} {{ n in [2] }} {{ n not in {2: 1} }} {{ 'a' in x }} {{ n == 2.0 }}"
    assert rendered(source, n=2, x="ab") == "true false true false true true"
    assert "'>=' not supported" in fault("{{ n >= x }}", n=2, x="ab")
    assert rendered("{{ [1, 2, 3] | select('gt', n) | list }} {{ x is in ['ab'] }} {{ x is upper }}", n=2, x="ab") == (
        "[3] true false"
    )


def test_small_comparisons_with_something_large_cost_little():
    values = {"text": "a" * 1_000_000, "parts": ["b" * 1000] * 1000, "deep": {"k": ["c" * 1_000_000]}}
    asked = "text == 'x' or i in parts or deep.k == [i] or 'y' in deep or text == [i]"
    assert rendered(f"{{% for i in range(999) %}}{{% if {asked} %}}!{{% endif %}}{{% endfor %}}", **values) == ""


@pytest.mark.parametrize("value", ["a" * 1_000_000, ["b"] * 50_000])
def test_what_is_large_and_decent_goes_through(value):
    assert len(
        rendered("{% for part in x %}{{ part }}{% endfor %}" if isinstance(value, list) else "{{ x | trim }}", x=value)
    ) == len(value)
