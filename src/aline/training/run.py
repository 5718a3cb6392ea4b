"""A training under way: its rounds, its checkpoint, and the model that it ends with."""

from __future__ import annotations

import json
import math
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from aline.engine import BatchEngine
from aline.episodes import Context, FixedPool, Goal, RandomPolicy, draw_goals, offers_of, play
from aline.episodes.play import Offers, anywhere
from aline.errors import CheckpointError, InputError, InternalError
from aline.files import read_tensors, write_tensors
from aline.model import Model, Network
from aline.model.emulator import Emulator
from aline.policies import LearnedPolicy
from aline.tasks import PREDICTIONS, Spec, Task, World
from aline.training.budget import Budget
from aline.training.config import TrainingConfig
from aline.training.interruption import Interruption
from aline.training.lessons import Lessons
from aline.training.losses import Played, target_log_prob
from aline.training.metrics import Metrics
from aline.training.notes import Notes, Noting
from aline.training.objective import Losses, PolicyLoss, check_finite
from aline.training.possible_truths import PossibleTruths, has_parameter_likelihood, stage_starts
from aline.training.priors import draw_priors, draw_truths, without_known
from aline.training.workers import Workers

CHECKPOINT = "checkpoint.safetensors"
EMULATOR_PACE = 10.0  # its learning rate over the others'
TAUGHT_FROM = 0.3  # of the warm-up, from when on the policy is taught
REFINED = {True: 0, False: 1}  # by whether a round explores: how often points are tried again
JUDGED = 4  # rounds of which one is asked for J, a pass of its own: a line of metrics averages many


def seeded(seed: int, round_: int, rank: int = 0) -> torch.Generator:
    """The randomness of one round: a resumed run draws what an uninterrupted one would."""
    mixed = seed * 1_000_003 + rank * 1_000_000_007 + round_ + 1
    return torch.Generator().manual_seed(mixed % 2**63)


def weights_of(name: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The part of a checkpoint of that name."""
    part = f"{name}."
    return {name[len(part) :]: v for name, v in tensors.items() if name.startswith(part)}


@dataclass
class Run:
    """A training under way."""

    task: Task
    config: TrainingConfig
    budget: Budget
    seed: int
    network: Network
    policy_loss: PolicyLoss | None
    folder: Path | None
    checkpoint_seconds: float = 60.0
    workers: Workers = field(default_factory=Workers)
    round: int = 0
    judged: int = -JUDGED  # the last round that was asked for J
    elapsed: float = 0.0
    before: Mapping[str, Any] | None = None  # the training of the weights that this one began with
    metrics: Metrics = field(init=False)
    optimiser: torch.optim.AdamW = field(init=False)
    losses: nn.Module = field(init=False)
    lessons: Lessons | None = field(init=False)  # what the policy was taught lately
    emulator: Emulator | None = field(init=False)  # the one that learns

    def __post_init__(self) -> None:
        losses = Losses(self.network, self.policy_loss, self.config)
        self.lessons, self.emulator = losses.lessons, losses.emulator
        self.optimiser = torch.optim.AdamW(self.parameter_groups(), fused=True)
        self.metrics = Metrics(self.folder if self.workers.is_first else None)
        self.losses = self.workers.together(losses)

    def parameter_groups(self) -> list[dict[str, Any]]:
        """The weights, and how fast they learn: an emulator's task is plain, so it goes faster."""
        quick = list(self.emulator.parameters()) if self.emulator else []
        others = [one for one in self.network.parameters() if one.requires_grad]
        return [
            {"params": others, "pace": 1.0, "weight_decay": self.config.weight_decay},
            {"params": quick, "pace": EMULATOR_PACE, "weight_decay": 0.0},
        ]

    @property
    def wants_predictions(self) -> bool:
        """Whether predictions are among what the task is trained for."""
        return any(PREDICTIONS in names for names, _ in self.task.spec.targets)

    @property
    def wants_parameters(self) -> bool:
        """Whether some goals are about parameters alone."""
        return any(PREDICTIONS not in names for names, _ in self.task.spec.targets)

    @property
    def prediction_period(self) -> int:
        """Of how many updates one is about predictions: of all, where there is nothing else."""
        if not len(self.task.spec.parameters):
            return 1
        return 3 if self.wants_predictions else self.config.updates

    @property
    def progress(self) -> float:
        """The share of the budget spent."""
        return self.budget.progress(self.round, self.elapsed)

    def finish(self, show: bool) -> Model:
        """Run to the end of the budget."""
        saved = started = time.monotonic()
        before = self.elapsed
        is_timed = self.budget.rounds is None
        shown = self.metrics.shown(show and self.workers.is_first, self.task.spec.name, is_timed)
        with shown, Interruption() as interruption:
            while self.progress < 1:
                if interruption.came:
                    self.save()
                    raise KeyboardInterrupt
                try:
                    self.step()
                except InternalError as error:
                    raise self.diverged(error) from None
                self.elapsed = self.workers.agree(before + time.monotonic() - started)
                self.metrics.write(self.round, self.elapsed, self.progress)
                if time.monotonic() - saved > self.checkpoint_seconds:
                    self.save()
                    saved = time.monotonic()
        self.save()
        return self.model()

    def diverged(self, error: InternalError) -> InternalError:
        """What went wrong, and what is left to go on from."""
        kept = f"the checkpoint in {self.folder}" if self.folder else "no checkpoint (pass out=…)"
        return InternalError(
            f"training diverged in round {self.round}: {error}; {kept} is from before: resume with "
            "a lower learning rate, or check that the simulator's outcomes have a sane scale"
        )

    def step(self) -> None:
        """One round: play a batch, then learn from it."""
        generator = seeded(self.seed, self.round, self.workers.rank)
        joint = self.progress >= self.config.warmup
        # A policy learns before it plays: what an untaught one asks would teach q little.
        is_taught = self.progress >= TAUGHT_FROM * self.config.warmup
        self.set_learning_rate()
        with torch.no_grad():
            played = self.play(joint, generator)
        self.emulate(played, generator)
        for update in range(self.config.updates):
            teach = update < self.config.policy_updates
            informed = None
            if teach and not joint and self.task.explore and self.network.policy is not None:
                informed = self.task.informative(played.world.theta, played.length, generator)
            # q learns predictions by the way; more often where a goal wants them.
            often = update % self.prediction_period == 0
            points = self.config.points if often else 0
            losses = self.losses(
                played, generator, points=points, teach=teach and is_taught, informed=informed
            )
            self.update(losses)
            if update == 0:
                self.measure(played, losses)
                played = replace(played, notes=None)  # which later weights would not write
        self.round += 1

    def emulate(self, played: Played, generator: torch.Generator) -> None:
        """Teach the emulator; the network's is the average of what it was lately."""
        if self.emulator is None or self.network.emulator is None:
            return
        average: list[Tensor] = list(self.network.emulator.parameters())
        latest: list[Tensor] = list(self.emulator.parameters())
        count = self.config.emulator_updates
        for update in range(count):
            self.update(self.losses(played, generator))
            done = 1 + self.round * count + update
            weight = 1 / min(done, self.config.emulator_average)
            with torch.no_grad():
                torch._foreach_lerp_(average, latest, weight)

    def set_learning_rate(self) -> None:
        """Cosine decay over the whole budget."""
        rate = self.config.learning_rate * 0.5 * (1 + math.cos(math.pi * self.progress))
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group["pace"]

    def play(self, joint: bool, generator: torch.Generator) -> Played:
        """Episodes by the policy, some or (in warm-up) all of their designs random."""
        spec, batch = self.task.spec, self.workers.share_of(self.config.batch)
        prior = None
        if self.network.config.priors:
            prior = draw_priors(batch, len(spec.parameters), generator)
        world = self.worlds(batch, prior, generator)
        goal = self.goals(world, prior, generator)
        count = spec.horizon
        policy: LearnedPolicy | RandomPolicy | Noting = RandomPolicy(spec.design)
        if joint:
            policy, count = self.playing_policy(prior, generator)
        elif self.network.searches:  # which it does beside designs that are given, too
            policy = LearnedPolicy(BatchEngine(self.network), prior=prior)
        is_noting = self.is_noting and not count
        if isinstance(policy, LearnedPolicy) and (self.network.searches or is_noting):
            policy = Noting(policy)
        with torch.inference_mode():  # which keeps no books at all
            context = play(
                policy,
                world,
                self.mixed(goal, world, prior, generator) if joint else goal,
                steps=spec.horizon,
                generator=generator,
                offers=self.offers(world, generator) if joint else anywhere,
                given=self.random_designs(world, count, generator),
            )
        context = Context(context.designs.clone(), context.outcomes.clone(), prior=prior)
        advice = self.network.advisor.read(context)
        outcomes = world.answer(goal.points, generator)
        notes, searched = None, None
        if isinstance(policy, Noting):
            notes = Notes.of(policy.before) if is_noting else None
            searched = policy.searched
        played = Played(world, goal, context, outcomes, advice, notes=notes, searched=searched)
        if self.config.possible_truths and has_parameter_likelihood(self.task):
            return replace(played, possible_truths=self.possible_truths(played, generator))
        return played

    def worlds(self, batch: int, prior: Tensor | None, generator: torch.Generator) -> World:
        """Truths from priors [batch, parameter, 2], or from the task's own."""
        if prior is None:
            return self.task.draw(batch, generator)
        truths = self.task.spec.parameters.redrawn(draw_truths(prior, generator), generator)
        return self.task.worlds(truths, generator)

    def goals(self, world: World, prior: Tensor | None, generator: torch.Generator) -> Goal:
        """What episodes want to know, which they do not know already."""
        goal = draw_goals(self.task.spec, len(world.theta), generator, world)
        return goal if prior is None else without_known(goal, prior)

    @property
    def is_noting(self) -> bool:
        """Whether to keep what q knew: a pool policy asks again about too few of the steps."""
        policy = self.network.policy
        return policy is not None and self.network.is_box and policy.summary is not None

    def possible_truths(self, played: Played, generator: torch.Generator) -> PossibleTruths:
        """Other truths, from what q makes of the data at the start of each stage."""
        starts = torch.tensor([stage_starts(played.length)]).expand(played.batch, -1)
        q = self.network.guesses(played.after(self.network, starts))[-1]
        check_finite(q.parts.mean.sum(), "a posterior's mean")  # before anything is drawn from it
        count, truth = self.config.possible_truths, played.world.theta
        return PossibleTruths.of(self.task, truth, played.context, q, count, generator)

    def mixed(
        self, goal: Goal, world: World, prior: Tensor | None, generator: torch.Generator
    ) -> Goal:
        """A round's goals as they are, or in turn with others.

        So the policy learns what to do for a goal after trials that served another one, and q what
        such trials tell: a goal may change in an experiment, or be taken in turns.
        """
        if float(torch.rand(1, generator=generator)) >= self.config.mixed_share:
            return goal
        others = self.goals(world, prior, generator)
        return replace(goal, turns=(goal, others))

    def playing_policy(
        self, prior: Tensor | None, generator: torch.Generator
    ) -> tuple[LearnedPolicy, int]:
        """How this round is played: exploring or greedily, and after how many random designs."""
        greedy, begun, share = torch.rand(3, generator=generator).tolist()
        explore = greedy >= self.config.greedy_share
        # An experiment chooses among many: a greedy choice among few would teach another play.
        candidates = self.config.candidates * (1 if explore else 2)
        count = int(share * self.task.spec.horizon) if begun < self.config.random_share else 0
        engine = BatchEngine(self.network)
        policy = LearnedPolicy(engine, explore, candidates, REFINED[explore], self.task, prior)
        return policy, count

    def offers(self, world: World, generator: torch.Generator) -> Offers:
        """What a policy chooses from: the task's, or one pool an episode, of a plug-in or a record.

        What a plug-in knows of points grows with the data, so the same points may be many.
        """
        if self.network.config.plugin is None and not world.is_recorded:
            return offers_of(self.task.spec.design, len(world.theta))
        return FixedPool(world.sample(self.config.pool, generator))

    def random_designs(self, world: World, count: int, generator: torch.Generator) -> Tensor:
        """Uniform designs, half of them replaced by informative ones where the task names some."""
        theta, designs = world.theta, world.sample(count, generator)
        if self.task.explore is None or count == 0:
            return designs
        informed = self.task.informative(theta, count, generator)
        # Whole episodes lean one way or the other, so that q meets both extremes and the middle.
        share = torch.rand(len(theta), 1, generator=generator)
        pick = torch.rand(len(theta), count, generator=generator) < share
        return torch.where(pick[..., None], informed, designs)

    def update(self, losses: list[Tensor]) -> None:
        """A gradient step on q and, after warm-up, on the policy."""
        loss = torch.stack(losses).sum()
        check_finite(loss)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        policy = list(self.network.policy.parameters()) if self.network.policy else []
        ids = {id(p) for p in policy}
        inference = [p for p in self.losses.parameters() if id(p) not in ids]
        torch.nn.utils.clip_grad_norm_(inference, self.config.clip)
        if policy:
            torch.nn.utils.clip_grad_norm_(policy, self.config.clip)
        self.optimiser.step()

    def measure(self, played: Played, losses: list[Tensor]) -> None:
        """The losses of this round and, of one round in some, what it gained."""
        # Nats about several predictions are many more: they would hide what parameters gain.
        is_about_predictions = bool(played.goal.points.shape[1]) and self.wants_parameters
        is_judged = self.round - self.judged >= JUDGED and not is_about_predictions
        self.judged = self.round if is_judged else self.judged
        self.metrics.add(
            loss=losses[0].item(),
            policy=losses[1].item() if len(losses) > 1 else None,
            J=self.gain(played) if is_judged else None,
            episodes=self.config.batch,
        )

    @torch.inference_mode()
    def gain(self, played: Played) -> float:
        """J (Eq. 9), in nats gained over the prior."""
        ends = torch.tensor([0, played.length]).expand(played.batch, 2)
        encoded = played.after(self.network, ends)
        before, after = target_log_prob(self.network, encoded, played).unbind(1)
        return float(((after - before) * played.goal.count).mean())

    def save(self) -> None:
        """Write the checkpoint that `resume` reads."""
        if self.folder is None or not self.workers.is_first:
            return
        tensors = {f"network.{k}": v for k, v in self.network.state_dict().items()}
        for i, state in self.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{i}.{k}": torch.as_tensor(v) for k, v in state.items()}
        if self.emulator is not None:
            tensors |= {f"emulator.{k}": v for k, v in self.emulator.state_dict().items()}
        if self.lessons is not None:
            tensors |= dict(self.lessons.tensors())
        write_tensors(self.folder / CHECKPOINT, tensors, self.description())

    def description(self) -> dict[str, Any]:
        """What a checkpoint must agree on to be resumed, and how far it got."""
        return {
            "task": _trained(self.task.spec),
            "model": self.network.config.to_json(),
            "config": self.config.to_json(),
            "seed": self.seed,
            "round": self.round,
            "elapsed": self.elapsed,
        }

    def restore(self) -> None:
        """Continue from the folder's checkpoint; without one, start."""
        if self.folder is None:
            raise InputError("resume needs the folder of the run: train(..., out='runs/decay')")
        if not (self.folder / CHECKPOINT).is_file():
            return
        tensors, card = read_tensors(self.folder / CHECKPOINT)
        try:
            self._take_over(tensors, card)
        except InputError:
            raise
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"{self.folder / CHECKPOINT} is not what a training saves ({error!r}): restore it, "
                "or train into another folder"
            ) from None

    def _take_over(self, tensors: Mapping[str, Tensor], card: Mapping[str, Any]) -> None:
        mine = self.description()
        for key in ("task", "model", "config", "seed"):
            if json.loads(json.dumps(mine[key])) != card[key]:
                raise InputError(
                    f"{self.folder} holds a run with another {key}: resume it with the settings "
                    "it was started with, or train into another folder"
                )
        self.round, self.elapsed = int(card["round"]), float(card["elapsed"])
        self.network.load_state_dict(weights_of("network", tensors))
        if self.emulator is not None:
            self.emulator.load_state_dict(weights_of("emulator", tensors))
        if self.lessons is not None:
            self.lessons.restore(tensors)
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            if name.startswith("optimiser."):
                _, index, key = name.split(".")
                state.setdefault(int(index), {})[key] = value
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": state})

    def start_from(self, model: Model) -> None:
        """Take over the weights of a model of the same task; its policy may have other layers."""
        mine, theirs = _trained(self.task.spec), _trained(model.spec)
        config = replace(model.network.config, policy_layers=self.network.config.policy_layers)
        if mine != theirs or self.network.config != config:
            raise InputError(
                f"the initial model is of task {model.spec.name} with settings other than these: "
                "pass a model of this very task and model configuration"
            )
        own, given = self.network.state_dict(), model.network.state_dict()
        self.network.load_state_dict({name: given.get(name, own[name]) for name in own})
        if self.emulator is not None and self.network.emulator is not None:
            self.emulator.load_state_dict(self.network.emulator.state_dict())
        self.before = model.training

    def model(self) -> Model:
        """The trained model with its card."""
        self.network.eval().requires_grad_(False)
        training = {
            "rounds": self.round,
            "episodes": self.round * self.config.batch,
            "seconds": round(self.elapsed, 1),
            "seed": self.seed,
            "config": self.config.to_json(),
            "workers": self.workers.count,
            "machine": machine(),
        }
        if self.before is not None:
            training["after"] = self.before
        return Model(self.network, training)


def _trained(spec: Spec) -> dict[str, Any]:
    """What a training is about: turns are for use, and may be declared later."""
    return replace(spec, turns=()).to_json()


def machine() -> str:
    """The processor and software a run was made with."""
    return f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}"
