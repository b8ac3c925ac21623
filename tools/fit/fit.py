#!/usr/bin/env python3
"""Minimax polynomials for targets/Cpu/Math*.cpp (needs mpmath).

Each fit is sum(c[k] * basis[k](x)), k = 0..n-1, minimising the greatest
weighted error on [lo, hi] by the Remez exchange. Prints C++ arrays, lowest
degree first, and the error reached.
"""
import sys
from mpmath import mp, mpf, exp, log, sin, cos, atan, asin, erf, erfc, sqrt, expm1, log1p, pi, matrix, lu_solve

mp.dps = 45


def remez(f, w, n, lo, hi, rounds=14, grid=1200):
    """Polynomial p of n coefficients minimising max |w (f - p)|."""
    lo, hi = mpf(lo), mpf(hi)
    xs = [(lo + hi) / 2 - (hi - lo) / 2 * cos(pi * k / n) for k in range(n + 1)]
    points = [(lo + hi) / 2 - (hi - lo) / 2 * cos(pi * k / grid) for k in range(grid + 1)]
    points = [x for x in points if abs(x) > mpf(10) ** -7]
    fw = [(x, f(x), w(x)) for x in points]
    best = None
    for _ in range(rounds):
        xs = [x if abs(x) > mpf(10) ** -7 else (hi - lo) * mpf(10) ** -6 for x in xs]
        a = matrix(n + 1, n + 1)
        y = matrix(n + 1, 1)
        for i, x in enumerate(xs):
            for k in range(n):
                a[i, k] = x ** k
            a[i, n] = (-1) ** i / w(x)
            y[i] = f(x)
        c = lu_solve(a, y)
        c = [c[k] for k in range(n)]
        err = []
        for x, v, q in fw:
            p = mpf(0)
            for k in reversed(c):
                p = p * x + k
            err.append(q * (v - p))
        worst = max(abs(e) for e in err)
        if best is None or worst < best[0]:
            best = (worst, c)
        # Extrema of alternating sign.
        ext = []
        for i, e in enumerate(err):
            if not ext or (e > 0) != (err[ext[-1]] > 0):
                ext.append(i)
            elif abs(e) > abs(err[ext[-1]]):
                ext[-1] = i
        while len(ext) > n + 1:
            ext.pop(0 if abs(err[ext[0]]) < abs(err[ext[-1]]) else -1)
        if len(ext) < n + 1:
            break
        new = [points[i] for i in ext]
        if max(abs(a - b) for a, b in zip(new, xs)) == 0:
            break
        xs = new
    return best


def show(name, what, f, w, n, lo, hi):
    worst, c = remez(f, w, n, lo, hi)
    print(f"// {what}; error {mp.nstr(worst, 3)}")
    print(f"static constexpr double {name}[] = {{{', '.join(repr(float(k)) for k in c)}}};", flush=True)


L = log(mpf(2)) / 2 * mpf("1.002")
SQ = sqrt(mpf(2))
FITS = {
    "expF32": ("(e^r - 1 - r) / r^2, |r| <= ln2 / 2", lambda r: (expm1(r) - r) / r**2, lambda r: r**2 / exp(r), 5, -L, L),
    "expm1F32": ("the same, relative to e^r - 1", lambda r: (expm1(r) - r) / r**2, lambda r: r**2 / expm1(r), 6, -L, L),
    "expF64": ("(e^r - 1 - r) / r^2, |r| <= ln2 / 2", lambda r: (expm1(r) - r) / r**2, lambda r: r**2 / expm1(r), 11, -L, L),
    "logF32": ("(log(1 + f) - f + f^2 / 2) / f^3, 1 + f in [sqrt(1/2), sqrt(2)]", lambda f: (log1p(f) - f + f * f / 2) / f**3, lambda f: f**3 / log1p(f), 9, 1 / SQ - 1, SQ - 1),
    "logF64": ("(2 atanh(s) - 2 s) / s^3 in s^2, |s| <= 3 - sqrt(8)", lambda z: (log((1 + sqrt(z)) / (1 - sqrt(z))) - 2 * sqrt(z)) / (z * sqrt(z)), lambda z: z, 7, mpf(10) ** -9, (3 - sqrt(mpf(8))) ** 2),
    "erfSmallF32": ("(erf(x) - x) / x in x^2, x <= 0.95", lambda z: erf(sqrt(z)) / sqrt(z) - 1, lambda z: sqrt(z) / erf(sqrt(z)), 6, mpf(10) ** -9, mpf("0.9025")),
    "erfcLogF32": ("(log(erfc(t)) + t) / t, 0.9 <= t <= 4", lambda t: (log(erfc(t)) + t) / t, lambda t: t * erfc(t), 7, "0.9", 4),
    "erfcTailF32": ("log(erfc(t)) + t^2, 0.9 <= t <= 10.1", lambda t: log(erfc(t)) + t * t, lambda t: erfc(t) + mpf("5e-4"), 11, "0.9", "10.1"),
    "sinF32": ("(sin(r) - r) / r^3 in r^2, |r| <= pi / 4", lambda z: (sin(sqrt(z)) - sqrt(z)) / sqrt(z)**3, lambda z: z * sqrt(z) / sin(sqrt(z)), 4, mpf(10) ** -9, (pi / 4)**2),
    "cosF32": ("(cos(r) - 1 + r^2 / 2) / r^4 in r^2", lambda z: (cos(sqrt(z)) - 1 + z / 2) / z**2, lambda z: z**2, 4, mpf(10) ** -9, (pi / 4)**2),
    "sinF64": ("(sin(r) - r) / r^3 in r^2, |r| <= pi / 4", lambda z: (sin(sqrt(z)) - sqrt(z)) / sqrt(z)**3, lambda z: z * sqrt(z) / sin(sqrt(z)), 6, mpf(10) ** -9, (pi / 4)**2),
    "cosF64": ("(cos(r) - 1 + r^2 / 2) / r^4 in r^2", lambda z: (cos(sqrt(z)) - 1 + z / 2) / z**2, lambda z: z**2, 6, mpf(10) ** -9, (pi / 4)**2),
    "atanF64": ("(atan(x) - x) / x^3 in x^2, |x| <= tan(pi / 8)", lambda z: (atan(sqrt(z)) - sqrt(z)) / sqrt(z)**3, lambda z: z, 12, mpf(10) ** -9, (SQ - 1)**2),
    "asinF64": ("(asin(x) - x) / x^3 in x^2, |x| <= 1 / 2", lambda z: (asin(sqrt(z)) - sqrt(z)) / sqrt(z)**3, lambda z: z, 14, mpf(10) ** -9, mpf("0.25")),
    "erfSmallF64": ("(erf(x) - x) / x in x^2, x <= 1", lambda z: erf(sqrt(z)) / sqrt(z) - 1, lambda z: mpf(1), 13, mpf(10) ** -9, 1),
    "erfcLargeF64": ("e^(x^2) erfc(x) in t = (x - 3) / (x + 3), 1 <= x <= 28", lambda t: exp((3 * (1 + t) / (1 - t))**2) * erfc(3 * (1 + t) / (1 - t)), lambda t: exp(-(3 * (1 + t) / (1 - t))**2) / erfc(3 * (1 + t) / (1 - t)), 22, mpf(-1) / 2, mpf(25) / 31),
    "powF64": ("((2 atanh(s) - 2 s) / s^3 - 2 / 3) / s^2 in s^2", lambda z: ((log((1 + sqrt(z)) / (1 - sqrt(z))) - 2 * sqrt(z)) / (z * sqrt(z)) - mpf(2) / 3) / z, lambda z: z**2 / 2, 8, mpf(10) ** -9, (3 - sqrt(mpf(8))) ** 2),
}
for name in sys.argv[1:] or FITS:
    show(name, *FITS[name])
