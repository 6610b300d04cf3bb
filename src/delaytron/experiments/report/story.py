"""The story of a report: what was played, what came out, how the learners compare, and then the rest."""

from collections.abc import Sequence
from pathlib import Path

from delaytron.experiments.report.best import best_against_paper
from delaytron.experiments.report.charts import charts
from delaytron.experiments.report.claims import claims
from delaytron.experiments.report.headline import headline, rank, ranking_section, small_print
from delaytron.experiments.report.model import Claim, Report, Section
from delaytron.experiments.report.tables import (
    Facts,
    data_section,
    how_it_was_made,
    results_section,
    times_section,
    what_was_played,
)
from delaytron.experiments.selection import Outcome
from delaytron.experiments.spec import Spec
from delaytron.experiments.store import Store


def tell_story(
    spec: Spec,
    outcomes: Sequence[Outcome],
    store: Store,
    folder: Path,
    facts: Facts,
    theory: Section | None = None,
    paper: bool = False,
) -> Report:
    """Put a report together; only that of the paper's experiments has its claims and its learners against others."""
    ranking = rank(outcomes, paper)
    sentence = headline(ranking, facts)
    drawn = charts(outcomes, store, facts)
    sections = [
        ranking_section(ranking, facts),
        best_against_paper(outcomes, facts) if paper else None,
        results_section(outcomes, facts),
        theory,
        data_section(facts),
        times_section([outcome.condition for outcome in outcomes], store),
    ]
    return Report(
        title=spec.name,
        facts=what_was_played(spec, outcomes),
        claims=_tested_claims(outcomes, facts) if paper else [],
        sections=[section for section in sections if section is not None],
        charts=drawn,
        figures={chart.name: folder / "figures" / f"{chart.name}.svg" for chart in drawn},
        headline=sentence,
        small_print=small_print(sentence, outcomes),
        machine=how_it_was_made(outcomes, store),
    )


def _tested_claims(outcomes: Sequence[Outcome], facts: Facts) -> list[Claim]:
    return [claim for claim in claims(outcomes, facts) if claim.verdict != "not tested"]
