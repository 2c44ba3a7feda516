"""Inside stage 5: from the log-probabilities that choices.py measures to a probability of each label."""

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor

from pipeline.inference.capacity import Capacity
from pipeline.inference.choices import score_choices
from pipeline.inference.forward import Ids
from pipeline.inference.model import LanguageModel
from pipeline.inference.stem import Stem
from pipeline.rows import Choose

#: Content-free prompts whose probabilities are kept: more than the questions of a job, in turn with those of others.
_PRIORS = 256


class Labelling:
    """Belongs to an engine. What a content-free prompt makes of the labels is computed once, and kept for later
    batches."""

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._priors: OrderedDict[Choose, Tensor] = OrderedDict()

    def run(self, model: LanguageModel, stem: Stem, prompts: Sequence[Ids], task: Choose) -> Tensor:
        """Probabilities [prompts, labels] in fp64 on the CPU; not finite where the model's logits were not."""
        scores = score_choices(model, stem, prompts, task.label_ids, self._capacity)
        return probabilities(scores, task, self._prior_of(task, model) if task.content_free else None)

    def _prior_of(self, task: Choose, model: LanguageModel) -> Tensor:
        """Log-probabilities [continuations]: those of one row alone, whatever batch the first one is."""
        if task not in self._priors:
            alone, model = Stem([()], model.device), model.reading(len(task.content_free) + task.longest - 1)
            (scores,) = score_choices(model, alone, [task.content_free], task.label_ids, self._capacity)
            self._priors[task] = scores
            if len(self._priors) > _PRIORS:
                self._priors.popitem(last=False)
        self._priors.move_to_end(task)
        return self._priors[task]


def probabilities(scores: Tensor, task: Choose, prior: Tensor | None) -> Tensor:
    """Log-probabilities [prompts, continuations] -> [prompts, labels] in fp64.

    To divide by the content-free prompt's probabilities and to sum up to 1 again is contextual calibration (Zhao et
    al. 2021, "Calibrate Before Use", with a diagonal W and no b). Where several labels may hold, each one's two
    continuations differ in their last words alone, so that their odds are those of the words behind the label.
    """
    weights = scores.double() if prior is None else scores.double() - prior.double()
    if task.length_normalize:
        weights = weights / torch.tensor([len(ids) for ids in task.label_ids])
    found = weights.view(len(weights), -1, 2).softmax(-1)[..., 0] if task.several else weights.softmax(-1)
    return found.where(weights.isfinite().all(-1, keepdim=True), torch.nan)
