"""Conversations: under which names a request is looked up and kept."""

import pytest

from gd2fs.engines.llamacpp.conversation import (
    PREFIXES_MAX,
    SESSION_CHARACTERS_MAX,
    conversation_of,
)
from gd2fs.errors import InvalidRequest


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


FIRST = [{"role": "system", "content": "Be brief"}, user("one")]
SECOND = [*FIRST, assistant("an answer"), user("two")]


def of_messages(messages, **more):
    return conversation_of({"messages": messages, **more}, None)


def test_a_session_is_one_name_for_all_its_turns():
    first = conversation_of({"session": "a", "messages": FIRST}, None)
    second = conversation_of({"session": "a", "messages": SECOND}, None)

    assert first == second
    assert first.sought == (first.kept_as,)


def test_a_header_names_a_session_as_the_body_does():
    assert conversation_of({}, "a") == conversation_of({"session": "a"}, None)


def test_two_sessions_have_two_names():
    assert conversation_of({}, "a") != conversation_of({}, "b")


def test_the_next_turn_of_a_plain_client_seeks_what_the_last_one_kept():
    assert of_messages(FIRST).kept_as in of_messages(SECOND).sought


def test_how_a_client_renders_the_answer_does_not_matter_to_what_is_sought():
    other = [*FIRST, assistant("  an answer\n"), user("two")]

    assert of_messages(FIRST).kept_as in of_messages(other).sought


def test_the_longest_known_history_is_sought_first():
    third = [*SECOND, assistant("more"), user("three")]

    sought = of_messages(third).sought

    assert sought == (
        of_messages(third).kept_as,
        of_messages(SECOND).kept_as,
        of_messages(FIRST).kept_as,
    )


def test_a_long_history_is_sought_under_a_bounded_number_of_names():
    messages = [user("start")]
    for turn in range(3 * PREFIXES_MAX):
        messages += [assistant(f"answer {turn}"), user(f"question {turn}")]

    assert len(of_messages(messages).sought) == PREFIXES_MAX


def test_other_messages_have_another_name():
    assert of_messages(FIRST).kept_as != of_messages([*FIRST[:1], user("other")]).kept_as


def test_other_tools_have_another_name():
    tools = [{"type": "function", "function": {"name": "look"}}]

    assert of_messages(FIRST).kept_as != of_messages(FIRST, tools=tools).kept_as


def test_where_one_message_ends_and_the_next_begins_is_part_of_the_name():
    joined = of_messages([user("ab"), user("c")])
    split = of_messages([user("a"), user("bc")])

    assert joined.kept_as != split.kept_as


@pytest.mark.parametrize("body", [{}, {"prompt": "text"}, {"messages": []}, {"messages": "x"}])
def test_a_request_with_neither_session_nor_messages_has_no_name(body):
    assert conversation_of(body, None) is None


@pytest.mark.parametrize("session", ["", 7, ["a"], "x" * (SESSION_CHARACTERS_MAX + 1)])
def test_a_session_must_be_a_short_text(session):
    with pytest.raises(InvalidRequest):
        conversation_of({"session": session}, None)
