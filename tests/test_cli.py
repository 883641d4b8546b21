"""The command line: what it prints, what it refuses, and what it does not import."""

from __future__ import annotations

import dataclasses
import importlib
import io
import re
import signal
import subprocess
import sys
import time
import types
import warnings
from typing import Any

import pytest

import understudy
import understudy.__main__ as entrance
from understudy import cli
from understudy.cli import help
from understudy.errors import UserError, unknown

NOT_FOR_HELP = ("jax", "numpy", "scipy", "matplotlib", "equinox", "optax", "gymnasium", "understudy.streams")


def call(capsys, *args: str) -> tuple[int, str, str]:
    try:
        code = cli.main(list(args))
    except SystemExit as leaving:  # tyro leaves like this after it has printed a command's help
        code = int(leaving.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def test_no_help_imports_anything_heavy():
    words = [command.split() for command in cli.LINES]
    asked = [[], ["--help"], ["--version"], ["check", "--help"], *([*one, "--help"] for one in words)]
    program = (
        "import sys\nfrom understudy.cli import main\n"
        f"for args in {asked!r}:\n"
        "    try:\n        code = main(args)\n"
        "    except SystemExit as leaving:\n        code = leaving.code\n"
        f"    heavy = [name for name in {NOT_FOR_HELP!r} if name in sys.modules]\n"
        "    if heavy or code:\n        sys.exit(f'{args} imported {heavy}')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "understudy" in done.stdout


def test_the_first_page_lists_every_command(capsys):
    code, out, _ = call(capsys, "--help")
    assert code == 0
    for command in cli.LINES:
        assert re.search(rf"^  {command} +\S", out, re.MULTILINE)
    assert max(map(len, out.splitlines())) <= 100
    assert call(capsys)[1] == out


def test_version(capsys):
    assert call(capsys, "--version") == (0, f"understudy {understudy.__version__}\n", "")


@pytest.mark.parametrize("command", cli.LINES)
def test_every_row_of_the_table_leads_somewhere(command, capsys):
    assert dataclasses.is_dataclass(cli.options_of(command))
    assert callable(cli.function_of(command))
    code, out, _ = call(capsys, *command.split(), "--help")
    assert code == 0
    assert out.startswith(f"usage: understudy {command}")


@pytest.mark.parametrize("command", ["train", "sweep"])
def test_the_short_help_has_twelve_options_and_the_long_one_all_in_groups(command, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    _, short, _ = call(capsys, command, "--help")
    _, long, _ = call(capsys, command, "--help-all")
    names = cli.named(command)
    assert max(map(len, (short + long).splitlines())) <= 80
    main = re.findall(r"^  (--[a-z-]+)", short.partition("matter to most:")[2].partition("\n\n")[0], re.M)
    assert len(main) == 12 and set(main) <= set(names)
    assert f"{len(names) - 12} more, in groups: understudy {command} --help-all" in short
    listed = re.findall(r"^  (--[a-z-]+)", long, re.M)
    assert sorted(listed) == sorted([*names, "--help", "--quiet"]), "each once"
    titles = re.findall(r"^(\S.*):$", long, re.M)
    assert titles == ["Options", *help.GROUPS.values()]
    assert "Rounds (default: 25, or with a budget" in " ".join(short.split())
    assert "(default: 2)." in long  # of --expert-retries


def test_a_command_with_few_options_has_one_help(capsys):
    assert (
        call(capsys, "watch", "--help") == call(capsys, "watch", "-h") == call(capsys, "watch", "--help-all")
    )
    _, out, _ = call(capsys, "report", "--help")
    assert re.search(r"^  --out, -o PATH +The file to write \(default: report.html\)\.$", out, re.M)


def test_a_misspelt_option_lists_no_others(capsys):
    code, _, err = call(capsys, "train", "CartPole-v1", "--roundss", "3")
    assert code == 2 and err == (
        "error: option: unknown value '--roundss', did you mean '--rounds'? "
        "`understudy train --help-all` lists all.\n"
    )
    few = str(unknown("column", "los", ["loss", "regret"]))
    many = str(unknown("column", "los", ["loss", *(f"other{n}" for n in range(40))]))
    assert few.endswith("Accepted: loss, regret.") and len(many) < 120
    assert many.startswith("column: unknown value 'los', did you mean 'loss'? Accepted are 41, such as loss")


def test_what_is_not_there_is_neither_watched_nor_resumed(tmp_path, capsys):
    for paths, told in ((["nowhere"], "there is no folder 'nowhere'"), ([str(tmp_path)], "neither a run")):
        code, _, err = call(capsys, "watch", *paths, "--no-browser")
        assert code == 2 and err.startswith("error: watch: ") and told in err
    out = tmp_path / "run"
    code, _, err = call(capsys, "train", "CartPole-v1", "--out", str(out), "--resume")
    assert code == 2 and not out.exists()
    assert (
        err == f"error: resume: there is no folder {str(out)!r}; without --resume a new run begins there.\n"
    )
    out.mkdir()  # as a run leaves it that was killed before its first file
    done = call(capsys, "train", "CartPole-v1", "--rounds", "0", "--out", str(out), "--resume")
    assert "no folder" not in done[2]


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["repaly", "x.npz"], "command: unknown value 'repaly', did you mean 'replay'?"),
        (["--verbose"], "command: unknown value '--verbose'"),
        (["check"], "check: what? Accepted: ask, certificate, env, expert, learner, loss, policy, solver."),
        (["check", "lerner", "ftl"], "check: unknown value 'lerner', did you mean 'learner'?"),
        (["replay", "x.npz", "--etta", "1"], "option: unknown value '--etta', did you mean '--eta'?"),
        (
            ["sweep", "CartPole-v1", "--resume"],
            "--resume: a study has no such option; the same command goes on",
        ),
        (["replay", "x.npz", "--etta=1"], "option: unknown value '--etta', did you mean '--eta'?"),
        (["replay", "x.npz", "--max_iteration", "1"], "did you mean '--max-iterations'?"),
        (["replay", "x.npz", "--eta", "large"], "--eta: 'large' is not a number."),
        (["replay", "x.npz", "--seed=1.5"], "--seed: '1.5' is not a whole number."),
        (["replay"], "STREAM"),
        (["replay", "x.npz", "y.npz"], "y.npz"),
        (["replay", "x.npz", "--eta"], "--eta: there is no value after it."),
        (["replay", "x.npz", "--eta="], "--eta: there is no value after it."),
        (["replay", "x.npz", "--out", ""], "--out: there is no value after it."),
        (["train", "CartPole-v1", "--resume="], "--resume: there is no value after it."),
        (["train", "CartPole-v1", "--widths", "--json"], "--widths: there is no value after it."),
        (["train", "CartPole-v1", "--widths", "8", "8.5"], "--widths: '8.5' is not a whole number."),
        (["train", "--env", "CartPole-v1"], "--env: it is given without a name: understudy train ENV."),
        (["train", "CartPole-v1", "--json=yes"], "--json: it takes no value, and 'yes' was given."),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(args, sentence, capsys):
    code, out, err = call(capsys, *args)
    assert (code, out) == (2, "")
    assert err.startswith("error: ") and err.count("\n") == 1
    assert sentence in err


class Screen(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_complaint_has_no_colours_and_no_box_on_a_terminal(encoding, monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stdout", Screen(io.BytesIO(), encoding=encoding))
    assert cli.main(["replay", "a.npz", "b.npz"]) == 2
    said = capsys.readouterr().err
    assert said == "error: Unrecognized options: b.npz (see understudy replay --help)\n"


def test_a_number_that_starts_with_a_dash_is_a_number(monkeypatch):
    seen = _body(monkeypatch)
    assert cli.main(["replay", "x.npz", "--eta", "-1e-3"]) == 0
    assert cli.main(["replay", "x.npz", "--learner", "ftrl", "--eta=0"]) == 0
    assert [options.given() for options in seen] == [{"eta": -1e-3}, {"eta": 0.0}]


def test_options_not_given_are_not_passed_on():
    from understudy.cli.train import Train

    assert Train().given() == {}
    typed = {"eta": 0.0, "start": 0, "diagonal": True, "widths": (8,), "rounds": 25}
    assert Train(**typed).given() == typed


@pytest.mark.parametrize(
    ("raised", "code", "says"),
    [(UserError("eta: no."), 2, "error: eta: no.\n"), (KeyboardInterrupt(), 130, "error: interrupted.\n")],
)
def test_errors_of_the_user_have_no_traceback(raised, code, says, monkeypatch, capsys):
    _body(monkeypatch, raised)
    assert call(capsys, "replay", "x.npz") == (code, "", says)


def test_debug_prints_everything(monkeypatch, capsys):
    def fails(options):
        try:
            raise ZeroDivisionError("in the robot")
        except ZeroDivisionError as error:
            raise UserError("environment: it failed.") from error

    monkeypatch.setattr(cli, "function_of", lambda words: fails)
    assert cli.main(["experts", "list", "--debug"]) == 2
    said = capsys.readouterr().err
    assert "ZeroDivisionError: in the robot" in said and "test_cli.py" in said
    assert said.endswith("error: environment: it failed.\n")
    assert cli.main(["experts", "list"]) == 2
    assert capsys.readouterr().err == "error: environment: it failed.\n"


def test_a_warning_is_one_line_and_memory_one_sentence(monkeypatch, capsys, recwarn):
    def short(options):
        raise MemoryError("Unable to allocate 1 PiB")

    monkeypatch.setattr(cli, "function_of", lambda words: short)
    usual = warnings.formatwarning
    assert cli.main(["experts", "list"]) == 2
    assert (
        "error: there is not enough memory (MemoryError: Unable to allocate 1 PiB" in capsys.readouterr().err
    )
    assert warnings.formatwarning is usual
    line = cli._sentence_of(usual)
    assert line("env: no episode ended.", UserWarning, "a.py", 3, None) == "warning: env: no episode ended.\n"
    assert "DeprecationWarning" in line("old", DeprecationWarning, "a.py", 3, None)
    yellow = "\x1b[33mWARN: The environment X-v1 is out of date.\x1b[0m"  # as Gymnasium paints it
    plain = "warning: The environment X-v1 is out of date.\n"
    assert line(yellow, DeprecationWarning, "a.py", 3, None) == plain
    assert line(yellow, UserWarning, "a.py", 3, None) == ""  # it was told


def test_errors_of_ours_keep_their_traceback(monkeypatch):
    _body(monkeypatch, ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        cli.main(["replay", "x.npz"])


def test_the_exit_code_is_the_commands(monkeypatch):
    _body(monkeypatch, returns=1)
    assert cli.main(["replay", "x.npz"]) == 1


def _body(monkeypatch, raises: BaseException | None = None, returns: int = 0) -> list:
    """Puts a recorder in the place of the command replay."""
    seen = []

    def run(options):
        seen.append(options)
        if raises is not None:
            raise raises
        return returns

    monkeypatch.setattr(importlib.import_module("understudy.cli.replay"), "run", run)
    return seen


def test_an_interrupt_inside_jax_s_garbage_collection_is_not_lost(monkeypatch):
    def _xla_gc_callback():
        cli._interrupted(signal.SIGINT, sys._getframe())

    monkeypatch.setattr(signal, "default_int_handler", lambda *_: pytest.fail("it would be lost here"))
    before = signal.signal(signal.SIGINT, lambda *_: again.append(1))
    again: list[int] = []
    try:
        _xla_gc_callback()
        limit = time.monotonic() + 10
        while not again and time.monotonic() < limit:
            time.sleep(0.01)
    finally:
        signal.signal(signal.SIGINT, before)
    assert again == [1]
    monkeypatch.undo()
    with pytest.raises(KeyboardInterrupt):
        cli._interrupted(signal.SIGINT, sys._getframe())


def test_an_interrupt_while_jax_is_imported_comes_later():
    """There it would crash the process. Only the code of JAX's modules themselves is meant."""

    def frame(module: str, name: str, back: Any = None) -> Any:
        code = types.SimpleNamespace(co_name=name)
        return types.SimpleNamespace(f_code=code, f_globals={"__name__": module}, f_back=back)

    importing = frame("jaxlib.client", "<module>")
    assert cli._delicate(frame("importlib", "find", importing))
    assert not cli._delicate(frame("jax.api", "jit", frame("mine", "<module>"))) and not cli._delicate(None)


def test_an_interrupt_while_the_command_line_is_imported_is_one_line(monkeypatch, capsys):
    class Importing(types.ModuleType):
        def __getattr__(self, name: str) -> Any:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "understudy.cli", Importing("understudy.cli"))
    monkeypatch.setattr(understudy, "cli", sys.modules["understudy.cli"])
    left: list[int] = []
    monkeypatch.setattr(entrance, "_leave", left.append)  # it ends the process
    assert entrance.main() == 130 and left == [130]
    assert capsys.readouterr().err == "error: interrupted.\n"


def test_an_interrupt_ends_the_process_before_python_takes_itself_apart():
    """There, what JAX was compiling would end it with a segmentation fault; what is to be done at the end is
    done.
    """
    program = (
        "import atexit, sys, types\nimport understudy.__main__ as entrance\n"
        "class Last:\n    def __del__(self):\n        print('too late')\n"
        "sys.last = Last()\n"
        "atexit.register(print, 'in time')\n"
        "sys.modules['understudy.cli'] = types.SimpleNamespace(main=lambda: 130)\n"
        "entrance.main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (130, "in time\n")


def test_every_text_can_be_printed(monkeypatch):
    """To an error stream that is closed, as in a service, and to a terminal that knows ASCII only."""
    plain = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", plain)
    monkeypatch.setattr(sys, "stderr", None)
    monkeypatch.setattr(sys, "argv", ["understudy", "train", "--help-all"])
    with pytest.raises(SystemExit):
        entrance.main()
    plain.flush()
    plain.seek(0)
    assert "Step size ? of ftrl" in " ".join(plain.read().split())
    monkeypatch.setattr(sys, "argv", ["understudy", "nothing"])
    assert entrance.main() == 2
