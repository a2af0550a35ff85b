"""Optimisers that know about identity: a shared object, and an array in several fields, is updated once."""

from ._adam import Adam as Adam
from ._sgd import SGD as SGD
