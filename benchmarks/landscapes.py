"""Trains the models of hyperparameter landscapes that `aline bench hpo` measures.

    python benchmarks/landscapes.py rpart --data data --out runs

The folder of tables is that of the benchmark. A number of rounds makes a training the same again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from aline.app.bench.bench import BenchSettings
from aline.app.bench.hpo import SPACES, landscape_task
from aline.app.runs import train_into

ROUNDS = 300


def main() -> None:
    """Train some or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("spaces", nargs="*", default=list(SPACES), help="search spaces")
    parser.add_argument("--data", type=Path, default=Path("data"), help="the folder of tables")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="the folder of models")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    for name in chosen.spaces:
        task = landscape_task(name, BenchSettings(data=chosen.data))
        command = f"python benchmarks/landscapes.py {name} --rounds {chosen.rounds}"
        train_into(chosen.out / name, task, command, rounds=chosen.rounds, verdict=False)


if __name__ == "__main__":
    main()
