"""Stage 2: what an answer hangs on, in 16 bytes: the model, the task and the prompt. Equal ones have one answer."""

import hashlib
import json
from collections.abc import Sequence

import numpy as np

from pipeline.rows import Asked, Prompt, Task, tasks_of
from pipeline.spec import JobSpec

_BYTES = 16
#: Another one where the same model gives other answers, so that no older answer is taken for one of today's.
_VERSION = 1


class Identities:
    """Of one job's prompts, whichever question they are of."""

    def __init__(self, spec: JobSpec, model_digest: str, asked: Asked) -> None:
        pairs = zip(spec.asked, tasks_of(asked), strict=True)
        self._each = [Identity(one, model_digest, task) if one.temperature == 0 else None for one, task in pairs]

    def of(self, prefix: Sequence[int], prompt: Prompt) -> bytes | None:
        """None where the answer would be drawn, and another one each time."""
        identity = self._each[prompt.row_id % len(self._each)]
        return None if identity is None else identity.of(prefix, prompt)


class Identity:
    """Of the prompts of one question of a job, on every worker the same."""

    def __init__(self, spec: JobSpec, model_digest: str, task: Task) -> None:
        """`model_digest` is that of the model's files, and of its adapter's."""
        facts = (_VERSION, model_digest, spec.dtype, spec.deterministic, spec.trust_remote_code, repr(task))
        self._of_job = hashlib.blake2b(json.dumps(facts).encode(), digest_size=_BYTES).digest()

    def of(self, prefix: Sequence[int], prompt: Prompt) -> bytes:
        """Wherever the prefix ends and the row's own tokens begin."""
        ids = np.array((*prefix, *prompt.own_ids, *prompt.target), "<u4").tobytes()
        found = hashlib.blake2b(self._of_job, digest_size=_BYTES)
        found.update(len(prompt.target).to_bytes(8, "little"))
        found.update(ids)
        return found.digest()
