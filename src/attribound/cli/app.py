"""The root of the command line: its commands, and what every one of them does with errors.

Exit codes: 0 done; 1 done, and the answer is no (a measurement differs); 2 unusable input or a
failed training, said in one line; 70 an error in attribound itself or in code of the user's own;
130 Ctrl-C, 143 termination.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from attribound import __version__
from attribound.basics.errors import AttriboundError
from attribound.basics.terminal import printable
from attribound.basics.trusting import only_said
from attribound.cli import audit, calibrate, compare, leaderboard, report, runs, texts, train, zoo

UNUSABLE = 2
INTERRUPTED = 130


class Readable(TyperGroup):
    """Commands whose expected errors are one line on standard error, not a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; code is imported if the command line names it, or with --trust."""
        try:
            with only_said(ctx.args):
                return super().invoke(ctx)
        except (AttriboundError, OSError) as error:
            typer.echo(printable(f"attribound: {error}"), err=True)
            raise typer.Exit(UNUSABLE) from error
        except KeyboardInterrupt as error:
            typer.echo("attribound: interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from error
        except Exception as error:
            # Typer's own ways to end have an exit code.
            if isinstance(error, typer.Abort) or hasattr(error, "exit_code"):
                raise
            texts.crashed(error, "please report it")


app = typer.Typer(
    cls=Readable,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    help="How far can an attacker move the explanations of a classifier?",
    epilog="Exit codes: 0 done; 1 the answer is no; 2 unusable input, said in one "
    "line; 70 crashed; 130 Ctrl-C; 143 termination.",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"attribound {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Options of ``attribound`` itself."""


app.command("train")(train.train)
app.command("audit", epilog=audit.EXIT_CODES)(audit.audit)
app.command("calibrate")(calibrate.calibrate)
app.command("report")(report.report)
app.command("compare")(compare.compare)
app.command("runs")(runs.runs)
app.command("leaderboard")(leaderboard.leaderboard)
app.add_typer(zoo.app, name="zoo")
