"""The command line: a table of commands, each with its options and its function in one file of this room.

Only what a call needs is imported: the first page imports neither tyro nor jax.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import io
import itertools
import os
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Collection, Generator, Sequence
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, TypeAlias, get_args

from .. import __version__
from ..errors import UserError, shorten, suggest, unknown
from ..machine import VARIABLE, use_cache
from ..progress import silent

if TYPE_CHECKING:
    from ..spec import Setting
    from .options import Options

Field: TypeAlias = "dataclasses.Field[Setting]"

NO_CACHE, DEBUG, QUIET, HELP_ALL = "--no-cache", "--debug", "--quiet", "--help-all"
"""Options of every command: compile anew, and keep nothing; print the whole traceback of an error; show no
progress; print all options."""
GYMNASIUM = "WARN: "
"""How Gymnasium's warnings begin."""
Format: TypeAlias = Callable[[Warning | str, type[Warning], str, int, str | None], str]
"""How a warning is printed: `warnings.formatwarning`."""


COMMANDS: dict[str, dict[str, str]] = {
    "Imitate an expert": {
        "train": "learn to act as an expert does, in any Gymnasium environment",
        "sweep": "train a whole grid of learners, steps and seeds at once; tune; resume",
        "evaluate": "play episodes with the policy of a run",
        "play": "make a video of a run's policy beside its expert",
        "export": "take a run along: ONNX, NumPy, episodes for Minari and LeRobot",
        "card": "a model card beside a run's policy, or a folder for a hub",
        "report": "one HTML page about runs and studies, without a network",
        "plot": "one figure of runs and studies, for a paper: return against labels and the like",
        "watch": "the same page on this machine, while runs go on",
        "experts list": "the experts that come with the package",
        "expert train": "train an expert of your own, with SAC, TD3, PPO or DQN",
        "demo": "Hopper: FTL, AdaFTRL and cloning against each other",
    },
    "Learn from a recorded stream": {
        "replay": "play a stream of losses to a learner: ledger, regret, certificate, plot",
    },
    "Your own parts": {
        "check learner": "put a learner through the conformance suite",
        "check solver": "put a solver through the conformance suite",
        "check policy": "put a policy through the conformance suite",
        "check loss": "put a loss through the conformance suite",
        "check ask": "put an ask rule through the conformance suite",
        "check env": "put an environment through the conformance suite",
        "check expert": "put an expert through the conformance suite",
        "check certificate": "search for a stream whose regret is above its certified bound",
    },
    "This installation": {
        "doctor": "versions, devices, extras, and where compiled programs are kept",
        "completion": "a script for bash, zsh or fish that completes commands and options",
    },
}
"""By group: the words typed and a line for the first page. A command's function is WORD.run or, of two words,
FIRST.SECOND in this room; its options are the class there that has the words for a name."""
LINES = {words: line for group in COMMANDS.values() for words, line in group.items()}

FIRST_PAGE = """\
understudy: online imitation learning with exact regret

  An expert knows what to do; a policy learns to do it, round by round. Every learner (FTL, which is
  DAgger; FTRL, Alt-FTRL, AdaFTRL, OGD, AdaGrad) is judged against the best policy in hindsight.

Usage: understudy COMMAND [OPTIONS]

Examples:
  understudy train Hopper-v5
  understudy train CartPole-v1 --expert my_module:act --loss cross-entropy
  understudy train Walker2d-v5 --learner adaftrl --out runs/w
  understudy train --out runs/w --resume
  understudy sweep Hopper-v5 --learners ftl ftrl --grid step=1e-3:1e3:log7 --seeds 3 --out studies/h
  understudy replay stream.npz --learner ftrl --eta 0.1
  understudy replay stream.npz --learner adaftrl --loss huber --out runs/huber --json
  understudy check learner my_module:my_learner

{commands}

  understudy COMMAND --help        the options of a command that matter to most
  understudy COMMAND --help-all    all of them, in groups
  understudy COMMAND --no-cache    compile anew, and keep no compiled programs
  understudy COMMAND --debug       print the whole traceback of an error
  understudy COMMAND --quiet       show no progress; results, warnings and errors are printed
  understudy --version             the version
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit code: 0, 1 (a check failed), 2 (bad input) or 130 (interrupted)."""
    return guarded(_run, sys.argv[1:] if argv is None else argv)


def guarded(run: Callable[[list[str]], int], args: Sequence[str]) -> int:
    """``run(args)`` as a command line: an error of the user is one sentence on the error stream and the exit
    code 2, an interrupt 130, and with ``--debug`` among `args` the traceback is printed too. Warnings are
    plain lines, each once.

    >>> guarded(lambda args: 0, ["--debug"])
    0
    """
    # Before NumPy is loaded: products of one row are too small to share, and waiting threads eat a core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    usual = warnings.formatwarning
    warnings.formatwarning = _sentence_of(usual)
    with contextlib.suppress(ValueError):  # a thread of its own has no signals
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _interrupted)
    try:
        return run([word for word in args if word != DEBUG])
    except (UserError, MemoryError) as error:
        if DEBUG in args:
            traceback.print_exception(error)
        full = isinstance(error, MemoryError)
        print(
            f"error: {f'there is not enough memory ({shorten(error)}).' if full else error}", file=sys.stderr
        )
        return 2
    except KeyboardInterrupt as error:
        print(f"error: {error}" if error.args else "error: interrupted.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of the output has ended, as `head` does; flushing it would raise again.
        sys.stdout = None  # type: ignore[assignment]
        return 141
    finally:
        warnings.formatwarning = usual


def _interrupted(number: int, frame: FrameType | None) -> None:
    """Ctrl-C as Python has it, but for moments in which it comes again a little later: what is raised in
    JAX's callback of the garbage collector is ignored, and while JAX is imported it crashes the process.
    """
    if _delicate(frame):
        threading.Timer(0.02, os.kill, (os.getpid(), number)).start()
    else:
        signal.default_int_handler(number, frame)


def _delicate(frame: FrameType | None) -> bool:
    """Whether an exception must not be raised in this frame."""
    callback = frame is not None and frame.f_code.co_name == "_xla_gc_callback"
    while frame is not None and not callback:
        module = frame.f_globals.get("__name__", "").partition(".")[0]
        callback = frame.f_code.co_name == "<module>" and module in ("jax", "jaxlib")
        frame = frame.f_back
    return callback


def _sentence_of(usual: Format) -> Format:
    """Our warnings, and Gymnasium's without their colour, as one plain line, each once; others as usual."""
    printed: set[str] = set()

    def spell(
        message: Warning | str, category: type[Warning], file: str, number: int, line: str | None = None
    ) -> str:
        text = re.sub(r"\x1b\[[0-9;]*m", "", str(message))
        if category is not UserWarning and not text.startswith(GYMNASIUM):
            return usual(message, category, file, number, line)
        sentence = f"warning: {' '.join(text.removeprefix(GYMNASIUM).split())}\n"
        new = sentence not in printed
        printed.add(sentence)
        return sentence if new else ""

    return spell


def _run(args: list[str]) -> int:
    if not args or args[0] in ("-h", "--help"):
        print(FIRST_PAGE.format(commands=_listing(LINES)), end="")
        return 0
    if args[0] in ("-V", "--version"):
        print(f"understudy {__version__}")
        return 0
    words, rest = _find(args)
    if words is None:
        return 0
    options = parse(words, [word for word in rest if word not in (NO_CACHE, QUIET)])
    command = function_of(words)
    with contextlib.ExitStack() as around:
        if NO_CACHE in rest:
            around.enter_context(_no_cache())
        else:
            use_cache()
        if QUIET in rest:
            around.enter_context(silent())
        if "--json" in rest:  # then the output is one line, and tables go to the error stream
            from ..report.tables import json_only

            around.enter_context(json_only())
        return int(command(options) or 0)


@contextlib.contextmanager
def _no_cache() -> Generator[None]:
    """Inside the block nothing is kept, by worker processes neither."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = "off"
    try:
        yield
    finally:
        del os.environ[VARIABLE]
        if before is not None:
            os.environ[VARIABLE] = before


def _listing(shown: Collection[str]) -> str:
    """Group by group, the commands among `shown` with one line each."""
    width = max(map(len, shown))
    blocks: list[str] = []
    for title, group in COMMANDS.items():
        lines = [f"  {words:<{width}}  {line}" for words, line in group.items() if words in shown]
        if lines:
            blocks.append("\n".join([f"{title}:", *lines]))
    return "\n\n".join(blocks)


def _find(args: list[str]) -> tuple[str | None, list[str]]:
    """The command whose words `args` begin with, and the rest; None after a family's own help was printed."""
    for length in (1, 2):
        if (words := " ".join(args[:length])) in LINES:
            return words, args[length:]
    first = args[0]
    if first == "paper":
        typed = " ".join(["python -m paper", *args[1:]])
        raise UserError(f"paper: its studies are not in the package; type `{typed}` in the repository.")
    family = [words for words in LINES if words.startswith(f"{first} ")]
    if not family:
        raise unknown("command", first, {words.split()[0] for words in LINES})
    names = [words.split()[1] for words in family]
    if len(args) == 1:
        raise UserError(f"{first}: what? Accepted: {', '.join(sorted(names))}.")
    if args[1] in ("-h", "--help"):
        print(f"Usage: understudy {first} COMMAND [OPTIONS]\n\n{_listing(family)}")
        return None, []
    raise unknown(first, args[1], names)


def options_of(words: str) -> type[Options]:
    """The dataclass that is parsed for a command."""
    return getattr(_module(words), words.title().replace(" ", ""))


def function_of(words: str) -> Callable[[Options], int]:
    """What is called with the options of a command."""
    return getattr(_module(words), words.partition(" ")[2] or "run")


def _module(words: str) -> ModuleType:
    return importlib.import_module(f".{words.split()[0]}", __package__)


def named(words: str) -> dict[str, Field]:
    """The options of a command, `--name` with its field; what is given by its place has no name."""
    fields = (field for field in dataclasses.fields(options_of(words)) if not _placed(field))
    return {f"--{field.name.replace('_', '-')}": field for field in fields}


def _placed(field: Field) -> bool:
    return "Positional" in str(field.type)


def parse(words: str, args: list[str]) -> Options:
    """The options of a command from what was typed; what does not fit is refused with one sentence."""
    import tyro

    options = options_of(words)
    if any(field.name == "resume" and field.type == "Name" for field in dataclasses.fields(options)):
        args = [
            "--resume=exact" if word == "--resume" else word for word in args
        ]  # its value may be left out
    if asked := {"-h", "--help", HELP_ALL}.intersection(args):
        from . import help

        kinds = {name: _kind(field.type) for name, field in named(words).items()}
        print(help.text(words, options, kinds, full=HELP_ALL in asked))
        raise SystemExit(0)
    _refuse(words, args)
    # Not a terminal: there a complaint would have colours.
    complaint = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    try:
        with contextlib.redirect_stderr(complaint), contextlib.redirect_stdout(complaint):
            return tyro.cli(
                options,
                prog=f"understudy {words}",
                args=args,
                config=(tyro.conf.FlagCreatePairsOff, tyro.conf.DisallowNone),
            )
    except SystemExit as leaving:
        if leaving.code:
            complaint.seek(0)
            raise UserError(f"{_sentence(complaint.read())} (see understudy {words} --help)") from None
        raise


def _refuse(words: str, args: list[str]) -> None:
    """Refuses, in our own words, an option that does not exist, one without a value, and a number that is
    not one.
    """
    fields = named(words)
    for index, given in enumerate(itertools.takewhile(lambda word: word != "--", args)):
        typed, equals, value = given.partition("=")
        name = typed.replace("_", "-")
        if not given.startswith("--"):
            continue
        if name == "--resume" and name not in fields and "--workers" in fields:
            raise UserError("--resume: a study has no such option; the same command goes on where it was.")
        if name not in fields:
            placed = [field.name for field in dataclasses.fields(options_of(words)) if _placed(field)]
            if name[2:].replace("-", "_") in placed:
                raise UserError(f"{name}: it is given without a name: understudy {words} {name[2:].upper()}.")
            if "--steps-per-round" in fields:
                from ..spec import refuse_old_name

                refuse_old_name(name[2:].replace("-", "_"), option=True)
            listed = f"`understudy {words} {HELP_ALL}` lists all."
            raise UserError(f"option: unknown value {typed!r}{suggest(typed, [*fields])} {listed}")
        kind, many = _kind(fields[name].type)
        if kind is bool:
            if equals:
                raise UserError(f"{name}: it takes no value, and {value!r} was given.")
            continue
        after = itertools.takewhile(lambda word: not word.startswith("--"), args[index + 1 :])
        texts = [value] if equals else list(after)
        if not texts or not texts[0]:
            raise UserError(f"{name}: there is no value after it.")
        for text in texts if many else texts[:1]:
            try:
                kind(text)
            except ValueError:
                wanted = "a whole number" if kind is int else "a number"
                raise UserError(f"{name}: {text!r} is not {wanted}.") from None


def _kind(kind: str | type) -> tuple[type, bool]:
    """Whether an option is a flag (bool), a number or a word, and whether it takes several; `kind` is an
    annotation, or the name of one.
    """
    if isinstance(kind, str):
        flags, numbers = dict.fromkeys(("Flag", "Json"), bool), {"Number": float, "Whole": int}
        return (flags | numbers | {"float": float, "int": int}).get(kind, str), kind == "Names"
    plain = get_args(kind)[0]
    if plain == tuple[int, ...]:
        return int, True
    return next((each for each in (bool, int, float) if plain in (each, each | None)), str), False


def _sentence(box: str) -> str:
    """The first paragraph inside a box that was drawn for a screen, on one line."""
    lines = [line.strip("│ ").strip() for line in box.splitlines()]
    inside = [line for line in lines if not line.startswith("╭")]
    upto = next((i for i, line in enumerate(inside) if line.startswith(("─", "╰"))), len(inside))
    return " ".join(" ".join(inside[:upto]).split())
