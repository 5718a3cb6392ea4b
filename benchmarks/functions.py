"""What each part of the plug-in for functions adds over its ensemble of kernels alone.

    python benchmarks/functions.py --output results/functions.json
    python benchmarks/functions.py --part gp1d --part branin --output results/functions.json

Every method is a pair: who asks, and who answers. All methods of a part meet the same functions,
noise, candidates and first points, so their differences are paired. What was played is kept in
runs/functions; a part that is measured again replaces its rows in the output.

Predictions: gp1d and gp2d in the task's units, seven functions in a user's units with
known noise. Parameters: gp1d and gp2d. "ensemble" is the fixed kernels' weighted mean and standard
deviation, and as a score the log share of the goal's variance that they expect to go.

The part "time" is the processor time of a step of the advisor (src/aline/functions), one thread:
one more observation, 500 candidates for 100 points, a prediction at these; and of the fitted
process, computed for the same data in the same run.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from aline import zoo
from aline.episodes import Context, FixedPool, Goal, Offer, play, take
from aline.evaluation.active import LEVEL, Problem, make_problem, ratio
from aline.evaluation.estimates import Estimate, mean
from aline.evaluation.results import Row, result, row
from aline.functions import Advice, Advisor
from aline.functions.ensemble import read as read_ensemble
from aline.functions.ensemble import spread_kernels
from aline.functions.smooth import SmoothProcess
from aline.model import Mixture, Model, StandardisedView, View, read_standardised
from aline.model.hypotheses import Guess
from aline.model.network import STEEP
from aline.model.wider import Wider, mixed
from aline.tasks import FUNCTIONS, Task, World, get
from aline.tasks.gp import NOISE

PROBLEMS = ("gp1d", "gp2d", *FUNCTIONS)
PARAMETER_PROBLEMS = ("gp1d parameters", "gp2d parameters")
STEPS = {1: 30, 2: 50}
PARAMETER_STEPS = 30
LOOKS = (5, 10, 15, 20, 30, 40, 50)
CHUNK = 20  # runs played together
BASE = "ensemble/ensemble"
# What each part adds: with it, and without. All are held against BASE as well.
PAIRS = (
    # the network: its predictions, its queries, both
    ("ensemble/network", "ensemble/kernel mixture"),
    ("network/network", "ensemble/network"),
    ("network/network", "ensemble/kernel mixture"),
    # in a user's units, beside the fitted process
    ("network+fitted/network+fitted", "network+fitted/kernel mixture+fitted"),
    ("network+fitted/network+fitted", "ensemble+fitted/network+fitted"),
    ("network+fitted/network+fitted", "ensemble+fitted/kernel mixture+fitted"),
    # the fitted process
    ("network+fitted/network+fitted", "network/network"),
    ("ensemble+fitted/kernel mixture+fitted", "ensemble/kernel mixture"),
    # the lattice of smooth kernels in its place
    ("network+lattice/network+lattice", "network+fitted/network+fitted"),
    ("network+lattice/network+lattice", "network+lattice/network+fitted"),
    ("network+lattice/lattice", "network+lattice/fitted"),
    ("network+lattice/network+lattice", "network+lattice/kernel mixture+lattice"),
    ("network+lattice/network+lattice", "network/network"),
    # parameters: hypotheses, importance draws and the network, in q and in queries
    ("ensemble/hypotheses", "ensemble/ensemble"),
    ("network/network", "network/network on hypotheses"),
    ("network/hypotheses+draws", "network/hypotheses"),
    ("network/network", "network/hypotheses+draws"),
    ("hypotheses/network", "ensemble/network"),
    ("hypotheses+draws/network", "hypotheses/network"),
    ("hypotheses+draws/network", "ensemble/network"),
    ("network/network", "hypotheses+draws/network"),
)

Score = Callable[[View, Tensor, Goal], Tensor]  # [batch, query], of candidates [batch, query, ...]
Believe = Callable[[View, Tensor], Mixture]  # at points [batch, target, design]


def ensemble_score(view: View, candidates: Tensor, goal: Goal) -> Tensor:
    """The average log share of the goal's variance that would go."""
    assert view.bank is not None
    worth = view.bank.worth(candidates[:, None], goal.points, goal.points_mask)
    return worth[:, 0, :, -1]


def network_score(view: View, candidates: Tensor, goal: Goal) -> Tensor:
    """The network's logits, which start from the ensemble's or the hypotheses'."""
    return View.scores(view, candidates[:, None], goal)[:, 0]


def with_fitted(score: Score) -> Score:
    """Averaged with the fitted process's by its share, as today."""

    def averaged(view: View, candidates: Tensor, goal: Goal) -> Tensor:
        assert isinstance(view, StandardisedView)
        logits = score(view, candidates, goal)
        if score is ensemble_score:
            logits = STEEP * logits
        if view.wider is None:
            return logits
        process, share = view.wider
        worth = STEEP * process.worth(candidates, goal).to(logits.dtype)
        return logits + share.to(logits.dtype)[:, None] * (worth - logits)

    return averaged


def lattice_of(view: View) -> tuple[SmoothProcess, Tensor]:
    """The lattice of smooth kernels that may replace the fitted process, and its share."""
    assert isinstance(view, StandardisedView)
    assert view.network.kernels is not None
    context = Context(view.context.designs, view.context.outcomes.double())
    if "lattice" not in vars(view):
        scale = view.network.spec.outcome.to_json()["scale"]
        vars(view)["lattice"] = SmoothProcess.read(context, NOISE / scale)
    process: SmoothProcess = vars(view)["lattice"]
    kernels = spread_kernels(context.designs.shape[-1], view.network.kernels.count)
    return process, process.share(read_ensemble(kernels, context, standardise=True))


def with_lattice(view: View, candidates: Tensor, goal: Goal) -> Tensor:
    """The network's scores averaged with the lattice's by its share."""
    logits = network_score(view, candidates, goal)
    if view.context.length < 2:
        return logits
    process, share = lattice_of(view)
    reduction = process.log_variance_reduction(candidates, goal.points, goal.points_mask)
    other = STEEP * reduction.to(logits.dtype)
    return logits + share.to(logits.dtype)[:, None] * (other - logits)


def lattice_belief(view: View, points: Tensor) -> Mixture:
    """The lattice alone."""
    return Mixture(*(part[:, None] for part in lattice_of(view)[0].predict(points)))


def believing_lattice(believe: Believe) -> Believe:
    """Averaged with the lattice by its share."""

    def averaged(view: View, points: Tensor) -> Mixture:
        assert isinstance(view, StandardisedView)
        belief = view._not_below_noise(believe(view, points))
        assert isinstance(belief, Mixture)
        return mixed(belief, lattice_belief(view, points), lattice_of(view)[1])

    return averaged


def in_own_units(belief: Mixture, view: View) -> Mixture:
    """A belief about standardised outcomes, no narrower than a known noise, as they came."""
    if not isinstance(view, StandardisedView):
        return belief
    restored = view.units.restore(view._not_below_noise(belief))
    assert isinstance(restored, Mixture)
    return restored


def ensemble_belief(view: View, points: Tensor) -> Mixture:
    """One normal: the weighted mean and deviation."""
    assert view.bank is not None
    expected = view.bank.predict(points[:, None])
    parts = (torch.zeros_like(expected.mean), expected.mean, expected.std)
    return Mixture(*(part[..., None] for part in parts))


def kernel_mixture(view: View, points: Tensor) -> Mixture:
    """A normal for each kernel, by its weight."""
    bank = view.bank
    assert bank is not None
    means, left = bank.at(points[:, None])  # [batch, kernel, 1, target]
    log_scale, log_weight, _ = bank.weigh()
    std = (left.log() / 2).permute(0, 2, 3, 1) + log_scale[:, :, None]
    parts = log_weight[:, :, None].expand_as(std), means.permute(0, 2, 3, 1), std.exp()
    return Mixture(*(part.float() for part in parts))


def network_belief(view: View, points: Tensor) -> Mixture:
    """The network's mixture around the ensemble's mean."""
    belief = View.predictive(view, points[:, None])
    assert isinstance(belief, Mixture)
    return belief


def fitted_belief(view: View, points: Tensor) -> Mixture:
    """The fitted process alone."""
    assert isinstance(view, StandardisedView)
    assert view.wider is not None
    return view.wider[0].predict(points)


def believing_fitted(believe: Believe) -> Believe:
    """Averaged with the fitted process by its share, as today."""

    def averaged(view: View, points: Tensor) -> Mixture:
        assert isinstance(view, StandardisedView)
        assert view.wider is not None
        process, share = view.wider
        belief = view._not_below_noise(believe(view, points))
        assert isinstance(belief, Mixture)
        return mixed(belief, process.predict(points), share)

    return averaged


ASKS: dict[str, Score] = {"ensemble": ensemble_score, "network": network_score}
ASKS_IN_OWN_UNITS = ASKS | {
    "ensemble+fitted": with_fitted(ensemble_score),
    "network+fitted": with_fitted(network_score),
    "network+lattice": with_lattice,
}
ANSWERS: dict[str, Believe] = {
    "ensemble": ensemble_belief,
    "kernel mixture": kernel_mixture,
    "network": network_belief,
}
ANSWERS_IN_OWN_UNITS = ANSWERS | {
    "fitted": fitted_belief,
    "ensemble+fitted": believing_fitted(ensemble_belief),
    "kernel mixture+fitted": believing_fitted(kernel_mixture),
    "network+fitted": believing_fitted(network_belief),
}

ANSWERS_OF_LATTICE = {
    "lattice": lattice_belief,
    "kernel mixture+lattice": believing_lattice(kernel_mixture),
    "network+lattice": believing_lattice(network_belief),
    "fitted": fitted_belief,
    "network+fitted": believing_fitted(network_belief),
}


@dataclass
class Player:
    """Asks by a score, and has every answer taken down at some steps."""

    model: Model
    problem: Problem
    score: Score
    look: Callable[[View], None]
    goal: Goal

    def begin(self, goal: Goal) -> View:
        """Nothing measured yet."""
        empty = Context.empty(self.problem.batch, len(self.model.spec.design))
        if self.problem.standardise:
            return read_standardised(self.model.network, empty, noise=NOISE)
        return self.model.network.read(empty)

    def choose(self, state: View, offer: Offer, generator: torch.Generator) -> Tensor:
        """The best candidate that is left."""
        scores = self.score(state, offer.points, self.goal)
        assert offer.allowed is not None
        return take(offer.points, scores.masked_fill(~offer.allowed, -torch.inf).argmax(1))

    def observe(self, state: View, design: Tensor, outcome: Tensor) -> View:
        """One more observation, and a look."""
        grown = state.extend(design, outcome)
        if "lattice" in vars(state):
            vars(grown)["lattice"] = vars(state)["lattice"].extend(design, outcome.double())
        if grown.context.length in LOOKS:
            self.look(grown)
        return grown


@dataclass
class Errors:
    """Takes down errors, log densities and coverage of all answers, [look][run]."""

    problem: Problem
    answers: dict[str, Believe]
    truth: Tensor  # [batch, target] without noise, on the network's scale
    outcomes: Tensor  # with noise
    found: dict[str, list[Tensor]] = field(default_factory=dict)

    def __call__(self, view: View) -> None:
        """One more step."""
        to_user = self.problem.spec.outcome.to_user
        unit = float(to_user(torch.ones(())) - to_user(torch.zeros(())))
        for name, believe in self.answers.items():
            belief = in_own_units(believe(view, self.problem.targets), view)
            expected = belief.moments()[0][:, 0]
            rank = belief.cdf(self.outcomes[:, None])[:, 0]
            values = {
                "rmse": unit * (expected - self.truth).square().mean(1).sqrt(),
                "log_density": belief.log_prob(self.outcomes[:, None])[:, 0].mean(1)
                - math.log(unit),
                "coverage": ((rank - 0.5).abs() <= LEVEL / 2).float().mean(1),
            }
            for metric, value in values.items():
                self.found.setdefault(f"{name}:{metric}", []).append(value)


def uncertainty(view: View, candidates: Tensor, goal: Goal) -> Tensor:
    """Where the ensemble is least sure: all that it can say for a goal of parameters."""
    assert view.bank is not None
    return view.bank.predict(candidates[:, None]).std[:, 0]


def grid_guess(view: View) -> Guess:
    """What the fixed hypotheses leave of the parameters, without draws near the data."""
    hypotheses = view.network.hypotheses
    assert hypotheses is not None
    fit = hypotheses._fit(view.supposed)
    return Guess.of(hypotheses.z.expand(*fit.shape, -1), fit)


def hypotheses_score(draws: bool) -> Score:
    """Nats about the parameters by hypotheses, with or without draws near the data."""

    def score(view: View, candidates: Tensor, goal: Goal) -> Tensor:
        hypotheses = view.network.hypotheses
        assert hypotheses is not None
        hypotheses.train(not draws)
        told = hypotheses.telling(view.supposed, candidates[:, None], goal.parameters)[:, 0]
        hypotheses.eval()
        return told

    return score


def ensemble_posterior(view: View) -> Mixture:
    """Of each parameter a normal with the moments of the kernels' own values, by their weight."""
    network, bank = view.network, view.bank
    assert bank is not None
    assert network.kernels is not None
    log_scale, log_weight, _ = bank.weigh()
    half = (network.spec.design.high - network.spec.design.low) / 2
    lengthscale = (half / network.kernels.inverse).expand(*log_scale.shape, -1)
    outcome = network.spec.outcome
    scale = outcome.to_user(log_scale.exp()) - outcome.to_user(torch.zeros(()))
    parameters = network.spec.parameters
    ends = torch.full((2, len(parameters)), 2.5) * torch.tensor([[-1.0], [1.0]])
    low, high = (parameters.to_user(end) for end in ends)
    values = {"lengthscale": lengthscale, "output_scale": scale}
    inside = {name: value.clamp(low[name], high[name]) for name, value in values.items()}
    z = parameters.to_network(inside)  # [batch, 1, kernel, parameter]
    weight = log_weight.exp()[..., None]
    middle = (weight * z).sum(2)
    spread = (weight * (z - middle[:, :, None]).square()).sum(2).sqrt()
    # The kernels are some 0.4 apart on this scale: nothing finer is known from them.
    return normal(middle, (spread.square() + 0.2**2).sqrt())


def normal(centre: Tensor, std: Tensor) -> Mixture:
    """One component."""
    parts = (torch.zeros_like(centre), centre, std)
    return Mixture(*(part[..., None].float() for part in parts))


def smoothed(guess: Guess) -> Mixture:
    """Weighted hypotheses, smoothed by as much as their effective number asks for."""
    effective = 1 / guess.weight.square().sum(-1)[..., None]
    width = (0.9 * effective**-0.2).clamp_max(0.9)
    root = guess.power.sqrt()
    means = guess.mean[..., None] + ((1 - width**2).sqrt() * root)[..., None] * guess.apart.mT
    std = (width * guess.std)[..., None].expand_as(means)
    weight = guess.weight.clamp_min(1e-30).log()[..., None, :].expand_as(means)
    return Mixture(weight.float(), means.float(), std.float())


def network_posterior(draws: bool) -> Callable[[View], Mixture]:
    """The network's q, told of hypotheses with or without draws near the data."""

    def posterior(view: View) -> Mixture:
        if draws:
            return view.posterior()
        other = view.network.read(view.context)
        other.guess = grid_guess(view)  # type: ignore[misc]
        return other.posterior()

    return posterior


PARAMETER_ASKS: dict[str, Score] = {
    "ensemble": uncertainty,
    "hypotheses": hypotheses_score(draws=False),
    "hypotheses+draws": hypotheses_score(draws=True),
    "network": network_score,
}
PARAMETER_ANSWERS: dict[str, Callable[[View], Mixture]] = {
    "ensemble": ensemble_posterior,
    "hypotheses": lambda view: smoothed(grid_guess(view)),
    "hypotheses+draws": lambda view: smoothed(view.guess),  # type: ignore[arg-type]
    "hypotheses+draws, normal": lambda view: normal(view.guess.mean, view.guess.std),  # type: ignore[union-attr]
    "network on hypotheses": network_posterior(draws=False),
    "network": network_posterior(draws=True),
}


@dataclass
class Posteriors:
    """Takes down log q of the true parameters in the user's units, averaged over parameters."""

    problem: Problem
    found: dict[str, list[Tensor]] = field(default_factory=dict)

    def __call__(self, view: View) -> None:
        """One more step."""
        theta, parameters = self.problem.world.theta, self.problem.spec.parameters
        for name, posterior in PARAMETER_ANSWERS.items():
            density = posterior(view).log_prob(theta[:, None])[:, 0]
            log_q = (density - parameters.log_volume(theta)).mean(1)
            self.found.setdefault(f"{name}:log_q", []).append(log_q)


Played = dict[str, Tensor]  # "answer:metric" -> [run, look]


@torch.inference_mode()
def play_chunk(
    model: Model, problem: Problem, score: Score, names: tuple[str, ...], steps: int, seed: int
) -> Played:
    """Some runs of one who asks, with all answers."""
    luck = torch.Generator().manual_seed(seed)
    goal = problem.aimed(names)
    look: Errors | Posteriors
    if names:
        look = Posteriors(problem)
    else:
        answers = ANSWERS_IN_OWN_UNITS if problem.standardise else ANSWERS
        if score is with_lattice:
            answers = ANSWERS_OF_LATTICE
        truth = problem.exact.answer(problem.targets, luck)
        look = Errors(problem, answers, truth, problem.world.answer(problem.targets, luck))
    player = Player(model, problem, score, look, goal)
    pool = FixedPool(problem.pool)
    play(player, problem.world, goal, steps=steps, generator=luck, offers=pool, given=problem.start)
    return {name: torch.stack(values, 1) for name, values in look.found.items()}


def subject(name: str) -> tuple[Model, Task]:
    """The shipped model for a problem, and its task."""
    dimensions = FUNCTIONS[name].dimensions if name in FUNCTIONS else int(name[2])
    model = zoo.load(f"gp{dimensions}d")
    return model, get(f"gp{dimensions}d", **model.spec.config).described_by(model.spec)


def played(part: str, asker: str, score: Score, runs: int, folder: Path) -> Played:
    """All runs of one who asks, from the folder where they were played before."""
    path = folder / f"{part}-{asker}-{runs}.pt".replace(" ", "_")
    if path.is_file():
        kept: Played = torch.load(path)
        return kept
    name = part.removesuffix(" parameters")
    model, task = subject(name)
    dimensions = len(model.spec.design)
    names = ("lengthscale", "output_scale") if part != name else ()
    problem = make_problem(name, task, runs, seed=1 if names else 0)
    steps = PARAMETER_STEPS if names else STEPS[dimensions]
    chunks = [
        play_chunk(model, problem.runs(i, i + CHUNK), score, names, steps, i)
        for i in range(0, runs, CHUNK)
    ]
    found = {key: torch.cat([chunk[key] for chunk in chunks]) for key in chunks[0]}
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(found, path)
    return found


def compare(part: str, found: dict[str, Played]) -> Iterator[Row]:
    """Rows of every pair of asker and answer, and of each beside what it is held against."""
    target = "parameters" if part.endswith("parameters") else "predictions"
    task = part.removesuffix(" parameters")
    values = {
        (f"{asker}/{key.split(':')[0]}", key.split(":")[1]): value
        for asker, each in found.items()
        for key, value in each.items()
    }
    for (method, metric), value in values.items():
        for place, step in enumerate(LOOKS[: value.shape[1]]):
            yield row(task, method, target, metric, step, mean(value[:, place]))
            for against in (BASE, *(b for a, b in PAIRS if a == method)):
                if against != method and (against, metric) in values:
                    other = values[against, metric][:, place]
                    name, gain = versus(metric, value[:, place].double(), other.double())
                    found_row = row(task, method, target, name, step, gain)
                    yield {**found_row, "against": against}


def versus(metric: str, ours: Tensor, theirs: Tensor) -> tuple[str, Estimate]:
    """A ratio of errors, or a difference of anything else, of paired runs."""
    if metric == "rmse":
        return "rmse_ratio", ratio(ours, theirs)
    return f"{metric}_gain", mean(ours - theirs)


def measure(part: str, runs: int, folder: Path) -> list[Row]:
    """One part: all who ask on one problem."""
    asks = ASKS if part in ("gp1d", "gp2d") else ASKS_IN_OWN_UNITS
    if part in PARAMETER_PROBLEMS:
        asks = PARAMETER_ASKS
    found = {}
    for asker, score in asks.items():
        began = time.process_time()
        found[asker] = played(part, asker, score, runs, folder)
        print(f"{part}: {asker}, {time.process_time() - began:.0f} s of CPU", flush=True)
    return list(compare(part, found))


@torch.no_grad()
def advisor_step(
    advice: Advice, pool: Tensor, goal: Goal, world: World, ranked: bool
) -> tuple[Advice, float]:
    """One step of a running experiment, and the milliseconds of processor time that it took.

    Candidates are only `ranked`, or described by features as well.
    """
    generator = torch.Generator().manual_seed(advice.state.count)
    began = time.process_time()
    found = advice.rank(pool, goal) if ranked else advice.of_candidates(pool, goal)
    score = found.terms.sum(-1)
    if found.beyond is not None:
        share, reduction = found.beyond
        score = score + share * (reduction - score)
    design = pool[:, int(score.argmax())]
    taken = time.process_time() - began
    outcome = world.answer(design[:, None], generator)[:, 0]
    began = time.process_time()
    advice = advice.extend(design, outcome.to(advice.state.outcomes.dtype))
    if goal.points.shape[1]:
        advice.at_points(goal.points)
    else:
        advice.context_features()
    return advice, 1e3 * (taken + time.process_time() - began)


def fitted_step(advice: Advice, pool: Tensor, goal: Goal) -> float:
    """Milliseconds of processor time of the fitted process, for the same data."""
    assert advice.units is not None
    outcomes = advice.units.standardise(advice.source.context.outcomes)
    began = time.process_time()
    process = Wider.of(advice.source.context.designs, outcomes)
    process.worth(pool, goal)
    process.predict(goal.points)
    return 1e3 * (time.process_time() - began)


def time_run(name: str, target: str, is_user: bool, ranked: bool, seed: int) -> list[list[float]]:
    """Milliseconds of the last ten steps of a run: the advisor's, the fitted process's."""
    model, task = subject(name)
    config, problem = model.network.config, make_problem(name, task, 1, seed)
    advisor = Advisor(model.spec, config.kernels, config.hypotheses).eval()
    goal = problem.aimed(("lengthscale", "output_scale") if target == "parameters" else ())
    nothing = torch.zeros(1, 0, dtype=torch.float64 if is_user else torch.float32)
    advice = advisor.read(Context(problem.pool[:, :0], nothing), standardise=is_user)
    ours: list[float] = []
    fitted: list[float] = []
    for _ in range(STEPS[int(name[2])]):
        advice, spent = advisor_step(advice, problem.pool, goal, problem.world, ranked)
        ours.append(spent)
        if is_user and advice.state.count > STEPS[int(name[2])] - 10:
            fitted.append(fitted_step(advice, problem.pool, goal))
    return [ours[-10:], fitted]


def time_rows(runs: int) -> Iterator[Row]:
    """Of some runs, after one more."""
    cases = [("predictions", False, True), ("predictions", False, False),
             ("parameters", False, True), ("predictions", True, True),
             ("predictions", True, False)]  # fmt: skip
    for name in ("gp1d", "gp2d"):
        for target, is_user, ranked in cases:
            every = [time_run(name, target, is_user, ranked, seed) for seed in range(runs + 1)][1:]
            units = "user's units" if is_user else "task's units"
            what = "advisor, ranks" if ranked else "advisor, features"
            for method, values in (
                (what, [r[0] for r in every]),
                ("fitted", [r[1] for r in every]),
            ):
                if values[0]:
                    taken = mean(torch.tensor(values).flatten())
                    last = STEPS[int(name[2])]
                    found = row(name, f"{method}, {units}", target, "cpu_ms", last, taken)
                    print(name, target, found["method"], taken, flush=True)
                    yield found


def merged(path: Path, part: str, rows: list[Row]) -> list[Row]:
    """With what the file has of other parts."""
    old: list[Row] = json.loads(path.read_text())["rows"] if path.is_file() else []

    def part_of(one: dict[str, Any]) -> str:
        if one["metric"] == "cpu_ms":
            return "time"
        suffix = " parameters" if one["target"] == "parameters" else ""
        return str(one["task"]) + suffix

    return [one for one in old if part_of(one) != part] + rows


def main() -> None:
    """Measure parts, and write after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = (*PROBLEMS, *PARAMETER_PROBLEMS, "time")
    parser.add_argument("--part", action="append", choices=parts, help="all by default")
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--folder", type=Path, default=Path("runs/functions"))
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    began = time.process_time()
    for part in arguments.part or parts:
        if part == "time":
            new = list(time_rows(min(arguments.runs, 5)))
        else:
            new = measure(part, arguments.runs, arguments.folder)
        rows = merged(arguments.output, part, new)
        whole = result("functions", rows, time.process_time() - began)
        arguments.output.write_text(json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    main()
