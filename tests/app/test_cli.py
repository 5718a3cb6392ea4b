import json
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import typer
from torch.distributions import Normal
from typer.testing import CliRunner, Result

from aline import __version__, zoo
from aline.app.card import facts_of
from aline.app.cli import app
from aline.app.taskfile import load_task
from aline.experiment import Experiment
from aline.files import read_card
from aline.model import Model
from aline.tasks import BUILT_IN, Task, get

COMMANDS = (
    "demo", "report", "tasks", "models", "train", "evaluate", "bench", "serve", "map-landscape"
)  # fmt: skip


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)), prog_name="aline")


def aline(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A real process."""
    program = [sys.executable, "-c", "from aline.app.cli import main; main()", *arguments]
    return subprocess.run(
        program, capture_output=True, text=True, check=False, cwd=cwd, timeout=120
    )


def only_line(result: Result) -> str:
    """The one line of a user's mistake."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
    return result.stderr


# Help


def test_help_lists_the_commands() -> None:
    result = run("--help")
    assert result.exit_code == 0
    assert all(command in result.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"Example: aline {command}" in result.stdout


def test_no_arguments_is_help() -> None:
    assert "Commands" in run().output


def test_version() -> None:
    assert run("--version").stdout == f"aline {__version__}\n"


def processor_seconds() -> float:
    """What finished child processes used; unlike the clock, it does not depend on the load."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def least_seconds(work: Callable[[], object], times: int = 5) -> float:
    """Of the processor, in child processes: what others do at the same time only adds to it."""
    seconds = []
    for _ in range(times):
        before = processor_seconds()
        work()
        seconds.append(processor_seconds() - before)
    return min(seconds)


def test_help_is_quick() -> None:
    """0.4 s is what we want: 0.25 s on a quiet machine, and twice that on a slow and busy one."""
    assert least_seconds(lambda: aline("--help").check_returncode()) < 0.8


def test_importing_aline_is_quick() -> None:
    """It takes 0.04 s; 0.1 s is what we want on any but a slow machine."""
    program = [sys.executable, "-c", "import aline"]
    assert least_seconds(lambda: subprocess.run(program, check=True)) < 0.2


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "from aline.app.cli import main\n"
        "try:\n    main()\n"
        "finally:\n"
        "    heavy = {'torch', 'numpy', 'matplotlib', 'scipy', 'sqlalchemy', 'fastapi'}\n"
        "    heavy &= set(sys.modules)\n"
        "    print('heavy', sorted(heavy))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, "--help"], capture_output=True, text=True, check=False
    )
    assert result.stdout.endswith("heavy []\n")


# Lists


def test_tasks() -> None:
    text, data = run("tasks"), run("tasks", "--json")
    assert all(name in text.stdout for name in BUILT_IN)
    assert [row["task"] for row in json.loads(data.stdout)] == list(BUILT_IN)


def test_models() -> None:
    text, data = run("models"), run("models", "--json")
    assert text.exit_code == 0
    assert [row["model"] for row in json.loads(data.stdout)] == zoo.shipped()


def test_models_are_a_line_each_and_one_is_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("models").stdout.splitlines()
    assert [line.split()[0] for line in lines[2 : 2 + len(zoo.shipped())]] == zoo.shipped()
    assert len(lines) == len(zoo.shipped()) + 4  # header, rule, a blank line, what to try next
    assert max(map(len, lines)) <= 80
    card = run("models", "location").stdout
    assert card.startswith("location\n  task")
    assert "source_x ~ Uniform(0, 1)" in card
    assert json.loads(run("models", "location", "--json").stdout)["model"] == "location"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "psychometrik"], "got 'psychometrik': did you mean psychometric?"),
        (["train", "LINEAR"], "did you mean linear?"),
        (["models", "locaton"], "got 'locaton': did you mean location?"),
        (["evaluate", "psychometrc"], "got 'psychometrc': did you mean psychometric?"),
        (["demo", "psychometric", "--target", "treshold"], "did you mean threshold?"),
        (["demo", "ces", "--target", "alpha_4"], "did you mean alpha_"),
        (["bench", "psychometrics"], "did you mean psychometric?"),
        (["bench", "all"], "say --quick, for about a quarter of an hour, or --full"),
        (["bench", "al", "--full"], "--full is for `aline bench all`: leave it out"),
        (["trian"], "Did you mean 'train'?"),
    ],
)
def test_did_you_mean(arguments: list[str], message: str, tmp_path: Path) -> None:
    assert message in only_line(run(*arguments))


def test_no_model_at_all_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoo, "shipped", lambda: [])
    assert "aline train" in run("models").stdout


# Demo


@pytest.mark.parametrize("name", ["psychometric", "location", "two sources", "linear"])
def test_demo_shows_trials_and_writes_a_report(
    folders: dict[str, Path], name: str, tmp_path: Path
) -> None:
    report = tmp_path / "report.html"
    result = run("demo", folders[name], "--trials", "3", "--report", report)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines if line[:5].strip().isdigit()] == ["1", "2", "3"]
    assert "Against the truth" in result.stdout
    assert f"Report: {report}" in result.stdout
    assert [line.startswith("  aline ") for line in lines[-6:]] == [False, True] * 3
    assert "<svg" in report.read_text()


def test_a_report_that_is_there_stays(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mine = tmp_path / "mine.html"
    mine.write_text("mine")
    refused = run("demo", folders["linear"], "--trials", "1", "--report", mine)
    assert "mine.html is there already: add --overwrite to replace it" in only_line(refused)
    assert mine.read_text() == "mine"
    run("demo", folders["linear"], "--trials", "1", "--report", mine, "--overwrite")
    assert "<svg" in mine.read_text()
    for name in ("aline-report-linear.html", "aline-report-linear-2.html"):
        assert f"{name}\n" in run("demo", folders["linear"], "--trials", "1").stdout
        assert (tmp_path / name).is_file()


def test_demo_without_a_report(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("demo", folders["linear"], "--no-report")
    assert result.exit_code == 0
    assert "Report" not in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_demo_as_json(folders: dict[str, Path]) -> None:
    result = run("demo", folders["linear"], "--trials", "2", "--no-report", "--json", "--seed", "5")
    data = json.loads(result.stdout)
    assert [trial["number"] for trial in data["trials"]] == [1, 2]
    assert set(data["truth"]) == {"intercept", "slope"}
    assert data["seed"] == 5


def test_demo_with_another_target(folders: dict[str, Path]) -> None:
    arguments = ("--target", "guess, lapse", "--trials", "1", "--no-report", "--json")
    assert json.loads(run("demo", folders["psychometric"], *arguments).stdout)["target"] == [
        "guess",
        "lapse",
    ]


def test_demo_of_an_own_task(
    own_file: Path, save: Callable[[Task, Path], Path], tmp_path: Path
) -> None:
    folder = save(load_task(f"{own_file}:task"), tmp_path / "decay")
    report = tmp_path / "report.html"
    result = run("demo", folder, "--task", f"{own_file}:task", "--report", report)
    assert result.exit_code == 0, result.output
    assert "rate (1/s)" in report.read_text()
    assert f"--task {own_file}:task" in result.stdout


@pytest.mark.skipif("psychometric" not in zoo.shipped(), reason="no psychometric weights shipped")
def test_demo_of_the_shipped_model(tmp_path: Path) -> None:
    result = aline("demo", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert (tmp_path / "aline-report-psychometric.html").is_file()
    assert sum(line[:5].strip().isdigit() for line in result.stdout.splitlines()) == 30


@pytest.mark.parametrize("name", zoo.shipped())
def test_every_shipped_model_says_how_long_a_trial_took(name: str) -> None:
    """On a line of its own; functions are known by their prediction and its error."""
    result = run("demo", name, "--trials", "2", "--no-report")
    assert result.exit_code == 0, result.output
    timed = [line for line in result.stdout.splitlines() if " ms a trial" in line]
    assert len(timed) == 1
    assert re.fullmatch(r"Choosing a design and updating .* took [\d.]+ ms a trial\.", timed[0])
    assert bool(re.search(r"→ function +prediction +error", result.stdout)) == name.startswith("gp")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "a model must be a folder"),
        (["{linear}", "--target", "slop"], "got 'slop'"),
        (["{linear}", "--target", ""], "got none"),
        (["{linear}", "--trials", "0"], "--trials"),
        (["{linear}", "--task", "nowhere.py:task"], "no file nowhere.py"),
        (["decay.py:task"], "a model is needed here"),
    ],
)
def test_mistakes_in_a_demo(folders: dict[str, Path], arguments: list[str], message: str) -> None:
    given = [argument.format(linear=folders["linear"]) for argument in arguments]
    assert message in only_line(run("demo", *given, "--no-report"))


def test_a_damaged_model(folders: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "weights.safetensors").write_bytes(b"not weights")
    assert "is damaged" in only_line(run("demo", tmp_path))


def test_a_report_that_cannot_be_written(folders: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run("demo", folders["linear"], "--json", "--report", tmp_path / "file" / "x.html")
    assert "cannot use" in only_line(result)


# Train


def test_train_an_own_task_and_use_it(
    own_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("train", "decay.py:task", "--rounds", "1")
    assert result.exit_code == 0, result.output
    assert "Model: runs/decay" in result.stdout
    assert "aline demo runs/decay --task decay.py:task" in result.stdout
    assert (tmp_path / "runs/decay/weights.safetensors").is_file()
    again = run("train", "decay.py:task", "--rounds", "1")
    assert "runs/decay holds an earlier run" in only_line(again)
    assert run("train", "decay.py:task", "--rounds", "2", "--resume").exit_code == 0
    demo = run("demo", "runs/decay", "--task", "decay.py:task", "--trials", "2")
    assert demo.exit_code == 0, demo.output
    assert (tmp_path / "aline-report-decay.html").is_file()


def test_a_training_takes_another_policy_and_credit(tmp_path: Path) -> None:
    chosen = ("--policy", "pool", "--credit", "return")
    result = run("train", "linear", "--rounds", "1", *chosen, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    card = json.loads((tmp_path / "card.json").read_text())
    assert card["model"]["policy"] == "pool"
    assert card["training"]["config"]["credit"] == "return"


def test_a_model_is_trained_further(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert run("train", "linear", "--rounds", "1", "--out", first).exit_code == 0
    result = run("train", "linear", "--initial", first, "--rounds", "1", "--out", second)
    assert result.exit_code == 0, result.output
    training = json.loads((second / "card.json").read_text())["training"]
    assert training["after"]["rounds"] == 1
    assert training["config"]["warmup"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "built-in tasks are"),
        (["linear", "--initial", "nowhere"], "nowhere"),
        (["linear", "--initial", "location"], "pass a model of this very task"),
        (["linear", "--initial", "location", "--policy", "box"], "leave it out"),
        (["nowhere.py:task"], "no file nowhere.py"),
        (["linear", "--budget", "soon"], 'such as "90s"'),
        (["linear", "--budget", "5"], 'write "5min" or "5s"'),
        (["linear", "--rounds", "0"], "rounds"),
        (["linear", "--policy", "box", "--credit", "return"], "use paired or pathwise"),
        (["linear", "--credit", "luck"], "'luck' is not one of"),
        ([], "Missing argument"),
    ],
)
def test_mistakes_in_a_training(arguments: list[str], message: str, tmp_path: Path) -> None:
    result = run("train", *arguments, "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


# A real process


TINY = """
import torch, aline
from torch.distributions import Normal

task = aline.Task(
    name="tiny",
    parameters={"a": Normal(0.0, 1.0)},
    design=aline.Box(x=(0.0, 1.0)),
    outcome=aline.Real(),
    simulate=lambda theta, design, generator: (
        theta["a"] * design["x"] + 0.1 * torch.randn(design["x"].shape, generator=generator)
    ),
    horizon=2,
    model={"width": 8, "heads": 1, "layers": 1, "feedforward": 8, "policy_layers": 1},
    training={"batch": 4, "updates": 1, "prefixes": 1, "points": 1, "candidates": 2},
)
"""


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    """A task whose training has many rounds a second."""
    (tmp_path / "tiny.py").write_text(TINY)
    return f"{tmp_path / 'tiny.py'}:task"


@contextmanager
def training(task: str, folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """In a process of its own, some rounds into it."""
    # As a terminal starts it: where the tests run in the background, Ctrl-C would be ignored.
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    main = "from aline.app.cli import main; main()"
    program = [sys.executable, "-c", heard + main, "train", task]
    with subprocess.Popen(
        [*program, "--out", str(folder), "--workers", "1", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell ignores Ctrl-C for what it runs in the background, and so would this process.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            deadline = time.monotonic() + 60
            while not (folder / "metrics.jsonl").exists() and process.poll() is None:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            yield process
        finally:
            process.kill()


def test_a_training_has_its_folder_alone_and_saves_itself_on_ctrl_c(
    tiny: str, tmp_path: Path
) -> None:
    folder = tmp_path / "my run"
    options = ("--rounds", "1000000", "--seed", "3", "--checkpoint", "1h")
    with training(tiny, folder, *options) as first:
        for option in ("--resume", "--overwrite"):
            refused = run("train", tiny, "--out", folder, option)
            assert f"trained into by process {first.pid}" in only_line(refused)
        assert not (folder / "checkpoint.safetensors").exists()
        first.send_signal(signal.SIGINT)
        _, said = first.communicate(timeout=90)
    assert first.returncode == 130
    assert (
        f"train {tiny} --rounds=1000000 --seed=3 '--out={folder}' --checkpoint=1h --workers=1 "
        "--resume\n"
    ) in said
    done = read_card(folder / "checkpoint.safetensors")["round"]
    assert done >= 20
    again = run("train", tiny, f"--rounds={done + 1}", "--seed=3", f"--out={folder}", "--resume")
    assert again.exit_code == 0, again.output
    assert Model.load(folder).training["rounds"] == done + 1


def test_the_command_that_resumes_has_every_option(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It forgot --no-verdict."""

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("aline.app.runs.train", stop)
    options = ["--budget=90s", "--rounds=7", "--seed=3", f"--out={tmp_path / 'run'}",
               "--checkpoint=2min", "--policy=pool", "--credit=paired", "--priors",
               "--workers=1", "--no-verdict"]  # fmt: skip
    result = run("train", tiny, *options)
    assert result.exit_code == 130
    for option in [*options, "--resume"]:
        assert f" {option}" in result.stderr.replace("'", "")
    train = typer.main.get_command(app).commands["train"]  # type: ignore[attr-defined]
    given = {one.split("=")[0].replace("--no-", "--") for one in options}
    known = {one.opts[0] for one in train.params if one.param_type_name == "option"}
    assert known - given == {"--resume", "--overwrite", "--initial", "--help"} & known


def test_a_model_is_trained_to_take_priors(tiny: str, tmp_path: Path) -> None:
    result = run("train", tiny, "--priors", "--rounds", "1", "--out", tmp_path / "open")
    assert result.exit_code == 0, result.output
    model = Model.load(tmp_path / "open")
    assert Experiment(model, prior={"a": Normal(1.0, 0.1)}).ask().design["x"] <= 1.0
    refused = run("train", tiny, "--priors", "--initial", tmp_path / "open", "--out", tmp_path)
    assert "--priors is settled by the --initial model: leave it out" in only_line(refused)


def test_a_full_disk_is_no_bug_of_ours(tiny: str, tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    result = run("train", tiny, "--rounds", "1", "--out", tmp_path, "--resume")
    assert result.exit_code == 2
    last = result.stderr.splitlines()[-1]  # after the lines that say how far it got
    assert "metrics.jsonl: No space left on device: free some space and try" in last


def test_a_checkpoint_that_does_not_fit_on_the_disk_is_no_bug_of_ours(
    tiny: str, tmp_path: Path
) -> None:
    """A file may have 10 kB here, as if the disk were full then."""
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (10000, 10000)); "
    folder = tmp_path / "run"
    program = limited + "from aline.app.cli import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", program, "train", tiny, "--rounds=1", f"--out={folder}"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 2, result.stderr
    assert "checkpoint.safetensors: File too large: free some space" in result.stderr
    assert [path.name for path in folder.iterdir()] == ["metrics.jsonl"]  # nothing in part


DOUBTFUL = TINY.replace(' + 0.1 * torch.randn(design["x"].shape, generator=generator)', "")


def test_a_doubt_about_a_task_is_one_line_and_no_end(tmp_path: Path) -> None:
    (tmp_path / "doubtful.py").write_text(DOUBTFUL)
    result = aline("train", "doubtful.py:task", "--rounds", "1", "--out", "run", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    said = [line for line in result.stderr.splitlines() if "warning" in line]
    assert len(said) == 1
    assert said[0].startswith("aline: warning: task tiny: answers should be noisy, and simulate")


def test_numpys_habits_in_a_file_are_told_with_their_line(tmp_path: Path) -> None:
    wrong = "generator.normal(size=design['x'].shape)"
    (tmp_path / "habit.py").write_text(
        TINY.replace('torch.randn(design["x"].shape, generator=generator)', wrong)
    )
    said = run("train", f"{tmp_path}/habit.py:task", "--rounds", "1", "--out", tmp_path / "run")
    assert said.exit_code == 2
    assert re.search(r"habit.py raised an error: line 1\d: AttributeError", said.stderr)
    assert "draw with torch.randn(shape, generator=generator)" in said.stderr


def test_a_mistake_in_a_real_process_is_one_line() -> None:
    result = aline("demo", "nonsense")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("aline: a model must be a folder")
    assert result.stderr.count("\n") == 1


def test_a_verdict_is_measured_kept_and_shown(
    tmp_path: Path, save: Callable[[Task, Path], Path]
) -> None:
    folder = save(get("linear", horizon=2), tmp_path / "linear")
    result = run("evaluate", folder, "--verdict", "--record", "--episodes", "16")
    assert result.exit_code == 0, result.output
    assert "the best fixed schedule" in result.stdout
    verdict = Model.load(folder).measurements["verdict"]
    assert verdict["sentence"] in result.stdout
    again = run("evaluate", folder, "--episodes", "2")
    assert verdict["sentence"] in again.stdout
    assert facts_of(Model.load(folder))["verdict"].startswith(verdict["sentence"])


def test_report_of_a_stored_experiment(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = zoo.load(str(folders["linear"]))
    experiment = Experiment(model, storage="sqlite:///lab.db", name="sensor")
    experiment.tell(experiment.ask(), 0.5)
    first, second = run("report", "sqlite:///lab.db"), run("report", "sqlite:///lab.db", "sensor")
    assert f"Report: {tmp_path / 'aline-report-sensor.html'}" in first.stdout
    assert f"Report: {tmp_path / 'aline-report-sensor-2.html'}" in second.stdout
    assert "1 trial of 4 so far" in (tmp_path / "aline-report-sensor.html").read_text()
    refused = run("report", "sqlite:///lab.db", "nobody")
    assert "'sensor', got 'nobody'" in only_line(refused)
