"""A PostgreSQL server of the run's own, reached over a unix socket, with its usual durability."""

import os
import shutil
import subprocess
from pathlib import Path

from ..errors import Unusable

# Who runs it when we are root, which it refuses: the user that owns nothing.
_NOBODY = 65_534


class Postgres:
    def __init__(self, data):
        self._data = data
        self._bin = _bin()

    def missing(self):
        return None if self._bin else "needs initdb and pg_ctl of PostgreSQL in the PATH or /usr/lib/postgresql"

    def url(self):
        return f"postgres://longhaul:secret@{str(self._data).replace('/', '%2F')}/postgres"

    def __enter__(self):
        if self._bin:
            self._data.mkdir()
            if os.geteuid() == 0:
                os.chown(self._data, _NOBODY, _NOBODY)
            self._tool("initdb", "-U", "longhaul", "--auth=trust", "-D")
            options = f"-c listen_addresses= -c unix_socket_directories={self._data}"
            self._tool("pg_ctl", "start", "-w", "-s", "-l", self._data / "server.log", "-o", options, "-D")
        return self

    def __exit__(self, *_):
        if self._bin:
            self._tool("pg_ctl", "stop", "-w", "-s", "-m", "immediate", "-D")

    def _tool(self, tool, *words):
        argv = [self._bin / tool, *words, self._data]
        if os.geteuid() == 0:
            argv = ["setpriv", "--reuid", str(_NOBODY), "--regid", str(_NOBODY), "--clear-groups", *argv]
        done = subprocess.run(argv, cwd=self._data, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            raise Unusable(f"{tool} failed with {done.returncode}")


def _bin():
    found = [path / "bin" for path in sorted(Path("/usr/lib/postgresql").glob("*"))]
    found += [Path(path) for path in os.get_exec_path()]
    tools = ("initdb", "pg_ctl", "postgres")
    return next((path for path in found if all((path / tool).is_file() for tool in tools)), None) if shutil.which("setpriv") else None
