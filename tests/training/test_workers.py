"""Trainings in real processes: killed, resumed, and shared between workers."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
import torch

import aline
from aline.episodes import RandomPolicy, draw_goals, play
from aline.errors import InputError
from aline.tasks import get
from aline.training.workers import Workers

OWN_TASK = """
import aline
task = aline.tasks.get("linear", horizon=4)
"""


@pytest.fixture
def task_file(tmp_path):
    """A task in a file, as a user has it."""
    path = tmp_path / "line.py"
    path.write_text(OWN_TASK)
    return f"{path}:task"


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


def finish(process):
    """Wait for the end, which must be a good one."""
    _, error = process.communicate(timeout=240)
    assert process.returncode == 0, error.decode()[-2000:]


def wait_for(path, process):
    """Until a file is there."""
    until = time.monotonic() + 120
    while not path.exists():
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
    view = aline.load(folder).network.read(context)
    return float(view.posterior().log_prob(world.theta[:, None]).mean())


def test_a_killed_training_resumes_to_the_weights_of_an_uninterrupted_one(tmp_path, task_file):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run = ("train", task_file, "--rounds", 16, "--seed", 5)
    finish(start(*run, "--out", whole))
    moments = random.Random(0)
    for attempt in range(3):
        resume = ["--resume"] if attempt else []
        process = start(*run, "--out", killed, "--checkpoint", "0.05s", *resume)
        wait_for(killed / "checkpoint.safetensors", process)
        time.sleep(moments.uniform(0.0, 2.0) + 2.0 * bool(resume))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    finish(start(*run, "--out", killed, "--resume"))
    assert torch.equal(weights(whole), weights(killed))


def test_two_workers_learn_as_one_process_does(tmp_path, task_file):
    run = ("train", task_file, "--rounds", 30)
    finish(start(*run, "--out", tmp_path / "one"))
    finish(start(*run, "--out", tmp_path / "two", workers=2))
    one, two = held_out(tmp_path / "one"), held_out(tmp_path / "two")
    assert two == pytest.approx(one, abs=0.1)
    assert two > -1.0  # the prior scores -1.42
    training = aline.load(tmp_path / "two").training
    assert training["episodes"] == 30 * 200
    assert training["workers"] == 2


def test_a_training_survives_the_loss_of_a_worker(tmp_path, task_file):
    run = ("train", task_file, "--rounds", 12, "--out", tmp_path, "--checkpoint", "0.05s")
    process = start(*run, workers=2)
    wait_for(tmp_path / "checkpoint.safetensors", process)
    children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, check=True)
    os.kill(int(children.stdout.split()[-1]), signal.SIGKILL)
    _, error = process.communicate(timeout=120)
    assert process.returncode != 0, error.decode()
    finish(start(*run, "--resume", workers=2))
    assert aline.load(tmp_path).training["rounds"] == 12


def test_a_batch_that_cannot_be_shared_is_refused():
    assert Workers(1, 2).share_of(200) == 100
    with pytest.raises(InputError, match="a multiple of the number of workers"):
        Workers(0, 3).share_of(200)
