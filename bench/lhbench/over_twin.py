"""What the programs that measure over twins have in common: they need root and some programs, and a binary of Longhaul."""

import os
import shutil
import signal
import sys

from . import longhaul
from .errors import Unusable


def run(name, options, needed, packages, work):
    """The exit code of `work(binary)`, or 2 with a line that says why it cannot be done here."""
    os.environ["PATH"] = f"{os.environ['PATH']}:/usr/local/sbin:/usr/sbin:/sbin"
    # SIGTERM unwinds like Ctrl-C does: twins and processes go.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        if os.geteuid() != 0:
            raise Unusable("a twin needs root")
        absent = [program for program in needed if not shutil.which(program)]
        if absent:
            raise Unusable(f"not found: {', '.join(absent)}; apt-get install {packages}")
        binary = longhaul.find_binary(options.longhaul)
        if not binary.is_file():
            raise Unusable(f"no binary at {binary}: cargo build --release, or --longhaul PATH")
        return work(binary)
    except Unusable as error:
        print(f"bench/{name}: {error}", file=sys.stderr)
        return 2
