"""A run in which the host took the processor away says nothing, and the next one may."""

_TIMES_MOST = 3


def again(attempt, is_void):
    """What `attempt` gives, called again while that is void, and how often it was called."""
    for times in range(1, _TIMES_MOST + 1):
        given = attempt()
        if not is_void(given):
            break
    return given, times
