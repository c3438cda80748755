"""The claims table: each sentence of the paper that states a figure, and what the tables say to it.

What was measured is computed from the tables; only the paper's words and the reasons, one for each verdict, are written here.
"""
# ruff: noqa: RUF001 - texts for people have signs such as the one for times

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..experiments.tables import Tables
from .checks import Check, Evidence, best_factor, every, factors, faster, similar, slower
from .trends import (
    advantage_grows,
    ahead,
    contracts,
    grows_less,
    grows_slightly,
    iterations_to_fit,
    proportional,
    smallest_throughout,
    success,
    success_overall,
)
from .verdicts import CLEAR, NO_DATA, NOT, PARTLY, REPRODUCED, Part, Verdict, combine


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, how it is checked, and why it may hold or not."""

    key: str
    experiment: str
    where: str
    quote: str
    check: Check
    reasons: Mapping[Verdict, str]


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


START = (
    "The spectral start of uniform data is dominated by the mean; its trailing singular vectors are noise that sits on a few "
    "rows, and the weights tame exactly those rows."
)
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

COMPLETION = {
    REPRODUCED: START,
    PARTLY: f"Some of it is there, not all. {BOTH_TUNED}",
    NOT: f"{BOTH_TUNED} The gain that the paper states is then not there.",
    NO_DATA: NOT_RUN,
}
SENSING = {
    REPRODUCED: "The figures of the paper are there.",
    PARTLY: f"Some of the figures are there, not all. {EVEN}",
    NOT: EVEN,
    NO_DATA: NOT_RUN,
}
SUCCESS = {
    REPRODUCED: "The rates agree to within a trial of ten.",
    PARTLY: "Ten trials tell a rate to within ten or twenty points.",
    NOT: EVEN,
    NO_DATA: "This box of the map was not run.",
}
PHASE = {**SENSING, PARTLY: f"Part of it holds. {EVEN}"}


def _alike(what: str) -> dict[Verdict, str]:
    return {
        REPRODUCED: f"{what} are within a third of each other.",
        PARTLY: f"{what} are not everywhere within a third of each other, or PRGD, well tuned, takes fewer.",
        NOT: f"{what} differ by more than a third.",
        NO_DATA: NOT_RUN,
    }


PACES = ("adaptive-prgd", "adaptive-prgd-probes", "prgd", "prgd-probes")
N20000 = {"rank": 10, "n1": 20_000}
CLAIMS: tuple[Claim, ...] = (
    Claim(
        "tenfold",
        "completion-size",
        "Abstract, Sections 1 and 5",
        "PRGD can be up to ten times faster than RGD for the matrix completion problem.",
        best_factor(("completion-size", "completion-oversampling"), "rgd", "prgd", "seconds", 10),
        COMPLETION,
    ),
    Claim(
        "size-time",
        "completion-size",
        "Section 4.1, Figure 1",
        "When the matrix size is 20000 … the computational time required for PRGD is only about 1/20, 1/10, and 1/5 times that "
        "of NIHT, RGD, and Shampoo.",
        factors(
            "completion-size", "prgd", [("niht", "seconds", 20), ("rgd", "seconds", 10), ("shampoo", "seconds", 5)], **N20000
        ),
        COMPLETION,
    ),
    Claim(
        "size-growth",
        "completion-size",
        "Section 4.1, Figure 1",
        "As the matrix size increases, the number of iterations required by the other three algorithms increases noticeably, "
        "while the iterations of PRGD exhibit only a slight increase.",
        grows_slightly("completion-size", "prgd", "iterations"),
        COMPLETION
        | {
            REPRODUCED: f"{START} The larger n, the more rows that noise has to sit on.",
            PARTLY: "Some of the methods grow as the paper says, others do not; how far n reaches decides much of it.",
            NOT: "The growth with n is not what sets the methods apart here.",
        },
    ),
    Claim(
        "size-fewest",
        "completion-size",
        "Section 4.1, Figure 1",
        "PRGD generally requires significantly fewer iterations than all other algorithms.",
        ahead("completion-size", "prgd", ("iterations",), margin=CLEAR),
        COMPLETION | {PARTLY: f"At most points, not at all. {BOTH_TUNED}"},
    ),
    Claim(
        "size-time-growth",
        "completion-size",
        "Section 4.1, Figure 1",
        "When the matrix size increases, the computation time required for the other three algorithms increases significantly. "
        "However, the computational time required for PRGD exhibits only a slow increase with increasing matrix size.",
        grows_less("completion-size", "prgd"),
        COMPLETION
        | {
            REPRODUCED: "The data grow with n, and with them the time of an iteration, for all alike; PRGD's iterations "
            "hardly do.",
            PARTLY: "PRGD's time grows less than that of some of the others, or at some of the ranks.",
            NOT: "PRGD's time does not grow less than that of the others.",
        },
    ),
    Claim(
        "size-pace",
        "completion-size",
        "Section 4.1",
        "Each iteration of PRGD takes almost the same computation time as RGD and Shampoo, but much less than NIHT.",
        every(
            similar("completion-size", "prgd", "rgd", "pace", **N20000),
            similar("completion-size", "prgd", "shampoo", "pace", **N20000),
            slower("completion-size", "niht", "prgd", "pace", 2, **N20000),
        ),
        {
            REPRODUCED: "The weights are norms of rows and columns, which a pass over the entries gives almost for nothing.",
            PARTLY: "PRGD against RGD and Shampoo is a matter of the weights, against NIHT one of the truncated SVD. “Much "
            "less” is read as half; the start's time is shared out among the iterations, which weighs on whoever takes few.",
            NOT: "The start's time is shared out among the iterations, which weighs on whoever takes few.",
            NO_DATA: NOT_RUN,
        },
    ),
    Claim(
        "oversampling-three",
        "completion-oversampling",
        "Section 4.1, Figure 2",
        "When the oversampling ratio q is set to 1/3 … PRGD requires only about 1/10 of the number of iterations and 1/8 of "
        "the computational time required by RGD.",
        factors(
            "completion-oversampling", "prgd", [("rgd", "iterations", 10), ("rgd", "seconds", 8)], oversampling=3, n1=10_000
        ),
        COMPLETION,
    ),
    Claim(
        "oversampling-trend",
        "completion-oversampling",
        "Section 4.1, Figure 2",
        "As the problem becomes more challenging, the advantage of PRGD in terms of the number of iterations and computational "
        "time becomes more pronounced.",
        advantage_grows("completion-oversampling", "rgd", "prgd", "oversampling", falling=True),
        COMPLETION
        | {
            REPRODUCED: f"The fewer the samples, the noisier the start. {START}",
            PARTLY: "The advantage is larger at one end than at the other, but does not grow steadily, or not in both figures.",
            NOT: "The advantage does not grow as samples become fewer.",
        },
    ),
    Claim(
        "oversampling-all",
        "completion-oversampling",
        "Section 4.1, Figure 2",
        "For all cases, the PRGD algorithm outperforms all other algorithms in terms of both computational time and the number "
        "of iterations required.",
        ahead("completion-oversampling", "prgd"),
        COMPLETION | {PARTLY: f"At most points, not at all. {BOTH_TUNED}"},
    ),
    Claim(
        "noise-proportional",
        "completion-noise",
        "Section 4.1, Figure 3",
        "All algorithms are robust to additive noise in the sense that the error of the recovered matrix is only proportional "
        "to the noise level.",
        proportional("completion-noise"),
        {
            REPRODUCED: "All of them end at the least-squares solution, whose error is proportional to the noise.",
            PARTLY: "A method that moves slowly meets the paper's stopping rule, a relative change of 1e-5, before it has "
            "arrived: at low noise its error is then that of the stop, not of the noise.",
            NOT: "The paper's stopping rule, a relative change of 1e-5, ends slow methods before they have arrived.",
            NO_DATA: NOT_RUN,
        },
    ),
    Claim(
        "noise-faster",
        "completion-noise",
        "Section 4.1, Figure 4",
        "PRGD is faster than the other three algorithms, as evident from Figure 4.",
        ahead("completion-noise", "prgd", ("seconds",)),
        COMPLETION | {PARTLY: f"At most levels of noise, not at all. {BOTH_TUNED}"},
    ),
    Claim(
        "noise-tenth",
        "completion-noise",
        "Section 4.1, Figure 4",
        "When σ = 0.1, the PRGD algorithm requires only about 1/10 of the number of iterations and 1/10 of the computational "
        "time required by RGD.",
        factors("completion-noise", "prgd", [("rgd", "iterations", 10), ("rgd", "seconds", 10)], noise=0.1, rank=10, n1=10_000),
        COMPLETION
        | {NOT: f"{BOTH_TUNED} RGD may also stop early: the rule is a small change of X, and short steps make small changes."},
    ),
    Claim(
        "noise-trend",
        "completion-noise",
        "Section 4.1, Figure 4",
        "When the noise level becomes higher, the efficiency advantage is more noticeable.",
        advantage_grows("completion-noise", "rgd", "prgd", "noise", falling=False),
        COMPLETION
        | {
            REPRODUCED: "The advantage grows with σ, as the paper says.",
            PARTLY: "The advantage is larger at one end than at the other, but does not grow steadily, or not in both figures.",
            NOT: "The advantage does not grow with the noise.",
        },
    ),
    Claim(
        "movielens-half",
        "movielens",
        "Section 4.1, Figure 5",
        "PRGD requires half the number of iterations as RGD to reduce the fitting error to 10⁻¹·⁴.",
        iterations_to_fit("movielens", "rgd", "prgd", 10**-1.4, 2),
        {
            REPRODUCED: "Some users and films have far more ratings than others: rows and columns differ, and weights pay.",
            PARTLY: f"PRGD is ahead, by less than half or not for both ranks. {BOTH_TUNED}",
            NOT: f"{BOTH_TUNED} PRGD is then not ahead.",
            NO_DATA: NOT_RUN,
        },
    ),
    Claim(
        "movielens-smallest",
        "movielens",
        "Section 4.1, Figure 5",
        "PRGD outputs X_t with the smallest fitting error among all algorithms for all t.",
        smallest_throughout("movielens", "prgd"),
        {
            REPRODUCED: "Some users and films have far more ratings than others: rows and columns differ, and weights pay.",
            PARTLY: "For most t, not for all.",
            NOT: f"Another method has the smaller error for most t. {BOTH_TUNED}",
            NO_DATA: NOT_RUN,
        },
    ),
    Claim(
        "sensing-iterations",
        "sensing-oversampling",
        "Section 4.2, Figure 6",
        "When the oversampling ratio 1/q = 1.2, the number of iterations of adaptive-PRGD is about 1/2.35, 1/7.5, 1/9.4, and "
        "1/2 of that of adaptive-RGD, NIHT, Shampoo, and PRGD, respectively.",
        factors(
            "sensing-oversampling",
            "adaptive-prgd",
            [(m, "iterations", f) for m, f in (("adaptive-rgd", 2.35), ("niht", 7.5), ("shampoo", 9.4), ("prgd", 2.0))],
            oversampling=1.2,
            n1=150,
        ),
        SENSING,
    ),
    Claim(
        "sensing-time",
        "sensing-oversampling",
        "Section 4.2, Figure 6",
        "When the oversampling ratio 1/q = 1.2, the computational time of adaptive-PRGD is about 1/2.3, 1/5.1, 1/6.3, and "
        "1/1.3 of that of adaptive-RGD, NIHT, Shampoo, and PRGD, respectively.",
        factors(
            "sensing-oversampling",
            "adaptive-prgd",
            [(m, "seconds", f) for m, f in (("adaptive-rgd", 2.3), ("niht", 5.1), ("shampoo", 6.3), ("prgd", 1.3))],
            oversampling=1.2,
            n1=150,
        ),
        SENSING,
    ),
    Claim(
        "sensing-ahead",
        "sensing-oversampling",
        "Section 4.2, Figure 6",
        "Adaptive-PRGD outperforms the other four algorithms in terms of the number of iterations … the computational time of "
        "adaptive-PRGD is always less than that of adaptive-RGD, Shampoo, NIHT, and PRGD.",
        ahead("sensing-oversampling", "adaptive-prgd"),
        SENSING,
    ),
    Claim(
        "sensing-constant",
        "sensing-oversampling",
        "Section 4.2",
        "RGD with a constant step size performs poorly and requires many iterations.",
        slower("sensing-oversampling", "rgd", "adaptive-prgd", "iterations", 2, oversampling=1.2, n1=150),
        {
            REPRODUCED: "So it does.",
            PARTLY: "It takes more, though not twice as many.",
            NOT: "A constant step, tuned, does no worse than the exact one: the exact step is too long for this problem, "
            "which a "
            "part of it, or a short constant one, is not.",
            NO_DATA: NOT_RUN,
        },
    ),
    Claim(
        "sensing-comparable",
        "sensing-oversampling",
        "Section 4.2, Figure 6",
        "PRGD has a comparable number of iterations to adaptive-RGD.",
        similar("sensing-oversampling", "prgd", "adaptive-rgd", "iterations"),
        _alike("The iterations"),
    ),
    Claim(
        "sensing-prgd-time",
        "sensing-oversampling",
        "Section 4.2, Figure 6",
        "The computational time of PRGD is less than that of adaptive-RGD.",
        faster("sensing-oversampling", "prgd", "adaptive-rgd"),
        {
            REPRODUCED: "PRGD with a constant step makes one product with A less in each iteration.",
            PARTLY: "At some of the points.",
            NOT: "A constant step saves a product with A in each iteration; the number of iterations decides.",
            NO_DATA: NOT_RUN,
        },
    ),
    *(
        Claim(
            f"success-{rank}-{m}",
            "sensing-success",
            "Section 4.2, Figure 7",
            quote,
            success(rank, m, {"prgd": a, "adaptive-prgd": b, "adaptive-rgd": c}),
            SUCCESS,
        )
        for rank, m, quote, a, b, c in (
            (
                2,
                300,
                "When r = 2 and m = 300, PRGD and adaptive-PRGD are 100 % successful, while the success rate of adaptive-RGD "
                "is 80 %.",
                100,
                100,
                80,
            ),
            (
                8,
                900,
                "When r = 8, adaptive-PRGD and PRGD can be 100 % successful for m = 900, while the success rate of "
                "adaptive-RGD is 90 %.",
                100,
                100,
                90,
            ),
            (
                8,
                800,
                "When m = 800, the success rate of adaptive-PRGD and PRGD is 30 % and 20 %, respectively, while the success "
                "rate of adaptive-RGD is 0 %.",
                20,
                30,
                0,
            ),
        )
    ),
    Claim(
        "success-overall",
        "sensing-success",
        "Section 4.2, Figure 7",
        "The success rate of adaptive-PRGD is comparable to that of PRGD and is better than adaptive-RGD.",
        success_overall,
        SUCCESS | {REPRODUCED: "So it is, over the whole map.", PARTLY: "One half of the sentence holds.", NO_DATA: NOT_RUN},
    ),
    *(
        claim
        for field in ("real", "complex")
        for claim in (
            Claim(
                f"phase-{field}-third",
                f"phase-{field}",
                f"Section 4.3, Figure 8 ({field})",
                "The number of iterations for adaptive-PRGD is approximately one-third that of adaptive-RGD and RGD.",
                factors(
                    f"phase-{field}", "adaptive-prgd", [("adaptive-rgd", "iterations", 3), ("rgd", "iterations", 3)], n1=128
                ),
                PHASE,
            ),
            Claim(
                f"phase-{field}-fewest",
                f"phase-{field}",
                f"Section 4.3, Figure 8 ({field})",
                "The adaptive-PRGD algorithm requires significantly fewer iterations than the adaptive-RGD, RGD, and PRGD "
                "algorithms.",
                ahead(f"phase-{field}", "adaptive-prgd", ("iterations",), margin=CLEAR),
                PHASE,
            ),
            Claim(
                f"phase-{field}-comparable",
                f"phase-{field}",
                f"Section 4.3, Figure 8 ({field})",
                "The number of iterations for PRGD is comparable to that of adaptive-RGD.",
                similar(f"phase-{field}", "prgd", "adaptive-rgd", "iterations"),
                _alike("The iterations"),
            ),
            Claim(
                f"phase-{field}-time",
                f"phase-{field}",
                f"Sections 4.3 and 5 ({field})",
                "The computational time of adaptive-RGD is less than that of adaptive-PRGD because … adaptive-PRGD needs the "
                "explicit expression of G, which is time-consuming. Future research will explore methods to efficiently "
                "implement PRGD for phase retrieval.",
                faster(f"phase-{field}", "adaptive-rgd", "adaptive-prgd", pace=PACES),
                {
                    REPRODUCED: "Adaptive-RGD is faster here too. The open problem itself has an answer: random probes, in the "
                    "product that is made anyway, estimate the row norms of G (PRGD by probes), and for coded diffraction "
                    "FFTs give them; G is then never formed.",
                    PARTLY: "The two take about the same time.",
                    NOT: "Adaptive-PRGD is not slower here. The time of an iteration stands beside.",
                    NO_DATA: NOT_RUN,
                },
            ),
        )
    ),
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


def judge(tables: Tables, claims: Sequence[Claim] = CLAIMS) -> list[Judged]:
    """Every claim with its verdict and the figures behind it."""
    judged = []
    for claim in claims:
        evidence = claim.check(tables)
        verdict = combine(evidence.parts)
        reason = " ".join([*evidence.notes, claim.reasons[verdict]])
        judged.append(Judged(claim, verdict, evidence, reason))
    return judged


def listing(judged: Sequence[Judged]) -> str:
    """The claims as plain text, to be printed."""
    lines = []
    for one in judged:
        lines.append(f"[{one.verdict.upper()}] {one.claim.where}: {one.claim.quote}")
        lines += [f"    {part.label}: {part.said or 'no figure'} in the paper, here {part.measured}" for part in one.parts]
        lines += [f"    {one.reason}", *(f"    other methods: {line}" for line in one.evidence.others)]
        lines += [f"    settings: {line}" for line in one.evidence.settings]
        lines += [f"    comes true with: {line}" for line in one.evidence.variants] + [""]
    return "\n".join(lines)
