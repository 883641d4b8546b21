"""`understudy completion`: a script that makes a shell complete commands and options."""

from __future__ import annotations

from tyro.conf import Positional

from ..errors import check_name
from . import named
from .options import Options

SHELLS = ("bash", "fish", "zsh")
BASH = """\
_understudy() {{
    local here="${{COMP_WORDS[COMP_CWORD]}}" before=" ${{COMP_WORDS[*]:1:COMP_CWORD-1}} " words=""
    case "$before" in
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$here"))
}}
complete -o default -F _understudy understudy
"""
ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"


class Completion(Options):
    """Print a script for a shell, as in: eval "$(understudy completion bash)"."""

    shell: Positional[str] = "bash"
    """bash, zsh or fish."""


def run(options: Completion) -> int:
    """Prints the script."""
    check_name("shell", options.shell, SHELLS)
    if options.shell == "fish":
        print("\n".join(_fish()))
    else:
        print((ZSH if options.shell == "zsh" else "") + _bash(), end="")
    return 0


def words() -> dict[str, list[str]]:
    """What may follow: after nothing the commands, after a family its members, after a command its options.

    >>> words()["check"]
    ['ask', 'certificate', 'env', 'expert', 'learner', 'loss', 'policy', 'solver']
    """
    from . import DEBUG, HELP_ALL, LINES, NO_CACHE, QUIET

    found: dict[str, list[str]] = {"": []}
    for command in LINES:
        first, _, second = command.partition(" ")
        if first not in found[""]:
            found[""].append(first)
        if second:
            found[first] = sorted([*found.get(first, []), second])
        found[command] = [*named(command), "--help", HELP_ALL, DEBUG, NO_CACHE, QUIET]
    return found


def _bash() -> str:
    def case(before: str, after: list[str]) -> str:
        pattern = f'" {before} "*' if before else '"  "'
        return f'        {pattern}) words="{" ".join(after)}" ;;'

    # The longest first: `check learner` before `check`.
    listed = sorted(words().items(), key=lambda one: -len(one[0].split()))
    return BASH.format(cases="\n".join(case(*one) for one in listed))


def _fish() -> list[str]:
    from . import LINES

    lines = ["complete -c understudy -n __fish_use_subcommand -f"]
    for before, after in words().items():
        first, _, second = before.partition(" ")
        seen = "__fish_use_subcommand" if not before else f"__fish_seen_subcommand_from {first}"
        seen += f"; and __fish_seen_subcommand_from {second}" if second else ""
        for word in after:
            text = LINES.get(f"{before} {word}".strip(), "").replace("'", "’")
            given = f"-l {word[2:]}" if word.startswith("--") else f"-a {word}"
            lines.append(f"complete -c understudy -n '{seen}' {given} -d '{text}'")
    return lines
