"""How tokens are picked, as a body says it, in the terms of a job."""

from pipeline.openai.body import Body, Fields, unsupported

#: What goes by the same name in a job, and when that is as if it were not said.
_AS_THEY_ARE: dict[str, tuple[object, ...]] = {
    "top_p": (1,), "top_k": (0, -1), "min_p": (0,), "repetition_penalty": (1,), "presence_penalty": (0,),
    "frequency_penalty": (0,), "n": (1,), "stop": ([],), "seed": (),
}  # fmt: skip
#: They change nothing where the likeliest token is taken.
_DRAWING = ("top_p", "top_k", "min_p", "seed")
#: What cannot be done, unless it is said to be left undone. The second half is what vLLM adds.
_UNDONE: dict[str, tuple[object, ...]] = {
    "best_of": (1,), "echo": (False,), "function_call": ("none", "auto"), "functions": ([],), "logit_bias": ({},),
    "modalities": (["text"],), "parallel_tool_calls": (True, False), "stream": (False,), "suffix": ("",),

    "add_generation_prompt": (True,), "bad_words": ([],), "continue_final_message": (False,), "documents": ([],),
    "ignore_eos": (False,), "include_reasoning": (True,), "include_stop_str_in_output": (False,),
    "length_penalty": (1,), "min_tokens": (0,), "return_token_ids": (False,), "return_tokens_as_token_ids": (False,),
    "skip_special_tokens": (True,), "spaces_between_special_tokens": (True,), "stop_token_ids": ([],),
    "use_beam_search": (False,),
}  # fmt: skip


def sampling(body: Body) -> Fields:
    """Of all that is left in it. Raises RowError for what is not supported."""
    fields = {"temperature": _plain(body.pop("temperature", 1))}
    for name, value in body.items():
        if name in _UNDONE and value in _UNDONE[name]:
            continue
        if name not in _AS_THEY_ARE:
            raise unsupported(name)
        if value in _AS_THEY_ARE[name] or (name in _DRAWING and fields["temperature"] == 0):
            continue
        fields[name] = _plain(value)
    return fields


def _plain(value: object) -> object:
    """1.0 asks for what 1 does."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
