"""What was measured, which the network takes in only when something depends on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from aline.episodes import Context
from aline.model import LearnedPolicy, View, read_standardised
from aline.model.at_once import first_views
from aline.model.running import begin

# Observations from which on they are taken in at once. Fewer are taken in as they would be live, so
# that a resumed experiment has the very same numbers, not the same up to rounding.
MANY = 64


class Observed:
    """The observations of one experiment, and a view of them for whoever asks.

    A replay adds thousands of them before anything is asked.
    """

    def __init__(self, policy: LearnedPolicy, context: Context, known: View):
        self.policy, self.context = policy, context
        self._known = known  # a view of the first of them, however many

    @classmethod
    def nothing(cls, policy: LearnedPolicy) -> Observed:
        """Before the first."""
        view = begin_view(policy)
        return cls(policy, view.context, view)

    @property
    def view(self) -> View:
        """All of them as the network holds them."""
        # Not a cached property, which on Python 3.11 would let no other experiment work meanwhile.
        if self._known.context.length < self.context.length:
            self._known = _caught_up(self.policy, self._known, self.context)
        return self._known

    def extend(self, x: Tensor, y: Tensor) -> Observed:
        """With one more: design [1, design] and outcome [1], on the network's scale."""
        return Observed(self.policy, self.context.append(x, y), self._known)

    def without(self, row: int) -> Observed:
        """With one less."""
        keep = [n for n in range(self.context.length) if n != row]
        left = Context(self.context.designs[:, keep], self.context.outcomes[:, keep])
        return Observed(self.policy, left, begin_view(self.policy))


@torch.inference_mode()
def begin_view(policy: LearnedPolicy) -> View:
    """A view of no data yet."""
    if not policy.standardise:
        return begin(policy.network)
    nothing = Context(
        torch.zeros(1, 0, len(policy.network.spec.design)), torch.zeros(1, 0).double()
    )
    return read_standardised(policy.network, nothing, noise=policy.noise)


@torch.inference_mode()
def views_along(
    policy: LearnedPolicy, context: Context, lengths: Sequence[int], known: View | None = None
) -> Iterator[View]:
    """Views of the first observations, so many each time, in ascending order.

    `known` is a view of no more than the first of these, to begin with.
    """
    view = begin_view(policy) if known is None else known
    is_long = bool(lengths) and lengths[-1] - view.context.length > MANY
    if is_long and not policy.standardise:
        first = first_views(policy.network, context)
        if first is not None:
            yield from map(first, lengths)
            return
    for length in lengths:
        for row in range(view.context.length, length):
            view = view.extend(context.designs[:, row], context.outcomes[:, row])
        yield view


@torch.inference_mode()
def _caught_up(policy: LearnedPolicy, known: View, context: Context) -> View:
    if policy.standardise and context.length - known.context.length > MANY:
        return read_standardised(policy.network, context, noise=policy.noise)
    return next(views_along(policy, context, [context.length], known))
