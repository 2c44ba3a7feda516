"""What a fleet's process says to whoever started it: a line for each thing that went otherwise than it should."""

import logging


def log_to_stderr(role: str) -> None:
    """Warnings and worse, with the time and who says it. No text of a row is ever in them."""
    logging.basicConfig(level=logging.WARNING, format=f"%(asctime)s {role}[%(process)d] %(levelname)s: %(message)s")
