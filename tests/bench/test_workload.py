"""Workloads: one seed is one workload; texts from files are checked."""

import json

import pytest

from gd2fs.bench.workload import Workload, kept_tokens, session_texts
from gd2fs.errors import InvalidRequest


def questions_file(tmp_path, *turns):
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps({"turns": each}) + "\n\n" for each in turns))
    return str(path)


def test_the_same_seed_writes_the_same_texts():
    assert session_texts(Workload(seed=7), 3) == session_texts(Workload(seed=7), 3)


def test_another_seed_writes_other_texts():
    assert session_texts(Workload(seed=7), 1) != session_texts(Workload(seed=8), 1)


def test_sessions_differ_from_their_first_words_on():
    starts = {texts[0][:200] for texts in session_texts(Workload(), 6)}

    assert len(starts) == 6


def test_texts_have_more_words_than_tokens_are_wanted():
    workload = Workload(first_tokens=200, follow_tokens=20)
    lengths = [len(text.split()) for text in session_texts(workload, 1)[0]]

    assert lengths[0] > 200
    assert min(lengths[1:]) > 20


def test_every_session_has_its_rounds():
    assert [len(texts) for texts in session_texts(Workload(rounds=5), 3)] == [5, 5, 5]


def test_the_balancer_chooses_the_same_for_both_topologies():
    def choices(seed):
        return [Workload(seed=seed).instance_of(3, turn, range(4)) for turn in range(64)]

    assert choices(1) == choices(1) != choices(2)
    assert set(choices(1)) == {0, 1, 2, 3}


def test_a_cache_cannot_hold_the_last_token_of_an_answer():
    assert kept_tokens([1, 2, 3], [4, 5]) == 4


def test_questions_are_read_turn_by_turn(tmp_path):
    path = questions_file(tmp_path, ["only one"], ["a", "b", "c"])
    texts = session_texts(Workload(questions=path, sessions=1, rounds=2), 1)

    assert texts == [["\nUser: a", "\nUser: b"]]


def test_too_few_questions_are_told(tmp_path):
    path = questions_file(tmp_path, ["a", "b"])

    with pytest.raises(InvalidRequest, match="has 1 conversations"):
        session_texts(Workload(questions=path), 2)


@pytest.mark.parametrize("line", ["{", "[]", '{"turn": []}', '{"turns": "ab"}', '{"turns": [1]}'])
def test_a_line_that_is_no_question_is_told_with_its_number(tmp_path, line):
    path = tmp_path / "questions.jsonl"
    path.write_text(line)

    with pytest.raises(InvalidRequest, match=r"questions\.jsonl"):
        session_texts(Workload(questions=str(path)), 1)


@pytest.mark.parametrize(
    "field", ["sessions", "rounds", "first_tokens", "follow_tokens", "answer_tokens", "concurrency"]
)
def test_a_number_out_of_its_range_is_refused_by_its_option(field):
    with pytest.raises(InvalidRequest, match="--" + field.replace("_", "-")):
        Workload(**{field: 0})
