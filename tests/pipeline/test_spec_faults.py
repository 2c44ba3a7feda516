import datetime
from pathlib import Path

import pytest

from pipeline.errors import SpecError
from pipeline.spec import build_spec

FIELDS = {"inputs": ["/data/rows.csv"], "model": "m", "prompt": "Say {text}"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"chioces": "a,b"}, 'There is no field "chioces" in a job. Did you mean "choices"?'),
        ({"prompt": "a\0b"}, "prompt holds a NUL character, which no database keeps. Take it out."),
        ({"zzz": 1}, 'There is no field "zzz" in a job.'),
        ({"model": None}, "--model must be text, and not null."),
        ({"cut": ["a"]}, "--cut must be text, and not a list."),
        ({"where": {"a": 1}}, "--where must be text, and not an object."),
        ({"dedupe": "maybe"}, "--dedupe must be true or false, and not 'maybe'."),
        ({"max_tokens": "many"}, "--max-tokens must be a whole number, and not 'many'."),
        ({"tools": {"name": "a"}}, "--tools must be a list, and not an object."),
        ({"stop": ["a", ""]}, "--stop holds an empty text. Take it out."),
        ({"inputs": ["a", "", ""]}, "INPUT holds an empty text. Take it out."),
        ({"prompt": None, "messages": "Hi"}, "messages must be a list, and not 'Hi'."),
        ({"tools": [{}, "a"]}, "tools.1 must be an object, and not 'a'."),
        ({"messages": ["a"]}, "messages.0 must be an object, and not 'a'."),
        (
            {"examples": [{"text": "a", "answer": "b"}, {"text": "a"}]},
            "examples: example 2 has no `answer`, which is what the model would be shown as its own.",
        ),
        ({"dtype": "int4"}, "--dtype must be 'auto', 'float32', 'bfloat16' or 'float16', and not 'int4'."),
        ({"name": ""}, "--name must not be empty."),
        ({"choices": "good"}, "--choices needs two labels or more, such as positive,negative."),
        ({"choices": ["a", "a"]}, "--choices names a label twice."),
        ({"choices": "a,b", "stop": "x"}, "--stop has no meaning with --choices: nothing is generated; leave it out."),
        (
            {"choices": "a,b", "max_tokens": 5},
            "--max-tokens has no meaning with --choices: nothing is generated; leave it out.",
        ),
        ({"choices": "a,b", "n": 2}, "--n has no meaning with --choices: nothing is generated; leave it out."),
        (
            {"choices": "a,b", "logprobs": 0},
            "--logprobs has no meaning with --choices: nothing is generated; leave it out.",
        ),
        (
            {"choices": "a,b", "score": "c"},
            "--choices and --score are two tasks, and a job has one; leave one of them out.",
        ),
        ({"score": "c", "stop": "x"}, "--stop has no meaning with --score: nothing is generated; leave it out."),
        ({"embed": "cls"}, "--embed must be 'last' or 'mean', and not 'cls'."),
        (
            {"embed": "last", "score": "a"},
            "--score and --embed are two tasks, and a job has one; leave one of them out.",
        ),
        (
            {"embed": "last", "logprobs": 0},
            "--logprobs has no meaning with --embed: nothing is generated; leave it out.",
        ),
        (
            {"choices": "a,b", "regex": "[0-9]+"},
            "--regex has no meaning with --choices: nothing is generated; leave it out.",
        ),
        (
            {"regex": "[0-9]+", "json_schema": "{}"},
            "--json-schema and --regex are two shapes, and an answer has one; leave one of them out.",
        ),
        (
            {"json_schema": "{"},
            "json_schema: it is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1).",
        ),
        (
            {"json_schema": '{"a":' * 100_000},
            "json_schema: it is not JSON: maximum recursion depth exceeded while decoding a JSON object from a unicode "
            "string.",
        ),
        (
            {"prompt": None, "tokens_column": "ids"},
            "--tokens-column holds all that the model is to read, without a chat template; say so by --raw.",
        ),
        (
            {"prompt": None, "tokens_column": "ids", "raw": True, "unescape_html": True},
            "--unescape-html changes text, and --tokens-column holds token ids; leave one of them out.",
        ),
        (
            {"prompt": None, "messages_column": "chat", "choices": "a,b", "prior_correction": True},
            "--prior-correction writes N/A into the columns of the prompt, and with --messages-column there are none.",
        ),
        (
            {"prompt": None, "tokens_column": "ids", "raw": True, "on_too_long": "head"},
            "--on-too-long cuts a column of the prompt, and with --tokens-column there is none.",
        ),
        (
            {"json_schema": "[]"},
            'json_schema: it is no JSON schema, which is an object such as {"type": "object", "properties": ...}.',
        ),
        (
            {"json_schema": {"const": datetime.date(2026, 12, 1)}},
            "json_schema: it holds what JSON has no form for: Object of type date is not JSON serializable.",
        ),
        ({"score": ""}, "--score must not be empty."),
        ({"multi_label": True}, "--multi-label needs --choices, such as positive,negative, which it compares."),
        (
            {"prior_correction": True, "max_tokens": 5},
            "--prior-correction needs --choices, such as positive,negative, which it compares.",
        ),
        (
            {"choices": "a,b", "multi_label": True, "length_normalize": True},
            "--length-normalize has no meaning with --multi-label: each label is a yes or a no of its own; "
            "leave one of them out.",
        ),
        ({"n": 4}, "--n 4 needs --temperature above 0, such as 0.7; at 0 all samples would be equal."),
        ({"temperature": 1, "n": 0}, "--n must be 1 or more, and not 0."),
        ({"temperature": 1, "n": 65}, "--n must be 64 or less, and not 65."),
        ({"logprobs": -1}, "--logprobs must be 0 or more, and not -1."),
        ({"logprobs": 21}, "--logprobs must be 20 or less, and not 21."),
        (
            {"choices": ["maybe", False]},
            'choices.1: without quotes, YAML reads this as false, which is no text; write it in quotes, such as "no".',
        ),
        (
            {"stop": [1.5]},
            'stop.0: without quotes, YAML reads this as 1.5, which is no text; write it in quotes, such as "1.5".',
        ),
        (
            {"choices": "a,b", "temperature": 1},
            "--temperature has no meaning with --choices: nothing is generated; leave it out.",
        ),
        ({"choices": "a,b", "seed": 3}, "--seed has no meaning with --choices: nothing is generated; leave it out."),
        (
            {"choices": "a,b", "repetition_penalty": 2},
            "--repetition-penalty has no meaning with --choices: nothing is generated; leave it out.",
        ),
        (
            {"top_k": 5, "seed": 1},
            "--top-k needs --temperature above 0, such as 0.7; at 0 the likeliest token is taken.",
        ),
        ({"top_p": 1}, "--top-p needs --temperature above 0, such as 0.7; at 0 the likeliest token is taken."),
        ({"min_p": 0}, "--min-p needs --temperature above 0, such as 0.7; at 0 the likeliest token is taken."),
        ({"seed": -1}, "--seed needs --temperature above 0, such as 0.7; at 0 the likeliest token is taken."),
        ({"temperature": 0.001}, "--temperature is 0, which takes the likeliest token, or 0.01 and more."),
        ({"temperature": -1}, "--temperature must be 0 or more, and not -1."),
        ({"temperature": float("inf")}, "--temperature must be 100 or less, and not inf."),
        ({"temperature": float("nan")}, "--temperature must be 100 or less, and not nan."),
        ({"temperature": 1, "top_k": 0}, "--top-k must be 1 or more, and not 0."),
        ({"temperature": 1, "top_p": 0}, "--top-p must be more than 0, and not 0."),
        ({"temperature": 1, "top_p": 1.1}, "--top-p must be 1 or less, and not 1.1."),
        ({"temperature": 1, "min_p": -0.1}, "--min-p must be 0 or more, and not -0.1."),
        ({"repetition_penalty": 0}, "--repetition-penalty must be 0.01 or more, and not 0."),
        ({"presence_penalty": 2.5}, "--presence-penalty must be 2 or less, and not 2.5."),
        ({"raw": True, "system": ""}, "--system needs a chat template; with --raw, write it into the prompt."),
        (
            {"messages": [{"role": "user", "content": "a"}]},
            "--prompt and messages are two prompts, and a job has one; leave one of them out.",
        ),
        (
            {"messages_column": "chat"},
            "--prompt and --messages-column are two prompts, and a job has one; leave one of them out.",
        ),
        (
            {"prompt": None, "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
            "messages: the last message is of the role assistant, and must be the user's.",
        ),
        (
            {"prompt": None, "messages": [{"role": "robot", "content": "a"}]},
            "messages.0.role must be 'system', 'user' or 'assistant', and not 'robot'.",
        ),
        ({"prompt": None, "messages": [{"role": "user"}]}, "messages.0.content: it is missing."),
        (
            {"prompt": None, "messages": [{"role": "user", "content": "a", "name": "b"}]},
            "messages.0.name: there is no such field.",
        ),
        (
            {"prompt": None, "messages": [{"role": "user", "content": "a"}], "system": "b"},
            "--system and messages are two beginnings; write it into messages, under the role system.",
        ),
        (
            {"prompt": None, "messages_column": "chat", "raw": True},
            "--messages-column needs a chat template, which --raw does without; leave one of them out.",
        ),
        (
            {"prompt": None, "messages_column": "chat", "examples": [{"answer": "b"}]},
            "--examples needs --prompt, which each of them fills; --messages-column has all of it.",
        ),
        (
            {"prompt": None, "messages_column": "chat", "on_too_long": "head"},
            "--on-too-long cuts a column of the prompt, and with --messages-column there is none.",
        ),
        (
            {"raw": True, "template_vars": {"a": 1}},
            "--template-var needs a chat template, which --raw does without; leave one of them out.",
        ),
        (
            {"template_vars": {"messages": []}},
            'template_vars: a chat template has no variable "messages" that a job may set.',
        ),
        (
            {"examples": [{"text": "a"}] * 1001},
            "examples: there are more than 1,000, and every prompt begins with all of them.",
        ),
        ({"output": "x.txt"}, "--output x.txt must end in one of .csv, .jsonl, .ndjson, .parquet."),
    ],
)
def test_what_makes_no_sense_is_a_sentence(fields, message):
    with pytest.raises(SpecError) as caught:
        build_spec(FIELDS | fields)
    assert str(caught.value) == message


def test_a_select_without_a_database_asks_for_the_database():
    with pytest.raises(SpecError, match="--sql needs the URL of one database; give --from, such as"):
        build_spec({"sql": "SELECT 1", "model": "m", "prompt": "Say {text}"})


@pytest.mark.parametrize(
    ("character", "why"),
    [
        ("\0", "holds a NUL character, which no"),
        ("\ud800", "holds half of a surrogate pair, which is no"),
    ],
)
def test_what_no_database_keeps_is_refused_wherever_it_stands(character, why):
    fields = {
        "system": character,
        "stop": ["a", f"b{character}", character],
        "template_vars": {"a": {"b": [character]}, f"c{character}": 1},
        "questions": [{"name": "q", "choices": ["x", character]}],
        "output": Path(f"a{character}.csv"),
    }
    with pytest.raises(SpecError) as told:
        build_spec(FIELDS | fields)
    places = ["system", "stop", "template_vars.a.b", "template_vars", "questions.choices", "output"]
    assert [line.partition(f" {why}")[0] for line in str(told.value).splitlines()] == places
