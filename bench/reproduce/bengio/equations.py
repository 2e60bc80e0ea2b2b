"""The derivatives of an inverse B of A by A's entries, by the equations as Bengio 2000 prints them, against -B dA B.

    equations.py --draw K

A is normal, 6 x 6. Prints a line: draw, equation, CPU seconds, largest deviation over the largest derivative.

    six     (6): by minors
    seven   (7): by A B = I, one entry of A at a time, against differences
"""

import argparse
import time

import numpy

SIZE = 6


def by_minors(a, b):
    """d[i, j, k, l]: of B_ij by A_kl."""
    d = numpy.empty((SIZE,) * 4)
    for i in range(SIZE):
        for j in range(SIZE):
            minor = numpy.linalg.inv(numpy.delete(numpy.delete(a, j, 0), i, 1))
            for k in range(SIZE):
                for l in range(SIZE):
                    d[i, j, k, l] = -b[i, j] * b[l, k]
                    if l != i and k != j:
                        d[i, j, k, l] += b[i, j] * minor[l - (l > i), k - (k > j)]
    return d


def by_product(b):
    """-B dA B, where dA has a 1 at (k, l)."""
    return -numpy.einsum('ik,lj->ijkl', b, b)


def by_differences(a, step=1e-6):
    d = numpy.empty((SIZE,) * 4)
    for k in range(SIZE):
        for l in range(SIZE):
            moved = numpy.zeros_like(a)
            moved[k, l] = step
            d[:, :, k, l] = (numpy.linalg.inv(a + moved) - numpy.linalg.inv(a - moved)) / (2 * step)
    return d


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--draw', type=int, required=True)
    parser.add_argument('--equation', choices=['six', 'seven'], required=True)
    arguments = parser.parse_args()
    a = numpy.random.default_rng(arguments.draw).normal(size=(SIZE, SIZE)) + 3 * numpy.eye(SIZE)
    b = numpy.linalg.inv(a)
    begin = time.process_time()
    ours, reference = (by_minors(a, b), by_product(b)) if arguments.equation == 'six' else (by_product(b), by_differences(a))
    seconds = time.process_time() - begin
    print(f'{arguments.draw},{arguments.equation},{seconds:.4f},{abs(ours - reference).max() / abs(reference).max():.2e}')


if __name__ == '__main__':
    main()
