"""`python -m jobs` is `pipeline`: how the command starts itself again, wherever its script lies."""

import signal


def main() -> None:
    """The console script. Until there is somebody who can speak of it, Ctrl-C ends it as it does any program."""
    by_ctrl_c = signal.getsignal(signal.SIGINT)
    if by_ctrl_c is signal.default_int_handler:  # and not one that a shell started in the background
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from jobs import cli

    signal.signal(signal.SIGINT, by_ctrl_c)
    cli.main()


if __name__ == "__main__":
    main()
