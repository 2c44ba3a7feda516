"""Sentences with names, numbers and rare words come before those that say what all the others say."""

from pipeline.prompts.salience import most_salient


def first_of(*sentences, tokens=None):
    return sentences[most_salient(sentences, tokens or [10] * len(sentences), 1000)[0]]


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
    assert most_salient(["Anna paid", "Anna paid"], [20, 10], 1000) == [1, 0]
    assert most_salient(["a b", "c d", "e f"], [5, 5, 5], 1000) == [0, 1, 2]
    assert most_salient([], [], 10) == []


def test_nothing_is_said_twice_as_long_as_there_is_something_new():
    sentences = [
        "In 2024 Anna paid 12 euros",
        "In 2024 Anna paid 12 euros",
        "it was a day",
        "In 2024 Anna paid 12 euros",
    ]
    assert most_salient(sentences, [10] * 4, 1000) == [0, 2, 1, 3]


def test_no_more_is_picked_than_there_is_room_for_and_what_is_left_of_it_is_used():
    sentences = ["In 2024 Anna paid 12 euros", "In 1999 Maria Schneider won 7 prizes", "it was a day"]
    assert most_salient(sentences, [10, 10, 3], 14) == [1, 2]
    assert most_salient(sentences, [10, 10, 3], 2) == []


def test_a_word_alone_is_not_the_best_sentence():
    assert first_of("Maria", "In 2024 Maria Schneider won 12 prizes", tokens=[1, 9]).startswith("In 2024")


def test_chinese_characters_count_as_words():
    assert first_of("电影很好看", "电影很好看", "价格是三元", "电影很好看") == "价格是三元"
