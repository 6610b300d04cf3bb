"""Cards of the named data sets: size, classes, files, origin and terms, with which loaded rows must agree."""

from typing import Any, Literal, NamedTuple

UCI = "https://archive.ics.uci.edu"
FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
USPS = "https://hastie.su.domains/ElemStatLearn/datasets"
BUILD = "make it by `delaytron datasets build {}`, which needs pip install 'delaytron[features]'"


class File(NamedTuple):
    """A file below a data folder: its address and published checksum, or how to build it."""

    path: str
    address: str = ""
    checksum: str | None = None
    recipe: str = ""


class Card(NamedTuple):
    """The facts of a data set."""

    title: str
    class_names: tuple[str, ...]
    counts: dict[str, tuple[int, ...]]  # rows of every class, in every part
    n_features: int
    nonzeros: float  # their share of X
    origin: Literal["made", "download", "build", "prepare"]
    source: str
    licence: str  # empty: the publisher states none
    citation: str
    files: dict[str, tuple[File, ...]] = {}  # of every part
    feature_names: tuple[str, ...] = ()
    image: tuple[int, int] | None = None  # height and width, where the features are pixels
    sparse: bool = False
    library: str = ""  # that brings it, as `delaytron.extras` calls it
    recorded: bool = False  # whether it has the times of its decisions and answers

    @property
    def class_counts(self) -> tuple[int, ...]:
        """Rows of every class."""
        return tuple(map(sum, zip(*self.counts.values(), strict=True)))

    @property
    def n_rows(self) -> int:
        """Rows of all classes."""
        return sum(self.class_counts)

    @property
    def provenance(self) -> dict[str, Any]:
        """The fields of a `Dataset` about its origin."""
        return {"source": self.source, "licence": self.licence, "citation": self.citation}


def pixel_names(height: int, width: int) -> tuple[str, ...]:
    """Return the names of the pixels of an image, row by row.

    Examples
    --------
    >>> pixel_names(2, 2)
    ('pixel 0,0', 'pixel 0,1', 'pixel 1,0', 'pixel 1,1')
    """
    return tuple(f"pixel {row},{column}" for row in range(height) for column in range(width))


def _from_uci(path: str, sha256: str) -> File:
    return File(path, f"{UCI}/ml/machine-learning-databases/{path}", f"sha256:{sha256}")


def _of_fashion(name: str, md5: str) -> File:
    return File(f"fashion_mnist/{name}-ubyte.gz", f"{FASHION}/{name}-ubyte.gz", f"md5:{md5}")


CIFAR10_IMAGES = File(
    "cifar10/cifar-10-binary.tar.gz",
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    "md5:c32a1d4ab5d03f1284b67883e8d87530",
)
VGG16_WEIGHTS = File(
    "cifar10/vgg16-397923af.pth",
    "https://download.pytorch.org/models/vgg16-397923af.pth",
    "sha256:397923af8e79cdbb6a7127f12361acd7a2f83e06b05044ddf496e83de57a5bf0",
)
VGG16_FEATURES = File("cifar10/vgg16_features.npz", recipe=BUILD.format("cifar10"))
CNN_FEATURES = File(
    "fashion_mnist/cnn_features.npz", recipe=f'take features="pixels", or {BUILD.format("fashion_mnist")}'
)
NEWS20_ARCHIVE = File(
    "news20/20news-bydate.tar.gz",
    "http://qwone.com/~jason/20Newsgroups/20news-bydate.tar.gz",
    "sha256:8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610",
)
NEWS20_COUNTS = File("news20/news20_counts_csr.npz")
PREPARE = "prepare it from the published data, see docs/howto/data.md"

FASHION_MNIST = Card(
    title="Photographs of ten kinds of clothes, by a CNN or in pixels.",
    class_names=(
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ),
    counts={"train": (6000,) * 10, "test": (1000,) * 10},
    n_features=128,
    nonzeros=0.301,
    origin="build",
    source="https://github.com/zalandoresearch/fashion-mnist",
    licence="MIT",
    citation="Xiao, H., Rasul, K. and Vollgraf, R. (2017). Fashion-MNIST: a novel image dataset for benchmarking "
    "machine learning algorithms. arXiv:1708.07747.",
    files={"train": (CNN_FEATURES,), "test": (CNN_FEATURES,)},
)
FASHION_PIXELS = FASHION_MNIST._replace(
    n_features=784,
    nonzeros=0.498,
    origin="download",
    files={
        "train": (
            _of_fashion("train-images-idx3", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
            _of_fashion("train-labels-idx1", "25c81989df183df01b3e8a0aad5dffbe"),
        ),
        "test": (
            _of_fashion("t10k-images-idx3", "bef4ecab320f06d8554ea6380940ec79"),
            _of_fashion("t10k-labels-idx1", "bb300cfdad3c16e7a12a480ee83cd310"),
        ),
    },
    feature_names=pixel_names(28, 28),
    image=(28, 28),
)
OPTDIGITS = Card(
    title="Handwritten digits: 8 x 8 pixels from 0 to 16.",
    class_names=tuple("0123456789"),
    counts={
        "train": (376, 389, 380, 389, 387, 376, 377, 387, 380, 382),
        "test": (178, 182, 177, 183, 181, 182, 181, 179, 174, 180),
    },
    n_features=64,
    nonzeros=0.512,
    origin="download",
    source=f"{UCI}/dataset/80",
    licence="CC BY 4.0",
    citation="Alpaydin, E. and Kaynak, C. (1998). Optical recognition of handwritten digits. UCI Machine Learning "
    "Repository. https://doi.org/10.24432/C50P49",
    files={
        "train": (
            _from_uci("optdigits/optdigits.tra", "e1b683cc211604fe8fd8c4417e6a69f31380e0c61d4af22e93cc21e9257ffedd"),
        ),
        "test": (
            _from_uci("optdigits/optdigits.tes", "6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8"),
        ),
    },
    feature_names=pixel_names(8, 8),
    image=(8, 8),
)
SYNSEP = Card(
    title="Made-up documents of nine topics that a linear rule separates.",
    class_names=tuple("012345678"),
    counts={"all": (11233, 11100, 11030, 11188, 11018, 11266, 10989, 11067, 11109)},
    n_features=400,
    nonzeros=0.111,
    origin="made",
    source="made by delaytron",
    licence="MIT",
    citation="Kakade, S. M., Shalev-Shwartz, S. and Tewari, A. (2008). Efficient bandit algorithms for online "
    "multiclass prediction. ICML 2008, 440-447.",
    sparse=True,
)

HOTEL_RESORT = Card(
    title="Bookings of a hotel, with times: stays, cancellations, no-shows.",
    class_names=("Canceled", "Check-Out", "No-Show"),
    counts={"all": (10831, 28938, 291)},
    n_features=7042,
    nonzeros=0.00341,
    origin="prepare",
    source="https://doi.org/10.1016/j.dib.2018.11.126",
    licence="CC BY 4.0",
    citation="Antonio, N., de Almeida, A. and Nunes, L. (2019). Hotel booking demand datasets. Data in Brief 22, "
    "41-49.",
    files={"all": (File("logs/hotel_resort.csv.gz", recipe=PREPARE),)},
    sparse=True,
    recorded=True,
)
HOTEL_NUMBERS = HOTEL_RESORT._replace(n_features=606, nonzeros=0.0285)

CARDS = {
    "cifar10": Card(
        title="Photographs of ten kinds of things, by features of VGG-16.",
        class_names=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
        counts={"train": (5000,) * 10, "test": (1000,) * 10},
        n_features=512,
        nonzeros=0.145,
        origin="build",
        source="https://www.cs.toronto.edu/~kriz/cifar.html",
        licence="cited use",
        citation="Krizhevsky, A. (2009). Learning multiple layers of features from tiny images. University of Toronto. "
        "Features: Simonyan, K. and Zisserman, A. (2015). Very deep convolutional networks for large-scale image "
        "recognition. ICLR 2015.",
        files={"train": (VGG16_FEATURES,), "test": (VGG16_FEATURES,)},
        sparse=True,
    ),
    "fashion_mnist": FASHION_MNIST,
    "usps": Card(
        title="Handwritten digits from envelopes: 16 x 16 pixels from -1 to 1.",
        class_names=tuple("0123456789"),
        counts={
            "train": (1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644),
            "test": (359, 264, 198, 166, 200, 160, 170, 147, 166, 177),
        },
        n_features=256,
        nonzeros=0.9998,
        origin="download",
        source="https://hastie.su.domains/ElemStatLearn",
        licence="",
        citation="Hastie, T., Tibshirani, R. and Friedman, J. (2009). The elements of statistical learning, 2nd ed. "
        "Springer; data of Le Cun, Y. et al. (1990), from the US Postal Service.",
        files={part: (File(f"usps/zip.{part}.gz", f"{USPS}/zip.{part}.gz"),) for part in ("train", "test")},
        feature_names=pixel_names(16, 16),
        image=(16, 16),
    ),
    "digits": OPTDIGITS._replace(
        title="Handwritten digits: the test part of optdigits.",
        counts={"all": OPTDIGITS.counts["test"]},
        nonzeros=0.511,
        origin="made",
        files={},
        library="sklearn",
    ),
    "optdigits": OPTDIGITS,
    "abalone": Card(
        title="Shells: guess the rings, hence the age, from sex and sizes.",
        class_names=(*map(str, range(1, 28)), "29"),
        counts={
            "all": (
                *(1, 1, 15, 57, 115, 259, 391, 568, 689, 634, 487, 267, 203, 126),
                *(103, 67, 58, 42, 32, 26, 14, 6, 9, 2, 1, 1, 2, 1),
            )
        },
        n_features=10,
        nonzeros=0.800,
        origin="download",
        source=f"{UCI}/dataset/1",
        licence="CC BY 4.0",
        citation="Nash, W., Sellers, T., Talbot, S., Cawthorn, A. and Ford, W. (1994). Abalone. UCI Machine Learning "
        "Repository. https://doi.org/10.24432/C55C7W",
        files={
            "all": (
                _from_uci("abalone/abalone.data", "de37cdcdcaaa50c309d514f248f7c2302a5f1f88c168905eba23fe2fbc78449f"),
            )
        },
        feature_names=(
            *("sex=F", "sex=I", "sex=M", "length", "diameter", "height"),
            *("whole weight", "shucked weight", "viscera weight", "shell weight"),
        ),
    ),
    "ecoli": Card(
        title="Proteins of E. coli: guess the place in the cell.",
        class_names=("cp", "im", "imL", "imS", "imU", "om", "omL", "pp"),
        counts={"all": (143, 77, 2, 2, 35, 20, 5, 52)},
        n_features=7,
        nonzeros=0.998,
        origin="download",
        source=f"{UCI}/dataset/39",
        licence="CC BY 4.0",
        citation="Nakai, K. (1996). Ecoli. UCI Machine Learning Repository. https://doi.org/10.24432/C5388M",
        files={
            "all": (_from_uci("ecoli/ecoli.data", "008bd8fbb1d8b34040c3c8c4e987cac2a7ebf116e008b140cc6441be5261ba1d"),)
        },
        feature_names=("mcg", "gvh", "lip", "chg", "aac", "alm1", "alm2"),
    ),
    "synsep": SYNSEP,
    "synnonsep": SYNSEP._replace(
        title="The documents of synsep, one in twenty under a wrong topic.",
        counts={"all": (11213, 11076, 11045, 11223, 11062, 11271, 10975, 11088, 11047)},
    ),
    "news20": Card(
        title="Messages to twenty newsgroups: how often each has each word.",
        class_names=(
            *("alt.atheism", "comp.graphics", "comp.os.ms-windows.misc", "comp.sys.ibm.pc.hardware"),
            *("comp.sys.mac.hardware", "comp.windows.x", "misc.forsale", "rec.autos", "rec.motorcycles"),
            *("rec.sport.baseball", "rec.sport.hockey", "sci.crypt", "sci.electronics", "sci.med", "sci.space"),
            *("soc.religion.christian", "talk.politics.guns", "talk.politics.mideast", "talk.politics.misc"),
            "talk.religion.misc",
        ),
        counts={
            "train": (
                *(480, 584, 591, 590, 578, 593, 585, 594, 598, 597),
                *(600, 595, 591, 594, 593, 599, 546, 564, 465, 377),
            ),
            "test": (
                *(319, 389, 394, 392, 385, 395, 390, 396, 398, 397),
                *(399, 396, 393, 396, 394, 398, 364, 376, 310, 251),
            ),
        },
        n_features=31_121,
        nonzeros=0.0040,
        origin="download",
        source="http://qwone.com/~jason/20Newsgroups",
        licence="",
        citation="Lang, K. (1995). NewsWeeder: learning to filter netnews. ICML 1995, 331-339.",
        files={"train": (NEWS20_COUNTS,), "test": (NEWS20_COUNTS,)},
        sparse=True,
    ),
    "hotel_resort": HOTEL_RESORT,
    "incidents": Card(
        title="Incidents of a service desk, with times: which group solved it?",
        class_names=(
            *map(str, (2, 3, 5, 6, 9, 10, 12, 13, 14, 15, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32)),
            *map(str, (33, 34, 35, 36, 37, 39, 43, 44, 45, 46, 47, 48, 49, 50, 51, 53, 54, 55, 56, 57, 58, 59, 60, 61)),
            *map(str, (62, 63, 64, 65, 66, 67, 68, 69, 70, 72, 73, 74, 75, 76)),
        ),
        counts={
            "all": (
                *(4, 69, 87, 171, 60, 232, 70, 12, 9, 32, 6, 24, 269, 29, 115, 497, 664, 813, 16, 344, 384),
                *(153, 178, 140, 3, 133, 26, 13, 1, 97, 780, 5, 3, 10, 100, 31, 88, 67, 38, 22, 54, 116, 201),
                *(73, 193, 96, 26, 9, 18, 32, 6, 435, 170, 275, 6, 28, 43, 3628, 188, 390, 66, 40, 112),
            )
        },
        n_features=4794,
        nonzeros=0.00209,
        origin="prepare",
        source=f"{UCI}/dataset/498",
        licence="CC BY 4.0",
        citation="Amaral, C., Fantinato, M. and Peres, S. (2018). Incident management process enriched event log. UCI "
        "Machine Learning Repository. https://doi.org/10.24432/C57S4H",
        files={"all": (File("logs/incidents.csv.gz", recipe=PREPARE),)},
        sparse=True,
        recorded=True,
    ),
}
