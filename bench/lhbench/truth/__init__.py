"""Truth of the emulator: a twin for each row, measured from outside where that is possible."""
