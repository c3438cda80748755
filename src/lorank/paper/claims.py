"""The paper's claims: its sentences with figures (claims.toml), judged by the results of the experiments."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ..experiments.tables import Tables, group
from ..report.html import asset
from . import checks, trends
from .checks import Check, Evidence, merged
from .verdicts import NO_DATA, NOT, PARTLY, Part, Verdict, combine

ORDER = (NOT, PARTLY, NO_DATA, *Verdict)  # of the figures of a claim
DATA: dict[str, Any] = tomllib.loads(asset(__package__, "claims.toml"))


@dataclass(frozen=True)
class Text:
    """Texts of an experiment on the page."""

    short: str
    figure: str
    title: str
    text: str


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper with its checks; the attributes are described in claims.toml."""

    key: str
    experiment: str
    where: str
    quote: str
    checks: tuple[Check, ...]
    reasons: Mapping[Verdict, str] = field(repr=False)
    brief: str = ""
    variants: bool = False


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict."""

    claim: Claim
    verdict: Verdict
    evidence: Evidence
    reason: str

    @property
    def parts(self) -> tuple[Part, ...]:
        """The figures, those that fail first."""
        return tuple(sorted(self.evidence.parts, key=lambda part: ORDER.index(part.verdict)))

    @property
    def by_rank(self) -> dict[int, Verdict]:
        """The verdict at each rank, where ranks differ."""
        ranks = group([part for part in self.parts if part.rank], lambda part: part.rank or 0)
        found = {rank: combine([replace(part, decides=True) for part in parts]) for rank, parts in sorted(ranks.items())}
        known = {rank: verdict for rank, verdict in found.items() if verdict != NO_DATA}
        return known if len(set(known.values())) > 1 else {}


def _claims() -> Iterator[Claim]:
    for entry in DATA["claims"]:
        for name in entry.pop("fields", [""]):
            yield _claim(json.loads(json.dumps(entry).replace("{field}", name)))


def _claim(entry: dict[str, Any]) -> Claim:
    found: list[Check] = []
    for call in entry.pop("checks"):
        kind = call.pop("kind")
        function = getattr(checks, kind, None) or getattr(trends, kind)
        found.append(partial(function, experiment=entry["experiment"], **call))
    texts = DATA["reasons"]["common"] | DATA["reasons"][entry.pop("reasons")] | entry.pop("reason", {})
    texts = {"exceeded": texts["reproduced"], **texts}
    reasons = {Verdict(name): text.format(**DATA["phrases"]) for name, text in texts.items()}
    return Claim(checks=tuple(found), reasons=reasons, **entry)


METHODS: dict[str, str] = DATA["methods"]  # descriptions
TEXTS = {name: Text(**entry) for name, entry in DATA["experiments"].items()}
CLAIMS = tuple(_claims())


def stated_factors(experiment: str) -> list[tuple[str, str, str, float, dict[str, float]]]:
    """The factors of the paper in an experiment: fast method, slow method, quantity, factor, and the point."""
    calls = [check.keywords for claim in CLAIMS for check in claim.checks if check.func is checks.factors]  # type: ignore[attr-defined]
    found = [call for call in calls if call["experiment"] == experiment]
    return [(call["fast"], slow, quantity, factor, call["near"]) for call in found for slow, quantity, factor in call["stated"]]


def judge(tables: Tables, claims: Sequence[Claim] = CLAIMS) -> list[Judged]:
    """Every claim with its verdict and the evidence for it."""
    judged = []
    for claim in claims:
        evidence = merged([check(tables) for check in claim.checks])
        verdict = combine(evidence.parts)
        reason = " ".join([*evidence.notes, claim.reasons[verdict]])
        judged.append(Judged(claim, verdict, evidence, reason))
    return judged
