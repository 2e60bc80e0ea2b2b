"""Writes MNIST's training images (idx3-ubyte.xz, idx1-ubyte.xz) in LIBSVM form: mnist_to_libsvm.py FOLDER OUT."""

import lzma
import pathlib
import sys

folder, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
images = lzma.open(folder / "train-images-idx3-ubyte.xz").read()[16:]
labels = lzma.open(folder / "train-labels-idx1-ubyte.xz").read()[8:]
with out.open("w") as f:
    for i, label in enumerate(labels):
        pixels = images[784 * i : 784 * (i + 1)]
        f.write(f"{label} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(pixels) if v) + "\n")
