"""Statistics of generators and roundings: `python docs/generator_statistics.py [NAME ...]` writes measurements."""

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.registry import BLOCKS
from fabtune.golden.rng.gaussian_array import GaussianArraySpec
from fabtune.golden.rng.grng import GrngSpec
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.rng.pool import PoolSpec
from fabtune.golden.rng.scale import ScaleSpec, expected_modulus
from fabtune.golden.rng.statistics import Quality, measure, modulus
from fabtune.golden.rng.urng import UrngSpec
from fabtune.golden.settings import build
from fabtune.golden.zo.perturb import PerturbSpec
from fabtune.golden.zo.split import WHOLE

FOLDER = Path(__file__).parent / "measurements"
Row = list[str | int | float | None]


def rounded(digits: int, *numbers: float) -> Row:
    """Numbers of a row, rounded to as many decimals."""
    return [round(float(number), digits) for number in numbers]


def worst(quality: Quality) -> str:
    """Lag of the largest autocorrelation, and its value."""
    return f"{quality.worst_lag}: {quality.correlations[quality.worst_lag]:.3f}"


def moments(quality: Quality) -> Row:
    """Mean, deviation and excess kurtosis."""
    return rounded(4, quality.mean, quality.deviation) + rounded(3, quality.kurtosis)


def urng_quality() -> Iterator[Row]:
    """Successive numbers of one generator, and all numbers of the array."""
    for bits in (8, 14):
        for leap in (1, 2, 4):
            spec = UrngSpec(bits=bits, leap=leap)
            numbers = spec.by_generator[:, 0].astype(np.int64)  # 2 y + 1, a whole period
            offset_binary = 2 * ((numbers - 1) // 2 % 2**bits) - 2**bits
            successive = [(x * np.roll(x, -1)).mean() / (x * x).mean() for x in (numbers, offset_binary)]
            q = measure(spec.draw(0, min(spec.period, 1 << 17)) / 2**bits)
            yield [bits, leap, *rounded(4, *successive), f"{q.mean:.2e}", *moments(q)[1:], worst(q)]


def urng_phases() -> Iterator[Row]:
    """Repeated differences of the default phases, and correlations of a cycle's numbers and sum."""
    for n, bits in ((7, 8), (15, 8), (31, 8), (63, 8), (31, 14), (63, 14)):
        spec = UrngSpec(n=n, bits=bits)
        numbers, period = spec.by_generator, spec.lfsr.period
        gaps = (spec.phases[:, None] - spec.phases) % period
        repeats = np.bincount(gaps[gaps > 0], minlength=period)
        power = np.abs(np.fft.fft(numbers.sum(axis=1) - numbers.sum(axis=1).mean())) ** 2
        sums = np.fft.ifft(power).real[: period // 2 + 1]
        sums /= sums[0]
        lag = 2 + np.abs(sums[2:]).argmax()
        within = np.abs(np.corrcoef(numbers.T)[~np.eye(n, dtype=bool)]).max()
        sets = len(np.unique(np.sort(numbers, axis=1), axis=0))
        often = f"{repeats.max()}, {repeats[1:].mean():.2f}"
        other = f"{lag}: {sums[lag]:.3f}"
        yield [f"{n}, {bits}", often, *rounded(3, sums[1]), other, *rounded(3, within), f"{sets:,} of {period:,}"]


def scale_quality() -> Iterator[Row]:
    """Relative error of the scaled numbers' modulus, in percent."""
    modes = {"mode": "pow2"}, {"mode": "constant"}, {"fraction": 2}, {"fraction": 4}, {"fraction": 6}
    for bits, n in (8, 3), (8, 7), (8, 15), (8, 31), (8, 63), (14, 31):
        errors = [100 * ScaleSpec(urng=UrngSpec(n=n, bits=bits), **mode).modulus_error for mode in modes]
        yield [bits, n, *(f"{e.mean():+.1f}, {np.abs(e).mean():.1f}, {np.abs(e).max():.1f}" for e in errors)]


def pool_quality() -> Iterator[Row]:
    """Numbers and rows of both forms of the pool."""
    for form, size in (("cheap", 4088), ("exact", 4095)):
        spec = PoolSpec(size=size)
        numbers, rows = spec.numbers / 2**10, modulus(spec.draw(0, spec.period) / 2**10)
        q = measure(numbers)
        whole = f"{modulus(numbers, size)[0]:.4f}, {expected_modulus(size):.4f}"
        yield [form, *moments(q), worst(q), whole, f"{rows.mean():.3f}, {rows.std():.3f}, {expected_modulus(8):.3f}"]


def pezo_quality() -> Iterator[Row]:
    """Scaled numbers of the presets, and the modulus of a cycle."""
    for preset in PezoSpec.presets:
        spec = build(BLOCKS["pezo"], preset=preset)
        numbers = spec.draw(0, min(spec.period, 1 << 17)) / 2**spec.fraction_bits
        q, length = measure(numbers, range(1, min(1025, spec.period // 2))), modulus(numbers)
        lengths = f"{length.mean():.3f}, {length.std():.3f}"
        yield [f"`{preset}`", *moments(q), worst(q), lengths, *rounded(3, expected_modulus(spec.width))]


def grng_quality() -> Iterator[Row]:
    """Numbers of the forms, and their signs."""
    for form in ("tree", "sum"):
        numbers = GrngSpec(form=form).draw(0, 1 << 22) / 64
        q, sign = measure(numbers), measure(np.sign(numbers), [255])
        lags = rounded(3, q.correlations[1], q.correlations[255])
        forms = "`tree`, `select`" if form == "tree" else "`sum`"
        yield [forms, *moments(q), *lags, worst(q), *rounded(3, sign.correlations[255])]


def gaussian_array_quality() -> Iterator[Row]:
    """Correlations of 128 generators, and dimensions of 1,000 perturbations of the digits network."""
    forms = {"tree": "`tree`, `select`", "sum": "`sum`", "none": "`pezo`, `otf8`, 31 numbers"}
    for form, label in forms.items():
        core = ZotrainSpec(network="digits", gaussian=form)
        source, words, lanes = core.source, core.mapping.words, np.arange(core.mapping.width) % core.source.width
        span = WHOLE.layout(core.mapping, source.period).span
        drawn = [source.draw(12345 + number * span, words)[:, lanes].reshape(-1) for number in range(1000)]
        gram = np.stack(drawn).astype(np.float32)
        gram = gram @ gram.T
        lengths = np.sqrt(np.diag(gram))
        cosines = np.abs(gram / lengths / lengths[:, None] - np.eye(1000))
        directions = [round(np.trace(gram) ** 2 / (gram**2).sum()), *rounded(2, cosines.max())]
        generators: Row = [None, None]
        if form != "none":
            numbers = GaussianArraySpec(n=128, form=form).draw(1000, 1 << 15)
            pairs = np.abs(np.corrcoef(numbers.T) - np.eye(128))
            generators = rounded(3, pairs.sum() / (128 * 127)) + rounded(2, pairs.max())
        yield [label, *generators, *directions]


def perturb_bias() -> Iterator[Row]:
    """Bias of each rounding in last places, and the share of weights that plus and minus restore."""
    z = PoolSpec().numbers.astype(np.int64)[:, None]  # Q2.10: a step is z / 2**8 last places
    w = np.random.default_rng(0).integers(-30000, 30000, z.shape)

    def row(how: str, plus: np.ndarray, minus: np.ndarray, restored: np.ndarray) -> Row:
        up, down = (plus - w - z / 256).mean(), (minus - w + z / 256).mean()
        return [how, *rounded(3, up, down, (up + down) / 2), f"{100 * (restored == w).mean():.1f} %"]

    ones = np.ones_like(z)
    labels = {
        "half-even": "`half-even`",
        "truncate": "`truncate`: shifts the scaled number, then adds or subtracts",
    }
    for rounding, label in labels.items():
        spec = PerturbSpec(rounding=rounding, overflow="wrap")
        step = spec.delta(z)
        plus, minus = spec.apply(w, step, ones), spec.apply(w, step, -ones)
        yield row(label, plus, minus, spec.apply(plus, step, -ones))
    plus, minus = (256 * w + z) >> 8, (256 * w - z) >> 8
    yield row("a shift of the whole sum, with 8 more fraction bits", plus, minus, (256 * plus - z) >> 8)


def perturb_steps() -> Iterator[Row]:
    """Steps of the default pool's numbers by `eps_shift`."""
    z = PoolSpec().numbers.astype(np.int64)[:, None]
    for shift in (4, 6, 8, 10, 12):
        spec = PerturbSpec(eps_shift=shift)
        step, exact = spec.delta(z), z / 2**spec.shift
        error = np.sqrt(((step - exact) ** 2).mean() / (exact**2).mean())
        yield [shift, len(np.unique(step)), f"{100 * (step == 0).mean():.1f} %", f"{100 * error:.1f} %"]


MEASUREMENTS: dict[str, Callable[[], Iterable[Row]]] = {
    "urng-quality": urng_quality,
    "urng-phases": urng_phases,
    "scale-quality": scale_quality,
    "pool-quality": pool_quality,
    "pezo-quality": pezo_quality,
    "grng-quality": grng_quality,
    "gaussian_array-quality": gaussian_array_quality,
    "perturb-bias": perturb_bias,
    "perturb-steps": perturb_steps,
}


def main() -> None:
    """Rewrite the rows of the measurements that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *MEASUREMENTS], metavar="NAME", help=", ".join(MEASUREMENTS))
    for name in parser.parse_args().names or MEASUREMENTS:
        path = FOLDER / f"{name}.json"
        *head, (_, _) = json.loads(path.read_text(encoding="utf-8")).items()
        lines = [f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in head]
        rows = ",\n".join(f"    {json.dumps(row, ensure_ascii=False)}" for row in MEASUREMENTS[name]())
        path.write_text("{\n" + ",\n".join([*lines, f'  "rows": [\n{rows}\n  ]']) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
