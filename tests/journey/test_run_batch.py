"""A batch file of OpenAI's service in, its output and error files out; what a line asks is what a job would answer."""

import gzip
import json
import os
import shutil
import signal
import threading
from base64 import b64decode
from struct import unpack

import pytest

from jobs import batch_jobs
from pipeline.journey import Journey
from tests.conftest import byte_tokenizer
from workers.local import LocalRunner

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


def line(custom_id, url=COMPLETIONS, **body):
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": {"model": "any", "max_tokens": 4, **body}}


@pytest.fixture
def run_batch(home, tiny_model, tmp_path):
    """Of lines, some of them texts as they stand; the result, the answers by custom_id, and the error lines."""

    def run(*lines, flags=()):
        texts = [entry if isinstance(entry, str) else json.dumps(entry) for entry in lines]
        (tmp_path / "in.jsonl").write_text("".join(f"{text}\n" for text in texts))
        files = ("-i", tmp_path / "in.jsonl", "-o", tmp_path / "out.jsonl")
        done = home.call("run-batch", *files, "--model", tiny_model, *flags)
        out, errors = (tmp_path / name for name in ("out.jsonl", "out.errors.jsonl"))
        if not out.exists() or not errors.exists():
            return done, [], []
        return done, *([json.loads(text) for text in path.read_text().splitlines()] for path in (out, errors))

    return run


def message(content, role="user"):
    return {"role": role, "content": content}


def body(answers, custom_id):
    (found,) = (answer["response"]["body"] for answer in answers if answer["custom_id"] == custom_id)
    return found


def test_lines_are_answered_in_their_order_and_the_others_told(run_batch):
    done, answers, errors = run_batch(
        line("c1", CHAT, messages=[message("one")], temperature=0),
        line("p1", prompt="Say: two", temperature=0, logprobs=1),
        "{not JSON",
        line("c2", CHAT, messages=[message("three {x}")], temperature=0),
        line("c3", CHAT, messages=[message("four")], temperature=9, n=2, seed=5),
        line("c1", prompt="again"),
        line("long", CHAT, messages=[message("x" * 600)], temperature=0),
        line("role", CHAT, messages=[message("x", "usr")], temperature=0),
        line("hot", prompt="x", temperature=-1),
        line("many", prompt="x", temperature=0, n=2),
        line("shape", prompt="x", temperature=0, guided_regex="("),
        line("part", prompt=["x", "y" * 600], temperature=0, logprobs=1),
        line("ids", prompt=[5] * 600, temperature=0),
    )
    assert done.exit_code == 0, done.output
    assert [answer["custom_id"] for answer in answers] == ["c1", "p1", "c2", "c3"]
    assert [(error["custom_id"], error["error"]["code"]) for error in errors] == [
        (None, "invalid_json_line"),
        ("c1", "duplicate_custom_id"),
        ("long", "too_long"),
        ("role", "messages"),
        ("hot", "invalid_parameter"),
        ("many", "invalid_parameter"),
        ("shape", "invalid_parameter"),
        ("part", "too_long"),
        ("ids", "too_long"),
    ]
    told = [error["error"]["message"] for error in errors]
    assert [message.partition(":")[0] for message in told] == [f"Line {n}" for n in (3, 6, 7, 8, 9, 10, 11, 12, 13)]
    assert told[3].startswith('Line 8: messages[0].role is "usr". A role is one of system, ')
    assert told[5].startswith("Line 10: n 2 needs temperature above 0, such as 0.7")
    assert told[6].startswith("Line 11: regex cannot be used: ")
    assert told[7].startswith("Line 12: prompt[1]: The prompt has 600 tokens; ")
    remedies = [told[place].split(". ")[1].partition(",")[0] for place in (2, 7, 8)]
    assert remedies == ["Shorten its messages", "Shorten the row's text", "Give it fewer token ids"]
    tokens = body(answers, "p1")["choices"][0]["logprobs"]["tokens"]
    assert len(tokens) == body(answers, "p1")["usage"]["completion_tokens"]
    assert (body(answers, "p1")["usage"]["prompt_tokens"], len(body(answers, "c3")["choices"])) == (len("Say: two"), 2)
    assert "4 answers written to" in done.stderr


def test_chats_of_any_length_get_the_answers_of_a_messages_column(home, run_batch, tiny_model, tmp_path):
    turns = [message("one"), message("two", "assistant"), message("three <|im_end|>")]
    parts = [{"type": "text", "text": "fo"}, {"type": "text", "text": "ur"}]
    chats = [[message("Be kind.", "system"), *turns], turns, [message("Be brief.", "developer"), message(parts)]]
    asked = {"temperature": 0, "logprobs": True}
    _, answers, _ = run_batch(*(line(f"c{n}", CHAT, messages=chat, **asked) for n, chat in enumerate(chats)))
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"chat": json.dumps(chat)}) + "\n" for chat in chats))
    flags = ("--messages-column", "chat", "--name", "night", "--model", tiny_model, "--max-tokens", 4, "--logprobs", 0)
    assert home.call("submit", tmp_path / "rows.jsonl", *flags).exit_code == 0
    found, results = [body(answers, f"c{n}") for n in range(len(chats))], home.results("night")
    assert [each["usage"]["prompt_tokens"] for each in found] == [result.prompt_tokens for result in results]
    logprobs = [[token["logprob"] for token in each["choices"][0]["logprobs"]["content"]] for each in found]
    assert [pytest.approx(each, abs=1e-5) for each in logprobs] == [
        [token.logprob for token in result.logprobs] for result in results
    ]
    assert len({first for first, *_ in logprobs}) == len(chats)


def test_whatever_the_lines_hold_each_has_one_line_of_its_own(run_batch):
    odd = json.loads(
        '[null, true, 5, "", "x", [], {}, [null], [5], [{}], ["x", 5], [[]], [[5], "x"], "\\u0000", "<|im_end|>"]'
    )
    odd += [json.loads("[" * 150 + "]" * 150), "long " * 200]
    users = [
        message(content) for content in (*odd, [{"type": "text"}], [{"type": "text", "text": "a"}, {"type": "image"}])
    ]
    more = ("name", "tool_calls", "tool_call_id", "reasoning", "content", "role")
    chats = [*odd, *([user] for user in users), [message("x"), message("y", "assistant")]]
    chats += [[message("x") | {name: value}] for name in more for value in odd]
    asked = {"temperature": 0, "max_tokens": 2}
    bodies = [(CHAT, {"messages": chat} | asked) for chat in chats]
    bodies += [(COMPLETIONS, {"prompt": value} | asked) for value in odd]
    bodies += [("/v1/embeddings", {"input": value}) for value in odd]
    bodies += [(url, value) for url in (CHAT, COMPLETIONS, "/v1/embeddings", None, 5, "x") for value in odd]
    lines = [{"custom_id": str(number), "url": url, "body": body} for number, (url, body) in enumerate(bodies)]
    done, answers, errors = run_batch(*lines)
    assert done.exit_code == 0
    assert sorted(int(each["custom_id"]) for each in answers + errors) == list(range(len(lines)))
    assert all(error["error"]["message"].endswith((".", "?")) for error in errors)
    assert not any("column" in error["error"]["message"] for error in errors)
    assert len(answers) > 50


def test_the_same_command_again_answers_nothing_twice(home, run_batch, monkeypatch):
    monkeypatch.setattr(batch_jobs, "_PAGE", 2)
    several = [f"w{number}" for number in range(5)]
    lines = (line("a", prompt="x", temperature=0), line("b", prompt="y"), line("c", prompt=several, temperature=0))
    _, answers, _ = run_batch(*lines)
    done, again, _ = run_batch(*lines)
    assert done.exit_code == 0
    assert again == answers
    assert [len(answer["response"]["body"]["choices"]) for answer in answers] == [1, 1, 5]
    assert len(json.loads(home.call("jobs", "--json").stdout)) == 2


def test_stopped_it_names_the_command_that_also_writes_the_output(home, run_batch, monkeypatch, tmp_path):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    lines = (line("a", prompt="x", temperature=0), line("b", prompt="y"))
    with monkeypatch.context() as stopped:
        stopped.setattr(LocalRunner, "run", interrupted)
        done, _, _ = run_batch(*lines)
    assert done.exit_code == 130
    assert done.stderr.endswith(
        "\n0 of 1 rows recorded\n"
        f"The same run-batch command goes on where it stopped, and writes {tmp_path / 'out.jsonl'} at its end.\n"
    )
    assert "pipeline resume" not in done.stderr
    assert [answer["custom_id"] for answer in run_batch(*lines)[1]] == ["a", "b"]


def test_stopped_in_the_last_batch_of_a_job_it_does_not_begin_the_next(home, run_batch, monkeypatch):
    answer = Journey.answer

    def interrupted(*arguments):
        answer(*arguments)
        os.kill(os.getpid(), signal.SIGINT)

    lines = (line("a", prompt="x", temperature=0), line("b", prompt="y"))
    with monkeypatch.context() as stopped:
        stopped.setattr(Journey, "answer", interrupted)
        assert run_batch(*lines)[0].exit_code == 130
    assert [job["state"] for job in json.loads(home.call("jobs", "--json").stdout)] == ["done"]
    assert [answer["custom_id"] for answer in run_batch(*lines)[1]] == ["a", "b"]


def test_without_one_line_that_can_be_answered(run_batch):
    done, answers, errors = run_batch("[]", line("a", "/v1/images/generations", prompt="x"))
    assert (done.exit_code, answers) == (5, [])
    assert [error["error"]["code"] for error in errors] == ["invalid_request", "invalid_url"]


def test_embeddings_are_those_of_a_job(home, run_batch, submit, table):
    embed, ids = {"custom_id": "v", "url": "/v1/embeddings"}, byte_tokenizer().encode
    _, answers, errors = run_batch(
        json.dumps(embed | {"body": {"input": ["one", "three four"]}}),
        json.dumps(embed | {"custom_id": "w", "body": {"input": "one", "encoding_format": "base64"}}),
        json.dumps(embed | {"custom_id": "x", "body": {"input": ["one", ""]}}),
        json.dumps(embed | {"custom_id": "y", "body": {"input": [ids("one"), ids("three four")]}}),
        json.dumps(embed | {"custom_id": "z", "body": {"input": [5, 1_000_000]}}),
        flags=("--embed", "mean"),
    )
    assert [(error["custom_id"], error["error"]["code"]) for error in errors] == [("x", "empty"), ("z", "wrong_type")]
    job = ("--prompt", "{text}", "--raw", "--embed", "mean")
    assert submit(table(text=["one", "three four"]), *job).exit_code == 0
    one, other = (list(unpack("<32f", result.embedding)) for result in home.results("night"))
    assert [each["embedding"] for each in body(answers, "v")["data"]] == [one, other]
    assert body(answers, "v")["usage"] == body(answers, "y")["usage"] == {"prompt_tokens": 13, "total_tokens": 13}
    for given, expected in zip(body(answers, "y")["data"], (one, other), strict=True):
        assert given["embedding"] == pytest.approx(expected, abs=1e-5)
    assert list(unpack("<32f", b64decode(body(answers, "w")["data"][0]["embedding"]))) == one


def test_an_answer_is_held_to_the_shape_that_is_asked_for(run_batch):
    schema = {"type": "object", "properties": {"b": {"enum": [7]}, "a": {"type": "null"}}, "required": ["b", "a"]}
    shape = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema | {"additionalProperties": False}}}
    asked = {"messages": [message("x")], "temperature": 0, "max_tokens": 40}
    _, answers, errors = run_batch(
        line("json", CHAT, **asked, response_format=shape),
        line("choice", CHAT, **asked, structured_outputs={"choice": ["yes", "no (or so)"]}),
    )
    assert errors == []
    content, chosen = (body(answers, name)["choices"][0]["message"]["content"] for name in ("json", "choice"))
    assert content == '{"b": 7, "a": null}'
    assert chosen in ("yes", "no (or so)")


def test_tools_and_variables_reach_the_chat_template(run_batch, tiny_model, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(tiny_model, model)
    calls = "{% for m in messages if m.tool_calls %}{{ m.tool_calls | tojson }}{% endfor %}"
    (model / "chat_template.jinja").write_text("{{ tools | tojson }}{{ thinking | tojson }}" + calls)
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    tools = [{"type": "function", "function": {"name": "f"}}]
    messages = [message("x"), message(None, "assistant") | {"tool_calls": [call]}, message("1", "tool")]
    asked = {"messages": messages, "tools": tools, "chat_template_kwargs": {"thinking": False}}
    _, answers, _ = run_batch(line("a", CHAT, **asked), flags=("--model", model))
    call["function"]["arguments"] = {"x": 1}
    seen = f"{json.dumps(tools)}false{json.dumps([call])}"
    assert body(answers, "a")["usage"]["prompt_tokens"] == len(seen)


def test_what_a_model_cannot_do_is_the_error_of_those_lines(run_batch, tiny_model, tmp_path, told):
    model = tmp_path / "model"
    shutil.copytree(tiny_model, model)
    (model / "chat_template.jinja").unlink()
    chat, text = line("chat", CHAT, messages=[message("x")]), line("text", prompt="x")
    done, answers, errors = run_batch(chat, text, flags=("--model", model))
    assert done.exit_code == 0
    assert [answer["custom_id"] for answer in answers] == ["text"]
    assert [(error["custom_id"], error["error"]["code"]) for error in errors] == [("chat", "model")]
    assert told(run_batch(chat, flags=("--model", model))[0], 1).startswith("This model has no chat template, so it ")


def test_files_that_would_be_lost_or_cannot_be_are_refused(home, tmp_path, told, tiny_model):
    (tmp_path / "in.jsonl").write_text("{}\n")
    same = ("-i", tmp_path / "in.jsonl", "-o", tmp_path / "in.jsonl", "--model", tiny_model)
    assert told(home.call("run-batch", *same), 2) == "The input, the output and the error file must be three files."
    gone = ("-i", tmp_path / "in.jsonl", "-o", tmp_path / "no" / "out.jsonl", "--model", tiny_model)
    assert told(home.call("run-batch", *gone), 2).startswith("--output-file cannot be written: there is no directory")
    missing = ("-i", tmp_path / "no.jsonl", "-o", tmp_path / "out.jsonl", "--model", tiny_model)
    assert told(home.call("run-batch", *missing), 1).startswith(f"{tmp_path / 'no.jsonl'} does not exist.")


def test_an_input_that_cannot_be_read_again_or_is_packed_is_refused(home, tmp_path, told, tiny_model):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "in.jsonl.gz").write_bytes(gzip.compress(json.dumps(line("a", prompt="x")).encode()))
    for name, why in (
        ("pipe", "--input-file must be a file, as it"),
        ("in.jsonl.gz", f"{tmp_path / 'in.jsonl.gz'} is "),
    ):
        files = ("-i", tmp_path / name, "-o", tmp_path / "out.jsonl", "--model", tiny_model)
        assert told(home.call("run-batch", *files), 2).startswith(why)
    assert not (tmp_path / "out.jsonl").exists()


def test_an_output_that_is_a_link_or_a_pipe_is_written_through(run_batch, tmp_path):
    (tmp_path / "out.jsonl").symlink_to(tmp_path / "answers.jsonl")
    os.mkfifo(tmp_path / "errors")
    read = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "errors").read_text()), daemon=True)
    reader.start()
    done, _, _ = run_batch("{", line("a", prompt="x", temperature=0), flags=("--error-file", tmp_path / "errors"))
    reader.join(timeout=10)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out.jsonl").is_symlink()
    assert json.loads((tmp_path / "answers.jsonl").read_text())["custom_id"] == "a"
    assert (tmp_path / "errors").is_fifo()
    assert json.loads(read[0])["error"]["code"] == "invalid_json_line"


def test_beside_what_is_no_file_there_is_no_place_for_errors(home, tmp_path, told, tiny_model):
    (tmp_path / "in.jsonl").write_text("{}\n")
    os.mkfifo(pipe := tmp_path / "pipe")
    files = ("-i", tmp_path / "in.jsonl", "-o", pipe, "--model", tiny_model)
    assert told(home.call("run-batch", *files), 2).startswith(f"{pipe} is no file, so there is no place beside it")


@pytest.mark.parametrize("flags", [("--name", "-x"), ("--name", "x" * 63), ("--name", "a\nb")])
def test_a_flag_that_makes_no_sense_is_told_before_the_output_is_touched(run_batch, tmp_path, told, flags):
    (tmp_path / "out.jsonl").write_text('{"of": "before"}\n')
    done, _, _ = run_batch(line("a", prompt="x", temperature=0), flags=flags)
    assert flags[0] in told(done, 2)
    assert (tmp_path / "out.jsonl").read_text() == '{"of": "before"}\n'
    assert not (tmp_path / "out.errors.jsonl").exists()
