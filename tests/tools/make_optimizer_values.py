#!/usr/bin/env python3
"""Writes tests/data/optimizers.json: where the optimizers of Optax end on given gradients, in double precision.

    pip install jax optax && python tests/tools/make_optimizer_values.py tests/data/optimizers.json

Learning rates are powers of two, so that they are the same numbers in single precision.
"""

import json
import sys

import jax
import numpy as np
import optax

jax.config.update("jax_enable_x64", True)

STEPS, SIZE = 15, 6
OPTIMIZERS = {
    "sgd": optax.sgd(0.125),
    "sgd momentum": optax.sgd(0.0625, momentum=0.9),
    "sgd nesterov": optax.sgd(0.0625, momentum=0.9, nesterov=True),
    "adam": optax.adam(0.03125),
    "adam other betas": optax.adam(0.03125, b1=0.8, b2=0.95, eps=1e-3),
    "adamw": optax.adamw(0.03125, weight_decay=0.01),
    "adamw large decay": optax.adamw(0.03125, weight_decay=0.5),
}


def final_parameter(optimizer, start, gradients):
    parameter, state = start, optimizer.init(start)
    for gradient in gradients:
        updates, state = optimizer.update(gradient, state, parameter)
        parameter = optax.apply_updates(parameter, updates)
    return np.asarray(parameter)


def main(path):
    random = np.random.default_rng(0)
    # Numbers that single precision holds exactly.
    start = random.normal(size=SIZE).astype(np.float32).astype(np.float64)
    gradients = random.normal(size=(STEPS, SIZE)).astype(np.float32).astype(np.float64)
    values = {name: final_parameter(each, start, gradients).tolist() for name, each in OPTIMIZERS.items()}
    document = {"optax": optax.__version__, "start": start.tolist(), "gradients": gradients.tolist(), "final": values}
    with open(path, "w") as file:
        json.dump(document, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
