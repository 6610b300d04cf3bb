"""The theory as functions: the paper's bounds, the repaired ones, and what the delays of a run contribute to them.

All bounds take keyword arguments only, and an argument means the same in all: `norm` (of the weights W that the learner
is compared with), `eta`, `n_classes`, `gamma`, `radius`, `n_rounds`, `delay_received`, `total_delay`, `missing`,
`outstanding`, `max_outstanding`, `loss_bound`, `comparator_loss`, `budget`. `measure` computes those of the delays.
Those of inverse gaps and of the gate, at the end of `docs/explanation/theory.md`, have their own: `sharpness` in place
of `gamma`, `log_regret`, `best_loss`, `n_models`, `plays`, `least_loss`, `failure`; `softmax_error`, `pointwise_error`,
`forecast_gap`.

Examples
--------
>>> run = measure([1, 3, 1, 2, 2, 1, 4, 1])
>>> round(theorem_r1(norm=2, n_classes=3, gamma=0.3, radius=2**0.5, n_rounds=8, outstanding=run.outstanding), 6)
29.393877
"""

from delaytron.theory.bounds import (
    banditron_mistakes,
    case_1,
    case_1_eta,
    corollary_1,
    corollary_2,
    first_moment,
    perceptron_mistakes,
    played_mistakes,
    second_moment,
    theorem_1,
    theorem_2,
    theorem_2_eta,
    theorem_3,
    theorem_3_eta,
    theorem_4,
    theorem_r1_eta,
    theorem_r4_eta,
)
from delaytron.theory.gates import gate_error, gate_rounds
from delaytron.theory.inverse_gaps import (
    RoundBound,
    growing_gap_regret,
    inverse_gap_chances,
    inverse_gap_regret,
    inverse_gap_round,
    inverse_gap_sharpness,
    pooled_log_regret,
    rounds_until_played,
    rounds_until_tried,
)
from delaytron.theory.quantities import (
    Quantities,
    counting_sum,
    delay_received,
    epochs,
    max_outstanding,
    measure,
    missing,
    outstanding,
    total_delay,
    waiting,
)
from delaytron.theory.regrets import (
    Regret,
    best_comparator,
    comparator_losses,
    comparator_path,
    delays_of,
    exact_comparator,
    hinge_losses,
    regret,
)
from delaytron.theory.repaired import (
    corollary_r2,
    corollary_r3,
    theorem_r1,
    theorem_r4,
    theorem_r5,
    theorem_r6,
)
from delaytron.theory.statements import STATEMENTS, table

__all__ = [
    "STATEMENTS",
    "Quantities",
    "Regret",
    "RoundBound",
    "banditron_mistakes",
    "best_comparator",
    "case_1",
    "case_1_eta",
    "comparator_losses",
    "comparator_path",
    "corollary_1",
    "corollary_2",
    "corollary_r2",
    "corollary_r3",
    "counting_sum",
    "delay_received",
    "delays_of",
    "epochs",
    "exact_comparator",
    "first_moment",
    "gate_error",
    "gate_rounds",
    "growing_gap_regret",
    "hinge_losses",
    "inverse_gap_chances",
    "inverse_gap_regret",
    "inverse_gap_round",
    "inverse_gap_sharpness",
    "max_outstanding",
    "measure",
    "missing",
    "outstanding",
    "perceptron_mistakes",
    "played_mistakes",
    "pooled_log_regret",
    "regret",
    "rounds_until_played",
    "rounds_until_tried",
    "second_moment",
    "table",
    "theorem_1",
    "theorem_2",
    "theorem_2_eta",
    "theorem_3",
    "theorem_3_eta",
    "theorem_4",
    "theorem_r1",
    "theorem_r1_eta",
    "theorem_r4",
    "theorem_r4_eta",
    "theorem_r5",
    "theorem_r6",
    "total_delay",
    "waiting",
]
