"""`bandit_logit`, line by line: slow, obvious, on whole dense rows, and independent of the package."""

import numpy as np

from paper import Run, receive, record, sample, transcribes


class Rows:
    """The rows so far, by number, mean and variance; brought up to date when they have grown by a sixteenth."""

    def __init__(self, d):
        self.n, self.due = 0, 1
        self.mean, self.squares, self.variance = np.zeros(d), np.zeros(d), np.zeros(d)
        self.new = []

    def is_due(self):
        return self.n + len(self.new) >= self.due

    def refresh(self, share):
        """Take the new rows in, then let only a share of them count next time."""
        new, m = np.array(self.new), len(self.new)
        n = self.n + m
        off = new.mean(axis=0) - self.mean
        within = ((new - new.mean(axis=0)) ** 2).sum(axis=0)
        self.squares = self.squares + within + off**2 * self.n * m / n
        self.mean = self.mean + off * m / n
        self.variance = self.squares / n
        self.n, self.new = max(1, int(share * n + 0.5)), []
        self.squares = self.n / n * self.squares
        self.due = self.n + max(1, n // 16)

    def varies(self):
        return self.variance > 1e-26 * self.mean**2

    def standardize(self, x):
        """Return the row in standard deviations from the mean, at most 5, with a constant, and of unit length."""
        z = np.where(self.varies(), (x - self.mean) / np.sqrt(np.where(self.varies(), self.variance, 1.0)), 0.0)
        z = np.append(np.clip(z, -5, 5), 1.0)
        return z / np.sqrt((z**2).sum())


class Logit:
    """W, and the two sums of AdaGrad: one number a feature, one number a class."""

    def __init__(self, K, d, lr):
        self.K, self.lr = K, lr
        self.W = np.zeros((K, d + 1))
        self.C, self.R = np.zeros(d + 1), np.zeros(K)
        self.varied, self.mean_C = np.zeros(d, bool), 0.0
        self.refresh(1.0, self.varied)

    def refresh(self, share, varies):
        """Let a share of the sums remain, and step by them from now on; new features begin with the mean."""
        self.C[:-1][varies & ~self.varied] += self.mean_C
        self.C *= share
        self.R *= share
        self.mean_C = self.C[:-1][varies].mean() if varies.any() else 0.0
        self.varied = varies
        self.D = 1 / np.sqrt(0.01 + self.C / self.K)
        size = max(1.3, np.sqrt((self.W[:, :-1] ** 2).sum() / (self.K * max(1, varies.sum()))))
        self.r = 0.7 * self.lr * size * np.sqrt((0.1 + self.R.mean()) / (0.1 + self.R))

    def probabilities(self, z):
        scores = (self.W * z).sum(axis=1)
        e = np.exp(scores - scores.max())
        return e / e.sum()

    def learn(self, z, label, reward):
        """Take a step on -reward log p - (1 - reward) log(1 - p)."""
        p = self.probabilities(z)
        right = p - np.eye(self.K)[label]
        wrong = -p[label] * p / max(1 - p[label], 1e-6)
        wrong[label] = p[label]
        g = reward * right + (1 - reward) * wrong
        g[np.abs(g) < 1e-3] = 0
        self.C += (g**2).sum() * z**2
        self.R += g**2
        v = (self.D * z**2).sum()
        self.W -= np.outer(self.r * g / (1 + 0.3 * self.r * v * np.abs(g)), self.D * z)


class Watch:
    """Bets, one for each class of delays, that answers are right half as often as they were."""

    def __init__(self, start):
        self.start, self.changed = start, False
        self.rewards, self.wealth = {}, {}

    def count(self, delay, reward):
        rewards = self.rewards.setdefault(delay.bit_length(), [])
        if len(rewards) >= 100:
            q = min(0.9, sum(rewards) / len(rewards))
            gain = reward / 2 + (1 - reward) * (1 - q / 2) / (1 - q)
            self.wealth[delay.bit_length()] = gain * max(1, self.wealth.get(delay.bit_length(), 1))
        rewards.append(reward)
        self.changed = self.changed or max(self.wealth.values(), default=0) > 1e16


def inverse_gaps(p, n, plays, confirmations, floor):
    """P(r) = l / (K l + gamma_r (p_b - p_r)); those that look best share the rest."""
    K = len(p)
    gamma = max(1000, 4 * np.sqrt(n * K))
    known = plays / (2 * K * np.log(K)) + confirmations / 3 >= 1
    best = p == p.max()
    loss = 1 - p.max() + 1e-6
    P = loss / (K * loss + np.where(known, gamma, 20) * (p.max() - p))
    P[best] = (1 - P[~best].sum()) / best.sum()
    return floor + (1 - K * floor) * P


@transcribes({}, {"lr": 2.0, "explore_floor": 0.01}, {"forget": 0.05}, {"replay": 2})
def bandit_logit(X, y, delays, draws, n_classes, lr=1.0, explore_floor=0.0, forget=0.0, replay=0):
    """A multinomial logit on standardised rows; answers are learned with what is known when they come."""
    T, d = X.shape
    rows, logit, watch = Rows(d), Logit(n_classes, d, lr), Watch(0)
    plays, confirmations = np.zeros(n_classes), np.zeros(n_classes)
    n = n_before = 0
    kept = []
    waiting = {}
    run = Run()
    for t in range(1, T + 1):
        if watch.changed:
            varied = logit.varied
            logit, watch = Logit(n_classes, d, lr), Watch(t)
            logit.varied = varied
            plays, confirmations = np.zeros(n_classes), np.zeros(n_classes)
            n = n_before = 0
            kept = []
            rows.due = 0
        if t > 1 and rows.is_due():
            share = (1 - forget) ** (n - n_before)
            rows.refresh(share)
            rows.due = min(rows.due, rows.n + max(1, (t - watch.start) // 16))
            logit.refresh(share, rows.varies())
            plays, confirmations = share * plays, share * confirmations
            n = n_before = share * n
        S = receive(delays, t)
        for s, (x, label, right) in [(s, waiting.pop(s)) for s in S]:
            if s < watch.start:
                continue
            watch.count(t - s, float(right))
            n += 1
            confirmations[label] += right
            logit.learn(rows.standardize(x), label, float(right))
            for i in range(replay if kept else 0):
                x_old, label_old, right_old = kept[-1 - i * len(kept) // replay]
                logit.learn(rows.standardize(x_old), label_old, right_old)
            kept = [*kept, (x, label, float(right))][-1000:]
        outstanding = len(waiting) + 1
        x = X[t - 1]
        p = logit.probabilities(rows.standardize(x))
        P = inverse_gaps(p, n, plays, confirmations, explore_floor)
        label = sample(P, draws[t - 1])
        right = label == y[t - 1]
        plays[label] += 1
        rows.new.append(x)
        waiting[t] = (x, label, right)
        record(run, int(np.argmax(p)), label, P[label], right, outstanding, 0, 1.0, S)
    run.weights = logit.W
    return run
