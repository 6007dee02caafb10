"""The directory in shared memory: it goes with its process, whatever ends that."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from gd2fs.engines.llamacpp.bounce import BounceDirectory, bounce_root, remove_left_over

HOLD = """
import sys
from pathlib import Path
from gd2fs.engines.llamacpp.bounce import BounceDirectory
held = BounceDirectory(Path(sys.argv[1]))
print(held.path, flush=True)
sys.stdin.read()
"""


def holder(root):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    return process, process.stdout.readline().strip()


def end(process):
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_a_file_is_gone_when_its_transfer_is_over(tmp_path):
    with BounceDirectory(tmp_path) as bounce, bounce.new_file() as path:
        path.write_bytes(b"slot")

    assert not path.exists()


def test_two_transfers_have_two_files(tmp_path):
    with BounceDirectory(tmp_path) as bounce, bounce.new_file() as one, bounce.new_file() as two:
        assert one != two


def test_the_directory_is_gone_at_the_end(tmp_path):
    with BounceDirectory(tmp_path) as bounce:
        (bounce.path / "left.kv").write_bytes(b"slot")

    assert list(tmp_path.iterdir()) == []


def test_the_directory_of_a_killed_process_is_removed_by_the_next_one(tmp_path):
    process, path = holder(tmp_path)
    end(process)
    assert os.path.isdir(path)

    with BounceDirectory(tmp_path):
        assert not os.path.exists(path)


def test_the_directory_of_a_living_process_stays(tmp_path):
    process, path = holder(tmp_path)
    try:
        assert remove_left_over(tmp_path) == 0
        assert os.path.isdir(path)
    finally:
        end(process)


def test_shared_memory_is_used_where_it_has_room(tmp_path):
    assert bounce_root(tmp_path, room=1) == tmp_path


def test_small_or_missing_shared_memory_is_left_alone(tmp_path):
    other = Path(tempfile.gettempdir())

    assert bounce_root(tmp_path, room=1 << 62) == bounce_root(tmp_path / "none", room=1) == other
