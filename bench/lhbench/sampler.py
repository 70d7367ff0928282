"""Something that is looked at again and again meanwhile."""

import threading


class Sampler:
    """A context manager: `_look()` runs in a thread of its own from the begin to the end, until `_over` is set."""

    def __init__(self):
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _look(self):
        raise NotImplementedError
