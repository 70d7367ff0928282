"""The data that is copied, made from a seed, and the check that a copy equals it."""

import hashlib
import os
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from .settings import SEED

_BLOCK_BYTES = 4 << 20
_FILES_PER_DIRECTORY = 250
_HASH_THREADS = 2


@dataclass(frozen=True)
class Dataset:
    """Files beneath `root`: relative name → (size, SHA-256)."""

    root: object
    files: dict
    is_tree: bool

    @property
    def total_bytes(self):
        return sum(size for size, _ in self.files.values())

    @property
    def single(self):
        """The only file, when the dataset is one."""
        (name,) = self.files
        return self.root / name


def one_file(root, size_bytes):
    return _make(root, [("file.bin", size_bytes)], is_tree=False)


def small_files(root, count, smallest, largest):
    sizes = random.Random(SEED)
    plan = [
        (f"d{i // _FILES_PER_DIRECTORY:03}/f{i:06}", sizes.randint(smallest, largest))
        for i in range(count)
    ]
    return _make(root, plan, is_tree=True)


def mixed_tree(root, classes):
    """Sizes of all classes shuffled into nested directories, large and small side by side."""
    chance = random.Random(SEED)
    sizes = [chance.randint(low, high) for count, low, high in classes for _ in range(count)]
    chance.shuffle(sizes)
    plan = [
        (f"p{chance.randrange(4)}/q{chance.randrange(8)}/r{chance.randrange(4)}/f{i:05}", size)
        for i, size in enumerate(sizes)
    ]
    return _make(root, plan, is_tree=True)


def differences(dataset, arrived):
    """What is wrong with the copy at `arrived`; empty when every file is there, alone and equal.

    Names and sizes of all files are compared, then the SHA-256 of all contents.
    """
    found = {
        os.path.relpath(os.path.join(where, name), arrived)
        for where, _, names in os.walk(arrived)
        for name in names
    }
    wrong = [f"missing: {name}" for name in sorted(dataset.files.keys() - found)]
    wrong += [f"not in the source: {name}" for name in sorted(found - dataset.files.keys())]
    if wrong:
        return wrong
    with ThreadPoolExecutor(_HASH_THREADS) as pool:
        checks = pool.map(lambda item: _check(arrived / item[0], *item[1]), dataset.files.items())
        return [text for text in checks if text]


def _check(path, size_bytes, digest):
    if path.is_symlink() or not path.is_file():
        return f"not a regular file: {path.name}"
    if path.stat().st_size != size_bytes:
        return f"size {path.stat().st_size} instead of {size_bytes}: {path.name}"
    actual = hashlib.sha256()
    with open(path, "rb", buffering=0) as data:
        while block := data.read(_BLOCK_BYTES):
            actual.update(block)
    return None if actual.hexdigest() == digest else f"contents differ: {path.name}"


def _make(root, plan, is_tree):
    content = random.Random(SEED)
    files = {}
    for name, size_bytes in plan:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        files[name] = (size_bytes, _write(path, size_bytes, content))
    os.sync()
    return Dataset(root, files, is_tree)


def _write(path, size_bytes, content):
    digest = hashlib.sha256()
    with open(path, "wb") as out:
        left = size_bytes
        while left:
            block = content.randbytes(min(left, _BLOCK_BYTES))
            digest.update(block)
            out.write(block)
            left -= len(block)
    return digest.hexdigest()
