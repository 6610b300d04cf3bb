"""The command line. Each command parses its options, makes one call and prints; errors are one line."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from delaytron._version import __version__
from delaytron.cli import (
    bounds,
    compare,
    datasets,
    delays,
    doctor,
    evaluate,
    experiment,
    import_log,
    journal,
    run,
    serve,
)
from delaytron.cli.options import option_spelling, system_line, usage_line
from delaytron.errors import DelaytronError

UsageError: Any = typer.BadParameter.__base__  # its module depends on the version of typer


class _Commands(TyperGroup):
    """The group of all commands, which prints an error as one line and returns an exit code."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Parse the options before the command."""
        try:
            return super().make_context(*args, **options)
        except UsageError as problem:
            if not problem.format_message():  # no command was given, and the help is shown
                raise
            _stop(usage_line(problem), 2)
        except KeyboardInterrupt:  # typer would print nothing
            _stop("interrupted", 130)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except DelaytronError as problem:
            command: Any = self.commands.get(ctx.invoked_subcommand)
            parts = (command, *getattr(command, "commands", {}).values())  # a group has commands of its own
            _stop(problem.spelled(option_spelling([param for part in parts for param in part.params])), 2)
        except OSError as problem:
            _stop(system_line(problem), 2)
        except UsageError as problem:
            _stop(usage_line(problem), 2)
        except MemoryError:
            _stop("not enough memory; try fewer --rounds, --runs, --workers or features", 2)
        except KeyboardInterrupt:
            _stop("interrupted", 130)


def _stop(message: str, code: int) -> None:
    typer.echo(f"delaytron: {' '.join(message.split())}", err=True)
    raise typer.Exit(code)


app = typer.Typer(cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False)
app.command(epilog=run.EXAMPLES)(run.run)
app.command(epilog=compare.EXAMPLES)(compare.compare)
app.command(epilog=experiment.REPRODUCE_EXAMPLES)(experiment.reproduce)
app.command(epilog=experiment.EXAMPLES)(experiment.experiment)
app.command(epilog=bounds.EXAMPLES)(bounds.bounds)
app.command(epilog=delays.EXAMPLES)(delays.delays)
app.command(epilog=evaluate.EXAMPLES)(evaluate.evaluate)
app.command("import", epilog=import_log.EXAMPLES)(import_log.import_log)
app.command(epilog=journal.VERIFY_EXAMPLES)(journal.verify)
app.command(epilog=journal.EXPORT_EXAMPLES)(journal.export)
app.command(epilog=journal.COMPACT_EXAMPLES)(journal.compact)
app.command(epilog=serve.EXAMPLES)(serve.serve)
app.command(epilog="Examples\n\ndelaytron learners\ndelaytron learners --json")(run.learners)
app.command(epilog=doctor.EXAMPLES)(doctor.doctor)
app.add_typer(datasets.app, name="datasets")


def main() -> None:
    """Run the command line."""
    app(prog_name="delaytron")


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"delaytron {__version__}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")]


@app.callback(epilog="Examples\n\ndelaytron run --rounds 20000\ndelaytron run --help\ndelaytron learners")
def delaytron(version: Version = False) -> None:
    """Choose among K labels when the only answer is right or wrong, and comes late, out of order, or never."""
