"""Run as a program: a supervisor of children that write what they do into one file, a line each.

Arguments: the file, the seconds of grace and of the last grace, and for each child `name:behaviour`. A giving-up child
is one that ends with status 3.
"""

import logging
import os
import sys

from workers.supervisor import Child, Supervisor

CHILD = """
import os, signal, subprocess, sys, time
path, name, behaviour = sys.argv[1:]
def tell(event):
    with open(path, "a") as file:
        file.write(f"{name} {event} {os.getpid()}\\n")
def stop(number, frame):
    tell("asked")
    if behaviour not in ("stubborn", "hasty"):
        tell("ended")
        sys.exit(0)
def interrupted(number, frame):
    tell("interrupted")
    if behaviour == "hasty":
        tell("ended")
        sys.exit(0)
signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, interrupted)
if behaviour == "parent":
    helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open(path, "a") as file:
        file.write(f"{name} helper {helper.pid}\\n")
tell("began")
if behaviour.isdecimal():
    sys.exit(int(behaviour))
while True:
    time.sleep(600)
"""


def main(path: str, grace_s: str, last_grace_s: str, *children: str) -> int:
    logging.basicConfig(level=logging.WARNING, format="%(message)s")

    def tell(event: str) -> None:
        with open(path, "a") as file:  # noqa: PTH123
            file.write(f"{event}\n")

    def on_death(name: str, pid: int, returncode: int) -> bool:
        tell(f"{name} died {pid} {returncode}")
        return returncode != 3

    posts = []
    for child in children:
        name, behaviour = child.split(":")
        posts.append(Child(name, [sys.executable, "-c", CHILD, path, name, behaviour], os.environ))
    graces = {"grace_s": float(grace_s), "last_grace_s": float(last_grace_s)}
    return Supervisor(posts, on_death, on_stop=lambda: tell("stopping"), **graces).run()


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
