"""A package, so that the fleets end with the last test of theirs."""
