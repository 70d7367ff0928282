"""Where the numbers were taken: without this they mean nothing."""

import hashlib
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

_VERSIONS = {
    "iperf3": ["iperf3", "--version"],
    "rsync": ["rsync", "--version"],
    "ssh": ["ssh", "-V"],
    "rclone": ["rclone", "version"],
    "xrootd": ["xrdcp", "--version"],
    "globus-url-copy": ["globus-url-copy", "-version"],
    "fio": ["fio", "--version"],
}


def describe(work, binary):
    return {
        "kernel": platform.release(),
        "cpu": _cpu_model(),
        "cpus": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "file_system": _output(["df", "--output=fstype", str(work)]).splitlines()[-1],
        "load_at_start": os.getloadavg()[0],
        "build": _digest(binary),
        "commit": _commit(),
        "versions": {
            **{name: _version(argv) for name, argv in _VERSIONS.items() if shutil.which(argv[0])},
            **({"longhaul": _version([str(binary), "--version"])} if binary.is_file() else {}),
        },
    }


def _cpu_model():
    match = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return match.group(1) if match else platform.machine()


def _digest(binary):
    """Which build of Longhaul it was, for those who go on with its numbers."""
    return hashlib.sha256(binary.read_bytes()).hexdigest()[:12] if binary.is_file() else ""


def _commit():
    """Of the tree that this program lies in; empty where it is no repository."""
    return _output(["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]) if shutil.which("git") else ""


def _version(argv):
    return (_output(argv).splitlines() or [""])[0].strip()


def _output(argv):
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip()
