"""`gated_logit`, line by line: slow, obvious, on whole rows, and independent of the package."""

from math import exp, log, sqrt

import numpy as np

from paper import Run, receive, record, sample, transcribes
from paper_logit import Logit, Rows, inverse_gaps


def sigmoid(s):
    return 1 / (1 + exp(-s)) if s >= 0 else exp(s) / (1 + exp(s))


class Softmax(Logit):
    """The logit of `bandit_logit`; a "wrong" also credits labels of which little is known."""

    def learn(self, z, label, reward, credit):
        p = self.probabilities(z)
        others = np.arange(self.K) != label
        q = np.where(others, p + credit, 0.0)
        # where nothing is credited it is the step of `bandit_logit`, whose denominator has a lower bound
        q /= max(1 - p[label], 1e-6) if not credit[others].any() else 1 - p[label] + credit[others].sum()
        g = p - (1 - reward) * q
        g[label] = p[label] - reward
        g[np.abs(g) < 1e-3] = 0
        self.C += (g**2).sum() * z**2
        self.R += g**2
        v = (self.D * z**2).sum()
        self.W -= np.outer(self.r * g / (1 + 0.3 * self.r * v * np.abs(g)), self.D * z)
        return p[label]


class Pointwise:
    """For every label a logistic regression by a Kalman filter with a diagonal covariance; one offset is common."""

    def __init__(self, K, d):
        self.M, self.V = np.zeros((K, d)), np.ones((K, d))
        self.beta, self.nu = np.zeros(K), np.ones(K)
        self.b0, self.v0 = 0.0, 4.0
        self.errors = self.least = 0.0

    def scores(self, z):
        return self.b0 + self.beta + (self.M * z).sum(axis=1)

    def variances(self, z, share):
        return share * (self.V * z**2).sum(axis=1) + self.nu

    def learn(self, z, label, reward):
        variance = self.variances(z, 1.0)[label]
        score = self.scores(z)[label]
        forecast = sigmoid(score / sqrt(1 + 0.3927 * variance))
        f = sigmoid(score)
        self.errors += (reward - f) ** 2
        self.least += reward * (1 - reward)
        phi = (1 + self.errors) / (1 + self.errors + self.least)
        e, h = (reward - f) / phi, max(f * (1 - f), 1e-6) / phi
        step = e / (1 + h * (variance + self.v0))
        self.M[label] += step * self.V[label] * z
        self.beta[label] += step * self.nu[label]
        self.b0 += step * self.v0
        self.V[label] /= 1 + h * z**2 * self.V[label]
        self.nu[label] /= 1 + h * self.nu[label]
        self.v0 /= 1 + h * self.v0
        return forecast

    def fade(self, share):
        """Let a share of the evidence remain; precisions are what evidence adds to."""
        self.V = 1 / (share / self.V + (1 - share))
        self.nu = 1 / (share / self.nu + (1 - share))
        self.v0 = 1 / (share / self.v0 + (1 - share) / 4)
        self.errors *= share
        self.least *= share

    def plays(self, z, n, share):
        """Return how likely each label is to be the best, nearly: by the gap to it in standard deviations."""
        s, v = self.scores(z), 0.05 * log(3 + n) * self.variances(z, share)
        b = int(np.argmax(s))
        gap = (s[b] - s) / np.sqrt(v[b] + v)
        P = np.exp(-np.minimum(700, 1.5976 * gap + 0.07056 * gap**3))
        return P / P.sum()


class Member:
    """A model: statistics of rows, both parts, what was kept, and which part forecast better."""

    def __init__(self, K, d, lr, sparse, start=0):
        self.K, self.d, self.lr, self.sparse, self.start = K, d, lr, sparse, start
        self.rows = Rows(d)
        self.sample, self.overlap, self.correlation = [], 0.0, 0.0
        self.forget_answers()

    def forget_answers(self):
        self.softmax, self.pointwise = Softmax(self.K, self.d, self.lr), Pointwise(self.K, self.d)
        self.plays, self.confirmations = np.zeros(self.K), np.zeros(self.K)
        self.n = self.n_before = 0
        self.kept = []
        self.L_softmax = self.L_pointwise = 0.0

    def challenger(self, now):
        """Return a model that knows of the rows what this one knows, and nothing else."""
        twin = Member(self.K, self.d, self.lr, self.sparse, now)
        for name in ("n", "due", "mean", "squares", "variance"):
            setattr(twin.rows, name, np.copy(getattr(self.rows, name))[()])
        twin.rows.new = list(self.rows.new)
        twin.sample, twin.overlap, twin.correlation = list(self.sample), self.overlap, self.correlation
        twin.softmax.varied = self.softmax.varied
        return twin

    def refresh(self, now, forget):
        share = (1 - forget) ** (self.n - self.n_before)
        self.rows.refresh(share)
        self.rows.due = min(self.rows.due, self.rows.n + max(1, (now - self.start) // 16))
        self.softmax.refresh(share, self.rows.varies())
        self.plays, self.confirmations = share * self.plays, share * self.confirmations
        self.n = self.n_before = share * self.n
        self.pointwise.fade(share)
        self.L_softmax *= share
        self.L_pointwise *= share

    def deviations(self, x):
        varies = self.rows.varies()
        z = np.where(varies, (x - self.rows.mean) / np.sqrt(np.where(varies, self.rows.variance, 1.0)), 0.0)
        return np.clip(z, -5, 5)

    def with_constant(self, x):
        z = np.append(self.deviations(x), sqrt(1 + min(0.1 * self.d, 8)))
        return z / np.sqrt((z**2).sum())

    def partly_centred(self, x):
        """Return the row of unit length; zeros stay zeros in sparse rows, and nearly so where zeros are common."""
        zeta = self.deviations(np.zeros(self.d))
        z = self.deviations(x) - (zeta if self.sparse else zeta / (1 + zeta**4))
        if self.sparse:
            z[x == 0] = 0
        length = sqrt((z**2).sum())
        return z / length if length > 0 else z

    def see(self, x):
        """Count a row; the first one after a refresh is compared with up to 16 earlier such rows."""
        self.rows.new.append(x)
        if len(self.rows.new) == 1:
            z = self.partly_centred(x)
            for other in self.sample:
                self.overlap += (z**2 * other**2).sum()
                self.correlation += (z * other).sum() ** 2
            self.sample = [*self.sample, z][-16:]

    @property
    def omega(self):
        Lambda = sqrt(1 + self.L_pointwise) + 2 * (self.L_pointwise - self.L_softmax)
        return float(Lambda > 0) if abs(Lambda) > 37 else 1 / (1 + exp(-Lambda))

    def probabilities(self, x, floor):
        """Return the greedy label and the probabilities of playing each."""
        omega, K = self.omega, self.K
        chances = self.softmax.probabilities(self.with_constant(x))
        z = self.partly_centred(x)
        rho = 1.0 if self.overlap >= self.correlation else max(0.001, self.overlap / self.correlation)
        by_softmax = inverse_gaps(chances, self.n, np.full(K, 2 * K * log(K)), np.zeros(K), 0.0)
        by_pointwise = self.pointwise.plays(z, self.n, rho)
        P = omega * by_softmax + (1 - omega) * by_pointwise
        greedy = np.argmax(self.pointwise.scores(z) if omega < 0.5 else chances)
        return int(greedy), floor + (1 - K * floor) * P

    def credit(self):
        """Return half the share of rows on which each label may be right, 0 for those that are known."""
        unknown = np.flatnonzero(self.confirmations < 3)
        answered = min(1, self.n / max(1, self.plays.sum()))
        m, c = answered * self.plays[unknown], self.confirmations[unknown]
        C, M = c.sum() - c, m.sum()  # f = (1 + c) / (1 / h + m), h = (1 + C) / (K + M - m)
        credit = np.zeros(self.K)
        credit[unknown] = 0.5 * (1 + c) * (1 + C) / (self.K + M + m * C)
        return credit

    def learn(self, x, label, reward, replay):
        omega = self.omega
        self.n += 1
        self.confirmations[label] += reward
        a = self.softmax.learn(self.with_constant(x), label, reward, self.credit())
        b = self.pointwise.learn(self.partly_centred(x), label, reward)
        self.L_softmax += (reward - a) ** 2
        self.L_pointwise += (reward - b) ** 2
        for i in range(replay if self.kept else 0):
            again = self.kept[-1 - (2 * i + 1) * len(self.kept) // (2 * replay)]
            self.softmax.learn(self.with_constant(again[0]), *again[1:], self.credit())
        self.kept = [*self.kept, (x, label, reward)][-1000:]
        return omega * a + (1 - omega) * b

    @property
    def weights(self):
        if self.omega < 0.5:
            return np.column_stack([self.pointwise.M, self.pointwise.b0 + self.pointwise.beta])
        W = self.softmax.W.copy()
        W[:, -1] *= sqrt(1 + min(0.1 * self.d, 8))
        return W


class Alarm:
    """Bets by classes of delays that rewards are half as high as they were, compared label by label."""

    def __init__(self, start):
        self.start, self.block_began = start, start
        self.records, self.wealth, self.at_block = {}, {}, {}
        self.alarmed = False

    def count(self, now, played, label, reward):
        if played < self.start:
            return
        if now - self.block_began >= max(1, (now - self.start) // 1024):
            self.block_began, self.at_block = now, dict(self.wealth)
        k = (now - played).bit_length()
        rewards = self.records.setdefault((label, k), [])
        if len(rewards) >= 100:
            q = min(0.9, sum(rewards) / len(rewards))
            gain = log(reward / 2 + (1 - reward) * (1 - q / 2) / (1 - q))
            most = self.at_block.get(k, 0.0) + log(1e4)
            self.wealth[k] = min(max(0.0, self.wealth.get(k, 0.0)) + gain, most)
            self.alarmed = self.alarmed or self.wealth[k] > log(1e16)
        rewards.append(reward)


class Contest:
    """By how much a challenger's forecasts are better; what happens in one block counts at most 2.5."""

    def __init__(self, now):
        self.began, self.block_began, self.before, self.of_block = now, now, 0.0, 0.0

    @property
    def lead(self):
        return self.before + min(2.5, max(-2.5, self.of_block))

    def count(self, now, reward, old, new):
        if now - self.block_began >= max(1, now // 512, (now - self.began) // 16):
            self.before, self.of_block, self.block_began = self.lead, 0.0, now
        p, q = (min(0.98, max(0.02, forecast)) for forecast in (old, new))
        self.of_block += reward * log(q / p) + (1 - reward) * log((1 - q) / (1 - p))


@transcribes(
    {},
    {"lr": 2.0, "explore_floor": 0.01, "forget": 0.05, "replay": 0},
    {"replay": 3, "drift": False},
)
def gated_logit(
    X, y, delays, draws, n_classes, lr=1.0, explore_floor=0.0, replay=1, forget=0.0, drift=True, sparse=False
):
    """The part that forecasts better plays; after an alarm a second model may take over. Returns a run."""
    player, challenger, contest, alarm = Member(n_classes, X.shape[1], lr, sparse), None, None, Alarm(0)
    waiting = {}
    run = Run()
    for t in range(1, len(X) + 1):
        born = False
        if drift and alarm.alarmed:
            alarm = Alarm(t)
            if challenger is None or contest.lead <= 0:
                challenger, contest, born = player.challenger(t), Contest(t), True
        for model in (player, challenger):
            if model is not None and t > 1 and (model.rows.is_due() or (born and model is challenger)):
                model.refresh(t, forget)
        S = receive(delays, t)
        for s, (x, label, right) in [(s, waiting.pop(s)) for s in S]:
            reward = float(right)
            alarm.count(t, s, label, reward)
            members = [model for model in (player, challenger) if model is not None and s >= model.start]
            forecasts = [model.learn(x, label, reward, replay) for model in members]
            if len(forecasts) == 2:
                contest.count(t, reward, *forecasts)
                if contest.lead > 10:
                    player, challenger, contest = challenger, player, Contest(t)
                elif contest.lead < -40:
                    challenger = None
        outstanding = len(waiting) + 1
        x = X[t - 1]
        if challenger is not None:
            challenger.see(x)
        player.see(x)
        greedy, P = player.probabilities(x, explore_floor)
        label = sample(P, draws[t - 1])
        for model in (player, challenger):
            if model is not None:
                model.plays[label] += 1
        right = label == y[t - 1]
        waiting[t] = (x, label, right)
        record(run, greedy, label, P[label], right, outstanding, 0, 1.0, S)
    run.weights = player.weights
    return run
