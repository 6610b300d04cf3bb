"""Features from images, by networks: the extra `delaytron[features]`, and the only part that needs PyTorch."""

from delaytron.images.build import N_IMAGES, build, build_cifar10, build_fashion_mnist, inputs

__all__ = ["N_IMAGES", "build", "build_cifar10", "build_fashion_mnist", "inputs"]
