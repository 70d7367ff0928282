"""What may go wrong in an arm, told apart from mistakes in the harness."""


# How the problem of an arm begins that did not end within its time limit.
OVER_LIMIT = "stopped after"


class ArmFailed(Exception):
    """The program under test failed; the other arms go on."""


class OverLimit(ArmFailed):
    """The arm did not end within its time limit; it is not tried again."""


class Unusable(Exception):
    """The machine or the command line does not allow the run at all."""
