"""The exact posterior by quadrature: the truth that q is measured against.

For tasks with a likelihood and at most four parameters. On the scale u = F(theta) of its prior
quantile every parameter is uniform on (0, 1), so the posterior is the likelihood, normalised. A
tensor grid of Gauss-Legendre nodes integrates it: few nodes serve a parameter in which the
likelihood is smooth (the guess and lapse rates of a psychometric function enter it as
polynomials), many serve one in which it has edges (the threshold of a steep one). Where the
density at a given value is wanted, that value takes the place of the parameter's nodes, so
nothing is interpolated.

The nodes are placed in u where the prior is bounded, and in z = Phi^-1(u) where it has a tail: a
posterior out there is too narrow in u for any grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from aline.episodes import Context
from aline.errors import InputError
from aline.spaces import Parameters
from aline.spaces.priors import log_volume
from aline.tasks import Task
from aline.tasks.task import Named

MOST_PARAMETERS = 4
TOLERANCE = 1e-3  # nats: fifty times finer than what q is asked for
_FIRST_NODES = 8
_MOST_POINTS = 2**24
_AT_ONCE = 2**17  # likelihood values a call: what stays in the cache
_TAIL = 6.0  # as far as a prior without bounds is followed, in standard deviations
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)

Progress = Callable[[int, int], None]
"""Told how many of how many episodes are done."""


@dataclass(frozen=True)
class Axis:
    """Where the grid cuts one parameter."""

    z: Tensor  # [node] on the network's scale
    log_weight: Tensor  # [node], the share of the prior's mass that each node stands for

    def __len__(self) -> int:
        return len(self.z)

    def part(self, start: int, stop: int) -> Axis:
        """Some of its nodes."""
        return Axis(self.z[start:stop], self.log_weight[start:stop])


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
    outcome: Tensor  # user's units, [observation, 1, ..., 1]

    @classmethod
    def of(cls, task: Task, context: Context, episode: int) -> Data:
        """Episode number `episode` of a batch."""
        tail = [1] * len(task.spec.parameters)
        columns = task.spec.design.name_columns(context.designs[episode])
        outcome = task.spec.outcome.to_user(context.outcomes[episode])
        return cls({n: c.view(-1, *tail) for n, c in columns.items()}, outcome.view(-1, *tail))

    def part(self, start: int, stop: int) -> Data:
        """Some of its observations."""
        return Data({n: c[start:stop] for n, c in self.design.items()}, self.outcome[start:stop])


def can_be_exact(task: Task) -> bool:
    """Whether the exact posterior is within reach."""
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
    """
    _check(task, context, lengths)
    if nodes is None:
        nodes = converged_nodes(task, context, theta)
    axes = _axes(task.spec.parameters, nodes)
    blocks = _blocks(task.spec.parameters, axes)
    rows = []
    for episode, truth in enumerate(theta):
        data = Data.of(task, context, episode)
        evidence = _log_integral(task, blocks, data, lengths)
        at_truth = [
            _log_integral(task, _blocks(task.spec.parameters, cut, keep=i), data, lengths, keep=i)
            for i, cut in enumerate(_cuts(axes, truth))
        ]
        rows.append(torch.cat(at_truth, 1) - evidence)
        if progress is not None:
            progress(episode + 1, len(theta))
    # A density in u is one in z times du/dz, the standard normal's density.
    return torch.stack(rows) - 0.5 * theta[:, None] ** 2 - _LOG_SQRT_2PI


def exact_grid_posterior(
    task: Task, context: Context, points: int = 101, nodes: Sequence[int] | None = None
) -> dict[str, tuple[Tensor, Tensor]]:
    """Marginal densities for figures: coordinate -> values [points] and density [batch, points].

    In the user's units, at evenly spaced values that hold 99.9 % of the prior. The coordinates of
    a simplex are its sticks.
    """
    length = [context.length]
    _check(task, context, length)
    parameters = task.spec.parameters
    if nodes is None:
        nodes = converged_nodes(task, context)
    axes = _axes(parameters, nodes)
    whole = _blocks(parameters, axes)
    episodes = [Data.of(task, context, episode) for episode in range(len(context.outcomes))]
    evidence = torch.cat([_log_integral(task, whole, data, length) for data in episodes])
    marginals = {}
    for i, (name, scale) in enumerate(zip(parameters.names, parameters.scales, strict=True)):
        low, high = scale.to_user(torch.special.ndtri(torch.tensor([5e-4, 1 - 5e-4]))).tolist()
        values = torch.linspace(low, high, points)
        z = scale.to_network(values)
        blocks = _blocks(parameters, [*axes[:i], _at(z), *axes[i + 1 :]], keep=i)
        rows = [_log_integral(task, blocks, data, length, keep=i)[0] for data in episodes]
        log_normal = -0.5 * z**2 - _LOG_SQRT_2PI
        log_density = torch.stack(rows) - evidence + log_normal - log_volume(scale, z)
        marginals[name] = values, log_density.exp()
    return marginals


def converged_nodes(
    task: Task,
    context: Context,
    theta: Tensor | None = None,
    tolerance: float = TOLERANCE,
    probes: int = 32,
) -> tuple[int, ...]:
    """Nodes a parameter with which doubling any of them changes log densities by less.

    The change is the largest over the first `probes` episodes with all their observations.
    Without `theta`, densities are compared at the prior's median.
    """
    probe = Context(context.designs[:probes], context.outcomes[:probes])
    truth = torch.zeros(len(probe.outcomes), len(task.spec.parameters)) if theta is None else theta
    truth = truth[:probes]
    nodes = (_FIRST_NODES,) * len(task.spec.parameters)
    now = exact_log_marginals(task, probe, truth, [probe.length], nodes)
    while True:
        doubled = [_double(nodes, i) for i in range(len(nodes))]
        tried = [exact_log_marginals(task, probe, truth, [probe.length], d) for d in doubled]
        changes = [float((new - now).abs().max()) for new in tried]
        worst = max(range(len(nodes)), key=changes.__getitem__)
        if changes[worst] < tolerance:
            return nodes
        nodes, now = doubled[worst], tried[worst]
        if math.prod(nodes) > _MOST_POINTS:
            raise InputError(
                f"the exact posterior of {task.spec.name} does not converge with {nodes} nodes: "
                "its likelihood is too narrow for a grid on the prior"
            )


def _axes(parameters: Parameters, nodes: Sequence[int]) -> list[Axis]:
    if len(nodes) != len(parameters) or min(nodes) < 1:
        raise InputError(
            f"nodes must be {len(parameters)} whole numbers, one a parameter, got {nodes!r}"
        )
    return [
        quadrature(count, bounded=all(map(math.isfinite, scale.support)))
        for count, scale in zip(nodes, parameters.scales, strict=True)
    ]


def quadrature(count: int, bounded: bool) -> Axis:
    """Gauss-Legendre nodes in the prior's quantile, or in z for a prior that is not bounded."""
    x, weight = np.polynomial.legendre.leggauss(count)
    nodes, log_weight = torch.tensor(x), torch.tensor(weight).log()
    if bounded:
        z = torch.special.ndtri((nodes + 1) / 2)
    else:
        z = _TAIL * nodes
        log_weight = log_weight - 0.5 * z * z
    return Axis(z.float(), log_weight.log_softmax(0).float())


def _double(nodes: tuple[int, ...], i: int) -> tuple[int, ...]:
    return (*nodes[:i], 2 * nodes[i], *nodes[i + 1 :])


def _at(z: Tensor) -> Axis:
    """Given values in place of nodes: the density there, not an integral."""
    return Axis(z, torch.zeros_like(z))


def _cuts(axes: list[Axis], truth: Tensor) -> Iterator[list[Axis]]:
    """The grid with each parameter in turn held at its true value."""
    for i in range(len(axes)):
        yield [*axes[:i], _at(truth[i : i + 1]), *axes[i + 1 :]]


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


def _log_integral(
    task: Task, blocks: list[Block], data: Data, lengths: Sequence[int], keep: int | None = None
) -> Tensor:
    """Log of the likelihood integrated over the grid after each length, [length, node].

    One column for each node of the axis to keep, or a single one.
    """
    parts = []
    for block in blocks:
        summed = [axis for axis, parameter in enumerate(block.order) if parameter != keep]
        rows = []
        for total in _log_likelihoods(task, block, data, lengths):
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
            values = task.log_likelihood(block.theta, part.design, part.outcome)
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
    axis = _at(torch.tensor([-0.5, 0.5]))
    block = _block(parameters, [axis] * len(parameters))
    points = torch.cartesian_prod(*[axis.z] * len(parameters)).view(-1, len(parameters))
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
