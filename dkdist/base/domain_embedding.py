"""`DomainEmbedding`: what embeddings share whose densities live on a box, their ``domain``."""

from __future__ import annotations

from typing import Any

from dkdist.base.domains import data_domain, given_domain, robust_domain
from dkdist.base.embedding import SetEmbedding
from dkdist.base.embedding_spec import Domain
from dkdist.base.inputs import Sets, Survey
from dkdist.base.parameter_checks import is_word


class DomainEmbedding(SetEmbedding):
    """Base of embeddings on a box, with the parameters ``domain`` and ``outside``."""

    domain: Any
    outside: Any

    def _look_in_domain(self, sets: Sets) -> tuple[Survey, Domain]:
        """One look at the sets of ``fit``, as `_look`, and the domain: as given, or chosen from what was seen."""
        given = given_domain(self.domain, sets.origin, self.outside)
        refusing = given is not None and given.fixed
        found = self._look(sets, given if refusing else None, sampled=not refusing)
        domain = given or self._chosen_domain(found)
        self.outside_share_ = 0.0 if found.sample is None else found.sample.outside(*domain.arrays)
        return found, domain

    def _chosen_domain(self, found: Survey) -> Domain:
        return data_domain(found) if is_word(self.domain, "data") else robust_domain(found)
