"""A folder that Hugging Face's `datasets` wrote with save_to_disk: which files are the dataset, and in which order."""

import json
from typing import Any

from pipeline.errors import InputError
from pipeline.ingest.faults import reading
from pipeline.ingest.places import exists, join, opened


def dataset_files(folder: str) -> list[str] | None:
    """None where it is another kind of folder. Raises InputError for several datasets in one, with their names."""
    if exists(join(folder, "dataset_dict.json")):
        splits = _read(join(folder, "dataset_dict.json")).get("splits", [])
        raise InputError(
            f"{folder} holds {len(splits)} datasets: {', '.join(splits)}. "
            f"Name the one that you mean, such as {join(folder, *splits[:1])}, or several if they are one table."
        )
    if not (exists(join(folder, "state.json")) and exists(join(folder, "dataset_info.json"))):
        return None
    state = _read(join(folder, "state.json"))
    if state.get("_indices_data_files"):
        raise InputError(
            f"{folder} holds a dataset that only some rows were selected of, as an old version of `datasets` kept it. "
            "Load it and save it again, with flatten_indices() before."
        )
    # Beside them may lie what others made of the dataset: cache-....arrow.
    files = [join(folder, str(entry["filename"])) for entry in state.get("_data_files", [])]
    if not files:
        raise InputError(f"{folder} holds a dataset without any rows.")
    return files


def _read(place: str) -> dict[str, Any]:
    with reading(place), opened(place) as file:
        data = bytes(file.read())
    try:
        found = json.loads(data)
    except ValueError as error:
        raise InputError(f"{place} is not JSON: {error}. Save the dataset again.") from error
    if not isinstance(found, dict):
        raise InputError(f"{place} holds no object. Save the dataset again.")
    return found
