"""The claims table: each sentence of the paper that states a figure, and what the tables say to it.

What was measured is computed from the tables; only the paper's words and the reasons, one for each verdict, are written down,
subject by subject in the files beside this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..experiments.tables import Tables
from . import claims_completion, claims_phase, claims_sensing, claims_theorem
from .checks import Evidence
from .claim import Claim
from .verdicts import Part, Verdict, combine

CLAIMS: tuple[Claim, ...] = tuple(
    claim for part in (claims_completion, claims_sensing, claims_phase, claims_theorem) for claim in part.CLAIMS
)


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict."""

    claim: Claim
    verdict: Verdict
    evidence: Evidence
    reason: str

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.evidence.parts


def judge(tables: Tables, claims: Sequence[Claim] = CLAIMS) -> list[Judged]:
    """Every claim with its verdict and the figures behind it."""
    judged = []
    for claim in claims:
        evidence = claim.check(tables)
        verdict = combine(evidence.parts)
        reason = " ".join([*evidence.notes, claim.reasons[verdict]])
        judged.append(Judged(claim, verdict, evidence, reason))
    return judged
