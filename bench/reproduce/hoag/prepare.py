"""Writes the data of hoag_experiment from their sources: DIR/{20news.svm,a9a.svm,mnist12.svm,parkinsons.csv}.

    prepare.py SOURCES DIR [PROBLEM…]

20news: tf-idf of all 18,846 documents, the twenty groups halved into two classes by their number, even and odd. mnist12:
the 60,000 training images, cropped to 24 x 24, means of 2 x 2 pixels, divided by 255. parkinsons: the sixteen voice
measures and age, sex and time; the target is total_UPDRS.
"""

import csv
import lzma
import pathlib
import sys

import numpy


def text(path):
    return lzma.open(path, 'rt') if path.suffix == '.xz' else open(path)


def news(sources, out):
    with text(sources / '20news/20news-tfidf.svm.xz') as rows, open(out / '20news.svm', 'w') as file:
        for row in rows:
            label, _, rest = row.partition(' ')
            file.write(('1 ' if int(float(label)) % 2 else '-1 ') + rest)


def a9a(sources, out):
    with text(sources / 'libsvm/a9a.xz') as rows, open(out / 'a9a.svm', 'w') as file:
        file.write(rows.read())


def mnist(sources, out):
    def idx(name, header):
        data = lzma.open(sources / 'mnist' / name).read()
        return numpy.frombuffer(data, numpy.uint8, offset=header)
    images = idx('train-images-idx3-ubyte.xz', 16).reshape(-1, 28, 28)[:, 2:26, 2:26]
    labels = idx('train-labels-idx1-ubyte.xz', 8)
    means = images.reshape(-1, 12, 2, 12, 2).mean(axis=(2, 4)).reshape(-1, 144) / 255.0
    with open(out / 'mnist12.svm', 'w') as file:
        for label, row in zip(labels, means):
            entries = ' '.join(f'{j + 1}:{row[j]:.6g}' for j in numpy.flatnonzero(row))
            file.write(f'{label} {entries}\n')


def parkinsons(sources, out):
    with text(sources / 'parkinsons-telemonitoring/parkinsons_updrs.csv.xz') as rows, \
            open(out / 'parkinsons.csv', 'w') as file:
        reader = csv.DictReader(rows)
        left_out = ('subject#', 'motor_UPDRS', 'total_UPDRS')
        names = [name for name in reader.fieldnames if name not in left_out] + ['total_UPDRS']
        writer = csv.writer(file)
        writer.writerow(names)
        for row in reader:
            writer.writerow([row[name] for name in names])


def main():
    sources, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    writers = {'20news': news, 'a9a': a9a, 'mnist': mnist, 'parkinsons': parkinsons}
    for name in sys.argv[3:] or writers:
        writers[name](sources, out)
        print(name)


if __name__ == '__main__':
    main()
