#!/usr/bin/env python3
"""Prints the scalars that TensorBoard reads from a folder of event files.

    scripts/tensorboard-venv.sh && .venv-tensorboard/bin/python tests/tools/print_events.py LOG
"""

import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def main():
    events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
    events.Reload()
    for tag in sorted(events.Tags()["scalars"]):
        for scalar in events.Scalars(tag):
            print(f"{tag} step {scalar.step} value {scalar.value:.9g}")


if __name__ == "__main__":
    main()
