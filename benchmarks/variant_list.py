"""The variants of the default learner that `variants.py` plays: what each changes, as text or as a patch."""

from variant_runs import Variant

STANDARDIZE, LOGIT_KERNELS = "kernels/standardize.py", "kernels/logit.py"
LOGIT = "learners/bandit_logit.py"

DEFAULT = Variant("default", "default")

MERGE = """    off = feature[OFF] / new
    within = max(0.0, feature[OFF_SQUARED] - feature[OFF] * off)
    squares[j] += within + off * off * ((rows - new) * new / rows)
    feature[CENTRE] += off * (new / rows)
"""
CLIP = "LARGEST = 5.0"
CHANCE = "loss / (K * loss + gaps), 0.0)"
KNOWN = "load(known, r, WIDTH)"
IS_CLASS = "where_below(load(known, r, WIDTH), 2.0, {}, {})"  # else it is padding
RAISE = "share = reward - (1.0 - reward) * odds"
SIZE = "max(LEAST_SIZE, sqrt(total / (max(1, n_varying) * state.power.size)))"
CLASS_RATE = " * sqrt((SMOOTHING + mean) / (SMOOTHING + state.power[k]))"

ROWS_AND_STEPS = [
    Variant("rows", "raw features", ((STANDARDIZE, "clip(off * load(inverse, j, WIDTH))", "load(values, j, WIDTH)"),)),
    Variant(
        "rows",
        "scaled, not centred",
        ((STANDARDIZE, MERGE, "    squares[j] += feature[OFF_SQUARED]\n"),),
    ),
    Variant("rows", "no clipping", ((STANDARDIZE, CLIP, "LARGEST = 1e300"),)),
    Variant("rows", "clipped at 2", ((STANDARDIZE, CLIP, "LARGEST = 2.0"),)),
    Variant(
        "rows",
        "rows not of unit length",
        (
            (
                STANDARDIZE,
                "float(squared_constant(state)) + float(state.cells[LENGTH]) + more",
                "1.0 + state.squares.size + 0.0 * more",
            ),
        ),
    ),
    Variant("rows", "refresh at a quarter more", ((STANDARDIZE, "GROWTH = 16", "GROWTH = 4"),)),
    Variant("steps", "lr=0.5", parameters={"lr": 0.5}),
    Variant("steps", "lr=2", parameters={"lr": 2.0}),
    Variant("steps", "no damping", ((LOGIT, "DAMPING = 0.3", "DAMPING = 0.0"),)),
    Variant("steps", "one rate for all classes", ((LOGIT, CLASS_RATE, " + 0.0 * mean"),)),
    Variant("steps", "steps do not grow with W", ((LOGIT, SIZE, "LEAST_SIZE + 0.0 * total"),)),
    Variant("steps", "new features from C = 0", ((LOGIT, "feature[SUM] + known", "feature[SUM]"),)),
]

EXPLORATION = [
    Variant("exploration", "unknown labels not favoured", ((LOGIT_KERNELS, KNOWN, IS_CLASS.format(1.0, "NEVER")),)),
    Variant(
        "exploration",
        "unknown labels half known",
        (
            (LOGIT_KERNELS, "SHARPNESS_OF_UNKNOWN = 20.0", "SHARPNESS_OF_UNKNOWN = 0.0"),
            (LOGIT_KERNELS, "TRIES * K * log(K)", "10.0 * K"),
            (LOGIT_KERNELS, "1.0 if evidence >= 1.0 else 0.0", "min(1.0, evidence) ** 2"),
        ),
    ),
    Variant(
        "exploration",
        "gamma from 300, 2 sqrt(nK)",
        (
            (LOGIT_KERNELS, "SHARPEST_START = 1000.0", "SHARPEST_START = 300.0"),
            (LOGIT_KERNELS, "SHARPENING = 4.0", "SHARPENING = 2.0"),
        ),
    ),
    Variant(
        "exploration",
        "gamma from 3000, 8 sqrt(nK)",
        (
            (LOGIT_KERNELS, "SHARPEST_START = 1000.0", "SHARPEST_START = 3000.0"),
            (LOGIT_KERNELS, "SHARPENING = 4.0", "SHARPENING = 8.0"),
        ),
    ),
    Variant("exploration", "epsilon = .005", ((LOGIT_KERNELS, CHANCE, IS_CLASS.format("0.005 / K", 0.0) + ", 0.0)"),)),
    Variant("exploration", "SquareCB (l = 1)", ((LOGIT_KERNELS, "loss = 1.0 - top + LEAST_LOSS", "loss = 1.0"),)),
    Variant("exploration", "none (greedy)", ((LOGIT_KERNELS, CHANCE, "1e-300, 0.0)"),)),
]

SIGMOID = """    for k in range(0, p.size, WIDTH):
        score = load(scores, k, WIDTH)
        power = exponential(where_below(score, 0.0, score, score * -1.0))
        store(where_below(score, 0.0, power, 1.0) / (power + 1.0 + 0.0 * share), p, k)
"""
LAST_OF_SOFTMAX = """    for k in range(0, p.size, WIDTH):
        store(load(p, k, WIDTH) * share, p, k)
"""
NO_TEST = Variant("drift", "no test of drift", ((LOGIT_KERNELS, "PROOF = 1e16", 'PROOF = float("inf")'),))
LIKELIHOOD = [
    Variant("likelihood", '"wrong" raises no other label', ((LOGIT_KERNELS, RAISE, "share = reward + 0.0 * odds"),)),
    Variant(
        "likelihood",
        '"wrong" raises the others by half',
        ((LOGIT_KERNELS, RAISE, RAISE.replace("odds", "0.5 * odds")),),
    ),
    Variant(
        "likelihood",
        '"wrong" raises the others by at most p',
        ((LOGIT_KERNELS, RAISE, RAISE.replace("odds", "min(odds, 1.0)")),),
    ),
    Variant(
        "likelihood",
        "one-vs-all",
        ((LOGIT_KERNELS, LAST_OF_SOFTMAX, SIGMOID), (LOGIT_KERNELS, RAISE, "share = 0.0 * odds")),
    ),
]

REPLAY = [Variant("learned again", f"replay={n}", parameters={"replay": n}) for n in (1, 4)]
FEATURES = [
    Variant("random features", "100 cosines, width 1", random_features=100),
    Variant("random features", "500 cosines, width 1", random_features=500),
    Variant("random features", "500 cosines, width 1/2", random_features=500, bandwidth=0.5),
    Variant("random features", "500 cosines, known from 100 rows", random_features=500, sample=100),
]
PATCHED = [
    Variant("averaging", "averaged, the last ninth", patch="averaged"),
    Variant("averaging", "averaged, the last half", ((LOGIT, "POWER = 8.0", "POWER = 1.0"),), "averaged"),
    Variant("averaging", "averaged, lr=2", patch="averaged", parameters={"lr": 2.0}),
    Variant("averaging", "averaged, replay=4", patch="averaged", parameters={"replay": 4}),
    Variant("coin betting", "COCOB, alpha 100", patch="coin"),
    Variant("coin betting", "COCOB, alpha 10", ((LOGIT, "ALPHA = 100.0", "ALPHA = 10.0"),), "coin"),
    Variant("delay", "AdaptiveRevision's sums", patch="revision"),
    Variant("delay", "sums as if delays were the worst", patch="pessimistic"),
    Variant("delay", "stale gradients", patch="stale"),
    Variant("heads", "five heads, Thompson", patch="heads"),
]

VARIANTS = [DEFAULT, *ROWS_AND_STEPS, *EXPLORATION, *LIKELIHOOD, *REPLAY, *PATCHED, NO_TEST, *FEATURES]
