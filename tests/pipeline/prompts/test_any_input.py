"""Whatever a template, a row or a job file holds: a prompt comes of it, or a sentence; never a traceback."""

from contextlib import suppress
from datetime import datetime

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pipeline.encoder import make_encoder
from pipeline.errors import JobError, PipelineError
from pipeline.job_file import read_job_file
from pipeline.prompts.jinja_template import JinjaTemplate
from pipeline.prompts.shapes import shape_of
from pipeline.prompts.template import Template
from pipeline.rows import Completion, Prompt, Row
from pipeline.spec import JobSpec, build_spec

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
SUBMITTED_AT = datetime(2024, 2, 29, 12, 30)
PIECES = [
    *("{{", "}}", "{%", "%}", "{#", "#}", "{", "}", " ", "\n", "-", "x", "y.z", "x[0]", "for i in x", "endfor", "if x"),
    *("else", "endif", "set y = x", "set y", "endset", "|", "upper", "join", "(", ")", "'", '"', "~", "*", "**", "99"),
    *("loop.index", "range(9)", "_", "__class__", ".", ",", ":", "\x00", "\ud800", "é", "<|im_end|>", "raw", "endraw"),
]
sources = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
jinja = sources | st.lists(
    st.sampled_from(["{{ x }}", "{{ x[0] | upper }}", "{% for i in x %}", "{% endfor %}", "{{ i }}", "a"]), max_size=8
).map("".join)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=5)
    | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
messages = st.lists(
    st.fixed_dictionaries(
        {},
        optional={"role": st.sampled_from(["user", "system", "tool", "x"]) | values, "content": values, "name": values},
    )
    | values,
    max_size=3,
)


def test_any_text_is_a_template_or_told(make):
    @QUICK
    @given(sources, values)
    def check(source, value):
        with suppress(PipelineError):
            template = Template.parse(source)
            template.content(template.values(Row(0, "0", dict.fromkeys(template.columns, value))))

    check()


def test_any_text_is_a_jinja_template_or_told(make):
    @QUICK
    @given(jinja, values)
    def check(source, value):
        with suppress(PipelineError):
            template = JinjaTemplate.parse(source).at(SUBMITTED_AT)
            template.content(template.values(Row(0, "0", dict.fromkeys(template.columns, value))))

    check()


def test_any_value_is_a_chat_or_its_row_s_error(make):
    vocabulary, _ = make("gpt2", "instruct")
    spec = build_spec({"inputs": "a.csv", "model": "m", "messages_column": "chat"})
    encoder = make_encoder(spec, shape_of(spec), vocabulary, SUBMITTED_AT, ())

    @QUICK
    @given(st.lists(messages | values, min_size=4, max_size=4))
    def check(chats):
        found = encoder.encode([Row(place, "", {"chat": chat}) for place, chat in enumerate(chats)])
        assert len(found) == 4
        assert all(isinstance(outcome, Prompt | Completion) for outcome in found)

    check()


def test_any_value_goes_into_a_jinja_prompt_or_is_its_row_s_error(make):
    vocabulary, _ = make("gpt2", "looking")
    prompts = ("{{ x }}", "{% for y in x %}<|im_start|>{{ y }}{% endfor %}")
    specs = [build_spec({"inputs": "a.csv", "model": "m", "prompt": each, "template": "jinja"}) for each in prompts]
    encoders = [make_encoder(spec, shape_of(spec), vocabulary, SUBMITTED_AT, ()) for spec in specs]

    @QUICK
    @given(values, st.sampled_from(encoders))
    def check(value, encoder):
        (found,) = encoder.encode([Row(0, "", {"x": value})])
        assert isinstance(found, Prompt) or found.error

    check()


#: What a job file's fields may be mistaken for.
fields = st.dictionaries(
    st.sampled_from([*JobSpec.model_fields, "from", "promt"]),
    values | st.lists(st.fixed_dictionaries({"role": st.just("user"), "content": sources}), max_size=2) | sources,
    max_size=6,
)


def test_any_fields_are_a_job_or_told():
    @QUICK
    @given(fields)
    def check(job):
        usual = {"inputs": "a.csv", "model": "m"} | (
            {} if {"messages", "messages_column"} & job.keys() else {"prompt": "{x}"}
        )
        with suppress(JobError):
            shape_of(build_spec(usual | job))

    check()


def test_any_file_is_a_job_file_or_told(tmp_path):
    file = tmp_path / "job.yaml"
    scraps = [
        "prompt",
        ":",
        " ",
        "\n",
        "- ",
        "[",
        "]",
        "{",
        "}",
        "&a",
        "*a",
        "!!python/object:os.system",
        "2024-13-45",
        "'",
        "@x",
        "\x00",
        "é",
        "|",
        "<<",
    ]

    @QUICK
    @example("tools: " + "[" * 1200)
    @given(st.lists(st.sampled_from(scraps), max_size=12).map("".join) | st.binary(max_size=12))
    def check(content):
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        with suppress(PipelineError):
            build_spec(read_job_file(file))

    check()
