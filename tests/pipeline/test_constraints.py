"""Which tokens may come next in an answer that is held to a schema, an expression or a grammar."""

import json
import re

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from pipeline.constraints import Constraints
from pipeline.errors import SpecError
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.rows import Constraint
from tests.conftest import byte_tokenizer

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def schema(fields):
    return Constraint("json_schema", json.dumps(fields))


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    directory = tmp_path_factory.mktemp("bytes")
    byte_tokenizer().save_pretrained(directory)
    return Vocabulary(directory)


@pytest.fixture(scope="module")
def constraints(vocabulary):
    return Constraints(vocabulary)


@pytest.fixture
def written(vocabulary):
    """What may come next, as text; a stop token is its own."""

    def write(bits):
        flags = np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little")
        return [{vocabulary.show([token]) for token in row.nonzero()[0]} for row in flags]

    return write


def spell(vocabulary, guide, place, text):
    """Each character in its turn; whether the answer is whole after the last."""
    whole = False
    for token in vocabulary.ids([text])[0]:
        assert not whole
        assert np.unpackbits(guide.allowed([place]).view(np.uint8), bitorder="little")[token]
        whole = guide.take(place, token)
    return whole


def test_a_stop_token_may_come_only_where_the_answer_may_end(constraints, vocabulary, written):
    guide = constraints.guide(Constraint("regex", "[ac]b*"), 1, {vocabulary.eos_id})
    assert written(guide.allowed([0])) == [{"a", "c"}]
    assert not spell(vocabulary, guide, 0, "a")
    assert written(guide.allowed([0])) == [{"b", "<|im_end|>"}]
    assert guide.take(0, vocabulary.eos_id)


def test_answers_that_have_come_to_different_places_may_go_on_differently(constraints, vocabulary, written):
    guide = constraints.guide(Constraint("regex", "[ab]c[de]"), 3, {vocabulary.eos_id})
    spell(vocabulary, guide, 2, "bc")
    spell(vocabulary, guide, 0, "a")
    assert written(guide.allowed([2, 0, 1])) == [{"d", "e"}, {"c"}, {"a", "b"}]


def test_an_answer_after_which_nothing_may_come_is_whole_at_once(constraints, vocabulary):
    guide = constraints.guide(schema(PERSON), 1, {vocabulary.eos_id})
    assert spell(vocabulary, guide, 0, '{"name": "Ann \\"é\\"", "age": 33}')


def test_what_must_come_is_told_in_one_piece_and_nothing_else_may(constraints, vocabulary, written):
    guide = constraints.guide(schema(PERSON), 1, {vocabulary.eos_id})
    assert vocabulary.decode(guide.forced(0)) == '{"name": "'
    assert written(guide.allowed([0])) == [{"{"}]
    spell(vocabulary, guide, 0, '{"name": "x')
    assert not guide.forced(0)
    spell(vocabulary, guide, 0, '", "')
    assert vocabulary.decode(guide.forced(0)) == 'age": '


def test_json_is_written_on_one_line_in_the_order_of_the_schema(constraints, vocabulary, written):
    guide = constraints.guide(schema({"type": "array", "items": {"enum": [7, 8]}, "minItems": 2}), 1, ())
    spell(vocabulary, guide, 0, "[7,")
    assert written(guide.allowed([0])) == [{" "}]


def test_an_answer_that_llguidance_gave_up_may_not_end(constraints, vocabulary, written):
    """It gives up grammars that are too intricate at some place, too; here a token that was not allowed."""
    guide = constraints.guide(Constraint("regex", "[ab]b"), 2, {vocabulary.eos_id})
    assert not guide.take(0, vocabulary.ids(["c"])[0][0])
    assert written(guide.allowed([1, 0])) == [{"a", "b"}, set()]
    assert (guide.is_stuck(0), guide.is_stuck(1)) == (True, False)


def test_special_tokens_of_the_model_are_no_text(constraints, vocabulary, written):
    guide = constraints.guide(Constraint("regex", "(?s:.*)"), 1, {vocabulary.eos_id})
    (any_text,) = written(guide.allowed([0]))
    assert {"a", "<", "|", "<|im_end|>"} <= any_text
    assert not {"<|pad|>", "<|im_start|>"} & any_text


def test_the_real_tokenizers_bytes_are_those_of_its_texts(small_tokenizer):
    vocabulary = Vocabulary(small_tokenizer)
    constraints = Constraints(vocabulary)
    text = 'Zoë – 東京 🌧️\t"x": [-12.5]\n'
    literal = constraints.guide(Constraint("regex", re.escape(text)), 1, {vocabulary.eos_id})
    ids = vocabulary.ids([text])[0]
    forced = []
    while not literal.take(0, token := literal.forced(0)[0]):
        forced.append(token)
    assert [*forced, token] == ids
    assert not spell(vocabulary, constraints.guide(Constraint("regex", "(?s:.*)"), 1, {vocabulary.eos_id}), 0, text)


def test_a_vocabulary_of_sentencepieces_kind_writes_what_the_expression_asks(tmp_path):
    pieces = ["<unk>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "b", "▁a"]
    tokenizer = Tokenizer(
        models.BPE({piece: n for n, piece in enumerate(pieces)}, [("▁", "a")], unk_token="<unk>", byte_fallback=True)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token="</s>").save_pretrained(tmp_path)
    vocabulary = Vocabulary(tmp_path)
    guide = Constraints(vocabulary).guide(Constraint("regex", "b (a|é)"), 1, {1})
    assert not spell(vocabulary, guide, 0, "b")
    flags = np.unpackbits(guide.allowed([0]).view(np.uint8), bitorder="little")
    assert [pieces[token] for token in flags.nonzero()[0]] == ["<0x20>", "▁", "▁a"]


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        (Constraint("regex", "(a"), '--regex cannot be used: invalid regex "(a" (in regex): .*: unclosed group.'),
        (Constraint("regex", "a(?!b)"), "--regex cannot be used: .* look-behind, is not supported."),
        (Constraint("grammar", "start: foo"), '--grammar cannot be used: at 1(8): unknown name: "foo".'),
        (Constraint("grammar", "root ::= ("), "--grammar cannot be used: it is no GBNF: Expected ')' at line 1.*."),
        (Constraint("grammar", 'root ::= "a" ' + "(" * 5000), "--grammar cannot be used: it is no GBNF: maximum.*."),
        (schema({"type": "strin"}), "--json-schema cannot be used: Invalid type: strin."),
        (
            schema({"unevaluatedItems": False}),
            '--json-schema cannot be used: Unimplemented keys: ["unevaluatedItems"].',
        ),
        (
            schema({"type": "integer", "minimum": 5, "maximum": 3}),
            "--json-schema cannot be used: Unsatisfiable schema: minimum (5) is greater than maximum (3).",
        ),
        (
            schema({"title": 1}),
            "--json-schema cannot be used: it is no JSON schema: at $.title: 1 is not of type 'string'.",
        ),
        (Constraint("grammar", "start: <|no|>"), "--grammar cannot be used with this model: .*special token.*"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line_that_says_why(constraints, constraint, message):
    with pytest.raises(SpecError) as refusal:
        constraints.require(constraint)
    parts = message.split(".*")
    assert str(refusal.value).startswith(parts[0])
    assert str(refusal.value).endswith(parts[-1])
    assert "\n" not in str(refusal.value)


def test_what_makes_sense_is_not_refused(constraints):
    for constraint in (None, schema(PERSON), Constraint("regex", "[^a]*é"), Constraint("grammar", 'start: "a" start?')):
        constraints.require(constraint)


def test_a_grammar_may_be_written_in_gbnf(vocabulary, constraints):
    grammar = 'root ::= "SELECT " column " from t"\n\n    column ::= "col_1" | "col_" [2-9]'
    constraints.require(Constraint("grammar", grammar))
    for text in ("SELECT col_1 from t", "SELECT col_7 from t"):
        assert spell(vocabulary, constraints.guide(Constraint("grammar", grammar), 1, {vocabulary.eos_id}), 0, text)


def test_what_the_vocabulary_has_no_tokens_for_is_refused(tmp_path):
    tokenizer = Tokenizer(models.BPE({"a": 0, "b": 1}, []))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(tmp_path)
    constraints = Constraints(Vocabulary(tmp_path))
    constraints.require(Constraint("regex", "[abc]+"))
    with pytest.raises(SpecError, match=r'with this model: its vocabulary has no token after "ab".'):
        constraints.require(Constraint("regex", "abc|abd"))
    with pytest.raises(SpecError, match=r"its vocabulary has no token with which an answer may begin."):
        constraints.require(Constraint("regex", "c"))


def test_a_tokenizer_whose_tokens_are_no_bytes_is_refused(tmp_path):
    tokenizer = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1, "##b": 2}, unk_token="[UNK]"))
    tokenizer.decoder = decoders.WordPiece()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]").save_pretrained(tmp_path)
    with pytest.raises(SpecError, match="--regex cannot be used with this model: its tokenizer does not say which byt"):
        Constraints(Vocabulary(tmp_path)).require(Constraint("regex", "ab"))
