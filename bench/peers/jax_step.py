"""The workload's training step in JAX: one jitted function, state donated, AdamW written out."""

import os

import timing

options = timing.arguments()
if options.threads == 1:
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import functools

import jax
import jax.numpy as jnp

LR, BETA1, BETA2, EPS, DECAY = 1e-3, 0.9, 0.999, 1e-8, 0.01


def mlp_init(key):
    def layer(key, inputs, outputs):
        weight_key, bias_key = jax.random.split(key)
        bound = inputs**-0.5
        return (jax.random.uniform(weight_key, (inputs, outputs), minval=-bound, maxval=bound),
                jax.random.uniform(bias_key, (outputs,), minval=-bound, maxval=bound))

    first, second = jax.random.split(key)
    return [layer(first, 784, 128), layer(second, 128, 10)]


def mlp_loss(params, images, labels):
    (w1, b1), (w2, b2) = params
    x = images.astype(jnp.float32) / 255.0
    logits = jax.nn.relu(x @ w1 + b1) @ w2 + b2
    log_probabilities = jax.nn.log_softmax(logits)
    loss = -jnp.mean(jnp.take_along_axis(log_probabilities, labels[:, None], axis=1))
    return loss, jnp.sum(jnp.argmax(logits, axis=1) == labels)


@functools.partial(jax.jit, donate_argnums=(0, 1, 2))
def step(params, m, v, t, images, labels):
    (loss, correct), grads = jax.value_and_grad(mlp_loss, has_aux=True)(params, images, labels)
    m = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, m, grads)
    v = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, v, grads)
    correction1, correction2 = 1 - BETA1**t, 1 - BETA2**t
    params = jax.tree.map(
        lambda p, m, v: p - LR * ((m / correction1) / (jnp.sqrt(v / correction2) + EPS) + DECAY * p), params, m, v)
    return params, m, v, loss, correct


def main():
    if options.workload != "mlp":
        raise SystemExit(f"jax_step.py: no workload {options.workload!r}; there is: mlp")
    params = mlp_init(jax.random.key(0))
    state = [params, jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params)]
    steps = 0

    def one_step(images, labels):
        nonlocal state, steps
        steps += 1
        *state, loss, _ = step(*state, jnp.float32(steps), images, labels)
        jax.block_until_ready(state)
        return float(loss)

    timing.report("jax", jax.__version__, one_step, timing.mlp_batches(), options.seconds)


main()
