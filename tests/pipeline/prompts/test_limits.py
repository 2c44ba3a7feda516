import pytest

from pipeline.errors import RowError
from pipeline.prompts.limits import check_length

REMEDY = "Shorten it"


def test_a_prompt_that_leaves_room_for_one_token_passes():
    check_length(127, context=128, remedy=REMEDY)
    check_length(120, context=128, remedy=REMEDY, room=8)
    check_length(128, context=128, remedy=REMEDY, room=0)


def test_where_nothing_is_answered_no_room_is_asked_for():
    with pytest.raises(RowError, match=r"has 129 tokens; the model's context is 128\. Shorten"):
        check_length(129, context=128, remedy=REMEDY, room=0)


@pytest.mark.parametrize(("tokens", "room", "said"), [(128, 1, "room for 1 token."), (121, 8, "room for 8 tokens.")])
def test_a_prompt_without_room_is_the_row_s_error(tokens, room, said):
    with pytest.raises(RowError, match=f"The prompt has {tokens} tokens; the model's context is 128") as error:
        check_length(tokens, context=128, remedy=REMEDY, room=room)
    assert error.value.error_type == "too_long"
    assert said in str(error.value)
    assert str(error.value).endswith(". Shorten it, or use a model with a longer context.")
