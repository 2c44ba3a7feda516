import json

from hypothesis import given
from hypothesis import strategies as st

from pipeline.rows import LikelyToken, Sample, TokenLogprob
from pipeline.store import nested

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
LOGPROBS = st.floats(max_value=0, allow_nan=False, allow_infinity=False)
LIKELY = st.builds(LikelyToken, st.integers(0, 10**6), TEXTS, LOGPROBS)
TOKENS = st.builds(TokenLogprob, st.integers(0, 10**6), TEXTS, LOGPROBS, st.lists(LIKELY, max_size=2).map(tuple))
SAMPLES = st.builds(
    Sample, TEXTS, st.sampled_from(["stop", "length"]), st.integers(0, 9), st.lists(TOKENS, max_size=2).map(tuple)
)


@given(st.lists(SAMPLES, max_size=3).map(tuple))
def test_samples_come_back(samples):
    assert nested.samples(nested.to_json(samples)) == samples


@given(st.lists(TOKENS, max_size=3).map(tuple))
def test_logprobs_come_back(logprobs):
    assert nested.logprobs(nested.to_json(logprobs)) == logprobs


def test_nothing_is_null_and_null_is_nothing():
    assert nested.to_json(()) is None
    assert (nested.samples(None), nested.logprobs(None)) == ((), ())


def test_they_are_objects_under_the_names_of_their_fields():
    token = TokenLogprob(5, " é", -0.25, (LikelyToken(6, "\0", -0.5),))
    text = nested.to_json([Sample("a é", "stop", 1, (token,))])
    assert text == (
        '[{"output":"a é","finish_reason":"stop","output_tokens":1,"logprobs":[{"token_id":5,"token":" é",'
        '"logprob":-0.25,"top":[{"token_id":6,"token":"\\u0000","logprob":-0.5}]}]}]'
    )
    assert json.loads(nested.to_json([token])) == json.loads(text)[0]["logprobs"]
