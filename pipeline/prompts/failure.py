"""Stage 2: a row that gets no prompt, as the completion that it ends with."""

from pipeline.errors import RowError
from pipeline.rows import Completion, Prompt, Row, Status


def failure(row: Row | Prompt, error: RowError, prompt_tokens: int = 0) -> Completion:
    """`prompt_tokens` are those that its prompt would have had."""
    return Completion(
        row.row_id,
        row.key,
        Status.ERROR,
        error_type=error.error_type,
        error=str(error),
        prompt_tokens=prompt_tokens,
    )
