"""What a claim is: a sentence of the paper, how it is checked, and the reasons that several of them share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .checks import Check
from .verdicts import NO_DATA, NOT, PARTLY, REPRODUCED, Verdict


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, how it is checked, and why it may hold or not."""

    key: str
    experiment: str
    where: str
    quote: str
    check: Check
    reasons: Mapping[Verdict, str]


EVEN = (
    "The rows and columns of the gradient of a Gaussian ensemble are all alike, so weights on them have nothing to balance: "
    "under exact steps the weighted method walks the same way as the plain one. What speeds both up are shorter steps, "
    "which the "
    "relaxed methods take."
)
BOTH_TUNED = (
    "Every method ran with the best of as many settings, constant and exact steps apart; the paper does not say which ones it "
    "used."
)
NOT_RUN = "The experiment was not run, or not at a point that decides it."

SENSING = {
    REPRODUCED: "The figures of the paper are there.",
    PARTLY: f"Some of the figures are there, not all. {EVEN}",
    NOT: EVEN,
    NO_DATA: NOT_RUN,
}


def alike(what: str) -> dict[Verdict, str]:
    """Reasons for sentences that call two things comparable."""
    return {
        REPRODUCED: f"{what} are within a third of each other.",
        PARTLY: f"{what} are not everywhere within a third of each other, or PRGD, well tuned, takes fewer.",
        NOT: f"{what} differ by more than a third.",
        NO_DATA: NOT_RUN,
    }
