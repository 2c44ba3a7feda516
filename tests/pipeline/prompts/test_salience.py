"""Sentences with names, numbers and rare words come before those that say what all the others say."""

from pipeline.prompts.salience import by_salience


def first_of(*sentences, tokens=None):
    return sentences[by_salience(sentences, tokens or [10] * len(sentences))[0]]


def test_numbers_names_and_long_words_come_first():
    assert first_of("it was a day ", "it cost 12,345 that day ", "it was Maria that day ") == "it cost 12,345 that day "
    assert first_of("it was a day ", "it was Maria that day ") == "it was Maria that day "
    assert first_of("it was a day ", "it was a thunderstorm ") == "it was a thunderstorm "


def test_a_capital_that_opens_a_sentence_names_nobody():
    assert first_of("so it was here", "So it was there") == "so it was here"


def test_what_other_sentences_say_too_weighs_less():
    assert (
        first_of("the film was good", "the film was good", "the cat was good", "the film was good")
        == "the cat was good"
    )


def test_the_same_for_fewer_tokens_is_better_and_equals_keep_their_order():
    assert first_of("Anna paid", "Anna paid", tokens=[20, 10]) == "Anna paid"
    assert by_salience(["a b", "c d", "a b"], [5, 5, 5]) == [1, 0, 2]
    assert by_salience([], []) == []


def test_a_word_alone_is_not_the_best_sentence():
    assert first_of("Maria", "In 2024 Maria Schneider won 12 prizes", tokens=[1, 9]).startswith("In 2024")


def test_chinese_characters_count_as_words():
    assert first_of("电影很好看", "电影很好看", "价格是三元", "电影很好看") == "价格是三元"
