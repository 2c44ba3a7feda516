"""What an answer may be while it is written: which tokens may come next, between the vocabulary and the engine.

The door to llguidance, which needs neither torch nor a model. What ends an answer differs from model to model, so that
in its tokenizer an answer ends with a token of its own, for which a model's stop tokens stand in here.
"""

import re
from collections import deque
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import takewhile

import numpy as np
from llguidance import LLExecutor, LLMatcher, LLTokenizer
from llguidance.gbnf_to_lark import gbnf_to_lark
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask_par
from numpy.typing import NDArray

from pipeline.errors import SpecError
from pipeline.json_schema import AnswerSchema
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.rows import Constraint

#: The rule with which a grammar in GBNF begins; that of Lark is `start:`.
_GBNF = re.compile(r"^\s*root\s*::=", re.MULTILINE)
#: Tokens of an answer that is tried out before there is one.
_TRIED = 64


class Constraints:
    """Of one vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def require(self, constraint: Constraint | None) -> None:
        """Raises SpecError where it makes no sense, or where the vocabulary has no tokens to write such an answer."""
        if constraint is None:
            return
        flag = f"--{constraint.kind.replace('_', '-')}"
        try:
            if fault := LLMatcher.validate_grammar(_grammar(constraint)):
                raise SpecError(f"{flag} cannot be used: {_reason(fault, constraint)}.")
            if constraint.kind == "json_schema" and (flaw := AnswerSchema(constraint.text).fault()):
                raise SpecError(f"{flag} cannot be used: it is no JSON schema: {flaw}.")
            if not self._are_bytes():
                raise SpecError(
                    f"{flag} cannot be used with this model: its tokenizer does not say which bytes each of its tokens "
                    "writes, as those do that are byte-level or fall back to bytes. Use another model."
                )
            begun = self.guide(constraint, 1, ()).dead_end(_TRIED)
        except ValueError as error:
            raise SpecError(f"{flag} cannot be used with this model: {_reason(str(error), constraint)}.") from error
        if begun is not None:
            after = f'after "{begun}"' if begun else "with which an answer may begin"
            raise SpecError(f"{flag} cannot be used with this model: its vocabulary has no token {after}.")

    def guide(self, constraint: Constraint, count: int, stop_ids: Iterable[int]) -> "Guide":
        """For so many answers. The first one takes a second, where the vocabulary is large. Raises ValueError."""
        tokens, end_id = self._tokens
        matcher = LLMatcher(tokens, _grammar(constraint), log_level=0)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return Guide(tokens, end_id, self._executor, [matcher.deep_copy() for _ in range(count)], frozenset(stop_ids))

    def _are_bytes(self) -> bool:
        try:
            return bool(self._tokens)
        except ValueError:
            return False

    @cached_property
    def _tokens(self) -> tuple[LLTokenizer, int]:
        text, end_id = self._vocabulary.with_end()
        return LLTokenizer(text, eos_token=end_id), end_id

    @cached_property
    def _executor(self) -> LLExecutor:
        return LLExecutor()


class Guide:
    """The answers of one batch, known by their places, and how far each has come."""

    def __init__(
        self,
        tokens: LLTokenizer,
        end_id: int,
        executor: LLExecutor,
        matchers: Sequence[LLMatcher],
        stop_ids: frozenset[int],
    ) -> None:
        self._tokens, self._end_id, self._executor = tokens, end_id, executor
        self._matchers, self._stop_ids = matchers, stop_ids
        self._forced: list[deque[int] | None] = [None] * len(matchers)  # None: not asked for yet
        self._dead: set[int] = set()

    def allowed(self, places: Sequence[int]) -> NDArray[np.int32]:
        """[rows, words]: bit i of word w is token 32 w + i. A stop token may come where the answer may end."""
        bits = allocate_token_bitmask(len(places), self._tokens.vocab_size)
        matchers = [self._matchers[place] for place in places]
        fill_next_token_bitmask_par(self._executor, [(matcher, row) for row, matcher in enumerate(matchers)], bits)
        word, bit = divmod(self._end_id, 32)
        broken = [matcher.is_error() for matcher in matchers]  # of which llguidance says that it may end
        ends = (bits[:, word] >> bit & 1).astype(bool) & ~np.array(broken, bool)
        _set(bits, self._end_id, np.zeros_like(ends))
        for stop_id in self._stop_ids:
            if stop_id < self._end_id:
                _set(bits, stop_id, ends)
        for row, place in enumerate(places):
            if forced := self.forced(place):
                bits[row] = 0
                _set(bits[row : row + 1], forced[0], np.array([True]))
        self._dead |= {place for place, row in zip(places, bits, strict=True) if not row.any()}
        return bits

    def forced(self, place: int) -> Sequence[int]:
        """The tokens that come next whatever a model says, where the text that must follow is always encoded so."""
        forced = self._forced[place]
        if forced is None:
            tokens = self._matchers[place].compute_ff_tokens()
            forced = self._forced[place] = deque(takewhile(lambda token: token not in self._stop_ids, tokens))
        return forced

    def take(self, place: int, token: int) -> bool:
        """The answer goes on with an allowed token; whether it is whole then, as nothing may follow."""
        if token in self._stop_ids:
            return True
        matcher, forced = self._matchers[place], self._forced[place]
        matcher.consume_token(token)
        if forced:
            forced.popleft()
        if not forced:
            self._forced[place] = None
        return matcher.is_stopped() and not matcher.is_error()

    def is_stuck(self, place: int) -> bool:
        """Whether no token may come next, although the answer is not whole."""
        return place in self._dead

    def dead_end(self, limit: int) -> str | None:
        """Goes on with the first answer, always with the first token that may come; where that fails, what it wrote.

        At most so many tokens are tried.
        """
        written: list[int] = []
        for _ in range(limit):
            bits = self.allowed([0])
            token = int(np.unpackbits(bits.view(np.uint8), bitorder="little").argmax())
            if self.is_stuck(0):
                return None if self._matchers[0].is_accepting() else self._tokens.decode_str(written)
            written.append(token)
            if self.take(0, token):
                return None
        return None


def _grammar(constraint: Constraint) -> str:
    match constraint.kind:
        case "json_schema":
            # As Python writes it on one line: a model that may pad with white space may do so without end. Of what
            # `oneOf` allows too much while it is written, the whole answer is told (json_schema.py).
            return LLMatcher.grammar_from_json_schema(
                constraint.text,
                defaults={
                    "whitespace_flexible": False,
                    "item_separator": ", ",
                    "key_separator": ": ",
                    "coerce_one_of": True,
                },
            )
        case "regex":
            return LLMatcher.grammar_from_regex(constraint.text)
        case "grammar":
            return LLMatcher.grammar_from_lark(_as_lark(constraint.text))


def _as_lark(grammar: str) -> str:
    """GBNF, as llama.cpp and vLLM take it, is turned into Lark. Raises SpecError."""
    if not _GBNF.search(grammar):
        return grammar
    try:
        return gbnf_to_lark(grammar)
    except Exception as error:  # the library raises no narrower class
        raise SpecError(f"--grammar cannot be used: it is no GBNF: {error}.") from error


def _reason(message: str, constraint: Constraint) -> str:
    """One line of llguidance's many. Places in a grammar mean nothing where it is not a person's own."""
    first, *others = message.strip().splitlines()
    if constraint.kind != "grammar":
        first = re.sub(r"^at \d+\(\d+\): ", "", first)
    details = [line.removeprefix("error") for line in others if line.startswith("error: ")]
    return "".join([first.rstrip(":."), *details])


def _set(bits: NDArray[np.int32], token: int, values: NDArray[np.bool_]) -> None:
    word, mask = token // 32, np.array(1 << token % 32, np.uint32).view(np.int32)
    bits[:, word] = np.where(values, bits[:, word] | mask, bits[:, word] & ~mask)
