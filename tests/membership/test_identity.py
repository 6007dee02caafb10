"""Who a node is, from one start to the next."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gd2fs.errors import InvalidRequest
from gd2fs.membership.identity import FILE, StateDirectory, boot_now


@given(st.integers(0, 1 << 62), st.integers(0, 1 << 62))
def test_the_number_of_a_start_is_never_used_again(now_us, stored):
    assert boot_now(now_us, stored) > stored
    assert boot_now(now_us, stored) >= now_us


def test_a_name_is_made_once_and_kept(tmp_path):
    with StateDirectory(tmp_path / "node") as first:
        made = first.start(None)
    with StateDirectory(tmp_path / "node") as again:
        kept = again.start(None)

    assert kept.name == made.name and kept.boot > made.boot


def test_a_name_that_is_told_is_taken(tmp_path):
    with StateDirectory(tmp_path) as directory:
        assert directory.start("a").name == "a"
        assert directory.start(None).name == "a"
        assert directory.start("b").name == "b"


def test_only_a_node_that_left_knows_for_how_long(tmp_path):
    with StateDirectory(tmp_path) as directory:
        assert directory.start("a").away_s is None
        assert directory.start("a").away_s is None
        directory.leave()
        assert 0 <= directory.start("a").away_s < 60
        directory.leave()
        assert directory.start("other").away_s is None


def test_a_folder_is_for_one_process(tmp_path):
    with StateDirectory(tmp_path), pytest.raises(InvalidRequest, match="another node"):
        StateDirectory(tmp_path)


def test_what_cannot_be_read_is_refused_by_name(tmp_path):
    (tmp_path / FILE).write_text("{")
    with StateDirectory(tmp_path) as directory, pytest.raises(InvalidRequest, match=FILE):
        directory.start(None)


def test_a_folder_that_cannot_be_made_is_refused():
    with pytest.raises(InvalidRequest, match="--state-dir"):
        StateDirectory("/proc/nowhere")
