from pipeline.encoder import make_task
from pipeline.rows import Generate, Sampling
from pipeline.spec import build_spec

FIELDS = {"inputs": "a.csv", "model": "m", "prompt": "Say {text}"}


def test_what_is_asked_for_reaches_the_task():
    asked = {
        "temperature": 0.7,
        "top_k": 40,
        "top_p": 0.9,
        "min_p": 0.05,
        "repetition_penalty": 1.1,
        "presence_penalty": 0.5,
        "frequency_penalty": 0.25,
        "seed": 8,
    }
    spec = build_spec(FIELDS | asked | {"max_tokens": 5, "stop": ".", "n": 3, "logprobs": 2})
    assert make_task(spec, encoder=None) == Generate(5, (".",), Sampling(0.7, 40, 0.9, 0.05, 1.1, 0.5, 0.25, 8), 3, 2)


def test_a_job_that_asks_for_nothing_is_greedy():
    assert make_task(build_spec(FIELDS), encoder=None) == Generate(256, (), Sampling())
