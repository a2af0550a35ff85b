"""Operands for every special function with a row, at points where it is smooth. A row without a sample fails the suite."""

from typing import Any

import numpy as np
import scipy.special as sc

from mutangent.rules.special import hurwitz_zeta

_ANY = np.array([-1.7, -0.6, 0.35, 2.2])
_OTHER = np.array([0.9, -1.3, 1.6, 0.7])
_POSITIVE = np.array([0.3, 0.8, 1.7, 2.5])
_MORE = np.array([1.4, 0.6, 2.2, 0.9])
_INNER = np.array([-0.83, -0.4, 0.21, 0.6])
_UNIT = np.array([0.12, 0.4, 0.66, 0.93])
_ORDER = np.array([0.0, 1.0, 1.5, 2.0])
_DEGREE = np.array([0, 1, 2, 3])


class Fixed:
    """An operand without a derivative."""

    def __init__(self, value: Any) -> None:
        self.value = value


def fixed(value: Any) -> Fixed:
    return Fixed(value)


_orthogonal = (fixed(_DEGREE), _INNER)

# By function: its operands.
SPECIAL: dict[Any, tuple[Any, ...]] = {
    sc.cbrt: (_ANY,),
    sc.exp2: (_ANY,),
    sc.exp10: (_INNER,),
    sc.expm1: (_ANY,),
    sc.log1p: (_INNER,),
    sc.cosm1: (_ANY,),
    sc.exprel: (np.array([-1.7, -0.02, 0.0, 2.2]),),
    sc.sindg: (30 * _ANY,),
    sc.cosdg: (30 * _ANY,),
    sc.tandg: (30 * _INNER,),
    sc.cotdg: (30 * _OTHER,),
    sc.radian: (20 * _ANY, 10 * _POSITIVE, 10 * _MORE),
    sc.powm1: (_POSITIVE, _ANY),
    sc.expit: (_ANY,),
    sc.log_expit: (_ANY,),
    sc.logit: (_UNIT,),
    sc.xlogy: (_ANY, _POSITIVE),
    sc.xlog1py: (_ANY, _INNER),
    sc.entr: (_POSITIVE,),
    sc.rel_entr: (_POSITIVE, _MORE),
    sc.kl_div: (_POSITIVE, _MORE),
    sc.huber: (_MORE, _OTHER),
    sc.pseudo_huber: (_MORE, _ANY),
    sc.boxcox: (_POSITIVE, np.array([-0.7, 0.0, 0.3, 1.5])),
    sc.boxcox1p: (_POSITIVE, np.array([-0.7, 0.0, 0.3, 1.5])),
    sc.inv_boxcox: (_INNER, np.array([-0.7, 0.0, 0.3, 0.8])),
    sc.inv_boxcox1p: (_INNER, np.array([-0.7, 0.0, 0.3, 0.8])),
    sc.erf: (_ANY,),
    sc.erfc: (_ANY,),
    sc.erfi: (_ANY,),
    sc.erfcx: (_ANY,),
    sc.dawsn: (_ANY,),
    sc.wofz: (_ANY,),
    sc.erfinv: (_INNER,),
    sc.erfcinv: (2 * _UNIT,),
    sc.ndtr: (_ANY,),
    sc.log_ndtr: (_ANY,),
    sc.ndtri: (_UNIT,),
    sc.ndtri_exp: (-_POSITIVE,),
    sc.owens_t: (_ANY, _OTHER),
    sc.gamma: (_ANY,),
    sc.rgamma: (np.array([-1.7, -1.0, 0.0, 2.2]),),
    sc.gammaln: (_ANY,),
    sc.loggamma: (_POSITIVE,),
    sc.digamma: (_ANY,),
    hurwitz_zeta: (fixed(np.array([1.5, 2.0, 3.0, 4.0])), _POSITIVE),
    sc.poch: (_POSITIVE, _MORE),
    sc.beta: (_POSITIVE, _MORE),
    sc.betaln: (_POSITIVE, _MORE),
    sc.gammainc: (fixed(_POSITIVE), _MORE),
    sc.gammaincc: (fixed(_POSITIVE), _MORE),
    sc.gammaincinv: (fixed(_POSITIVE), _UNIT),
    sc.gammainccinv: (fixed(_POSITIVE), _UNIT),
    sc.betainc: (fixed(_POSITIVE), fixed(_MORE), _UNIT),
    sc.betaincc: (fixed(_POSITIVE), fixed(_MORE), _UNIT),
    sc.betaincinv: (fixed(_POSITIVE), fixed(_MORE), _UNIT),
    sc.betainccinv: (fixed(_POSITIVE), fixed(_MORE), _UNIT),
    sc.exp1: (_POSITIVE,),
    sc.expi: (_OTHER,),
    sc.expn: (fixed(_DEGREE), _POSITIVE),
    sc.spence: (np.array([0.3, 1.0, 1.4, 5.0]),),
    sc.wrightomega: (_ANY,),
    sc.sici: (_POSITIVE,),
    sc.shichi: (_POSITIVE,),
    sc.fresnel: (_ANY,),
    sc.airy: (_ANY,),
    sc.ellipk: (np.array([-1.7, 0.0, 0.35, 0.9]),),
    sc.ellipe: (np.array([-1.7, 0.0, 0.35, 0.9]),),
    sc.ellipkinc: (_ANY, fixed(_INNER)),
    sc.ellipeinc: (_ANY, fixed(_INNER)),
    sc.hyp0f1: (fixed(_POSITIVE), _ANY),
    sc.hyp1f1: (fixed(_POSITIVE), fixed(_MORE), _ANY),
    sc.hyperu: (fixed(_POSITIVE), fixed(_MORE), _POSITIVE),
    sc.hyp2f1: (fixed(_POSITIVE), fixed(_MORE), fixed(_ORDER + 1), _INNER),
    sc.j0: (_ANY,),
    sc.j1: (np.array([-1.7, 0.0, 0.35, 2.2]),),
    sc.y0: (_POSITIVE,),
    sc.y1: (_POSITIVE,),
    sc.i0: (_ANY,),
    sc.i1: (np.array([-1.7, 0.0, 0.35, 2.2]),),
    sc.k0: (_POSITIVE,),
    sc.k1: (_POSITIVE,),
    sc.jv: (fixed(_ORDER), _POSITIVE),
    sc.yv: (fixed(_ORDER), _POSITIVE),
    sc.yn: (fixed(_DEGREE), _POSITIVE),
    sc.iv: (fixed(_ORDER), _POSITIVE),
    sc.kv: (fixed(_ORDER), _POSITIVE),
    sc.kn: (fixed(_DEGREE), _POSITIVE),
    sc.hankel1: (fixed(_ORDER), _POSITIVE),
    sc.hankel2: (fixed(_ORDER), _POSITIVE),
    sc.k0e: (_POSITIVE,),
    sc.k1e: (_POSITIVE,),
    sc.kve: (fixed(_ORDER), _POSITIVE),
    sc.hankel1e: (fixed(_ORDER), _POSITIVE),
    sc.hankel2e: (fixed(_ORDER), _POSITIVE),
    sc.i0e: (_ANY,),
    sc.i1e: (_ANY,),
    sc.ive: (fixed(_DEGREE), _ANY),
    sc.struve: (fixed(_ORDER), _POSITIVE),
    sc.modstruve: (fixed(_ORDER), _POSITIVE),
    sc.eval_jacobi: (fixed(_DEGREE), fixed(_POSITIVE), fixed(_MORE), _INNER),
    sc.eval_legendre: _orthogonal,
    sc.eval_gegenbauer: (fixed(_DEGREE), fixed(_POSITIVE), _INNER),
    sc.eval_chebyt: _orthogonal,
    sc.eval_chebyu: _orthogonal,
    sc.eval_laguerre: _orthogonal,
    sc.eval_genlaguerre: (fixed(_DEGREE), fixed(_POSITIVE), _INNER),
    sc.eval_hermite: _orthogonal,
    sc.eval_hermitenorm: _orthogonal,
}

CONSTANT = (sc.gammasgn, sc.round)

# Those that are defined off the real axis. Their last operand is moved there.
COMPLEX = (
    *(sc.expm1, sc.log1p, sc.erf, sc.erfc, sc.erfi, sc.erfcx, sc.dawsn, sc.wofz, sc.ndtr, sc.log_ndtr),
    *(sc.gamma, sc.rgamma, sc.loggamma, sc.digamma, sc.xlogy, sc.xlog1py, sc.exp1, sc.expi, sc.spence),
    *(sc.wrightomega, sc.sici, sc.shichi, sc.fresnel, sc.airy, sc.hyp0f1, sc.hyp1f1, sc.hyp2f1, sc.jv, sc.yv),
    *(sc.iv, sc.kv, sc.kve, sc.ive, sc.hankel1, sc.hankel2, sc.hankel1e, sc.hankel2e),
)
OFF_THE_AXIS = 1j * np.array([0.3, -0.7, 0.45, -0.2])
