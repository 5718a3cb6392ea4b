"""Trainings in real processes: killed, resumed, and shared between workers."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from small import posterior_of
from typer.testing import CliRunner

import aline
from aline.app.cli import app
from aline.app.runs import worker_count
from aline.episodes import RandomPolicy, draw_goals, play
from aline.errors import InputError, UserError
from aline.files import read_card
from aline.tasks import get
from aline.training.run import CHECKPOINT
from aline.training.workers import WORKER, Workers, accompanied, usual_count

OWN_TASK = """
import aline
task = aline.tasks.get("linear", horizon=4)
task.model = {"width": 16, "heads": 2, "layers": 2, "policy_layers": 1, "feedforward": 32}
task.training = {
    "batch": 96, "updates": 3, "policy_updates": 1, "emulator_updates": 4, "possible_truths": 8,
    "prefixes": 2, "points": 1, "candidates": 4, "alternatives": 4, "learning_rate": 1.5e-2,
}
"""
ROUNDS = 26


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """As the processes here have: sums round the same."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def task_file(tmp_path_factory):
    """A task in a file, as a user has it."""
    path = tmp_path_factory.mktemp("task") / "line.py"
    path.write_text(OWN_TASK)
    return f"{path}:task"


@pytest.fixture(scope="module")
def pair(tmp_path_factory, task_file):
    """The folder of a training by two workers, which nothing disturbed."""
    folder = tmp_path_factory.mktemp("pair")
    process = start("train", task_file, "--rounds", ROUNDS, "--workers", 2, "--out", folder)
    finish(process)
    assert not children_of(process)
    return folder


def command(*arguments, workers=0):
    """`aline …`, or the same on several workers."""
    single = [sys.executable, "-m", "aline"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "-m", "aline"]
    if workers:
        torchrun[4:4] = ["--nproc-per-node", str(workers)]
    return [*(torchrun if workers else single), *map(str, arguments)]


def start(*arguments, workers=0):
    """Start it with nothing on the terminal."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command(*arguments, workers=workers),
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def children_of(process):
    """The processes that it started."""
    found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True)
    return [int(number) for number in found.stdout.split()]


def finish(process):
    """Wait for the end, which must be a good one."""
    _, error = process.communicate(timeout=240)
    assert process.returncode == 0, error.decode()[-2000:]


def run_here(*arguments):
    """`aline …` in this process, which has imported everything."""
    done = CliRunner().invoke(app, list(map(str, arguments)), prog_name="aline")
    assert done.exit_code == 0, done.output


def round_of(checkpoint):
    """How far a training had come when it saved itself; 0 before it did."""
    return read_card(checkpoint)["round"] if checkpoint.exists() else 0


def wait_for_round(checkpoint, wanted, process):
    """Until a training is so far and has saved it."""
    until = time.monotonic() + 120
    while round_of(checkpoint) < wanted:
        assert process.poll() is None, process.communicate()[1].decode()[-2000:]
        assert time.monotonic() < until
        time.sleep(0.02)


def weights(folder):
    """All weights of a model in one vector."""
    return torch.cat([p.flatten() for p in aline.load(folder).network.state_dict().values()])


def held_out(folder):
    """Mean log q of the truth, on experiments with random designs that neither run has seen."""
    generator = torch.Generator().manual_seed(1)
    task = get("linear", horizon=4)
    world, goal = task.draw(2000, generator), draw_goals(task.spec, 2000, generator)
    policy = RandomPolicy(task.spec.design)
    context = play(policy, world, goal, steps=4, generator=generator)
    belief = posterior_of(aline.load(folder).network, context)
    return float(belief.log_prob(world.theta[:, None]).mean())


def test_a_killed_training_resumes_to_the_weights_of_an_uninterrupted_one(tmp_path, task_file):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run = ("train", task_file, "--rounds", ROUNDS, "--seed", 5)
    run_here(*run, "--out", whole)
    moments, resume, done = random.Random(0), [], [0]
    for _ in range(2):
        process = start(*run, "--out", killed, "--checkpoint", "0.05s", *resume)
        wait_for_round(killed / CHECKPOINT, done[-1] + 3, process)
        time.sleep(moments.uniform(0.0, 0.2))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        resume, done = ["--resume"], [*done, round_of(killed / CHECKPOINT)]
    assert 0 < done[1] < done[2] < ROUNDS  # each time in the middle
    run_here(*run, "--out", killed, "--resume")
    assert torch.equal(weights(whole), weights(killed))


def test_two_workers_learn_as_one_process_does(tmp_path, task_file, pair):
    run_here("train", task_file, "--rounds", ROUNDS, "--out", tmp_path)
    one, two = held_out(tmp_path), held_out(pair)
    assert min(one, two) > -1.0  # the prior scores -1.42; other luck moves a short training by 0.2
    assert two > one - 0.2
    training = aline.load(pair).training
    assert training["episodes"] == ROUNDS * 96
    assert training["workers"] == 2


def test_torchrun_bears_the_loss_of_a_worker(tmp_path, task_file, pair):
    """Resumed, its workers end with the weights of ours, which lost nobody."""
    run = ("train", task_file, "--rounds", ROUNDS, "--out", tmp_path, "--checkpoint", "0.05s")
    process = start(*run, workers=2)
    wait_for_round(tmp_path / CHECKPOINT, 1, process)
    os.kill(children_of(process)[-1], signal.SIGKILL)
    _, error = process.communicate(timeout=120)
    assert process.returncode != 0, error.decode()
    assert round_of(tmp_path / CHECKPOINT) < ROUNDS
    finish(start(*run, "--resume", workers=2))
    assert aline.load(tmp_path).training["rounds"] == ROUNDS
    assert torch.equal(weights(pair), weights(tmp_path))


def test_our_workers_bear_the_loss_of_one_and_end_with_the_first(tmp_path, task_file):
    """A killed training leaves nobody behind."""
    run = ("train", task_file, "--rounds", ROUNDS, "--out", tmp_path, "--checkpoint", "0.05s")
    process = start(*run, "--workers", 2)
    wait_for_round(tmp_path / CHECKPOINT, 1, process)
    os.kill(children_of(process)[-1], signal.SIGKILL)
    _, error = process.communicate(timeout=120)
    assert process.returncode != 0, error.decode()
    assert "a worker of this training was lost: go on with --resume" in error.decode()
    process = start(*run, "--resume", "--workers", 2)
    wait_for_round(tmp_path / CHECKPOINT, round_of(tmp_path / CHECKPOINT) + 1, process)
    (other,) = children_of(process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    until = time.monotonic() + 60
    while Path(f"/proc/{other}").exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    run_here(*run, "--resume")
    assert aline.load(tmp_path).training["rounds"] == ROUNDS


def test_a_worker_that_cannot_start_is_told(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(UserError, match="--workers 1 shows why"), accompanied(2, ["train"]):
        raise AssertionError


def test_how_many_workers(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(3))
    assert (usual_count(200), usual_count(300), usual_count(1)) == (2, 3, 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64))
    assert usual_count(200) == 4
    task = get("linear")
    assert worker_count(None, task, rounds=None) == 4
    assert worker_count(None, task, rounds=5) == 1  # the same on every machine
    assert worker_count(2, task, rounds=5) == 2
    monkeypatch.setenv(WORKER, "0 2 /nowhere")
    assert worker_count(None, task, rounds=None) == 1


def test_a_batch_that_cannot_be_shared_is_refused():
    assert Workers(1, 2).share_of(200) == 100
    with pytest.raises(InputError, match="a multiple of the number of workers"):
        Workers(0, 3).share_of(200)
