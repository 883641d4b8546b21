"""`understudy train`: an environment and an expert in; a policy, its ledger and its account out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from ..defaults import UNCOMPARED
from ..errors import UserError
from ..machine import importing
from ..report import tables
from ..spec import FIELDS, RunSpec, describe
from .options import Flag, Folder, Json, Name, Options, Repeated

if TYPE_CHECKING:
    from rich.table import Table

    from ..disk import Json as Value
    from ..runs import Record


class Train(Options, settings=(name for name in FIELDS if name != "env")):
    """Imitate an expert in a Gymnasium environment, round by round."""

    main = ("expert", "learner", "policy", "loss", "rounds", "steps_per_round", "budget", "episodes", "seed")
    main += ("out", "resume", "explain")

    env: Positional[Annotated[str | None, arg(metavar="[ENV]", help_behavior_hint="")]] = None
    """A Gymnasium id such as Hopper-v5, module:Id to import a package first, or module:function."""
    config: Folder = None
    """Read settings from this TOML file; those typed here win."""
    out: Folder = None
    """Keep the run in this folder: config, ledger, times, samples, policy, checkpoint."""
    resume: Name = None
    """Continue the run in that folder, with its settings where none are typed; more --rounds or --budget
    extend it. =new-episode goes on where an episode cannot be played again, =other-machine where the last
    bits may differ."""
    sink: Repeated = ()
    """Tell every round to tensorboard, wandb or module:sink too, with a place after a colon, as in
    tensorboard:logs or wandb:my-project; may be repeated."""
    no_browser: Flag = False
    """Print the address of the page on which a person answers (--expert person), and open no browser."""
    explain: Flag = False
    """Print what these settings come to, each choice with its reason; nothing is played, asked or written."""
    json: Json = False


def run(options: Train) -> int:
    """Trains, prints the outcome and, where asked, keeps the run in a folder."""
    with importing():
        from ..runs.imitate import imitate

    spec = asked(options)
    if options.explain:
        from ..explaining import explain

        choices = explain(spec, out=options.out, resume=bool(options.resume))
        title = f"{spec.name} on {describe(spec.env)}"
        tables.show(tables.listed(title, ("setting", "value", "why"), choices.rows()))
        tables.json_line({"choices": choices.plain()})
        return 0
    resume = options.resume or False
    result = imitate(spec, out=options.out, resume=resume, progress=True, sinks=options.sink)
    tables.show(outcome(result))
    tables.json_line(result.summary())
    return 0


def asked(options: Train) -> RunSpec:
    """The spec that was typed, over the file's where there is one."""
    if options.resume and options.out is not None and not options.out.exists():
        raise UserError(
            f"resume: there is no folder {str(options.out)!r}; without --resume a new run begins there."
        )
    given = options.given() | ({} if options.env is None else {"env": options.env})
    if options.config is not None:
        spec = RunSpec.read(options.config, **given)
    else:
        if options.resume and options.out is not None:
            from ..runs import merge_settings

            given = merge_settings(options.out, given)
        spec = RunSpec.of(given)
    if not options.no_browser:
        return spec
    if not spec.by_person:
        raise UserError("no_browser: there is no page to open; it goes with --expert person.")
    return spec.replace(expert_options={**spec.expert_options, "browser": False})


def _within(summary: Mapping[str, float], mean: str, ends: str) -> str:
    low, high = summary[f"{ends}_low"], summary[f"{ends}_high"]
    return tables.within(summary[mean], -math.inf if low is None else low, math.inf if high is None else high)


def outcome(result: Record) -> Table:
    """The outcome of a run as a table."""
    from ..runs import unmeasured

    summary = result.summary()
    theirs = summary["expert_return_mean"]
    parts = ("collect", "solve", "comparator", "evaluate")
    spent = {part: result.seconds[part] for part in parts}
    seconds = " ".join(f"{part} {each:.{int(each < 100)}f}" for part, each in spent.items())
    rows: list[tuple[str, Value]] = [("labels", f"{summary['labels']:,}")]
    for name, about in summary.get("experts", {}).items():
        agrees = "" if about["agreement"] is None else f", agreement {about['agreement']:.3f}"
        loss = "" if about["loss"] is None else f", loss {about['loss']:.4g}"
        rows.append((f"  of {name}", f"{about['labels']:,}{loss}{agrees}"))
    if calls := summary["expert_evaluation_calls"]:
        rows.append(("other expert calls", f"{calls:,}"))
    if unanswered := int(result.ledger["unanswered"][-1]):
        rows.append(("unanswered states", f"{unanswered:,}"))
    if summary["return_mean"] is not None:
        rows.append(("return", _within(summary, "return_mean", "return")))
        least = tables.returned(summary["return_least"], beside=[summary["return_mean"]])
        rows.append(("  over", f"{tables.many(summary['episodes'], 'episode')}, the least {least}"))
        if summary["kept_round"] != summary["rounds"]:
            rows.append(("  of the policy of", f"round {summary['kept_round']}, the best (--keep-best no)"))
        if (many := getattr(result.policy.policy, "members", 1)) > 1:
            rows.append(("  of the mean of", f"{many} networks (--ensemble 1 is quicker)"))
    if theirs is not None:
        if result.expert_evaluation:
            rows.append(("expert's return", _within(summary, "expert_return_mean", "expert_return")))
            if summary["difference"] is not None:
                gap = _within(summary, "difference", "difference")
                rows.append(("  difference from it", f"{gap}, paired"))
        else:
            card = tables.returned(theirs, beside=[summary["return_mean"]])
            rows.append(("expert's return", f"{card} (its card, other episodes; --expert-episodes 20 plays)"))
    elif result.settings["expert_episodes"] is None and result.settings["episodes"] != 0:
        rows.append(("expert's return", f"not measured: {unmeasured(result.settings)}"))
    if (said := result.statement) is not None:
        rows += [(f"until {said.until}" if not i else "", part) for i, part in enumerate(said.lines())]
    rows.append(("average loss", summary["average_loss"]))
    ledger = result.ledger
    if ledger["asked"].min() < 1.0:
        high = ledger["visited_high"][-1] / ledger.rounds
        known = f"at most {high:.4g}, with probability 95 %" if math.isfinite(high) else "an estimate"
        rows.append(("  on all states", known))
    if summary["regret"] is not None:
        rows += tables.regret(result.certificate)
    elif result.settings.get("comparator", "none") is None and UNCOMPARED in result.certificate.reason:
        rows.append(("regret", f"not estimated: {result.certificate.reason}"))
    rows.append(("seconds", seconds))
    if result.folder is not None:
        rows.append(("kept in", str(result.folder)))
    return tables.facts(
        f"{summary['learner']} on {summary['env']}: {tables.many(summary['rounds'], 'round')}", rows
    )
