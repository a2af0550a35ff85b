"""Layers that keep their state in themselves, with Flux's conventions.

Arrays are features × batch, and sequences features × batch × time. Weights are out × in, so a layer computes
``W @ x + b``. A recurrent layer is a cell, which is a function of state and input, inside a `Recur`, which keeps the
state.
"""

from ._activations import identity as identity
from ._activations import relu as relu
from ._activations import sigmoid as sigmoid
from ._cells import GRUCell as GRUCell
from ._cells import LSTMCell as LSTMCell
from ._cells import RNNCell as RNNCell
from ._dense import Chain as Chain
from ._dense import Dense as Dense
from ._initialisers import glorot_uniform as glorot_uniform
from ._initialisers import zeros as zeros
from ._recurrent import GRU as GRU
from ._recurrent import LSTM as LSTM
from ._recurrent import RNN as RNN
from ._recurrent import Recur as Recur
from ._recurrent import reset as reset
