"""Rows over a factor that are kept for points which are asked about after every observation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

REMEMBERED = 4  # sets of points: a pool, a goal's, a few predictions


class GrowingRows:
    """A tensor that grows along its third axis; the first to extend it needs no copy."""

    def __init__(self, first: Tensor, room: int):
        shape = list(first.shape)
        self.used = shape[2]
        shape[2] += room
        self.buffer = first.new_empty(shape)
        self.buffer[:, :, : self.used] = first

    def append(self, count: int, more: Tensor) -> GrowingRows:
        """With more rows behind the first `count`."""
        total = count + more.shape[2]
        if self.used == count and total <= self.buffer.shape[2]:
            self.buffer[:, :, count:total] = more
            self.used = total
            return self
        return GrowingRows(torch.cat([self.buffer[:, :, :count], more], 2), room=total)


class KnownPoints(NamedTuple):
    """Points that an ensemble was asked about, and what it computed for them."""

    points: Tensor  # the very tensor that was asked about
    observed: int  # observations so far
    growing: GrowingRows  # [batch, kernel, context, n], over the factor
    explained: Tensor  # [batch, kernel, n], these squared and summed

    @classmethod
    def of(cls, points: Tensor, before: KnownPoints | None, more: Tensor) -> KnownPoints:
        """With rows `more` [batch, kernel, new, n] behind those known before."""
        squares = more.square().sum(2)
        if before is None:
            return cls(points, more.shape[2], GrowingRows(more, room=0), squares)
        growing = before.growing.append(before.observed, more)
        return cls(points, before.observed + more.shape[2], growing, before.explained + squares)

    @property
    def rows(self) -> Tensor:
        """Those of as many observations as are known."""
        return self.growing.buffer[:, :, : self.observed]


class PairCovariance(NamedTuple):
    """What two sets of points say of each other after some observations."""

    candidates: Tensor  # the very tensors that were asked about
    targets: Tensor
    covariance: Tensor  # [batch, kernel, candidate, target], changed in place by its only owner
    observed: int  # observations so far

    def brought_up(self, a: Tensor, b: Tensor) -> PairCovariance:
        """Given new rows over the factor, [batch, kernel, new, n], of both."""
        if a.shape[2] == 1:  # a product of two vectors: one pass instead of three
            self.covariance.addcmul_(a.mT, b, value=-1)
        elif a.shape[2]:
            self.covariance.sub_(a.mT @ b)
        return self._replace(observed=self.observed + a.shape[2])


@dataclass
class Memory:
    """The last few sets of points, found by identity: the caller passes the same tensor again.

    The covariance of a pair is large and changed in place. So it has one owner: a state takes it
    from the state that it grew out of, and computes it anew if another one took it first.
    """

    known: list[KnownPoints] = field(default_factory=list)  # the latest last
    pair: list[PairCovariance] = field(default_factory=list)  # at most one
    past: list[PairCovariance] = field(default_factory=list)  # that of the state before

    def find(self, points: Tensor) -> KnownPoints | None:
        """What is known of these points."""
        return next((known for known in self.known if known.points is points), None)

    def keep(self, new: KnownPoints) -> None:
        """Instead of what was known of the same points before."""
        others = [known for known in self.known if known.points is not new.points]
        self.known = [*others[1 - REMEMBERED :], new]

    def take_pair(self, candidates: Tensor, targets: Tensor) -> PairCovariance | None:
        """The covariance of two sets of points, which then belongs to the caller alone."""
        for box in (self.pair, self.past):
            if box:
                pair = box.pop()
                same = pair.candidates is candidates and pair.targets is targets
                return pair if same else None
        return None

    def inherited(self) -> Memory:
        """For a state with one more observation."""
        return Memory(list(self.known), past=self.pair or self.past)
