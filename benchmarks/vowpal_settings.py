"""What of Vowpal Wabbit is tried, and how a setting is chosen from the errors of the tuning. Needs no Vowpal Wabbit."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean
from typing import NamedTuple

SCALINGS = ("raw", "unit", "standard", "standard, unit")  # columns first, then rows; see `vowpal_runs.scaled`

# How the regression is fitted. VW's default divides the steps by the largest values seen (--normalized); naming two of
# its three parts leaves that out. Costs of -1 and 1, not of 0 and 1, also allow the logistic loss.
UPDATES = (
    "",
    "--loss0 -1 --loss1 1",
    "--adaptive --invariant --loss0 -1 --loss1 1",
    "--adaptive --invariant --loss_function logistic --loss0 -1 --loss1 1",
)
EXPLORERS = (
    "--epsilon 0.02",
    "--epsilon 0.005",
    "--first 200",
    "--first 1000",
    "--bag 5 --greedify",
    "--cover 3 --nounif",
    "--squarecb --gamma_scale 10",
    "--squarecb --gamma_scale 100",
    "--squarecb --gamma_scale 1000",
    "--squarecb --gamma_scale 10000",
    "--regcbopt --mellowness 0.001",
    "--softmax --lambda 30",
    "--synthcover",
)
RATES = (0.05, 0.5, 2.0, 10.0, 40.0)  # so wide that the best one is seldom at an end
FORM_EXPLORERS = ("--epsilon 0.02", "--squarecb --gamma_scale 1000")  # with these and
FORM_RATES = (0.5, 2.0, 10.0)  # these the forms are compared
BEST_FORMS = 3  # this many are tried with all explorers and rates, beside raw rows with the default update


class Form(NamedTuple):
    """What the regression sees and how it is fitted."""

    scaling: str
    update: str


@dataclass(frozen=True)
class Setting:
    """One way to run Vowpal Wabbit."""

    form: Form
    explorer: str
    rate: float

    @property
    def options(self) -> str:
        """As on VW's command line.

        Examples
        --------
        >>> Setting(Form("raw", ""), "--first 200", 0.5).options
        '--first 200 -l 0.5'
        """
        return " ".join(filter(None, (self.explorer, self.form.update, f"-l {self.rate:g}")))

    def __str__(self) -> str:
        return f"{self.form.scaling}: {self.options}"


AS_IT_COMES = Form("raw", "")
RAW_FORMS = tuple(Form("raw", update) for update in UPDATES)
UNTOUCHED = Setting(AS_IT_COMES, "--epsilon 0.05", 0.5)  # the defaults of VW, spelt out

Errors = Mapping[Setting, Sequence[float]]  # of the tuning orders


@dataclass(frozen=True)
class Plan:
    """How many rounds and runs are played.

    Parameters
    ----------
    grid_rounds : int
        For comparing forms, and then explorers and rates.
    finals : sequence of (rounds, settings)
        Longer runs of the best settings, and fewer of them each time.
    reported : sequence of rounds
        The last of them play the best setting of the last final, those before it that of the final before.
    """

    grid_rounds: int = 6_000
    finals: tuple[tuple[int, int], ...] = ((20_000, 24), (100_000, 6), (300_000, 3))
    reported: tuple[int, ...] = (100_000, 1_000_000)
    tuning_runs: int = 2
    runs: int = 5


QUICK = Plan(grid_rounds=200, finals=((300, 6), (400, 3), (800, 2)), reported=(400, 2000), runs=3)


def form_settings() -> list[Setting]:
    """Return every form, with a few explorers and rates.

    Examples
    --------
    >>> len(form_settings())
    96
    """
    forms = [Form(*parts) for parts in product(SCALINGS, UPDATES)]
    return [Setting(*parts) for parts in product(forms, FORM_EXPLORERS, FORM_RATES)]


def grid_settings(forms: Iterable[Form]) -> list[Setting]:
    """Return every explorer at every rate, for these forms.

    Examples
    --------
    >>> len(grid_settings([AS_IT_COMES]))
    65
    """
    return [Setting(*parts) for parts in product(forms, EXPLORERS, RATES)]


def best_settings(errors: Errors, count: int) -> list[Setting]:
    """Return the settings with the least mean error; of equals the one that was tried first.

    Examples
    --------
    >>> slow, fast = (Setting(AS_IT_COMES, "--first 200", rate) for rate in (0.5, 2.0))
    >>> best_settings({slow: [0.5, 0.3], fast: [0.1, 0.2]}, 1) == [fast]
    True
    """
    return sorted(errors, key=lambda setting: fmean(errors[setting]))[:count]


def forms_for_grid(errors: Errors) -> list[Form]:
    """Return the best forms, each judged by its best setting, and the default form."""
    ranked = dict.fromkeys(setting.form for setting in best_settings(errors, len(errors)))
    return list(dict.fromkeys([*list(ranked)[:BEST_FORMS], AS_IT_COMES]))
