"""The exact posterior by quadrature: the truth that q is measured against.

For tasks with a likelihood and at most four parameters. On the scale u = F(theta) of its prior
quantile every parameter is uniform on (0, 1), so the posterior is the likelihood, normalised. A
coarse tensor grid finds where it is, and a fine one of Gauss-Legendre nodes integrates it there:
few nodes serve a parameter in which the likelihood is smooth (the guess and lapse rates of a
psychometric function enter it as polynomials), many one in which it has edges (the threshold of a
steep one). Where the density at a given value is wanted, that value takes the place of the
parameter's nodes, so nothing is interpolated.

A prior without bounds is cut in z = Phi^-1(u) instead of u, in which its tails are too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from aline.episodes import Context
from aline.errors import InputError
from aline.evaluation.quadrature import Axis, Window, axes_of, window_around
from aline.spaces import Parameters
from aline.spaces.outcomes.mixture import LOG_SQRT_2PI
from aline.spaces.priors import log_volume
from aline.tasks import Task
from aline.tasks.task import Named

MOST_PARAMETERS = 4
TOLERANCE = 1e-3  # nats: fifty times finer than what q is asked for
_FIRST_NODES = 8
_MOST_POINTS = 2**21
_COARSE_POINTS = 2**16
_MOST_COARSE = 512  # nodes of the coarse grid, a parameter
_SHARED = 2.0  # how much larger than its own windows a posterior's shared grid may be
_AT_ONCE = 2**17  # likelihood values a call: what stays in the cache

Progress = Callable[[int, int], None]
"""Told how many of how many episodes are done."""


class NotConvergedError(InputError):
    """A posterior that no grid of a reasonable size resolves."""


@dataclass(frozen=True)
class Block:
    """A part of the grid that fits into the cache."""

    theta: Named  # user's units, [1, *grid] with size 1 along the axes of other parameters
    log_weight: Tensor  # [*grid]
    order: tuple[int, ...]  # the parameter that each axis of the grid belongs to


@dataclass(frozen=True)
class Data:
    """The observations of one episode as the likelihood takes them, ready to broadcast."""

    design: Named  # user's units, [observation, 1, ..., 1]
    outcome: Tensor  # network's scale, [observation, 1, ..., 1, *event]

    @classmethod
    def of(cls, task: Task, context: Context, episode: int) -> Data:
        """Episode number `episode` of a batch."""
        tail = [1] * len(task.spec.parameters)
        columns = task.spec.design.name_columns(context.designs[episode])
        outcome = context.outcomes[episode]
        shaped = outcome.view(len(outcome), *tail, *outcome.shape[1:])
        return cls({n: c.view(-1, *tail) for n, c in columns.items()}, shaped)

    def part(self, start: int, stop: int) -> Data:
        """Some of its observations."""
        return Data({n: c[start:stop] for n, c in self.design.items()}, self.outcome[start:stop])


@dataclass(frozen=True)
class Located:
    """Where the posteriors are that some first observations of an episode leave."""

    data: Data
    lengths: list[int]  # how many observations, rising
    windows: list[Window]  # one a parameter, around the posteriors after all of these lengths

    @property
    def volume(self) -> float:
        """The windows' share of the prior."""
        return math.prod((high - low) / 2 for low, high in self.windows)

    def join(self, other: Located) -> Located:
        """Around both."""
        pairs = zip(self.windows, other.windows, strict=True)
        both = [(min(a[0], b[0]), max(a[1], b[1])) for a, b in pairs]
        return Located(self.data, self.lengths + other.lengths, both)


def can_be_exact(task: Task) -> bool:
    """Whether the exact posterior is within reach.

    >>> from aline.tasks import get
    >>> can_be_exact(get("psychometric")), can_be_exact(get("gp1d"))
    (True, False)
    """
    return task.log_likelihood is not None and 1 <= len(task.spec.parameters) <= MOST_PARAMETERS


def exact_log_marginals(
    task: Task,
    context: Context,
    theta: Tensor,
    lengths: Sequence[int],
    nodes: Sequence[int] | None = None,
    progress: Progress | None = None,
) -> Tensor:
    """log p(theta_l | the first t observations) for t in `lengths`, [batch, length, parameter].

    `theta` [batch, parameter] and the densities are on the network's scale, as q's are; subtract
    `parameters.log_volume(theta)` for the user's units. Without `nodes`, as many are taken for each
    parameter as `converged_nodes` asks for.

    >>> from aline.tasks import get
    >>> task, generator = get("linear"), torch.Generator().manual_seed(0)
    >>> theta, x = torch.zeros(2, 2), task.spec.design.sample(2, 5, generator)
    >>> context = Context(x, task.worlds(theta, generator).answer(x, generator))
    >>> exact_log_marginals(task, context, theta, lengths=[0, 5]).shape
    torch.Size([2, 2, 2])
    """
    _check(task, context, lengths)
    if nodes is None:
        nodes = converged_nodes(task, context, theta)
    rows = []
    for located, truth in zip(_locate(task, context, lengths), theta, strict=True):
        rows.append(torch.cat([_at_truth(task, where, nodes, truth) for where in located]))
        if progress is not None:
            progress(len(rows), len(theta))
    return torch.stack(rows)


def _at_truth(task: Task, where: Located, nodes: Sequence[int], truth: Tensor) -> Tensor:
    """Log posterior density of each parameter's true value, [length, parameter]."""
    axes = axes_of(task.spec.parameters, nodes, where.windows)
    evidence = _log_integral(task, axes, where)
    values = [
        _log_integral(task, _cut(axes, i, truth[i : i + 1]), where, keep=i)
        for i in range(len(axes))
    ]
    # A density in u is one in z times du/dz, the standard normal's density.
    return torch.cat(values, 1) - evidence - 0.5 * truth**2 - LOG_SQRT_2PI


def exact_gains(
    task: Task,
    context: Context,
    theta: Tensor,
    nodes: Sequence[int],
    progress: Progress | None = None,
) -> Tensor:
    """What each experiment says about all parameters together: log p - log prior of the truth.

    p is the exact joint posterior after all observations, theta [batch, parameter]. By Bayes' rule
    this is log likelihood - log evidence. Returns [batch].

    >>> from aline.tasks import get
    >>> task, generator = get("linear"), torch.Generator().manual_seed(0)
    >>> theta, x = torch.zeros(2, 2), task.spec.design.sample(2, 5, generator)
    >>> context = Context(x, task.worlds(theta, generator).answer(x, generator))
    >>> exact_gains(task, context, theta, nodes=converged_nodes(task, context)).shape
    torch.Size([2])
    """
    lengths = [context.length]
    _check(task, context, lengths)
    at_truth = task.log_prob(theta, context.designs, context.outcomes).double().sum(1)
    evidence = []
    for (where,) in _locate(task, context, lengths):
        axes = axes_of(task.spec.parameters, nodes, where.windows)
        evidence.append(_log_integral(task, axes, where)[0, 0].double())
        if progress is not None:
            progress(len(evidence), len(theta))
    return at_truth - torch.stack(evidence)


def exact_grid_posterior(
    task: Task, context: Context, points: int = 101, nodes: Sequence[int] | None = None
) -> dict[str, tuple[Tensor, Tensor]]:
    """Marginal densities for figures: coordinate -> values [points] and density [batch, points].

    In the user's units, at evenly spaced values that hold 99.9 % of the prior. The coordinates of
    a simplex are its sticks.

    >>> from aline.tasks import get
    >>> task, generator = get("linear"), torch.Generator().manual_seed(0)
    >>> theta, x = torch.zeros(2, 2), task.spec.design.sample(2, 5, generator)
    >>> context = Context(x, task.worlds(theta, generator).answer(x, generator))
    >>> values, density = exact_grid_posterior(task, context)["slope"]
    >>> values.shape, density.shape
    (torch.Size([101]), torch.Size([2, 101]))
    """
    parameters = task.spec.parameters
    where = list(_figure_points(parameters, points))
    z = torch.stack([z for _, z in where], 1)
    log_density = exact_log_densities(task, context, z.expand(len(context.designs), -1, -1), nodes)
    return {
        name: (values, (log_density[..., i] - log_volume(parameters.scales[i], at)).exp())
        for i, (name, (values, at)) in enumerate(zip(parameters.names, where, strict=True))
    }


def exact_log_densities(
    task: Task, context: Context, z: Tensor, nodes: Sequence[int] | None = None
) -> Tensor:
    """Of each parameter for itself at values z [batch, point, parameter] after all observations.

    Values and densities are on the network's scale.
    """
    _check(task, context, [context.length])
    if nodes is None:
        nodes = converged_nodes(task, context)
    rows = []
    for (where,), values in zip(_locate(task, context, [context.length]), z, strict=True):
        axes = axes_of(task.spec.parameters, nodes, where.windows)
        evidence = _log_integral(task, axes, where)
        each = [
            _log_integral(task, _cut(axes, i, values[:, i]), where, keep=i)[0] - evidence[0]
            for i in range(len(axes))
        ]
        rows.append(torch.stack(each, 1))
    return torch.stack(rows) - 0.5 * z**2 - LOG_SQRT_2PI


def _figure_points(parameters: Parameters, count: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Evenly spaced values of each parameter in the user's units, and on the network's scale."""
    ends = torch.special.ndtri(torch.tensor([5e-4, 1 - 5e-4]))
    for scale in parameters.scales:
        low, high = scale.to_user(ends).tolist()
        values = torch.linspace(low, high, count)
        yield values, scale.to_network(values)


def converged_nodes(
    task: Task,
    context: Context,
    theta: Tensor | None = None,
    tolerance: float = TOLERANCE,
    probes: int = 32,
) -> tuple[int, ...]:
    """Nodes a parameter with which doubling any of them changes log densities by less.

    The change is the largest over the first `probes` episodes, after a quarter, a half and all of
    their observations. Without `theta`, densities are compared in the middle of the posterior.

    >>> from aline.tasks import get
    >>> task, generator = get("linear"), torch.Generator().manual_seed(0)
    >>> x = task.spec.design.sample(2, 5, generator)
    >>> context = Context(x, task.worlds(torch.zeros(2, 2), generator).answer(x, generator))
    >>> len(converged_nodes(task, context))
    2
    """
    probe = Context(context.designs[:probes], context.outcomes[:probes])
    lengths = sorted({probe.length // 4, probe.length // 2, probe.length})
    _check(task, probe, lengths)
    located = list(_locate(task, probe, lengths))
    truth = [_middle(task, places[-1]) for places in located] if theta is None else theta

    def densities(nodes: Sequence[int]) -> Tensor:
        pairs = [(w, t) for places, t in zip(located, truth, strict=False) for w in places]
        return torch.cat([_at_truth(task, where, nodes, value) for where, value in pairs])

    nodes = (_FIRST_NODES,) * len(task.spec.parameters)
    now, settled, i = densities(nodes), 0, 0
    while settled < len(nodes):  # an axis is asked again when another one has changed since
        doubled = _double(nodes, i)
        if math.prod(doubled) > _MOST_POINTS:
            break
        finer = densities(doubled)
        if float((finer - now).abs().max()) < tolerance:
            settled, i = settled + 1, (i + 1) % len(nodes)
        else:
            nodes, now, settled = doubled, finer, 0
    else:
        return nodes
    raise NotConvergedError(
        f"the exact posterior of {task.spec.name} does not converge with {nodes} nodes: "
        "its likelihood is too narrow for a grid"
    )


def _middle(task: Task, where: Located) -> Tensor:
    """A value of each parameter that its posterior allows, [parameter]."""
    windows = where.windows
    return torch.cat([a.z for a in axes_of(task.spec.parameters, [1] * len(windows), windows)])


def _coarse(task: Task) -> list[Axis]:
    """A grid over the whole prior that shows where the posterior is."""
    parameters = task.spec.parameters
    count = min(_MOST_COARSE, round(_COARSE_POINTS ** (1 / len(parameters))))
    everywhere: list[Window] = [(-1.0, 1.0)] * len(parameters)
    return axes_of(parameters, [count] * len(parameters), everywhere)


def _locate(task: Task, context: Context, lengths: Sequence[int]) -> Iterator[list[Located]]:
    """Where the posterior of each episode is after each length."""
    coarse = _coarse(task)
    block = _block(task.spec.parameters, coarse)
    for episode in range(len(context.outcomes)):
        data = Data.of(task, context, episode)
        totals = _log_likelihoods(task, block, data, lengths)
        yield _joined(
            Located(data, [length], _windows(block, total, coarse))
            for length, total in zip(lengths, totals, strict=True)
        )


def _joined(places: Iterable[Located]) -> list[Located]:
    """With neighbours together where one grid for both is cheaper than one for each."""
    joined: list[Located] = []
    for place in places:
        if joined and joined[-1].join(place).volume <= _SHARED * place.volume:
            joined[-1] = joined[-1].join(place)
        else:
            joined.append(place)
    return joined


def _windows(block: Block, total: Tensor, coarse: list[Axis]) -> list[Window]:
    mass = (total + block.log_weight).flatten().softmax(0).view(*total.shape, 1)
    return [
        window_around(mass.movedim(block.order.index(i), 0).flatten(1).sum(1), axis)
        for i, axis in enumerate(coarse)
    ]


def _double(nodes: tuple[int, ...], i: int) -> tuple[int, ...]:
    return (*nodes[:i], 2 * nodes[i], *nodes[i + 1 :])


def _cut(axes: list[Axis], i: int, z: Tensor) -> list[Axis]:
    """The grid with given values of parameter `i` in place of its nodes: no integral over it."""
    return [*axes[:i], Axis(z, torch.zeros_like(z), z), *axes[i + 1 :]]


def _blocks(parameters: Parameters, axes: list[Axis], keep: int | None = None) -> list[Block]:
    """The grid in parts, split along its longest axis but the one to keep."""
    free = [i for i in range(len(axes)) if i != keep]
    if not free:
        return [_block(parameters, axes)]
    split = max(free, key=lambda i: len(axes[i]))
    width = max(1, _AT_ONCE * len(axes[split]) // math.prod(map(len, axes)))
    parts = [axes[split].part(i, i + width) for i in range(0, len(axes[split]), width)]
    return [_block(parameters, [*axes[:split], part, *axes[split + 1 :]]) for part in parts]


def _block(parameters: Parameters, axes: list[Axis]) -> Block:
    # The longest axis comes last: torch's inner loop runs over it, and short ones are slow.
    order = tuple(sorted(range(len(axes)), key=lambda i: len(axes[i])))
    log_weight = torch.zeros(())
    for i, axis in enumerate(axes):
        log_weight = log_weight + axis.log_weight.view(_along(i, order))
    return Block(_lattice(parameters, axes, order), log_weight, order)


def _along(parameter: int, order: tuple[int, ...]) -> list[int]:
    return [-1 if i == parameter else 1 for i in order]


def _lattice(parameters: Parameters, axes: list[Axis], order: tuple[int, ...]) -> Named:
    """Each parameter in the user's units along its own axes, of size 1 along the others.

    What the likelihood computes from a few parameters it then computes on their small grid only.
    """
    theta = {}
    for name in parameters.priors:
        own = parameters.index(name)
        z = torch.zeros(*[len(axes[i]) if i in own else 1 for i in order], len(axes))
        for i in own:
            z[..., i] = axes[i].z.view(_along(i, order))
        theta[name] = parameters.to_user(z)[name][None]
    return theta


def _log_integral(task: Task, axes: list[Axis], where: Located, keep: int | None = None) -> Tensor:
    """Log of the likelihood integrated over the grid after each length, [length, node].

    One column for each node of the axis to keep, or a single one.
    """
    parts = []
    for block in _blocks(task.spec.parameters, axes, keep):
        summed = [axis for axis, parameter in enumerate(block.order) if parameter != keep]
        rows = []
        for total in _log_likelihoods(task, block, where.data, where.lengths):
            weighted = total + block.log_weight
            rows.append(weighted.logsumexp(summed).view(-1) if summed else weighted)
        parts.append(torch.stack(rows))
    return torch.stack(parts).logsumexp(0)


def _log_likelihoods(
    task: Task, block: Block, data: Data, lengths: Sequence[int]
) -> Iterator[Tensor]:
    """The log likelihood [*grid] of the first observations, as many as each of `lengths`."""
    assert task.log_likelihood is not None
    total = torch.zeros(block.log_weight.shape)
    width = max(1, _AT_ONCE // total.numel())
    done = 0
    for length in lengths:
        for start in range(done, length, width):
            part = data.part(start, min(start + width, length))
            outcome = task.spec.outcome.to_user(part.outcome)
            values = torch.as_tensor(task.log_likelihood(block.theta, part.design, outcome))
            total = total + (values[0] if len(values) == 1 else values.sum(0))
        done = length
        yield total


def _check(task: Task, context: Context, lengths: Sequence[int]) -> None:
    if not can_be_exact(task):
        raise InputError(
            f"an exact posterior needs a log_likelihood and 1 to {MOST_PARAMETERS} parameters, got "
            f"task {task.spec.name} with {'a' if task.log_likelihood else 'no'} log_likelihood and "
            f"{len(task.spec.parameters)} parameters"
        )
    if context.mask is not None:
        raise InputError("an exact posterior reads whole contexts: pass one without padding")
    if list(lengths) != sorted(lengths) or not 0 <= min(lengths) <= max(lengths) <= context.length:
        raise InputError(f"lengths must rise from 0 to at most {context.length}, got {lengths!r}")
    _check_broadcasting(task, context)


def _check_broadcasting(task: Task, context: Context) -> None:
    """The grid relies on an elementwise likelihood; one that is not would be silently wrong."""
    parameters = task.spec.parameters
    z = torch.tensor([-0.5, 0.5])
    block = _block(parameters, [Axis(z, z, z)] * len(parameters))
    points = torch.cartesian_prod(*[z] * len(parameters)).view(-1, len(parameters))
    one = Context(context.designs[:1], context.outcomes[:1])
    plain = task.log_prob(points, one.designs, one.outcomes).sum(1)
    lengths = [context.length]
    try:
        (on_grid,) = _log_likelihoods(task, block, Data.of(task, one, 0), lengths)
    except (RuntimeError, IndexError) as error:
        raise InputError(f"log_likelihood must broadcast over any leading axes: {error}") from None
    if not torch.allclose(on_grid.flatten(), plain, rtol=1e-4, atol=1e-3):
        raise InputError(
            "log_likelihood must be elementwise: it gave other values for the same parameters "
            "and designs in arrays of another shape"
        )
