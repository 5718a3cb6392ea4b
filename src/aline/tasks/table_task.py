"""A task made of recorded tables: an episode draws a data set, and measures by looking up.

There is no simulator and there are no parameters: what can be learned is the landscape, from the
configurations that were recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from aline.errors import InputError
from aline.spaces import Continuous, Design, Real
from aline.tasks.spec import PREDICTIONS
from aline.tasks.tables import Part, Table, Tables
from aline.tasks.task import Named, Task

NEAR = 1e-9  # how far a key may be off what was recorded, by rounding


class TableTask(Task):
    """Episodes on the tables of one part, by default those to train on.

    >>> from aline.tasks.tables import Table, Tables
    >>> tables = [Table(f"d{i}", torch.rand(20, 3), torch.rand(20)) for i in range(10)]
    >>> task = TableTask(Tables.of("toy", ["a", "b", "c"], tables), horizon=5)
    >>> task.draw(4, torch.Generator()).sample(2, torch.Generator()).shape
    torch.Size([4, 2, 3])
    """

    def __init__(
        self,
        tables: Tables,
        part: Part = "train",
        *,
        horizon: int = 30,
        start: int = 5,
        **more: Any,
    ):
        every = torch.cat([table.X for table in tables.tables])
        low, high = every.min(0).values, every.max(0).values
        high = torch.where(high > low, high, low + 1)  # a column that never changes says nothing
        axes = map(Continuous, low.tolist(), high.tolist())
        seen = torch.cat([table.y for table in tables.only("train").tables]).double()
        super().__init__(
            name=tables.space,
            parameters={},
            design=Design(dict(zip(tables.columns, axes, strict=True))),
            outcome=Real(loc=float(seen.mean()), scale=max(float(seen.std()), 1e-9)),
            simulate=_look_up_only,
            horizon=horizon,
            start=start,
            targets={(PREDICTIONS,): 1.0},
            config={"learned_from": [table.name for table in tables.part("train")]},
            **{"model": MODEL, "training": TRAINING, **more},
        )
        self.tables, self.part = tables, part
        self.recorded = Recorded.of(tables.only(part).tables, self.spec.design)

    def on(self, part: Part) -> TableTask:
        """The same task on the tables of another part.

        >>> task.on("test").part
        'test'
        """
        task: TableTask = self._with(self.spec)  # type: ignore[assignment]
        task.part = part
        task.recorded = Recorded.of(self.tables.only(part).tables, self.spec.design)
        return task

    def draw(self, batch: int, generator: torch.Generator) -> TableWorld:  # type: ignore[override]
        """Data sets at random.

        >>> task.draw(4, torch.Generator()).theta.shape
        torch.Size([4, 0])
        """
        which = torch.randint(len(self.recorded.count), (batch,), generator=generator)
        return TableWorld(self, which)

    def world(
        self, theta: Mapping[str, Any], generator: torch.Generator | None = None
    ) -> TableWorld:
        """A data set at random: there are no parameters to give.

        >>> task.world({}).sample(2, torch.Generator()).shape
        torch.Size([1, 2, 3])
        """
        return self.draw(1, generator or torch.Generator())

    def checked(self) -> TableTask:
        """Tables were checked when they were read.

        >>> task.checked() is task
        True
        """
        return self


def _look_up_only(theta: Named, design: Named, generator: torch.Generator) -> Tensor:
    raise InputError("a recorded task answers only what was recorded: play it with task.draw(...)")


@dataclass(frozen=True)
class Recorded:
    """Tables of several lengths as one, on the network's scale for designs."""

    designs: Tensor  # [table, row, design]
    outcomes: Tensor  # [table, row], in the user's units
    keys: Tensor  # [table, row], rising: a number for each configuration; then infinities
    count: Tensor  # [table], rows that are not padding

    @classmethod
    def of(cls, tables: tuple[Table, ...], space: Design) -> Recorded:
        """Sorted by key."""
        designs, outcomes, keys = [], [], []
        for table in tables:
            x = space.to_network(table.X)
            key = _key(x)
            order = key.argsort()
            designs.append(x[order])
            outcomes.append(table.y[order])
            keys.append(key[order])
        return cls(
            pad_sequence(designs, batch_first=True),
            pad_sequence(outcomes, batch_first=True),
            pad_sequence(keys, batch_first=True, padding_value=torch.inf),
            torch.tensor([len(table) for table in tables]),
        )

    def rows(self, which: Tensor, designs: Tensor) -> Tensor:
        """Rows [batch, n] of designs [batch, n, design] in tables `which` [batch]."""
        keys, wanted = self.keys[which], _key(designs)
        after = torch.searchsorted(keys, wanted).clamp(max=keys.shape[1] - 1)
        before = (after - 1).clamp_min(0)
        off = [(keys.gather(1, place) - wanted).abs() for place in (before, after)]
        if bool((torch.minimum(*off) > NEAR).any()):
            raise InputError(
                "a recorded task answers only recorded configurations, got another: choose among "
                "world.sample(...)"
            )
        return torch.where(off[0] < off[1], before, after)


def _key(designs: Tensor) -> Tensor:
    """A number [...] that tells designs [..., design] apart, by a random direction."""
    direction = torch.rand(designs.shape[-1], dtype=torch.float64, generator=torch.Generator())
    # A sum in a fixed order: a matrix product's rounding depends on its shape.
    return (designs.double() * direction).sum(-1)


@dataclass(frozen=True)
class TableWorld:
    """A batch of data sets, each of which answers what was recorded of it."""

    task: TableTask
    which: Tensor  # [batch], numbers of tables

    is_recorded = True

    @cached_property
    def theta(self) -> Tensor:
        """No parameters."""
        return torch.zeros(len(self.which), 0)

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Recorded designs [batch, count, design], without repeats as far as a table reaches."""
        recorded = self.task.recorded
        most = recorded.count[self.which]
        keys = torch.rand(len(self.which), recorded.keys.shape[1], generator=generator)
        if count <= int(most.min()):
            keys = keys.masked_fill(torch.arange(keys.shape[1]) >= most[:, None], -1.0)
            rows = keys.topk(count, dim=1).indices
        else:
            place = torch.rand(len(self.which), count, generator=generator)
            rows = (place * most[:, None]).long()
        return recorded.designs[self.which[:, None], rows]

    def simulate(self, designs: Tensor, generator: torch.Generator) -> Tensor:
        """Recorded outcomes [batch, count] in the user's units."""
        recorded = self.task.recorded
        return recorded.outcomes[self.which[:, None], recorded.rows(self.which, designs)]

    def answer(self, designs: Tensor, generator: torch.Generator) -> Tensor:
        """Recorded outcomes [batch, count] on the network's scale."""
        outcomes = self.simulate(designs, generator)
        return self.task.spec.outcome.to_network(outcomes).float()

    def branches(self, designs: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """The one outcome there is."""
        outcomes = self.answer(designs, generator)[..., None]
        return outcomes, torch.ones_like(outcomes)


# The plug-in does most of the work. A network of the usual size beside it would memorise the
# training data: this one can do little more than correct the plug-in's spread.
MODEL = {
    "policy": "plugin",
    "plugin": "landscapes",
    "width": 8,
    "heads": 1,
    "layers": 1,
    "policy_layers": 1,
    "feedforward": 16,
    "components": 3,
    "shortcuts": False,
}
TRAINING = {"batch": 32, "updates": 6, "points": 16, "pool": 100, "warmup": 0.85}
