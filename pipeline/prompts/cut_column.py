"""Stage 2: the column that may lose some of its text. Known before a tokenizer is, as it is checked at submission."""

from pipeline.errors import SpecError, nearest
from pipeline.prompts.conversation import Shape
from pipeline.spec import JobSpec


def column_to_cut(spec: JobSpec, shape: Shape) -> str | None:
    """None where nothing is cut. Raises SpecError where the column is not in the prompt, or could be any of several."""
    if spec.on_too_long == "error":
        return None
    columns = shape.columns
    if not columns:
        raise SpecError(f"--on-too-long {spec.on_too_long} has no meaning: the prompt has no column that could be cut.")
    if spec.cut is None and len(columns) > 1:
        raise SpecError(
            f"--on-too-long {spec.on_too_long} needs --cut COLUMN, as the prompt has several: {', '.join(columns)}. "
            "Name the one that may lose some of its text."
        )
    if spec.cut is not None and spec.cut not in columns:
        raise SpecError(f'--cut names "{spec.cut}", which is no column of the prompt.{nearest(spec.cut, columns)}')
    return spec.cut or columns[0]
