"""A teacher for yes/no tasks: the exact expected information of every stimulus.

Where the outcome is yes or no, its likelihood known and the parameters few, the posterior after any
observations is a product of rows of a table, and what each stimulus is expected to tell about the
goal follows from it (tasks/lattice.py).
"""

from __future__ import annotations

import torch
from torch import Tensor

from aline.episodes import Context
from aline.errors import InputError
from aline.tasks import PREDICTIONS, Task
from aline.tasks.lattice import Arranged, Lattice, evenly_spaced, log_table, same_goals
from aline.training.losses import Played, stratified
from aline.training.teacher import ALTERNATIVES, ComparedDesigns, Teacher

STIMULI = 400  # of the table, on one design axis
MOST_STIMULI = 2000  # of a pool
POINTS = 16_000  # of the lattice, at most
MOST_NODES = 512  # of them along one parameter
FEWEST = {1: 128, 2: 16, 3: 8, 4: 5}  # nodes a parameter, by the number of parameters
_LEAST_LOG = -30.0  # in place of minus infinity, which no observation could be counted with
_PROBES = 16  # stimuli at which the curvature of P(yes) is measured
_AT_ONCE = 256  # states whose posteriors are held at a time


class LatticeTeacher(Teacher):
    """Knows what every stimulus is expected to tell, whatever was observed before."""

    def __init__(self, task: Task):
        self.lattice = Lattice.of_prior(choose_nodes(task))
        self.stimuli = evenly_spaced(task.spec.design, STIMULI)  # [stimulus, design]
        self.is_pool = task.spec.design.points is not None
        tables = [log_table(task, self.lattice, self.stimuli, y) for y in (1.0, -1.0)]
        self.log_table = torch.cat(tables).clamp_min(_LEAST_LOG)  # [2 * stimulus, point]

    def lesson(
        self, played: Played, visible: Tensor, generator: torch.Generator
    ) -> ComparedDesigns:
        """For stimuli from all over the table."""
        count = len(self.stimuli)
        compared = stratified(1, min(ALTERNATIVES, count), count, generator)[0]
        goals = played.goal.parameters[:, None].expand(-1, visible.shape[1], -1)
        gain = self.information(played.context, visible, goals, compared)
        return ComparedDesigns(self.stimuli[compared].expand(len(gain), -1, -1), gain)

    def information(
        self, context: Context, visible: Tensor, goals: Tensor, compared: Tensor
    ) -> Tensor:
        """Nats about the goals [batch, group, parameter] expected of some of the stimuli.

        `visible` [batch, group, context] says which observations each state has; `compared` [n] are
        indices. The result is [batch, group, n].
        """
        counts = (visible.float() @ self.placed(context)).flatten(0, 1)
        yes = self.log_table[compared].exp()
        gain = torch.empty(len(counts), len(compared))
        for goal, rows in same_goals(goals.flatten(0, 1)):
            table = Arranged.of(yes, self.lattice.shape, goal)
            for part in rows.split(_AT_ONCE):
                gain[part] = table.information(self.posterior(counts[part]))
        return gain.clamp_min(0).view(*visible.shape[:2], -1)

    def posterior(self, counts: Tensor) -> Tensor:
        """Weights [state, point] after so many answers of each kind, [state, 2 * stimulus]."""
        return (counts @ self.log_table + self.lattice.weight.log()).softmax(1)

    def placed(self, context: Context) -> Tensor:
        """Each observation as a row [batch, context, 2 * stimulus] of counts by answer.

        On an axis it is shared by the two stimuli around it; of a pool it is one.
        """
        count = len(self.stimuli)
        if self.is_pool:
            below = torch.cdist(context.designs, self.stimuli).argmin(-1)
            share = torch.zeros(below.shape)
        else:
            position = (context.designs[..., 0] + 1) / 2 * (count - 1)
            below = position.long().clamp(0, count - 2)
            share = position - below
        answer = torch.where(context.outcomes > 0, 0, count)
        rows = torch.zeros(*below.shape, 2 * count)
        rows.scatter_(-1, (answer + below)[..., None], (1 - share)[..., None])
        above = (below + 1).clamp(max=count - 1)
        return rows.scatter_add_(-1, (answer + above)[..., None], share[..., None])


def requirement(task: Task) -> str | None:
    """What a task lacks for its policy to be taught, in words."""
    spec = task.spec
    if task.log_likelihood is None or not spec.outcome.is_yes_or_no:
        return "a binary outcome and a log_likelihood"
    if task.latent is not None:
        return "a likelihood of the parameters alone, without latent"
    if len(spec.parameters) not in FEWEST or spec.parameters.cells is not None:
        return f"1 to {max(FEWEST)} parameters, none of them discrete"
    if any(PREDICTIONS in names for names, _ in spec.targets):
        return "goals of parameters only"
    size = 1 if spec.design.points is None else len(spec.design.points)
    if size > MOST_STIMULI or (spec.design.points is None and len(spec.design) > 1):
        return f"one design axis or a pool of at most {MOST_STIMULI} designs"
    return None


def choose_nodes(task: Task) -> list[int]:
    """How many nodes a lattice has along each parameter.

    The error of a grid grows with the curvature of P(yes) times the square of the step: more nodes
    where it bends (the threshold of a steep function), the fewest where it is straight (rates).
    """
    bend = curvature(task).sqrt()
    fewest, nodes = FEWEST[len(bend)], torch.zeros(0)
    for scale in torch.logspace(-3, 4, 500):
        finer = (scale * bend / bend.max().clamp_min(1e-6)).round().clamp(fewest, MOST_NODES)
        if finer.prod() > POINTS:
            break
        nodes = finer
    return [int(n) for n in nodes]


def curvature(task: Task, draws: int = 512, step: float = 0.02) -> Tensor:
    """Root mean square of the second derivative of P(yes) in each parameter's prior quantile."""
    spec, generator = task.spec, torch.Generator()
    designs = spec.design.sample(draws, _PROBES, generator)
    middle = step + (1 - 2 * step) * torch.rand(draws, len(spec.parameters), generator=generator)

    def yes(u: Tensor) -> Tensor:
        return task.log_prob(torch.special.ndtri(u), designs, torch.ones(1, _PROBES)).exp()

    moves = step * torch.eye(len(spec.parameters))
    sums = torch.stack([yes(middle + move) + yes(middle - move) for move in moves])
    second = (sums - 2 * yes(middle)) / step**2  # [parameter, draw, probe]
    if not bool(second.isfinite().all()):
        raise InputError("log_likelihood returned NaN or infinite probabilities: check its domain")
    return second.square().mean((1, 2)).sqrt()
