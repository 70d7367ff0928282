"""Where results and scratch files go."""

import argparse
from pathlib import Path

# Of every bench; as text, which argparse makes a directory of like one that is named.
RESULTS = str(Path(__file__).resolve().parent.parent / "out")


def directory(text):
    """The type of an option that names a directory; it is made."""
    path = Path(text).resolve()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{path} cannot be a directory: {error.strerror}; name another place") from error
    return path
