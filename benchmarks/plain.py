"""The paper's training loop for location finding, written plainly: what aline's speed is held to.

    python benchmarks/plain.py --epochs 10

One transformer reads context, targets and candidates as one sequence of tokens under a mask
(section 3.4, appendix B.2); every step of every episode keeps its gradient; an epoch is 200
episodes, one backward pass over all their steps and one step of AdamW (section 3.3). The heads
share the transformer, and rewards pass no gradient. Where the paper is silent the settings are the
authors': rewards are clipped at 0 from below and standardised across the batch at each step,
gradients are clipped at 1, and a warm-up epoch embeds no candidates.

Nothing of aline is used here, and nothing here is meant to be slow: layers and attention kernel
are torch's own, there is no dropout, and each state is read once, for its posterior, its reward
and its policy together. Algorithm 1 takes a chosen candidate out of the pool, so a sequence is as
long at the end of an episode as at its start.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

EPISODES, CANDIDATES, HORIZON = 200, 200, 30
DESIGN, PARAMETERS = 2, 2  # where to measure, and where the source is, in the unit square
WIDTH, HEADS, LAYERS, FEEDFORWARD, COMPONENTS = 32, 4, 3, 128, 10
LEARNING_RATE, WEIGHT_DECAY, CLIP = 1e-3, 0.01, 1.0
STD_FLOOR = 1e-4
BACKGROUND, SOFTENING, NOISE = 0.1, 1e-4, 0.5


def measure(theta: Tensor, designs: Tensor, generator: torch.Generator) -> Tensor:
    """Log intensities [batch] at designs [batch, 2], for sources theta [batch, 2]."""
    distance = (theta - designs).square().sum(-1)
    mean = (BACKGROUND + 1 / (SOFTENING + distance)).log()
    return mean + NOISE * torch.randn(mean.shape, generator=generator)


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    """Two linear layers with a ReLU between."""
    return nn.Sequential(nn.Linear(inputs, FEEDFORWARD), nn.ReLU(), nn.Linear(FEEDFORWARD, outputs))


def forbidden(context: int, targets: int, queries: int) -> Tensor:
    """The attention mask [token, token], True where a row must not read a column.

    All read the context; queries read the targets too; nothing reads a query.
    """
    mask = torch.ones(context + targets + queries, context + targets + queries, dtype=torch.bool)
    mask[:, :context] = False
    mask[context + targets :, context : context + targets] = False
    return mask


@dataclass(frozen=True)
class State:
    """What the network makes of the data so far."""

    mixtures: Tensor  # [batch, parameter, component, 3]: logit of the weight, mean, free spread
    log_pi: Tensor  # [batch, query]

    def log_q(self, theta: Tensor) -> Tensor:
        """Log density of the truth [batch, parameter], averaged over the parameters: [batch]."""
        logit, mean, spread = self.mixtures.unbind(-1)
        normal = torch.distributions.Normal(mean, F.softplus(spread) + STD_FLOOR)
        parts = logit.log_softmax(-1) + normal.log_prob(theta[..., None])
        return parts.logsumexp(-1).mean(1)


class Network(nn.Module):
    """A shared transformer with an inference head and an acquisition head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed_design = mlp(DESIGN, WIDTH)
        self.embed_outcome = mlp(1, WIDTH)
        self.embed_parameter = nn.Parameter(torch.randn(PARAMETERS, WIDTH))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, HEADS, FEEDFORWARD, dropout=0.0, batch_first=True)
            for _ in range(LAYERS)
        )
        self.components = nn.ModuleList(mlp(WIDTH, 3) for _ in range(COMPONENTS))
        self.acquisition = mlp(WIDTH, 1)

    def forward(self, designs: Tensor, outcomes: Tensor, candidates: Tensor) -> State:
        """Read designs [batch, context, 2], their outcomes, and candidates [batch, query, 2]."""
        context = self.embed_design(designs) + self.embed_outcome(outcomes[..., None])
        targets = self.embed_parameter.expand(len(designs), -1, -1)
        queries = self.embed_design(candidates)
        sizes = [context.shape[1], targets.shape[1], queries.shape[1]]
        tokens, mask = torch.cat([context, targets, queries], 1), forbidden(*sizes)
        for layer in self.layers:
            tokens = layer(tokens, src_mask=mask)
        _, targets, queries = tokens.split(sizes, 1)
        mixtures = torch.stack([component(targets) for component in self.components], 2)
        return State(mixtures, self.acquisition(queries).squeeze(-1).log_softmax(-1))


@dataclass(frozen=True)
class Episodes:
    """A batch of finished episodes, gradients included."""

    log_q: Tensor  # [step + 1, batch]: of the truth, from the start point to all the data
    log_pi: Tensor  # [step, batch]: of what was chosen

    def nll(self) -> Tensor:
        """Eq. 13: the truth should be likely after every step."""
        return -self.log_q[1:].mean()

    def rewards(self) -> Tensor:
        """Eq. 11 [step, batch]: what each measurement added to log q."""
        return (self.log_q[1:] - self.log_q[:-1]).detach()

    def policy_loss(self) -> Tensor:
        """Eq. 12 with a discount of 1."""
        reward = self.rewards().clamp_min(0)
        spread = reward.std(1, keepdim=True).clamp_min(1e-6)
        reward = (reward - reward.mean(1, keepdim=True)) / spread
        return -(reward * self.log_pi).sum(0).mean()


def choose(log_pi: Tensor, generator: torch.Generator) -> Tensor:
    """A draw [batch] from the policy."""
    return torch.multinomial(log_pi.detach().exp(), 1, generator=generator)[:, 0]


def take(pool: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """The points [batch, 2] of a pool at index [batch], and the pool without them."""
    kept = torch.ones(pool.shape[:2], dtype=torch.bool)
    kept[torch.arange(len(pool)), index] = False
    return pool[~kept], pool[kept].view(len(pool), -1, DESIGN)


def play(
    network: Network,
    generator: torch.Generator,
    *,
    warmup: bool = False,
    episodes: int = EPISODES,
    candidates: int = CANDIDATES,
    horizon: int = HORIZON,
) -> Episodes:
    """Algorithm 1's inner loop: `horizon` choices after one random point."""
    theta = torch.rand(episodes, PARAMETERS, generator=generator)
    pool = torch.rand(episodes, candidates, DESIGN, generator=generator)
    start = torch.rand(episodes, DESIGN, generator=generator)
    designs, outcomes = start[:, None], measure(theta, start, generator)[:, None]
    log_q, log_pi = [], []
    for _ in range(horizon):
        state = network(designs, outcomes, pool[:, :0] if warmup else pool)
        if warmup:
            index = torch.randint(pool.shape[1], (episodes,), generator=generator)
        else:
            index = choose(state.log_pi, generator)
            log_pi.append(state.log_pi[torch.arange(episodes), index])
        design, pool = take(pool, index)
        outcome = measure(theta, design, generator)
        log_q.append(state.log_q(theta))
        designs = torch.cat([designs, design[:, None]], 1)
        outcomes = torch.cat([outcomes, outcome[:, None]], 1)
    log_q.append(network(designs, outcomes, pool[:, :0]).log_q(theta))
    return Episodes(torch.stack(log_q), torch.zeros(0) if warmup else torch.stack(log_pi))


def learn(network: Network, optimiser: torch.optim.Optimizer, played: Episodes) -> None:
    """One backward pass over whole episodes and one step."""
    loss = played.nll()
    if len(played.log_pi):
        loss = loss + played.policy_loss()
    optimiser.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(network.parameters(), CLIP)
    optimiser.step()


def new_network(seed: int) -> tuple[Network, torch.optim.AdamW]:
    """An untrained network and its optimiser."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = Network()
    return network, torch.optim.AdamW(
        network.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY
    )


def main() -> None:
    """Train, a line an epoch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--warmup", type=float, default=0.1, help="share of the epochs")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    network, optimiser = new_network(arguments.seed)
    generator = torch.Generator().manual_seed(arguments.seed)
    for epoch in range(arguments.epochs):
        begun, progress = time.perf_counter(), epoch / arguments.epochs
        rate = LEARNING_RATE * 0.5 * (1 + math.cos(math.pi * progress))
        optimiser.param_groups[0]["lr"] = rate
        played = play(network, generator, warmup=progress < arguments.warmup)
        learn(network, optimiser, played)
        seconds, reward = time.perf_counter() - begun, played.rewards().sum(0).mean()
        print(f"epoch {epoch}  nll {played.nll():.3f}  reward {reward:.3f}  {seconds:.1f} s")


if __name__ == "__main__":
    main()
