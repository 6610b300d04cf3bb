"""The average of a learner's weights over its rounds: steadier for prediction than the last ones."""

from delaytron.records import Array, Row


class Average:
    r"""Keeps :math:`\sum_u t_u \Delta_u`, where the update :math:`\Delta_u` is first used in round :math:`t_u`.

    From it the mean of the weights of rounds 1..t follows, whatever the order of the answers:

    .. math:: \bar W_t = \frac{(t + 1) W_t - \sum_u t_u \Delta_u}{t}
    """

    def __init__(self, total: Array) -> None:
        self.total = total

    def shape_about(self, x: Row) -> tuple[int, int]:
        """Return the shape of the weights that an answer about `x` may move."""
        rows, columns = self.total.shape
        return (rows if x.indices is None else x.indices.size), columns

    def of(self, W: Array, rounds: int) -> Array:
        """Return the average over the rounds so far."""
        return ((rounds + 1) * W - self.total) / rounds if rounds else W
