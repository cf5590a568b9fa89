#!/usr/bin/env python3
"""Writes tests/data/scalars.tfevents: an event file by TensorBoard's own writer, at fixed times.

    scripts/tensorboard-venv.sh && .venv-tensorboard/bin/python tests/tools/make_event_file.py tests/data/scalars.tfevents
"""

import io
import sys

from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

EVENTS = [
    (1700000000.25, 0, {"loss": 2.302585, "lr": 0.001}),
    (1700000001.5, 1, {"loss": -0.0}),
    (1700000002.75, 127, {"loss": float("nan"), "accuracy/test": 0.9375}),
    (1700000003.0, 128, {}),
    (1700000004.0, 2**40 + 3, {"loss": float("inf"), "\N{GREEK SMALL LETTER ALPHA} tag": 1e-45, "x" * 200: 3.0e38}),
]


class Kept(io.BytesIO):
    def close(self):
        pass


def main():
    kept = Kept()
    writer = RecordWriter(kept)
    writer.write(event_pb2.Event(wall_time=1700000000.0, file_version="brain.Event:2").SerializeToString())
    for wall_time, step, scalars in EVENTS:
        values = [summary_pb2.Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
        event = event_pb2.Event(wall_time=wall_time, step=step, summary=summary_pb2.Summary(value=values))
        writer.write(event.SerializeToString(deterministic=True))
    start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
    writer.write(event_pb2.Event(wall_time=1700000005.0, step=128, session_log=start).SerializeToString())
    with open(sys.argv[1], "wb") as file:
        file.write(kept.getvalue())


if __name__ == "__main__":
    main()
