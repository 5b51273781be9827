"""`stream-tgat`, or `python -m stream_tgat`: short for `faust -A stream_tgat`."""

import sys

APP = ("-A", "stream_tgat")


def main() -> None:
    """Run Faust's command line with our application, which is made before the first option is read."""
    from click import ClickException
    from faust.cli.faust import cli

    sys.argv[1:1] = APP
    import stream_tgat

    try:
        _ = stream_tgat.app
    except ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    cli(prog_name="stream-tgat")


if __name__ == "__main__":
    main()
