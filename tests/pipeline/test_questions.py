"""What a person may ask of one row at once, and what is wrong with it, told before anything is read."""

import pytest

from pipeline.errors import SpecError
from pipeline.job_file import read_job_file
from pipeline.spec import JobSpec, build_spec

FIELDS = {"inputs": ["/data/rows.csv"], "model": "m", "prompt": "Review: {text}\n"}
QUESTIONS = {
    "mood": {"prompt": "Good or bad?", "choices": "good,bad"},
    "gist": {"prompt": "In short:", "max_tokens": 40, "temperature": 0.5, "seed": 3},
    "fit": {"prompt": " {product}:", "score": "title"},
    "place": {"embed": "last"},
}


def asking(**questions: object) -> JobSpec:
    return build_spec(FIELDS | {"questions": questions})


def test_each_question_is_a_job_that_goes_on_with_the_prompt():
    mood, gist, fit, place = asking(**QUESTIONS).asked
    assert (mood.prompt, mood.choices) == ("Review: {text}\nGood or bad?", ("good", "bad"))
    assert (gist.max_tokens, gist.seed, gist.choices) == (40, 3, None)
    assert (fit.prompt, fit.beside) == ("Review: {text}\n {product}:", ("title",))
    assert (place.prompt, place.embed) == ("Review: {text}\n", "last")
    assert {(each.model, each.questions) for each in (mood, gist, fit, place)} == {("m", ())}
    plain = build_spec(FIELDS)
    assert plain.asked == (plain,)


def test_of_several_messages_the_last_goes_on():
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "{text} "}]
    spec = build_spec({**FIELDS, "prompt": None, "messages": messages, "questions": {"a": {"prompt": "Why?"}, "b": {}}})
    assert [[message.content for message in each.messages or ()] for each in spec.asked] == [
        ["Be kind.", "{text} Why?"],
        ["Be kind.", "{text} "],
    ]


def test_a_job_is_kept_as_it_was_asked_for():
    spec = asking(**QUESTIONS)
    assert JobSpec.model_validate_json(spec.model_dump_json()) == spec
    assert asking(mood=QUESTIONS["mood"] | {"choices": ["good", "bad"], "multi_label": False}) == asking(
        mood=QUESTIONS["mood"]
    )


def test_another_question_is_another_job_and_so_is_another_order():
    spec, mood, gist = asking(**QUESTIONS), QUESTIONS["mood"], QUESTIONS["gist"]
    assert spec.differences(asking(**QUESTIONS)) == []
    assert asking(mood=mood).differences(asking(mood=mood | {"choices": "a,b"})) == [
        'questions.mood.choices: ["good", "bad"] -> ["a", "b"]'
    ]
    assert asking(gist={"prompt": "Why?"}).differences(asking(gist={"max_tokens": 9})) == [
        'questions.gist.prompt: "Why?" -> ""',
        "questions.gist.max_tokens: 256 -> 9",
    ]
    assert asking(mood=mood).differences(asking(mood=mood, gist={})) == ['questions: ["mood"] -> ["mood", "gist"]']
    one, other = asking(mood=mood, gist=gist), asking(gist=gist, mood=mood)
    assert one.differences(other) == ['questions: ["mood", "gist"] -> ["gist", "mood"]']
    assert one.fingerprint("", "") != other.fingerprint("", "")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"questions": {}}, "questions: there are none."),
        ({"questions": None}, "questions: write each under a name of its own, such as `mood: {choices: [good, bad]}`."),
        ({"questions": [{"name": "a", "prompt": "x"}]}, "questions: write each under a name of its own, such as `mood"),
        ({"questions": {True: {}}}, "questions: without quotes, YAML reads the name of one as true; write it in quote"),
        ({"questions": {"a": None}}, 'questions: question "a" needs fields, such as `prompt: ...` and `choices: [yes,'),
        ({"questions": {"a b": {}}}, 'questions: "a b" is no name of a question: take letters, digits and _, such as '),
        ({"questions": {"output": {}}}, 'questions: a question cannot be named "output", as results have a column of'),
        ({"questions": {"a": {}, "A": {}}}, 'questions: two questions are named "A".'),
        (
            {"questions": {"a": {}, "a_score": {}}},
            'questions: the questions "a" and "a_score" have a column of the sam',
        ),
        ({"questions": {"a": {"promt": "x"}}}, 'has no field "promt" of its own. Did you mean "prompt"?'),
        ({"questions": {"a": {"model": "x"}}}, 'questions: question "a" has no field "model" of its own.'),
        (
            {"questions": {"a": {"prompt": True}}},
            'questions: the prompt of question "a" is no text; write it in quotes.',
        ),
        (
            {"questions": {"a": {"choices": "x"}}},
            'questions: question "a": --choices needs two labels or more, such as',
        ),
        ({"questions": {"a": {"max_tokens": 0}}}, 'questions: question "a": --max-tokens must be 1 or more, and not'),
        (
            {"questions": {"a": {}}, "choices": "x,y"},
            "questions: --choices is for the whole job, and each question has its own; leave it out, or move ",
        ),
        (
            {"questions": {"a": {}}, "max_tokens": 9},
            "questions: --max-tokens is for the whole job, and each question ha",
        ),
        (
            {"questions": {"a": {}}, "examples": [{"text": "a", "answer": "b"}]},
            "questions: --examples show one answer each, and there are several; write them into the prompt.",
        ),
        (
            {"questions": {"a": {}}, "prompt": None, "raw": True, "tokens_column": "ids"},
            "questions: they go on with --prompt or messages; --tokens-column brings each row's own prompt, which ends",
        ),
        (
            {"questions": {"a": {}}, "prompt": None, "messages_column": "chat"},
            "questions: they go on with --prompt or messages; --messages-column brings each row's own chat, which ends",
        ),
        (
            {"questions": {"a": {}}, "prompt": None},
            "The job has no prompt; give --prompt, or `prompt:` in the job file.",
        ),
        (
            {"questions": {"a": {"temperature": 1}}, "reuse_results": True},
            'question "a": --reuse-results has no meaning',
        ),
    ],
)
def test_what_is_wrong_is_told_with_the_question(fields, message):
    with pytest.raises(SpecError) as told:
        build_spec(FIELDS | fields)
    assert message in str(told.value)


def test_a_job_file_reads_what_questions_name_from_beside_it(tmp_path):
    (tmp_path / "why.txt").write_text("Why?\n")
    (tmp_path / "facts.json").write_text('{"type": "string"}')
    job = tmp_path / "job.yaml"
    job.write_text('prompt: "{text}"\nquestions:\n  why: {prompt: "@why.txt", json_schema: facts.json}\n')
    assert read_job_file(job)["questions"] == {"why": {"prompt": "Why?", "json_schema": {"type": "string"}}}
    (tmp_path / "why.j2").write_text("{% if text %}Why?{% endif %}")
    job.write_text('prompt: "@why.j2"\nquestions:\n  why: {prompt: "@why.j2"}\n')
    assert read_job_file(job)["questions"] == {"why": {"prompt": "{% if text %}Why?{% endif %}"}}
    job.write_text('prompt: "{{ text }}"\ntemplate: jinja\nquestions:\n  why: {prompt: "@why.j2"}\n')
    assert read_job_file(job)["questions"] == {"why": {"prompt": "{% if text %}Why?{% endif %}"}}
    job.write_text('prompt: "{text}"\nquestions:\n  why: {prompt: "@why.j2"}\n')
    with pytest.raises(SpecError, match='The prompt of question "why" is a Jinja template, and the job\'s own'):
        read_job_file(job)


def test_a_question_that_is_there_twice_is_told_and_none_is_lost(tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text('prompt: "{text}"\nquestions:\n  why: {prompt: "Why?"}\n  "why": {prompt: "Why not?"}\n')
    with pytest.raises(SpecError, match=r'is not YAML: "why" is there twice, and one .* lost\n.* line 4, column 3'):
        read_job_file(job)
    job.write_text("questions:\n  a: &all {max_tokens: 5, n: 2}\n  b: {<<: *all, n: 3}\n")
    assert read_job_file(job)["questions"]["b"] == {"max_tokens": 5, "n": 3}
