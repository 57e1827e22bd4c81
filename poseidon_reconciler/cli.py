"""The command line: reads arguments, calls the command, turns errors into one line and an exit status.

What a command needs is imported when it runs: `--help` must not wait for what it does not use.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from poseidon_reconciler import __version__
from poseidon_reconciler.app.errors import UsageError

EXIT_DONE: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
_EXIT_INTERRUPTED: Final = 130

_Commands = Any  # argparse does not name the type of what add_subparsers returns


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit status."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except UsageError as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    except BrokenPipeError:
        # Whoever read our output (`| head`) has seen enough; Python would complain again when it closes stdout.
        _abandon_output()
        return EXIT_DONE
    except OSError as error:
        print(f"cannot write: {error.strerror or error}", file=sys.stderr)
        _abandon_output()
        return EXIT_FAILED
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED
    return status


def _abandon_output() -> None:
    """Lets Python close a standard output that takes no more without complaining again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, as for every other mistake."""
        self.exit(EXIT_USAGE, f"{self.prog}: {message} (see --help)\n")


def _run(options: argparse.Namespace) -> int:
    from poseidon_reconciler.app.run import run

    return run(options)


def _replay(options: argparse.Namespace) -> int:
    from poseidon_reconciler.app.replay import replay

    return replay(options)


def _explain(options: argparse.Namespace) -> int:
    from poseidon_reconciler.app.explain import explain

    return explain(options)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="poseidon-reconciler",
        description="Keeps Poseidon's pools of idle runners on Nomad at their target.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_run(commands)
    _add_replay(commands)
    _add_explain(commands)
    return parser


def _add_run(commands: _Commands) -> None:
    parser = commands.add_parser(
        "run",
        help="reconcile a live cluster",
        description="Follows Nomad's event stream and keeps every pool at its target until a signal ends it.",
    )
    _add_config(parser)
    parser.add_argument("--dry-run", action="store_true", help="confirm and plan everything, write nothing")
    parser.set_defaults(run=_run)


def _add_replay(commands: _Commands) -> None:
    parser = commands.add_parser(
        "replay",
        help="play recordings of Nomad's event stream: what happened, what would be done, and why",
        description="Plays recordings (plain or gzip) one after the other, then lets time pass until nothing is due.",
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a recording")
    _add_config(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    _add_settle(parser)
    parser.add_argument("--report", type=Path, metavar="OUT.html", help="write the story as a page")
    parser.add_argument("--journal", type=Path, metavar="OUT", help="write one line for each decision")
    parser.set_defaults(run=_replay)


def _add_explain(commands: _Commands) -> None:
    parser = commands.add_parser(
        "explain",
        help="why a job or an environment is judged as it is, and what comes next",
        description="Explains a verdict: the rule, its evidence, what comes next and when, why no other rule matched.",
    )
    parser.add_argument("subject", metavar="JOB|ENV", help="a job's id, or an environment's number")
    parser.add_argument("--recording", type=Path, metavar="FILE", required=True, help="a recording to play first")
    _add_config(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    _add_settle(parser)
    parser.set_defaults(run=_explain)


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help="the configuration (YAML)")


def _add_settle(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--settle",
        default="1h",
        metavar="DURATION",
        help="how long time goes on after the last line, at most (default: 1h)",
    )
