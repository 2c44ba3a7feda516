"""The ids of whole prompts: an encoder's, and those that transformers gives them."""

from pipeline.rows import Prompt, Row


def rows_of(texts):
    return [Row(place, f"k{place}", {"text": text}) for place, text in enumerate(texts)]


def whole_ids(encoder, texts):
    outcomes = encoder.encode(rows_of(texts))
    assert [outcome.row_id for outcome in outcomes] == list(range(len(texts)))
    return [[*encoder.prefix, *outcome.own_ids] if isinstance(outcome, Prompt) else [] for outcome in outcomes]


def chat_ids(tokenizer, prompt, text, system):
    messages = [{"role": "system", "content": system}] if system is not None else []
    messages.append({"role": "user", "content": prompt.replace("{text}", text)})
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False)


def raw_ids(tokenizer, prompt, text):
    ids = tokenizer(prompt.replace("{text}", text))["input_ids"]
    closing = tokenizer("a")["input_ids"][-1] == tokenizer.convert_tokens_to_ids("</s>")
    return ids[:-1] if closing else ids
