"""The data sets known by name: files, official addresses, checksums, classes.

Checksums are of the files as their authors publish them. Those of MNIST were
computed from files with the official MD5; those of the others are what several
independent libraries expect, of Flowers-17 only an MD5. Contents of Fashion-MNIST
are those of Debian's package.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from attribound.data.splits import Split


@dataclass(frozen=True)
class Official:
    """One file as published: its name, ``algorithm:digest``, and where it can be fetched.

    ``content`` is the SHA-256 of the uncompressed file, where copies are
    compressed differently (Debian's are).
    """

    name: str
    digest: str
    urls: tuple[str, ...]
    content: str | None = None


@dataclass(frozen=True)
class IdxSet:
    """A data set of four idx files; ``files`` are the images and the labels of a part."""

    classes: tuple[str, ...]
    files: Mapping[Split, tuple[Official, Official]]
    #: Where a distribution installs it.
    installed: tuple[Path, ...] = ()


def _idx(mirrors: tuple[str, ...], name: str, digest: str, content: str) -> Official:
    return Official(name, f"sha256:{digest}", tuple(url + name for url in mirrors), content)


_MNIST = (
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
)
_FASHION = (
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
)

IDX_SETS: Mapping[str, IdxSet] = {
    "mnist": IdxSet(
        classes=tuple("0123456789"),
        files={
            "train": (
                _idx(
                    _MNIST,
                    "train-images-idx3-ubyte.gz",
                    "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                    "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                ),
                _idx(
                    _MNIST,
                    "train-labels-idx1-ubyte.gz",
                    "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                    "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                ),
            ),
            "test": (
                _idx(
                    _MNIST,
                    "t10k-images-idx3-ubyte.gz",
                    "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                    "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                ),
                _idx(
                    _MNIST,
                    "t10k-labels-idx1-ubyte.gz",
                    "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                    "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
                ),
            ),
        },
    ),
    "fashion-mnist": IdxSet(
        classes=(
            "T-shirt/top",
            "Trouser",
            "Pullover",
            "Dress",
            "Coat",
            "Sandal",
            "Shirt",
            "Sneaker",
            "Bag",
            "Ankle boot",
        ),
        files={
            "train": (
                _idx(
                    _FASHION,
                    "train-images-idx3-ubyte.gz",
                    "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                    "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
                ),
                _idx(
                    _FASHION,
                    "train-labels-idx1-ubyte.gz",
                    "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                    "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
                ),
            ),
            "test": (
                _idx(
                    _FASHION,
                    "t10k-images-idx3-ubyte.gz",
                    "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                    "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
                ),
                _idx(
                    _FASHION,
                    "t10k-labels-idx1-ubyte.gz",
                    "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                    "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
                ),
            ),
        },
        installed=(Path("/usr/share/datasets/fashion-mnist"),),
    ),
}

CIFAR10 = Official(
    "cifar-10-python.tar.gz",
    "sha256:6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
    ("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",),
)
CIFAR10_CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)

FLOWERS17 = Official(
    "17flowers.tgz",
    "md5:b59a65d8d1a99cd66944d474e1289eab",
    ("https://www.robots.ox.ac.uk/~vgg/data/flowers/17/17flowers.tgz",),
)
#: In the order of the files: eighty images of each.
FLOWERS17_CLASSES = (
    "daffodil",
    "snowdrop",
    "lily-valley",
    "bluebell",
    "crocus",
    "iris",
    "tiger-lily",
    "tulip",
    "fritillary",
    "sunflower",
    "daisy",
    "coltsfoot",
    "dandelion",
    "cowslip",
    "buttercup",
    "windflower",
    "pansy",
)
