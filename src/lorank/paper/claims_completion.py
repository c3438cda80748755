"""The claims about completion: random matrices (Figures 1 to 4) and MovieLens (Figure 5)."""
# ruff: noqa: RUF001 - texts for people have signs such as the one for times

from __future__ import annotations

from .checks import best_factor, every, factors, similar, slower
from .claim import BOTH_TUNED, NOT_RUN, Claim
from .trends import advantage_grows, ahead, grows_less, grows_slightly, iterations_to_fit, proportional, smallest_throughout
from .verdicts import CLEAR, NO_DATA, NOT, PARTLY, REPRODUCED

START = (
    "The spectral start of uniform data is dominated by the mean; its trailing singular vectors are noise that sits on a few "
    "rows, and the weights tame exactly those rows."
)
COMPLETION = {
    REPRODUCED: START,
    PARTLY: f"Some of it is there, not all. {BOTH_TUNED}",
    NOT: f"{BOTH_TUNED} The gain that the paper states is then not there.",
    NO_DATA: NOT_RUN,
}
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
)
