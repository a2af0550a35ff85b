"""Train a character LSTM on English by truncated back-propagation through time, then let it write.

The text is Python's own documentation (`pydoc_data.topics`), or a file::

    python examples/char_lstm.py
    python examples/char_lstm.py book.txt --seconds 300

The state of the LSTM stays in the object from chunk to chunk, changed by plain assignment. A gradient is taken at the
values on entry to the loss, so each chunk starts from a constant: nothing has to be detached.
"""

import argparse
import os
import time
from pathlib import Path
from pydoc_data.topics import topics

# The products are small. A second thread of BLAS brings little, and waits whenever something else keeps a core busy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import mutangent as mt

try:
    import matplotlib as mpl
    from tqdm import tqdm
except ModuleNotFoundError as error:
    raise SystemExit(
        f"{error.name} is missing; it comes with the extra `examples`: pip install 'mutangent[examples]'"
    ) from error

mpl.use("Agg")  # a picture in a file; no window
import matplotlib.pyplot as plt

UNITS = 128
BATCH = 32  # streams of text, side by side
CHUNK = 32  # characters of each stream between two updates
LEARNING_RATE = 0.01


def python_docs():
    """Return the English of `help()`: its topics in alphabetical order."""
    return "\n\n".join(topics[name] for name in sorted(topics))


def one_hot(codes, size):
    """Return an array of shape (size, *codes.shape) with a one at each code."""
    return (codes == np.arange(size).reshape(-1, *[1] * codes.ndim)).astype(np.float32)


@mt.differentiable
def bits_per_character(model, codes):
    """Return the mean of -log2 p(next character), for codes of shape batch × time."""
    before, after = codes[:, :-1], codes[:, 1:]
    size = model.layers[-1].W.shape[0]
    logits = model(one_hot(before, size))  # size × batch × time
    logits = logits - mt.primal(logits).max(axis=0)  # the constant cancels; without it exp could overflow
    batch, steps = np.indices(after.shape)
    log_p = logits[after, batch, steps] - np.log(np.sum(np.exp(logits), axis=0))
    return -np.mean(log_p) / np.log(2)


def chunks(codes):
    """Cut the text into BATCH streams and yield (is it the beginning?, codes of batch × time), over and over."""
    streams = codes[: len(codes) // BATCH * BATCH].reshape(BATCH, -1)
    if streams.shape[1] < 2:
        raise SystemExit(f"the text is too short: it needs at least {2 * BATCH} characters")
    while True:
        for start in range(0, streams.shape[1] - 1, CHUNK):
            # Neighbouring chunks share one character, which is the last target and then the first input.
            yield start == 0, streams[:, start : start + CHUNK + 1]


def train(model, codes, *, seconds, steps):
    """Update the model chunk by chunk until the time is up or the steps are done; return the loss of each step."""
    optimiser = mt.optim.Adam(LEARNING_RATE)
    losses = []
    begin = time.perf_counter()
    total = steps or round(seconds)
    unit = "steps" if steps else "s"
    with tqdm(total=total, bar_format=f"{{bar}} {{n:.0f}}/{{total:.0f}} {unit} {{postfix}}") as bar:
        for is_beginning, chunk in chunks(codes):
            if is_beginning:
                mt.nn.reset(model)
            loss, gradient = bits_per_character.value_and_grad(model, chunk)
            optimiser.update(model, gradient)
            losses.append(float(loss))
            elapsed = time.perf_counter() - begin
            done = len(losses) if steps else min(elapsed, total)
            bar.set_postfix_str(f"{np.mean(losses[-20:]):.3f} bits/char, {len(losses) / elapsed:.1f} steps/s")
            bar.update(done - bar.n)
            if done >= total:
                break
    return losses


def write(model, alphabet, rng, length=400, temperature=0.8):
    """Let the model write, one character at a time, each fed back to it."""
    mt.nn.reset(model)
    code, text = alphabet.index("\n"), []
    for _ in range(length):
        logits = model(one_hot(np.array(code), len(alphabet))).astype(float) / temperature
        p = np.exp(logits - logits.max())
        code = rng.choice(len(alphabet), p=p / p.sum())
        text.append(alphabet[code])
    return "".join(text)


def draw(losses, unigram, path):
    """Save a picture of the loss over the steps."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.plot(losses, linewidth=0.5, alpha=0.5, color="tab:blue")
    window = min(20, len(losses))
    smooth = np.convolve(losses, np.full(window, 1 / window), "valid")
    axes.plot(
        np.arange(window - 1, len(losses)), smooth, color="tab:blue", label=f"LSTM, mean of {window} steps"
    )
    axes.axhline(unigram, color="tab:gray", linestyle="--", label="unigram entropy")
    axes.set(xlabel="update", ylabel="bits per character", ylim=(0, None))
    axes.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main():
    """Read the command line, train, report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "file", nargs="?", type=Path, help="text to learn; default: the topics of Python's help()"
    )
    parser.add_argument("--seconds", type=float, default=60, help="how long to train (default: 60)")
    parser.add_argument("--steps", type=int, help="how many updates to make, instead of a time")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and of the sample (default: 0)")
    parser.add_argument(
        "--picture", type=Path, default=Path("out/char_lstm.png"), help="where to save the loss curve"
    )
    options = parser.parse_args()

    text = options.file.read_text(encoding="utf-8") if options.file else python_docs()
    alphabet = sorted({*text, "\n"})
    code_of = {character: code for code, character in enumerate(alphabet)}
    codes = np.array([code_of[character] for character in text])
    frequencies = np.bincount(codes)[np.unique(codes)] / len(codes)
    unigram = -np.sum(frequencies * np.log2(frequencies))
    print(f"{len(codes)} characters, {len(alphabet)} different ones; unigram entropy {unigram:.3f} bits/char")

    rng = np.random.default_rng(options.seed)
    model = mt.nn.Chain(
        mt.nn.LSTM(len(alphabet), UNITS, rng=rng),
        mt.nn.Dense(UNITS, len(alphabet), rng=rng),
    )
    losses = train(model, codes, seconds=options.seconds, steps=options.steps)

    print(f"\n{write(model, alphabet, rng)}\n")
    last = np.mean(losses[-50:])
    print(
        f"after {len(losses)} updates: {last:.3f} bits/char (first: {losses[0]:.3f}, unigram: {unigram:.3f})"
    )
    draw(losses, unigram, options.picture)
    print(f"the loss over time is in {options.picture}")


if __name__ == "__main__":
    main()
