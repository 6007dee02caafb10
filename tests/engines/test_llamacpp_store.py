"""Moving conversations between files and the store, through everything that can go wrong."""

import pytest

from gd2fs.engines.llamacpp.store import RECONNECT_S, ConversationStore
from gd2fs.errors import InvalidRequest, Unavailable
from gd2fs.testing import MemoryStore

CONTENT = bytes(range(256)) * 300


class FlakyStore(MemoryStore):
    """Refuses its next ``refusals`` puts."""

    def __init__(self, refusals=0):
        super().__init__()
        self.refusals = refusals

    def put(self, path, buffers, **options):
        if self.refusals:
            self.refusals -= 1
            raise Unavailable("refused")
        return super().put(path, buffers, **options)


class GrowingStore(MemoryStore):
    """Another writer comes between every stat and the read after it."""

    def stat(self, path, **options):
        facts = super().stat(path, **options)
        if facts is not None:
            self.append(path, b"more")
        return facts


def conversations(store):
    return ConversationStore(lambda: store, namespace="engine", timeout_s=5)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "saved.kv"
    path.write_bytes(CONTENT)
    return path


def test_what_was_kept_is_fetched_byte_for_byte(saved, tmp_path):
    store = conversations(MemoryStore())
    store.keep("a", saved)

    store.fetch(["a"], tmp_path / "back.kv")

    assert (tmp_path / "back.kv").read_bytes() == CONTENT


def test_the_first_name_that_is_there_is_fetched(saved, tmp_path):
    store = conversations(MemoryStore())
    store.keep("b", saved)
    store.keep("c", saved)

    assert store.fetch(["a", "b", "c"], tmp_path / "back.kv").name == "b"


def test_nothing_kept_is_a_miss(tmp_path):
    assert conversations(MemoryStore()).fetch(["a", "b"], tmp_path / "back.kv") is None


def test_a_file_that_changes_while_it_is_fetched_is_a_miss(saved, tmp_path):
    store = conversations(GrowingStore())
    store.keep("a", saved)

    assert store.fetch(["a"], tmp_path / "back.kv") is None


def test_an_empty_file_is_a_miss(tmp_path):
    memory = MemoryStore()
    memory.create("/engine/a")

    assert conversations(memory).fetch(["a"], tmp_path / "back.kv") is None


def test_a_refused_put_is_tried_again(saved):
    store = conversations(FlakyStore(refusals=1))

    assert store.keep("a", saved) == len(CONTENT)


def test_a_put_that_is_refused_again_is_told(saved):
    with pytest.raises(Unavailable):
        conversations(FlakyStore(refusals=2)).keep("a", saved)


def test_a_forgotten_conversation_is_a_miss(saved, tmp_path):
    store = conversations(MemoryStore())
    store.keep("a", saved)
    store.forget("a")

    assert store.fetch(["a"], tmp_path / "back.kv") is None


def test_a_store_that_was_away_is_left_alone_for_a_while_and_then_found():
    now = [100.0]
    answers = [Unavailable("away"), MemoryStore()]

    def connect():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    store = ConversationStore(connect, namespace="n", timeout_s=5, clock=lambda: now[0])
    for _ in range(2):
        with pytest.raises(Unavailable):
            store.open()
    assert len(answers) == 1
    now[0] += RECONNECT_S

    assert store.open() is not None


def test_a_wrong_configuration_is_told_as_it_is():
    def connect():
        raise InvalidRequest("no cluster is named")

    with pytest.raises(InvalidRequest):
        ConversationStore(connect, namespace="n", timeout_s=5).open()
