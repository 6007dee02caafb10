"""What is really wrong in namespaces of our own is found by the real command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap

import pytest
from doctor.made_certificates import MadeCertificates

from gd2fs.doctor import all_checks

SECRET = "x" * 43
CONFIG = """
cluster = "real"
listen = ["tcp://10.91.1.1:7527", "tcp://10.91.1.2:7527", "tcp://10.91.9.9:7527"]
memory = "64MiB"
arena = "file:/dev/shm/gd2fs-doctor"
threads = 64
congestion = "reno-of-old"
nvme = ["/dev/shm/a", "/dev/shm/b"]
state_dir = "/dev/shm/state"
"""
# `sysfs` shows the interfaces of the namespace that mounts it.
PLANTS = """
mount -t tmpfs -o size=16m tmpfs /dev/shm
mount -t sysfs sysfs /sys
ip link set lo up
for number in 1 2; do
  ip link add c$number type veth peer name s$number
  ip addr add 10.91.1.$number/24 dev c$number
  ip link set c$number mtu 1280 up
done
ip link set s1 up
sysctl -qw net.core.somaxconn=16 net.ipv4.conf.all.rp_filter=1
sysctl -qw net.ipv4.tcp_rmem="4096 65536 65536" net.ipv4.ip_local_port_range="1024 65535"
ulimit -n 256 -u 200
"""
NOEXEC = "sysctl -qw vm.memfd_noexec=2\n"
FOUND = {
    *("addresses", "link", "MTU", "several NICs in one network", "reverse path filter"),
    *("/dev/shm", "open files", "process limit", "processors", "token file", "certificate"),
    *("TLS key", "congestion control", "receive and send windows", "backlog", "ports"),
    *("file system", "devices", "state folder"),
}


def why_not() -> str:
    """Why no namespaces can be made here; empty when they can."""
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("unshare"):
        return "needs root, `ip` and `unshare` to make namespaces"
    done = subprocess.run(
        ["unshare", "-mn", "sh", "-c", "mount -t sysfs sysfs /sys && ip link set lo up"],
        capture_output=True,
    )
    return f"cannot make namespaces: {done.stderr.decode().strip()}" if done.returncode else ""


REASON = why_not()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(REASON), reason=REASON)]


def doctor_in(script: str, *words: str, variables: dict[str, str]) -> dict[str, str]:
    """Run the command at the end of a script; what is not well, the worst of each check."""
    command = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "bash", "-euc"]
    code = f'{textwrap.dedent(script)}exec "$@"'
    done = subprocess.run(
        [*command, code, "bash", sys.executable, "-m", "gd2fs", "doctor", "--json", *words],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | variables,
    )
    assert done.returncode in (0, 1), done.stderr
    told = json.loads(done.stdout)["findings"]
    bad = [each for each in told if each["severity"] in ("warning", "error")]
    assert done.returncode == (1 if bad else 0)
    return {each["check"]: each["found"] for each in bad}


def test_twenty_things_that_are_really_wrong_are_found(tmp_path, certificates: MadeCertificates):
    (tmp_path / "node.toml").write_text(CONFIG)
    (tmp_path / "token").write_text(f"a.{SECRET}\n")
    (tmp_path / "token").chmod(0o644)
    (tmp_path / "node.key").write_text((certificates.folder / "expired.key").read_text())
    (tmp_path / "node.key").chmod(0o644)
    variables = {
        "GD2FS_TOKEN_FILE": str(tmp_path / "token"),
        "GD2FS_TLS_CERT": str(certificates.folder / "expired.pem"),
        "GD2FS_TLS_KEY": str(tmp_path / "node.key"),
    }

    found = doctor_in(PLANTS, "--config", str(tmp_path / "node.toml"), variables=variables)

    assert set(found) >= FOUND, FOUND - set(found)
    assert "c1 has 1280" in found["MTU"] or "c2 has 1280" in found["MTU"]
    assert found["link"] == "c2 is down"
    assert found["open files"].startswith("limit 256")
    assert SECRET not in str(found)


def test_a_kernel_that_refuses_memfds_is_found(tmp_path):
    if not os.path.exists("/proc/sys/vm/memfd_noexec"):
        pytest.skip("this kernel has no vm.memfd_noexec")

    found = doctor_in(NOEXEC, variables={})

    assert "no arena `hugetlb` or `memfd`" in found["memfd"]


def test_a_configuration_that_is_wrong_is_a_finding(tmp_path):
    (tmp_path / "node.toml").write_text('cluster = "c"\nmemroy = "1GiB"\n')

    found = doctor_in("", "--config", str(tmp_path / "node.toml"), variables={})

    assert "`memroy` is no setting" in found["file"]


def test_there_are_as_many_real_plants_as_promised():
    assert len(FOUND) >= 10
    assert {check.name for _, check in all_checks()} >= FOUND
