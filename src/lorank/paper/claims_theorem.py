"""Theorem 1, inside its premise and beyond it."""
# ruff: noqa: RUF001 - texts for people have signs such as the one for times

from __future__ import annotations

from .claim import NOT_RUN, Claim
from .trends import contracts
from .verdicts import NO_DATA, NOT, PARTLY, REPRODUCED

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "theorem",
        "theorem",
        "Theorem 1, inside its premise",
        "‖X_{t+1} − X‖ ≤ μ ‖X_t − X‖, where μ ≤ 0.995 is a positive constant, if δ_{3r} ≤ 1/(50 + 100 √r κ).",
        contracts(inside=True),
        {
            REPRODUCED: "The measurements are built so that their isometry constant is known, A*A = I + δS with ‖S‖ = 1, "
            "and δ is the "
            "largest that the theorem allows. Every step contracts far more than it promises.",
            PARTLY: "Inside the premise every step must contract so much: something is wrong.",
            NOT: "Inside the premise every step must contract so much: something is wrong.",
            NO_DATA: NOT_RUN,
        },
    ),
    Claim(
        "theorem-beyond",
        "theorem",
        "Theorem 1, beyond its premise",
        "The same for Gaussian measurements of variance 1/m, for which the theorem says nothing.",
        contracts(inside=False),
        {
            REPRODUCED: "Every step contracts as the theorem would have it, far outside its premise: the isometry "
            "constant is at least "
            "1.06 (m = 4 720) to 2.6 (m = 1 180), where 0.0043 at most is asked for.",
            PARTLY: "Most steps contract so much. The isometry constant, at least 1.06 to 2.6 at the paper's size, is far "
            "above the "
            "0.0043 that the theorem asks for.",
            NOT: "So few measurements are too far from an isometry.",
            NO_DATA: NOT_RUN,
        },
    ),
)
