"""One-month-ahead volatility by a constant model whose past is weighted by two hyper-parameters (Bengio 2000, section 5).

    volatility.py --draw K --method weighted|constant|autoregression|arma

The source's stocks are not to be had: each draw is ten series of 240 months whose logarithm of volatility jumps to a new
level every four years or so and wanders about it; a month's volatility is the deviation of 21 daily returns. The weight of
an observation of age a is 1 - trust + trust * sigmoid(point - a). Both are found on the first 120 months of a series, along
the gradient of the sequential error of section 5; all methods predict the other 120 from what lies before each. Prints a
line: draw, method, CPU seconds, mean squared error over the variance of what was predicted.

    weighted        the two hyper-parameters
    constant        the mean of all that lies before
    autoregression  least squares on the last three months
    arma            one autoregressive and one moving-average term, by two regressions (Hannan and Rissanen)
"""

import argparse
import time

import numpy

MONTHS, FIRST, SERIES, START = 240, 120, 10, 12


def series(random):
    level, wander, values = random.normal(0.0, 0.5), 0.0, []
    for _ in range(MONTHS):
        if random.random() < 1 / 48:
            level = random.normal(0.0, 0.5)
        wander = 0.7 * wander + random.normal(0.0, 0.15)
        values.append(numpy.exp(level + wander) * random.normal(size=21).std())
    return numpy.array(values)


def weighted(y, months, point, trust):
    """Predictions of `months`, and their derivatives by the point and the trust."""
    predicted, slopes = [], []
    for month in months:
        sigmoid = 1.0 / (1.0 + numpy.exp(numpy.arange(month, 0, -1) - point))
        weights = 1.0 - trust + trust * sigmoid
        total = weights.sum()
        mean = weights @ y[:month] / total
        by_weights = (y[:month] - mean) / total
        predicted.append(mean)
        slopes.append([by_weights @ (trust * sigmoid * (1.0 - sigmoid)), by_weights @ (sigmoid - 1.0)])
    return numpy.array(predicted), numpy.array(slopes)


def find(y):
    """The point and the trust of least sequential error on the first months: descents that halve their steps."""
    months = range(START, FIRST)

    def error(x):
        trust = 1.0 / (1.0 + numpy.exp(-x[1]))
        predicted, slopes = weighted(y, months, x[0], trust)
        off = predicted - y[list(months)]
        return off @ off, 2.0 * off @ slopes * numpy.array([1.0, trust * (1.0 - trust)])

    x, step = numpy.array([12.0, 0.0]), 1.0
    value, slope = error(x)
    for _ in range(60):
        trial = x - step * slope * numpy.array([20.0, 1.0])
        new, new_slope = error(trial)
        if new < value:
            x, value, slope, step = trial, new, new_slope, 1.5 * step
        else:
            step *= 0.5
    return x[0], 1.0 / (1.0 + numpy.exp(-x[1]))


def regression(rows, targets, at):
    rows = numpy.column_stack([numpy.ones(len(rows)), rows])
    return numpy.concatenate([[1.0], at]) @ numpy.linalg.lstsq(rows, targets, rcond=None)[0]


def lags(y, count):
    return numpy.column_stack([y[count - 1 - k:len(y) - 1 - k] for k in range(count)])


def predict(method, y):
    months = range(FIRST, MONTHS)
    if method == 'weighted':
        return weighted(y, months, *find(y))[0]
    if method == 'constant':
        return numpy.array([y[:month].mean() for month in months])
    found = []
    for month in months:
        past = y[:month]
        if method == 'autoregression':
            found.append(regression(lags(past, 3), past[3:], past[:-4:-1]))
        else:
            rows = lags(past, 6)
            shocks = past[6:] - numpy.column_stack([numpy.ones(len(rows)), rows]) @ numpy.linalg.lstsq(
                numpy.column_stack([numpy.ones(len(rows)), rows]), past[6:], rcond=None)[0]
            found.append(regression(numpy.column_stack([past[6:-1], shocks[:-1]]), past[7:], [past[-1], shocks[-1]]))
    return numpy.array(found)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--draw', type=int, required=True)
    parser.add_argument('--method', choices=['weighted', 'constant', 'autoregression', 'arma'], required=True)
    arguments = parser.parse_args()
    random = numpy.random.default_rng(arguments.draw)
    all_series = [series(random) for _ in range(SERIES)]
    begin = time.process_time()
    losses = [((predict(arguments.method, y) - y[FIRST:]) ** 2).mean() / y[FIRST:].var() for y in all_series]
    print(f'{arguments.draw},{arguments.method},{time.process_time() - begin:.3f},{numpy.mean(losses):.6g}')


if __name__ == '__main__':
    main()
