"""Stage 2: what an answer hangs on, in 16 bytes: the model, the task and the prompt. Equal ones have one answer."""

import hashlib
import json
import struct
from collections.abc import Callable, Sequence
from functools import cache

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

    def behind(self, prefix: Sequence[int]) -> Callable[[Prompt], bytes | None]:
        """Of prompts that all continue it. None where the answer would be drawn, and another one each time."""
        each = [None if identity is None else identity.behind(prefix) for identity in self._each]

        def of(prompt: Prompt) -> bytes | None:
            of_question = each[prompt.row_id % len(each)]
            return None if of_question is None else of_question(prompt)

        return of


class Identity:
    """Of the prompts of one question of a job, on every worker the same."""

    def __init__(self, spec: JobSpec, model_digest: str, task: Task) -> None:
        """`model_digest` is that of the model's files, and of its adapter's."""
        facts = (_VERSION, model_digest, spec.dtype, spec.deterministic, spec.trust_remote_code, repr(task))
        self._of_job = hashlib.blake2b(json.dumps(facts).encode(), digest_size=_BYTES).digest()

    def behind(self, prefix: Sequence[int]) -> Callable[[Prompt], bytes]:
        """Wherever the prefix ends and the row's own tokens begin."""
        shared = _packed(prefix)

        @cache
        def begun(n_target: int) -> hashlib.blake2b:
            found = hashlib.blake2b(self._of_job, digest_size=_BYTES)
            found.update(n_target.to_bytes(8, "little"))
            found.update(shared)
            return found

        def of(prompt: Prompt) -> bytes:
            found = begun(len(prompt.target)).copy()
            found.update(_packed((*prompt.own_ids, *prompt.target)))
            return found.digest()

        return of


def _packed(ids: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(ids)}I", *ids)
