"""Command lines, specs, study files, run folders and expert archives that nobody wrote: one sentence each."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import random
import shutil
import struct
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torture.worst import SMALL, Outcome
from understudy import Record, RunSpec, UserError, cli, experts, imitate
from understudy.studies import study as studies

HERE = Path(__file__).parent.parent
WORDS = ("", "0", "-1", "1e999", "nan", "inf", "-inf", "1.5", "99999999999999999999", "a", "é", "💥", "None")
WORDS += ("true", "[]", "{}", '{"a": 1}', "a:b", "os:system", "../..", "/dev/null", "linear:0", "5,x", "\x00")
WORDS += (
    "ftl",
    "mlp",
    "squared",
    "adam",
    "CartPole-v1",
    "last",
    "exponential:2",
    "random:3",
    "--",
    "-h",
    "x" * 300,
)
LIMIT = 20.0
"""Seconds after which a case counts as hanging."""


def _tried(case: Callable[[], Any], what: str, lost: list[str]) -> bool:
    """Whether the case was refused; anything but a sentence is written down."""
    began = time.monotonic()
    quiet = io.StringIO()
    try:
        with contextlib.redirect_stderr(quiet), contextlib.redirect_stdout(quiet), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case()
        return False
    except UserError as error:
        if "\n" in str(error):
            lost.append(f"{what}: more than one line")
        return True
    except (SystemExit, KeyboardInterrupt):
        return True
    except BaseException as error:
        lost.append(f"{what}: {type(error).__name__}: {error}")
        return True
    finally:
        if time.monotonic() - began > LIMIT:
            lost.append(f"{what}: {time.monotonic() - began:.0f} s")


def _parsed(args: list[str]) -> None:
    """A command line up to where its work would begin."""
    command, rest = cli._find(args)
    if command is None:
        return
    options = cli.parse(command, [one for one in rest if one != cli.NO_CACHE])
    if command == "train":
        from understudy.cli.train import asked

        asked(options)
    elif command == "sweep":
        from understudy.cli.sweep import study_of

        study_of(options)


def lines(folder: Path, cases: int, rng: random.Random) -> Outcome:
    """Command lines of random commands, options and words, up to where the work would begin."""
    import dataclasses

    from understudy.cli import options_of

    os.chdir(folder)
    commands = list(cli.LINES)
    lost, refused = [], 0
    for _ in range(cases):
        command = rng.choice(commands)
        names = [f"--{field.name.replace('_', '-')}" for field in dataclasses.fields(options_of(command))]
        args = [*command.split(), *(["CartPole-v1"] if rng.random() < 0.7 else [])]
        for _ in range(rng.randrange(5)):
            name = rng.choice(names) if rng.random() < 0.9 else f"--{rng.choice(WORDS)}"
            word = rng.choice(WORDS)
            args += rng.choice([[name, word], [f"{name}={word}"], [name], [word]])
        refused += _tried(lambda args=args: _parsed(args), f"understudy {' '.join(args)[:160]!r}", lost)
    return Outcome(cases, lost, f"{refused:,} refused", refused)


def _value(rng: random.Random) -> Any:
    kinds = [
        lambda: rng.choice(WORDS),
        lambda: rng.choice([0, -1, 1, 7, 10**30, True, False, None]),
        lambda: rng.choice([0.0, -0.5, 1e-300, 1e300, float("nan"), float("inf")]),
        lambda: [_value(rng) for _ in range(rng.randrange(3))],
        lambda: {rng.choice(WORDS): _value(rng) for _ in range(rng.randrange(3))},
    ]
    return rng.choice(kinds)()


def specs(folder: Path, cases: int, rng: random.Random) -> Outcome:
    """Settings of any type in any field, alone and in study files."""
    from understudy.spec import FIELDS

    lost, refused, file = [], 0, folder / "study.toml"
    for case in range(cases):
        chosen = {rng.choice(list(FIELDS)): _value(rng) for _ in range(rng.randrange(1, 5))}
        if case % 2:
            work = lambda chosen=chosen: (RunSpec.of({"env": "CartPole-v1"} | chosen), None)  # noqa: E731
        else:
            lines = [f"{name} = {json.dumps(value, default=str)}" for name, value in chosen.items()]
            text = "\n".join(['env = "CartPole-v1"', *lines, "[grid]", f"step = {json.dumps(_value(rng))}"])
            data = bytearray(text.encode())
            if rng.random() < 0.3 and data:
                data[rng.randrange(len(data))] = rng.randrange(256)
            file.write_bytes(data)
            work = lambda: studies.read(file)  # noqa: E731
        refused += _tried(work, f"{chosen!r}"[:200], lost)
    return Outcome(cases, lost, f"{refused:,} refused", refused)


def folders(folder: Path, cases: int, rng: random.Random) -> Outcome:
    """Run folders with files of other bytes: resumed, they are refused or end as they should."""

    source, lost, refused = folder / "run", [], 0
    imitate("CartPole-v1", out=source, **SMALL)
    whole = Record.load(source).ledger.to_csv()
    files = [one.relative_to(source) for one in source.rglob("*") if one.is_file() and one.name != "lock"]
    for case in range(cases):
        out = Path(shutil.copytree(source, folder / "hurt"))
        for name in rng.sample(files, rng.choice([1, 1, 1, 2, 3])):
            data = bytearray((out / name).read_bytes())
            for _ in range(rng.choice([1, 1, 4])):
                at = rng.randrange(len(data) + 1)
                data[at : at + rng.randrange(4)] = rng.randbytes(rng.randrange(4))
            (out / name).write_bytes(data)

        def again(out: Path = out) -> None:
            found = imitate("CartPole-v1", out=out, resume=True, **SMALL)
            if found.ledger.to_csv() != whole:
                raise AssertionError("it ended otherwise")

        refused += _tried(again, f"folder {case}", lost)
        shutil.rmtree(out)
    return Outcome(cases, lost, f"{refused:,} refused", refused)


@functools.cache  # a bomb takes a second to pack, and each is like the last
def _archive(name: str, size: int) -> bytes:
    """A zip with a member of so many equal bytes, beside one that is no archive of weights."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(name, b"0" * size)
        file.writestr("policy.pth", b"PK")
    return packed.getvalue()


def archives(folder: Path, cases: int, rng: random.Random) -> Outcome:
    """Expert archives and safetensors with other bytes, headers that lie, bombs, paths that lead out."""
    lost, refused = [], 0
    found = sorted((HERE / "fixtures").rglob("*.zip"))[:6]
    weights = Path(experts.__file__).parent / "weights"
    nets = sorted(weights.glob("sac-*.safetensors"))
    for case in range(cases):
        kind = rng.choice(["zip", "zip", "net", "header", "bomb", "path"]) if found else "net"
        target = folder / "expert.zip"
        if kind == "zip":
            data = bytearray(rng.choice(found).read_bytes())
            for _ in range(rng.choice([1, 1, 8])):
                data[rng.randrange(len(data))] = rng.randrange(256)
            target.write_bytes(data[: rng.randrange(len(data))] if rng.random() < 0.2 else data)
        elif kind in ("net", "header"):
            target = folder / "net.safetensors"
            source = rng.choice(nets)
            data = bytearray(source.read_bytes())
            shutil.copy(source.with_suffix(".json"), target.with_suffix(".json"))
            if kind == "header":
                (size,) = struct.unpack_from("<Q", data)
                lie = rng.choice([0, 1, size - 1, size + 1, 1 << 40, (1 << 64) - 1, rng.randrange(1 << 20)])
                struct.pack_into("<Q", data, 0, lie)
            else:
                at = rng.randrange(min(len(data), 2000))
                data[at] = rng.randrange(256)
            target.write_bytes(data)
        else:
            name = "data" if kind == "bomb" else rng.choice(["../../data", "/etc/passwd", "..\\data"])
            target.write_bytes(_archive(name, 50 << 20 if kind == "bomb" and case < 40 else 1000))
        refused += _tried(lambda target=target: experts.resolve(str(target)), f"{kind} {case}", lost)
    strays = list(folder.parent.rglob("passwd"))
    lost += [f"{one} was written" for one in strays]
    return Outcome(cases, lost, f"{refused:,} refused", refused)
