"""Certificates: an authority and what it signs, made with the `openssl` command, for tests.

They last a day. Nothing here is fit for anything else.
"""

from __future__ import annotations

import datetime
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from gd2fs.errors import InvalidRequest

LOOPBACK = ("127.0.0.1", "::1", "localhost")
DAY_S = 86_400


@dataclass
class Certificates:
    """Files in ``folder``: ``NAME.crt`` and ``NAME.key``. The first authority is ``ca``.

    Raises:
        InvalidRequest: There is no `openssl` command, or it does not do its part.
    """

    folder: Path
    count: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.add_authority("ca")

    def path(self, file: str) -> str:
        return str(self.folder / file)

    def add_authority(self, name: str) -> None:
        """Make one that signs itself."""
        self._sign(name, [], "basicConstraints=critical,CA:TRUE", -DAY_S, DAY_S)

    def add(
        self,
        name: str,
        names: tuple[str, ...] = LOOPBACK,
        *,
        authority: str = "ca",
        from_s: int = -DAY_S,
        until_s: int = DAY_S,
    ) -> None:
        """Make one for ``names``, valid from ``from_s`` to ``until_s``, seconds from now.

        Files of that name are replaced at once, as a renewal does it.
        """
        kinds = [f"{'IP' if _is_ip(each) else 'DNS'}:{each}" for each in names]
        signer = ["-CA", self.path(f"{authority}.crt"), "-CAkey", self.path(f"{authority}.key")]
        extension = f"subjectAltName={','.join(kinds)}"
        self._sign(name, signer, extension, from_s, until_s)

    def _sign(
        self, name: str, signer: list[str], extension: str, from_s: int, until_s: int
    ) -> None:
        self.count += 1
        new = {end: self.path(f"{name}.{end}.{self.count}") for end in ("crt", "key")}
        request = self.path(f"{name}.csr")
        subject = ["-subj", f"/CN={name}"]
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        _run("req", "-new", *key, *subject, "-keyout", new["key"], "-out", request)
        config = Path(self.path(f"{name}.ext"))
        config.write_text(extension + "\n")
        folder = Path(self.path(f"signing-{self.count}"))
        self._as_authority(folder, name, new, request, config, signer, from_s, until_s)
        for end, path in new.items():
            os.replace(path, self.path(f"{name}.{end}"))

    def _as_authority(
        self,
        folder: Path,
        name: str,
        new: dict[str, str],
        request: str,
        extension: Path,
        signer: list[str],
        from_s: int,
        until_s: int,
    ) -> None:
        """`openssl ca`: the only command that signs for a time that has passed."""
        folder.mkdir()
        (folder / "index").touch()
        config = folder / "config"
        config.write_text(
            "[ca]\ndefault_ca=d\n[d]\npolicy=p\n"
            f"database={folder}/index\nrand_serial=yes\nnew_certs_dir={folder}\n"
            "default_md=sha256\nunique_subject=no\n[p]\ncommonName=supplied\n"
        )
        if signer:
            who = ["-cert", signer[1], "-keyfile", signer[3]]
        else:
            who = ["-selfsign", "-keyfile", new["key"]]
        span = ["-startdate", _time(from_s), "-enddate", _time(until_s)]
        _run(
            *("ca", "-batch", "-notext", "-config", str(config), *who, *span),
            *("-extfile", str(extension), "-in", request, "-out", new["crt"]),
        )


def _is_ip(name: str) -> bool:
    return ":" in name or name.replace(".", "").isdigit()


def _time(offset_s: int) -> str:
    when = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=offset_s)
    return when.strftime("%Y%m%d%H%M%SZ")


def _run(*words: str) -> None:
    try:
        done = subprocess.run(["openssl", *words], capture_output=True, text=True, check=False)
    except OSError as cause:
        raise InvalidRequest(
            "there is no `openssl` command", hint="run `apt-get install openssl`"
        ) from cause
    if done.returncode != 0:
        raise InvalidRequest(f"`openssl {words[0]}` failed: {done.stderr.strip()}", hint="")
