"""All that the command may come to import, for processes that begin as copies of one that has it (warm.py)."""

import importlib

from jobs.cli import COMMANDS

WORKERS = ("dispatcher", "guard", "loaded", "local", "tokenizer", "up")

for name in COMMANDS:
    importlib.import_module(f"jobs.{name.replace('-', '_')}")
for name in WORKERS:
    importlib.import_module(f"workers.{name}")
# What the first model brings in.
importlib.import_module("transformers.modeling_utils")
