"""What a training has learned by when: sPCE and J of the checkpoints of one run, by wall time.

    python benchmarks/curve.py runs/location --budget 90min
    python benchmarks/curve.py runs/location --evaluate --output results/location-curve.json \
        --figure docs/images/location-curve.png

The first trains location finding on one core and keeps a copy of its checkpoint every few minutes
(a run goes on where it stopped); the second measures the copies. The learning rate falls until the
end of the budget, so the last minutes of a short budget gain what the middle of a long one does not
show.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import torch

from aline import tasks
from aline.engine import BatchEngine
from aline.evaluation.information import information_rows, measure_information
from aline.evaluation.results import Row, result
from aline.evaluation.simulated import Protocol
from aline.files import read_tensors
from aline.model import ModelConfig, Network
from aline.policies import LearnedPolicy
from aline.tasks import Spec
from aline.training.budget import parse_duration
from aline.training.run import CHECKPOINT, network_weights

PAPER, HAND_MADE = 8.91, 9.99  # sPCE: the paper's on its pool; the exact posterior with a rule


def train(folder: Path, budget: str, every: float) -> None:
    """Train, and keep a copy of the checkpoint now and then."""
    command = [sys.executable, "-m", "aline", "train", "location", "--budget", budget]
    one_core = {**os.environ, "OMP_NUM_THREADS": "1"}
    running = subprocess.Popen([*command, "--out", str(folder), "--resume"], env=one_core)
    latest, due = folder / CHECKPOINT, time.monotonic() + every
    while running.poll() is None:
        time.sleep(1)
        if time.monotonic() >= due and latest.is_file():
            keep(latest)
            due += every
    if running.returncode:
        raise SystemExit(running.returncode)
    keep(latest)


def keep(latest: Path) -> None:
    """Copy a checkpoint under a name with its time."""
    _, card = read_tensors(latest)
    shutil.copy(latest, latest.with_name(f"at-{card['elapsed']:06.0f}s.safetensors"))


def evaluate(path: Path, episodes: int, contrastive: int) -> list[Row]:
    """sPCE and J of a checkpoint, the box free."""
    tensors, card = read_tensors(path)
    network = Network(Spec.from_json(card["task"]), ModelConfig(**card["model"]))
    network.load_state_dict(network_weights(tensors))
    network.eval().requires_grad_(False)
    task = tasks.get("location").described_by(network.spec)
    protocol = Protocol(episodes, network.spec.horizon, network.spec.start, seed=1)
    policy = LearnedPolicy(BatchEngine(network))
    found = measure_information(policy, task, protocol, contrastive, network=network)
    rows = information_rows("aline-box", task, protocol, found)
    minutes = card["elapsed"] / 60
    for each in rows:
        each["minutes"] = round(minutes, 2)
    values = "  ".join(f"{each['metric']} {each['value']:.2f}" for each in rows)
    print(f"{minutes:6.1f} min  {values}", flush=True)
    return rows


def draw(rows: list[Row], path: Path) -> None:
    """Nats by minutes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(6, 3.6), layout="constrained")
    for metric, label in (("spce", "what the designs tell (sPCE)"), ("j", "what q learns (J)")):
        own = sorted((r["minutes"], r["value"], r["ci95"]) for r in rows if r["metric"] == metric)
        minutes, values, widths = zip(*own, strict=True)
        axis.errorbar(minutes, values, widths, marker="o", markersize=3, capsize=2, label=label)
    for value, label in ((PAPER, "paper"), (HAND_MADE, "hand-made rule, exact posterior")):
        axis.axhline(value, color="0.6", linestyle=":", zorder=0)
        end = {"xytext": (-4, 2), "textcoords": "offset points", "ha": "right"}
        axis.annotate(label, (1, value), xycoords=("axes fraction", "data"), color="0.4", **end)
    axis.set_xlabel("training on one core, minutes")
    axis.set_ylabel("information, nats")
    axis.set_xlim(left=0)
    axis.set_ylim(top=HAND_MADE + 0.4)
    axis.legend(frameon=False, loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Train or measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of the run")
    parser.add_argument("--budget", default="90min", help="of the training")
    parser.add_argument("--every", default="5min", help="keep a checkpoint so often")
    parser.add_argument("--evaluate", action="store_true", help="measure what was kept")
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument("--contrastive", type=int, default=1_000_000)
    parser.add_argument("--output", type=Path, help="write the result as JSON")
    parser.add_argument("--figure", type=Path, help="draw it")
    arguments = parser.parse_args()
    if not arguments.evaluate:
        train(arguments.folder, arguments.budget, parse_duration(arguments.every))
        return
    torch.set_num_threads(1)
    start = time.perf_counter()
    kept = sorted(arguments.folder.glob("at-*.safetensors"))
    if not kept:
        raise SystemExit(f"{arguments.folder} holds no at-*.safetensors: train with this first")
    rows = [
        row
        for path in kept
        for row in evaluate(path, arguments.episodes, arguments.contrastive)
        if row["metric"] in ("spce", "j")
    ]
    if arguments.figure:
        draw(rows, arguments.figure)
    if arguments.output:
        whole = result(
            "location-curve",
            rows,
            time.perf_counter() - start,
            contrastive=arguments.contrastive,
            trained=f"one core, the learning rate falling until {rows[-1]['minutes']:.0f} min",
        )
        arguments.output.write_text(json.dumps(whole, indent=2) + "\n")


if __name__ == "__main__":
    main()
