"""What every arm shares: the link, its two sides, the work directory. Takes everything down again."""

import os
import shutil
from contextlib import ExitStack, contextmanager

from .side import Side


class Bench:
    """A context manager; `with Bench(…)` leaves no process, namespace, mount or file behind.

    `make_link` makes the path: namespaces and addresses of the source and the destination, the kernel's congestion
    control, `use_congestion` and `close`.
    """

    def __init__(self, settings, work, logs, congestion, make_link):
        self.settings = settings
        self.work = work / f"run-{os.getpid()}"
        self.congestion = congestion
        self._make_link = make_link
        self._logs = logs
        self._stack = ExitStack()

    def __enter__(self):
        try:
            self._build()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_):
        self._stack.close()

    @property
    def sides(self):
        return (self.source, self.dest)

    def directory(self, name):
        path = self.work / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    @contextmanager
    def scratch(self, name):
        """A directory that goes when the scenario is over: the disk need not hold all at once."""
        path = self.directory(name)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def closing(self, thing):
        """`thing.close()` at the end of the run, whatever happens."""
        self._stack.callback(thing.close)
        return thing

    def _build(self):
        self.work.mkdir(parents=True)
        self._stack.callback(self._remove_work)
        # Servers that leave root behind must be able to walk down to their directory.
        self.work.chmod(0o755)
        self._logs.mkdir(parents=True, exist_ok=True)
        self.link = self.closing(self._make_link())
        names = zip(("source", "dest"), self.link.namespaces, self.link.addresses)
        self.source, self.dest = (
            self.closing(Side(name, namespace, address, self._environment(), self._logs))
            for name, namespace, address in names
        )

    def _remove_work(self):
        shutil.rmtree(self.work, ignore_errors=True)
        try:
            self.work.parent.rmdir()
        except OSError:
            pass  # another run works there

    def _environment(self):
        """Nothing of the caller's configuration reaches the programs."""
        home = str(self.directory("home"))
        return {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": home,
            "XDG_CONFIG_HOME": f"{home}/.config",
            "XDG_CACHE_HOME": f"{home}/.cache",
            "XDG_STATE_HOME": f"{home}/.local/state",
            "XDG_DATA_HOME": f"{home}/.local/share",
        }
