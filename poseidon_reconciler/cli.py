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
    _fill_closed_streams()
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
        from poseidon_reconciler.policy import os_reason

        print(f"cannot write: {os_reason(error)}", file=sys.stderr)
        _abandon_output()
        return EXIT_FAILED
    except ValueError as error:
        # OpenTelemetry reads some of its variables while it is imported.
        if not str(error).startswith("OTEL_"):
            raise
        print(error, file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED
    return status


def _fill_closed_streams() -> None:
    """Puts something that takes everything where a standard stream was closed at the start: whatever is opened next
    would get its number, and what is written to that.
    """
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != fd:
                os.dup2(nowhere, fd)
                os.close(nowhere)
            setattr(sys, name, os.fdopen(fd, mode, closefd=False))


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


def _record(options: argparse.Namespace) -> int:
    from poseidon_reconciler.app.record import record

    return record(options)


def _explain(options: argparse.Namespace) -> int:
    from poseidon_reconciler.app.explain import explain

    return explain(options)


def _check(options: argparse.Namespace) -> int:
    from poseidon_reconciler.app.check.command import check

    return check(options)


def _health(options: argparse.Namespace) -> int:
    from poseidon_reconciler.app.health import health

    return health(options)


def _demo(options: argparse.Namespace) -> int:
    from poseidon_reconciler.app.demo.command import demo

    return demo(options)


def _twin(options: argparse.Namespace) -> int:
    from poseidon_reconciler.app.twin import twin

    return twin(options)


def _simulate(options: argparse.Namespace) -> int:
    from poseidon_reconciler.app.simulate import run

    return run(options)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="poseidon-reconciler",
        description="Keeps Poseidon's pools of idle runners on Nomad at their target.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_run(commands)
    _add_replay(commands)
    _add_record(commands)
    _add_explain(commands)
    _add_check(commands)
    _add_health(commands)
    _add_demo(commands)
    _add_twin(commands)
    _add_simulate(commands)
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
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a recording; - is standard input")
    _add_config(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    _add_settle(parser)
    parser.add_argument("--report", type=Path, metavar="OUT.html", help="write the story as a page")
    parser.add_argument("--journal", type=Path, metavar="OUT", help="write one line for each decision")
    parser.set_defaults(run=_replay)


def _add_record(commands: _Commands) -> None:
    parser = commands.add_parser(
        "record",
        help="record a live cluster, without its secrets",
        description="Records the event stream and the lists of a live cluster until a signal, for `replay` and"
        " `explain`. Nothing is decided and nothing is written to the cluster.",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="where to; packed if its name ends in .gz"
    )
    _add_config(parser)
    parser.add_argument("--max-size", default="100MB", metavar="SIZE", help="when another file begins (default: 100MB)")
    parser.add_argument("--max-age", default="24h", metavar="DURATION", help="the same by time (default: 24h)")
    parser.add_argument("--keep", type=int, default=10, metavar="N", help="how many files are kept (default: 10)")
    parser.set_defaults(run=_record)


def _add_explain(commands: _Commands) -> None:
    parser = commands.add_parser(
        "explain",
        help="why a job or an environment is judged as it is, and what comes next",
        description="Explains a verdict: the rule, its evidence, what comes next and when, why no other rule matched.",
    )
    parser.add_argument("subject", metavar="JOB|ENV", help="a job's id or its beginning, or an environment's number")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--url", metavar="U", help="a reconciler that runs (default: the one of http.listen)")
    source.add_argument("--recording", type=Path, metavar="FILE", help="a recording to play first")
    _add_config(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    _add_settle(parser)
    parser.set_defaults(run=_explain)


def _add_check(commands: _Commands) -> None:
    parser = commands.add_parser(
        "check",
        help="look at everything that run needs: configuration, address, TLS, token, rights, stream, environments",
        description="Looks at everything that `run` needs, and says what to do about what is wrong. Changes nothing.",
    )
    _add_config(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    parser.set_defaults(run=_check)


def _add_health(commands: _Commands) -> None:
    parser = commands.add_parser(
        "health",
        help="ask a running reconciler whether it lives",
        description="Asks the reconciler that listens on http.listen whether it lives. Exit status 1: it does not.",
    )
    parser.add_argument("--url", metavar="U", help="where it listens (default: http.listen on this machine)")
    parser.add_argument("--ready", action="store_true", help="ask whether its view is complete and fresh, instead")
    _add_config(parser)
    parser.set_defaults(run=_health)


def _add_demo(commands: _Commands) -> None:
    parser = commands.add_parser(
        "demo",
        help="an embedded cluster, its failure and the recovery, on one screen",
        description="Breaks an embedded cluster full of runners and lets the reconciler heal it. Needs nothing else.",
    )
    parser.add_argument("--scenario", default="restart-together", metavar="NAME", help="what fails (see --list)")
    parser.add_argument("--list", action="store_true", help="list the scenarios")
    parser.add_argument("--poseidon", choices=["on", "off"], default="on", help="whether there is a Poseidon")
    parser.add_argument("--without-reconciler", action="store_true", help="see what happens without us")
    _add_config(parser)
    parser.add_argument(
        "--page", metavar="PORT", help="where the status page is, on loopback, or off (default: that of http.listen)"
    )
    parser.add_argument("--runners", type=int, metavar="N", help="how many runners the first environment has")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="another seed, another course of events")
    parser.add_argument(
        "--speed", type=float, default=None, metavar="X", help="let the time go X times as fast, up to 10"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the outcome as one JSON document and nothing else; 5 times as fast"
    )
    parser.set_defaults(run=_demo)


def _add_twin(commands: _Commands) -> None:
    parser = commands.add_parser(
        "twin",
        help="serve an embedded cluster over Nomad's HTTP API",
        description="Serves an embedded cluster, for Poseidon, for Nomad's own tools and for yours, until a signal.",
    )
    parser.add_argument(
        "--port", type=int, default=4646, metavar="P", help="where to listen on loopback (default: 4646)"
    )
    parser.add_argument("--scenario", metavar="NAME", help="a failure to play on it, once")
    parser.add_argument(
        "--after", default="30s", metavar="DURATION", help="how long all is well before the failure (default: 30s)"
    )
    parser.add_argument("--poseidon", choices=["on", "off"], default="off", help="whether a Poseidon is beside it")
    parser.set_defaults(run=_twin)


def _add_simulate(commands: _Commands) -> None:
    parser = commands.add_parser(
        "simulate",
        help="fault simulation of whole reconcilers against what this program promises",
        description="Breaks embedded clusters in every way that a seed comes up with, and holds reconcilers on them to"
        " their promises. Exit status 1: a promise was broken.",
    )
    parser.add_argument("--seeds", type=int, default=100, metavar="N", help="how many courses of events (default: 100)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the first seed (default: 0)")
    parser.add_argument("--mishaps", type=int, metavar="K", help="only the first K mishaps of each course")
    parser.add_argument("--story", action="store_true", help="tell all that happens in one course")
    parser.add_argument("--show", type=int, default=3, metavar="N", help="failures to explain (default: 3)")
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    parser.set_defaults(run=_simulate)


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help="the configuration (YAML)")


def _add_settle(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--settle",
        default="1h",
        metavar="DURATION",
        help="how long time goes on after the last line, at most (default: 1h)",
    )
