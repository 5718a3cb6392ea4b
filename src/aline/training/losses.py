"""What is minimised: q's negative log likelihood, and the policy's loss under each credit.

Everything here works on episodes that were played without gradients.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from aline.episodes import Context, Goal
from aline.model import Encoded, Network, Summary
from aline.model.advice import Advice
from aline.model.emulator import LEAST, Emulator
from aline.model.evidence import Searched
from aline.model.guesses import Guesses
from aline.model.joint import random_orders
from aline.tasks import World
from aline.training.notes import Notes
from aline.training.possible_truths import PossibleTruths

if TYPE_CHECKING:
    from aline.training.config import TrainingConfig


# A box policy that leans on a bound has no gradient left to come back with; this pulls it gently.
STRAIN = 1e-3
DRAWS = 12  # of possible truths, a prefix
EMULATED = 1  # of them, a stage, whose likelihood an emulator learns
WEIGHT, SMALL = 3.0, 0.1  # of errors in a log likelihood, and up to where they count by square


@dataclass(frozen=True)
class Played:
    """A batch of finished episodes with what is needed to learn from them."""

    world: World
    goal: Goal
    context: Context
    goal_outcomes: Tensor  # [batch, target, *event], true outcomes at the goal's points
    advice: Advice  # what a plug-in says of the whole context
    possible_truths: PossibleTruths | None = None
    encoded: Encoded | None = None  # the context, by the network as it is in this update
    notes: Notes | None = None  # from playing, as long as the network is the one that played
    # Where searches for the posterior ended in play, after each number of observations.
    searched: Searched | None = None

    @property
    def batch(self) -> int:
        """How many episodes."""
        return len(self.goal.parameters)

    @property
    def length(self) -> int:
        """Observations an episode."""
        return self.context.length

    def encode(self, network: Network) -> Encoded:
        """The whole context, for one group."""
        return self.encoded or network.encode(self.context, self.advice)

    def read(self, network: Network, visible: Tensor, extra: Context | None = None) -> Encoded:
        """The context for groups that see some of it; with `extra`, of each its own."""
        return network.regroup(self.encode(network), visible, extra)

    def after(self, network: Network, lengths: Tensor) -> Encoded:
        """The context after `lengths` [batch, group] observations; play has searched it already."""
        encoded = self.read(network, up_to(lengths, self.length))
        if self.searched is None:
            return encoded
        rows = torch.arange(self.batch)[:, None]
        return replace(encoded, searched=self.searched.at(rows, lengths))


def up_to(lengths: Tensor, total: int) -> Tensor:
    """Which observations each prefix sees: lengths [batch, group] -> bool [batch, group, total]."""
    return torch.arange(total) < lengths[..., None]


def stratified(batch: int, count: int, total: int, generator: torch.Generator) -> Tensor:
    """Whole numbers [batch, count] in [0, total), one from each of `count` equal strata."""
    position = torch.arange(count) + torch.rand(batch, count, generator=generator)
    return (position * total / count).long().clamp(0, total - 1)


def inference_loss(
    network: Network,
    played: Played,
    config: TrainingConfig,
    count: int,
    generator: torch.Generator,
) -> Tensor:
    """Eq. 13 on sampled prefixes, for every parameter and `count` predictions anywhere.

    All parameters are learned whatever the goal: the goal steers the policy, never the posterior.
    """
    lengths = stratified(played.batch, config.prefixes, played.length + 1, generator)
    encoded = played.after(network, lengths)
    truths = draw_truths(played, lengths, generator)
    loss = torch.zeros(())
    if count:
        shape = (played.batch, config.prefixes, count)
        points = played.world.sample(config.prefixes * count, generator)
        outcomes = played.world.answer(points, generator)
        outcomes = outcomes.view(*shape, *outcomes.shape[2:])
        guesses, predictive = network.beliefs(encoded, points.view(*shape, -1))
        loss = loss - predictive.log_prob(outcomes).mean()
    else:
        guesses = network.guesses(encoded)
    if len(network.spec.parameters):
        for guess in guesses:
            loss = loss - guess.marginals.unsqueeze(2).log_prob(truths).mean()
            if network.config.guesses > 1:
                loss = loss - guess.log_prob(truths).mean() / truths.shape[-1]
    if network.conditional is not None:
        loss = loss - _given_others(network, encoded, guesses[-1], truths, generator)
    return loss


def emulator_loss(emulator: Emulator, played: Played, generator: torch.Generator) -> Tensor:
    """Negative log likelihood of what was seen; where the likelihood is known, the error in it.

    The errors are those at truths that could have given the data: it is there that steps are taken.
    """
    context, theta = played.context, played.world.theta
    loss = -emulator.log_prob(theta, context).mean()
    possible = played.possible_truths
    if possible is None:
        return loss
    index = torch.randint(possible.theta.shape[2], (EMULATED,), generator=generator)
    stages = torch.randint(possible.theta.shape[1], (2,), generator=generator)
    others = possible.theta[:, stages][:, :, index]
    exact = possible.log_likelihood[:, stages][:, :, index]
    seen = Context(context.designs[:, None, None], context.outcomes[:, None, None])
    found = emulator.log_prob(others, seen)
    return loss + WEIGHT * F.smooth_l1_loss(found, exact.clamp_min(LEAST), beta=SMALL)


def _given_others(
    network: Network,
    encoded: Encoded,
    guesses: Guesses,
    truths: Tensor,
    generator: torch.Generator,
) -> Tensor:
    """Mean log q of parameters given those before them in a random order.

    The marginals, in whose units conditionals are told, learn nothing from this.
    """
    theta = truths[:, :, :1].expand(-1, encoded.shape[1], -1, -1)
    order = random_orders(tuple(theta.shape[:3]), theta.shape[-1], generator)
    joint = network.joint(encoded, guesses.detached())
    return joint.terms(theta, order)[..., 1:].mean()


def draw_truths(played: Played, lengths: Tensor, generator: torch.Generator) -> Tensor:
    """The truth [batch, prefix or 1, n, parameter], or what could have been it for all we know."""
    if played.possible_truths is None:
        return played.world.theta[:, None, None]
    return played.possible_truths.draw(lengths, DRAWS, generator)


def target_log_prob(network: Network, encoded: Encoded, played: Played) -> Tensor:
    """Log q of each episode's targets over their number, [batch, group] (Eq. 11).

    Of parameters it is the joint density, where q knows it; predictions count each for itself.
    """
    goal = played.goal
    total = torch.zeros(encoded.shape)
    index, real = goal.chosen()
    if index.shape[1]:
        truth = played.world.theta[:, None, None].expand(-1, encoded.shape[1], -1, -1)
        order = index[:, None, None].expand(*truth.shape[:3], -1)
        log_q = network.joint(encoded).terms(truth, order)[:, :, 0]
        total = total + torch.where(real[:, None], log_q, 0.0).sum(-1)
    if goal.points.shape[1]:
        outcomes = played.goal_outcomes[:, None]
        outcomes = outcomes.expand(*encoded.shape, *outcomes.shape[2:])
        log_q = network.predictive(encoded, goal.points).log_prob(outcomes)
        total = total + (log_q * goal.points_mask[:, None]).sum(-1)
    return total / goal.count[:, None]


@torch.no_grad()
def read_for_policy(network: Network, played: Played, steps: Tensor) -> tuple[Encoded, Summary]:
    """What a policy learns from: all of q's part is computed without gradients.

    `steps` [batch, group] are the numbers of observations that each group has made.
    """
    encoded = played.after(network, steps)
    if played.notes is None:
        return encoded, network.summary(encoded)
    return encoded, played.notes.after(steps, encoded)


@dataclass(frozen=True)
class Decisions:
    """States sampled from played episodes, one an episode, at which designs are compared."""

    step: Tensor  # [batch]: the design chosen after `step` observations
    known: tuple[Encoded, Summary]  # what was known then
    horizon: Tensor  # [batch]: the number of observations at which the choice is judged


def sample_decisions(
    network: Network, played: Played, config: TrainingConfig, generator: torch.Generator
) -> Decisions:
    """One state an episode."""
    step = torch.randint(played.length, (played.batch,), generator=generator)
    horizon = judged_after(step, played.length, config.look_ahead, generator)
    return Decisions(step, read_for_policy(network, played, step[:, None]), horizon)


def judged_after(step: Tensor, total: int, share: float, generator: torch.Generator) -> Tensor:
    """After how many observations a choice at `step` [batch] is judged: a `share` of them later.

    A choice judged later is compared with the episode's other observations held fixed: at a good
    policy the first-order effect of their adapting vanishes.
    """
    ahead = torch.rand(len(step), generator=generator) * (total - step)
    is_later = torch.rand(len(step), generator=generator) < share
    horizon = step + 1 + torch.where(is_later, ahead, torch.zeros(len(step))).long()
    return horizon.clamp(max=total)


def all_but_one(step: Tensor, horizon: Tensor, total: int) -> Tensor:
    """Which observations [batch, total] a choice at `step` is judged beside."""
    order = torch.arange(total)
    return (order < horizon[:, None]) & (order != step[:, None])


def judge(
    network: Network, played: Played, at: Decisions, designs: Tensor, generator: torch.Generator
) -> Tensor:
    """Log q of the truth [batch, alternative] had these designs been chosen, in one world.

    For designs [batch, alternative, design]. Where the probability of each outcome is known the
    value is the expectation over outcomes: for a yes/no answer its noise is far larger than the
    information in one trial.
    """
    batch, count = designs.shape[:2]
    outcomes, weights = played.world.branches(designs, generator)
    groups = count * weights.shape[-1]
    kept = all_but_one(at.step, at.horizon, played.length)
    visible = kept[:, None].expand(batch, groups, -1)
    repeated = designs.repeat_interleave(weights.shape[-1], 1)
    own = outcomes.reshape(batch * groups, 1, *outcomes.shape[3:])
    extra = Context(repeated.reshape(batch * groups, 1, -1), own)
    log_q = target_log_prob(network, played.read(network, visible, extra), played)
    return (log_q.view(weights.shape) * weights).sum(-1)


def paired_pool_loss(
    network: Network, played: Played, config: TrainingConfig, generator: torch.Generator
) -> Tensor:
    """Policy gradient over a small pool, with every action's credit known.

    Each alternative is answered by the same world at the same state, so what the truth and the
    state contribute to log q cancels in the comparison, and the gradient sums over all actions
    instead of sampling one.
    """
    at = sample_decisions(network, played, config, generator)
    designs = alternatives(at.known, played, config, network, generator)
    with torch.no_grad():
        value = judge(network, played, at, designs, generator)
        advantage = standardise(value - value.mean(1, keepdim=True), at.step)
    scores = network.scores(*at.known, played.goal, designs)[:, 0]
    return -(scores.softmax(1) * advantage).sum(1).mean()


def alternatives(
    known: tuple[Encoded, Summary],
    played: Played,
    config: TrainingConfig,
    network: Network,
    generator: torch.Generator,
) -> Tensor:
    """Half uniform, half from around what the policy likes, so that coarse and fine both teach."""
    space = network.spec.design
    half = config.alternatives // 2
    uniform = played.world.sample(config.candidates, generator)
    with torch.no_grad():
        scores = network.scores(*known, played.goal, uniform)[:, 0]
    rest = config.alternatives - half
    drawn = torch.multinomial(scores.softmax(1), rest, True, generator=generator)
    liked = uniform.gather(1, drawn[..., None].expand(-1, -1, len(space)))
    if space.points is None and not played.world.is_recorded:
        width = torch.pow(10.0, -0.5 - 1.5 * torch.rand(liked.shape[:2], generator=generator))
        jitter = width[..., None] * torch.randn(liked.shape, generator=generator)
        liked = space.possible(liked + jitter, liked)
    return torch.cat([uniform[:, :half], liked], 1)


def paired_box_loss(
    network: Network, played: Played, config: TrainingConfig, generator: torch.Generator
) -> Tensor:
    """Score-function gradient of a Gaussian proposal, draws compared at one state."""
    at = sample_decisions(network, played, config, generator)
    proposal = network.propose(*at.known, played.goal)
    shape = (played.batch, config.alternatives, len(network.spec.design))
    std = proposal.log_std.exp()
    draws = (proposal.mean + std * torch.randn(shape, generator=generator)).detach()
    with torch.no_grad():
        value = judge(network, played, at, draws.clamp(-1, 1), generator)
        advantage = standardise(value - value.mean(1, keepdim=True), at.step)
    z = (draws - proposal.mean) / std
    log_prob = (-0.5 * z * z - proposal.log_std).sum(-1)
    return STRAIN * proposal.strain.mean() - (advantage * log_prob).mean()


def sampled_pool_loss(
    network: Network, played: Played, config: TrainingConfig, generator: torch.Generator
) -> Tensor:
    """Eq. 12: log pi of the executed design, weighed by R_t or by the return to go.

    The gradient of log pi(a) is that of a's logit minus the logits' mean under pi; a few draws
    from pi stand for that mean, so no other candidate needs a backward pass.
    """
    total, batch = played.length, played.batch
    step = torch.randint(total, (batch,), generator=generator)
    known = read_for_policy(network, played, step[:, None])
    with torch.no_grad():
        end = step + 1 if config.credit == "immediate" else torch.full_like(step, total)
        ends = torch.stack([step, end], 1)
        log_q = target_log_prob(network, played.read(network, up_to(ends, total)), played)
        reward = log_q[:, 1] - log_q[:, 0]
        advantage = standardise((reward - reward.mean())[:, None], step)[:, 0]
        executed = played.context.designs[torch.arange(batch), step]
        others = played.world.sample(config.candidates - 1, generator)
        pool = torch.cat([executed[:, None], others], 1)
        weights = network.scores(*known, played.goal, pool)[:, 0].softmax(1)
        drawn = torch.multinomial(weights, config.alternatives, True, generator=generator)
    compared = torch.cat([torch.zeros(batch, 1, dtype=torch.long), drawn], 1)
    rows = pool.gather(1, compared[..., None].expand(-1, -1, pool.shape[-1]))
    scores = network.scores(*known, played.goal, rows)[:, 0]
    return -(advantage * (scores[:, 0] - scores[:, 1:].mean(1))).mean()


def pathwise_loss(
    network: Network, played: Played, config: TrainingConfig, generator: torch.Generator
) -> Tensor:
    """Differentiate log q of the truth through outcomes and designs, for several steps at once.

    The policy proposes at some recorded states; the world answers these proposals; q judges the
    episode with them in the place of what was done, its weights frozen. Later designs do not react
    to earlier ones here: unrolling that is unstable, and its first-order effect vanishes at a good
    policy.
    """
    total = played.length
    steps = stratified(played.batch, min(config.decisions, total), total, generator)
    proposal = network.propose(*read_for_policy(network, played, steps), played.goal)
    proposals = proposal.draw(generator)
    with frozen(network):
        outcomes = played.world.answer(proposals, generator)
        lengths = stratified(played.batch, config.prefixes, total, generator) + 1
        lengths[:, -1] = total
        again = network.replaced(played.encode(network), steps, Context(proposals, outcomes))
        encoded = network.regroup(again, up_to(lengths, total))
        log_q = target_log_prob(network, encoded, played)
    value = (0.5 * log_q[:, -1] + 0.5 * log_q.mean(1)).mean()
    return STRAIN * proposal.strain.mean() - value


def imitation_loss(
    network: Network, played: Played, informed: Tensor, generator: torch.Generator
) -> Tensor:
    """Start the policy at designs that are informative for the truth [batch, step, design].

    Knowing the data but not the truth, the best imitation is to aim where the posterior says the
    informative designs are, which is a fair policy already.
    """
    total = played.length
    steps = torch.arange(total).expand(played.batch, total)
    known = read_for_policy(network, played, steps)
    if network.config.policy == "box":
        proposal = network.propose(*known, played.goal)
        z = (informed - proposal.mean) / proposal.log_std.exp()
        # A Cauchy's likelihood: what is informative is mostly near, and sometimes far off.
        return ((1 + z * z).log() + proposal.log_std).mean() + STRAIN * proposal.strain.mean()
    others = network.spec.design.sample(played.batch, total * 7, generator)
    others = others.view(played.batch, total, 7, -1)
    pool = torch.cat([informed[:, :, None], others], 2)
    return -network.scores(*known, played.goal, pool).log_softmax(-1)[..., 0].mean()


class frozen:  # noqa: N801  # reads as a statement: with frozen(network)
    """Within, the inference half's weights take no gradient, but pass it to their inputs."""

    def __init__(self, network: Network):
        policy = {id(p) for p in network.learned_policy.parameters()}
        learning = [p for p in network.parameters() if p.requires_grad]
        self.parameters = [p for p in learning if id(p) not in policy]

    def __enter__(self) -> None:
        for parameter in self.parameters:
            parameter.requires_grad_(False)

    def __exit__(self, *_: object) -> None:
        for parameter in self.parameters:
            parameter.requires_grad_(True)


def standardise(advantage: Tensor, step: Tensor) -> Tensor:
    """Unit spread [batch, n] at every step [batch], estimated with that of the steps around it.

    The last trials of an experiment gain a tenth of what the first ones do: in nats they would
    hardly count.
    """
    return advantage / spread_near(advantage, step)[:, None]


def spread_near(advantage: Tensor, step: Tensor) -> Tensor:
    """Root mean square [batch] of advantages [batch, n] at steps [batch] and those around them."""
    near = torch.exp(-0.125 * (step[:, None] - step).square())
    square = advantage.square().mean(1)
    return ((near @ square) / near.sum(1)).sqrt().clamp_min(1e-6)
