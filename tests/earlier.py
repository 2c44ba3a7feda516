"""Jobs as earlier versions left them."""

import sqlite3
from pathlib import Path

from pipeline.inference.ends_digest import ends_digest


def told_apart_as_before(home: Path, model: Path) -> None:
    """All jobs there are know their model by the ends of its files."""
    digest = ends_digest(sorted({*model.glob("*.json"), *model.glob("*.jinja"), *model.glob("*.safetensors")}))
    with sqlite3.connect(home / "pipeline.db") as connection:
        connection.execute("UPDATE jobs SET model_digest = ?", (digest,))
    connection.close()
