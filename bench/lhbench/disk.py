"""Page cache, durability, and the places a copy can arrive at."""

import ctypes
import fcntl
import os
import shutil
import subprocess
import time
from pathlib import Path

from .errors import Unusable

_libc = ctypes.CDLL(None, use_errno=True)
_BLOCK_BYTES = 4 << 20
_TRIES = 50
_MKFS = "nodiscard,lazy_itable_init=0,lazy_journal_init=0"
_CLONE_NEWNS, _MS_REC, _MS_SLAVE = 0x20000, 0x4000, 0x80000


def own_mounts():
    """A mount namespace of our own: nobody else's processes inherit, and so hold, our mounts.

    They also go with our last process, however it ends.
    """
    if _libc.unshare(_CLONE_NEWNS) != 0 or _libc.mount(None, b"/", None, _MS_REC | _MS_SLAVE, None) != 0:
        raise OSError(ctypes.get_errno(), "mount namespace")


def drop_caches():
    """Everything dirty is written, then page cache, dentries and inodes are dropped."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3\n")


def sync_file_system(directory):
    """syncfs on the file system of `directory`, what `sync -f` does."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if _libc.syncfs(handle) != 0:
            raise OSError(ctypes.get_errno(), "syncfs", str(directory))
    finally:
        os.close(handle)


class HostDirectory:
    """A new directory on the file system of the work directory, or on a tmpfs mounted there."""

    def __init__(self, parent, in_memory=False):
        self._parent = parent
        self._current = None
        self.in_memory = in_memory

    def fresh(self, name):
        self._remove()
        self._current = self._parent / name
        self._current.mkdir(parents=True)
        return self._current

    def close(self):
        self._remove()

    def _remove(self):
        if self._current is not None:
            shutil.rmtree(self._current, ignore_errors=True)
            self._current = None


class FreshFileSystem:
    """A new directory of a new ext4: mkfs on a loop device before every arm.

    The backing file is written once with zeros, so no arm pays for allocating it, and the loop
    device does direct I/O, so the data is not cached twice. mkfs initialises everything at once:
    no background thread of ext4 works during an arm. `features` are more of `mkfs.ext4 -O`,
    `read_ahead_kb` is how far the kernel reads ahead, if not as it chooses.
    """

    in_memory = False

    def __init__(self, work, size_bytes, features=(), read_ahead_kb=None):
        self._read_ahead_kb = read_ahead_kb
        self._features = ("-O", ",".join(features)) if features else ()
        self._image = work / "loop.img"
        self._mount = work / "loop"
        self._mounted = False
        # A run that was killed leaves image and directory; its mount went with it.
        self._lock = _claim(self._image)
        self._mount.mkdir(exist_ok=True)
        _write_zeros(self._image, size_bytes)

    def fresh(self, name):
        self._unmount()
        device = _attach(self._image)
        try:
            _persist(lambda: _run("mkfs.ext4", "-q", "-F", "-E", _MKFS, *self._features, device))
            if self._read_ahead_kb is not None:
                # In sectors of 512 bytes.
                _run("blockdev", "--setra", str(2 * self._read_ahead_kb), device)
            _run("mount", "-t", "ext4", device, self._mount)
            self._mounted = True
        finally:
            # A mounted device is detached by its unmounting, whoever does it.
            _run("losetup", "--detach", device)
        directory = self._mount / name
        directory.mkdir()
        return directory

    def close(self):
        self._unmount()
        self._mount.rmdir()
        self._image.unlink(missing_ok=True)
        self._lock.close()

    def _unmount(self):
        if self._mounted:
            _unmount(self._mount)
            self._mounted = False


class Tmpfs:
    def __init__(self, mount, size_bytes):
        self.path = mount
        mount.mkdir()
        _run("mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", mount)

    def close(self):
        _unmount(self.path)
        self.path.rmdir()


def _claim(image):
    """The open file keeps others away until it is closed, or its process ends."""
    # Not emptied: somebody else may work with it.
    held = open(image, "ab")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        held.close()
        raise Unusable(f"another run works in {image.parent}; wait for its end, or give another --work") from error
    return held


def _write_zeros(path, size_bytes):
    block = bytes(_BLOCK_BYTES)
    with open(path, "wb") as image:
        for _ in range(-(-size_bytes // _BLOCK_BYTES)):
            image.write(block)
        os.fsync(image.fileno())


def _attach(image):
    """Somebody else may take the device that was found free; then the next one is tried."""
    return _persist(lambda: _run("losetup", "--find", "--show", "--direct-io=on", image)).strip()


def _unmount(mount):
    """The kernel may hold a file of a process that just ended a moment longer."""
    try:
        _persist(lambda: _run("umount", mount))
    except OSError:
        _run("umount", "--lazy", mount)


def _persist(action):
    for _ in range(_TRIES - 1):
        try:
            return action()
        except OSError:
            time.sleep(0.1)
    return action()


def _run(*argv):
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"{argv[0]} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout
