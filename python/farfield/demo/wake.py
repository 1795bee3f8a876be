"""A model of the laminar wake of a tapered cylinder, in closed form.

The flow is similar to Jespersen and Levit's tapered cylinder (1990). The axis is along z, the stream along x. The diameter
halves from one end to the other, so that vortices are shed faster at the thin end and the street tilts. In each plane of
constant z the flow has a stream function, hence no divergence in that plane:

    psi = U P G B + Gamma / (4 pi) E (ln D_upper - ln D_lower)

P is the potential flow about the local circle. G brings it to rest at the wall: psi grows with the square of the distance,
the velocity linearly. B leaves a slow, partly reversed region behind the body. The second term is von Karman's double row
of vortices, with smoothed cores in closed form, faded in behind the body by E. Along the span, fluid runs up and down the
cores in cells, in opposite directions in the two rows, with a slight net rise.
The state follows from constant total enthalpy and entropy, with a lower pressure in the cores.

Lengths are in diameters of the thick end, velocities in the speed of sound far away.

>>> import numpy as np
>>> u, v, w, core = velocity(np.array([[-30.0]], "f4"), np.array([[0.0]], "f4"), 4.0)
>>> bool(abs(u[0, 0] / MACH - 1) < 1e-3), float(v[0, 0]), float(w[0, 0])
(True, 0.0, 0.0)
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Plane = NDArray[np.float32]

MACH = 0.2
GAMMA = 1.4
SPAN = 8.0
"""Length of the cylinder, in diameters of its thick end."""
THICK, THIN = 1.0, 0.5
"""Diameters at z = 0 and z = SPAN."""

_SPACING = 4.3
"""Distance of vortices of one row, in local diameters (Strouhal number 0.2 at a convection speed of 0.86)."""
_ROWS_APART = 0.281 * _SPACING
"""Distance of the rows, in local diameters: von Karman's stable ratio."""
_CIRCULATION = 3.7
"""Circulation of one vortex, in units of U and the local diameter."""
_CORE = 0.26
"""Radius of the cores, in local diameters."""
_IN_STEP_X = -4.5
"""Place where all vortices of the span are in phase; further upstream, the street tilts more."""
_CELL = 2.7
"""Wavelength along the span of the flow in the cores; the two rows are opposite."""
_SHEAR = 0.10
"""Thickness of the shear layer at the wall, in local diameters."""


def diameter(z: float) -> float:
    """Local diameter.

    >>> diameter(0.0), diameter(SPAN)
    (1.0, 0.5)
    """
    return THICK + (THIN - THICK) * z / SPAN


def velocity(x: Plane, y: Plane, z: float) -> tuple[Plane, Plane, Plane, Plane]:
    """Velocity (u, v, w) in units of the speed of sound, and the weight of a vortex core (0 to 1), at one z.

    Points inside the body are at rest.
    """
    d = diameter(z)
    radius = 0.5 * d
    r2 = np.maximum(x * x + y * y, np.float32(1e-12))
    r = np.sqrt(r2)

    # P and its derivatives: potential flow about the circle.
    ratio = radius * radius / r2
    p = y * (1 - ratio)
    p_x = 2 * x * y * ratio / r2
    p_y = 1 - ratio + 2 * y * y * ratio / r2

    # G: the shear layer at the wall.
    shear = _SHEAR * d
    g = np.tanh(np.maximum(r - radius, 0) / shear)
    g_r = (1 - g * g) / (shear * r)
    g_x, g_y = g_r * x, g_r * y

    # B: the near wake.
    length, width = 2.2 * d, 0.55 * d
    rise = np.tanh((x - 0.1 * d) / (0.25 * d))
    fade = np.exp(-np.square(np.maximum(x, 0) / length))
    depth = 0.58 * (1 + rise) * fade
    depth_x = 0.58 * ((1 - rise * rise) / (0.25 * d) * fade - (1 + rise) * fade * 2 * np.maximum(x, 0) / length**2)
    across = np.exp(-np.square(y / width))
    b = 1 - depth * across
    b_x = -depth_x * across
    b_y = depth * across * 2 * y / width**2

    # E: the street fades in behind the body and decays slowly.
    swell = np.tanh((x - 1.5 * d) / (0.7 * d))
    decay = np.exp(-np.maximum(x, 0) / 34.0)
    a = 0.5 * (1 + swell) * decay
    a_x = 0.5 * (1 - swell * swell) / (0.7 * d) * decay - a / 34.0 * (x > 0)
    e = a * g
    e_x, e_y = a_x * g + a * g_x, a * g_y

    # The two rows.
    kappa = 2 * math.pi / (_SPACING * d)
    phase = kappa * (x - _IN_STEP_X)
    cosine, sine = np.cos(phase), np.sin(phase)
    spread = 0.5 * kappa * kappa * ((_CORE * d) ** 2 + 0.012 * d * np.maximum(x, 0))
    half = 0.5 * _ROWS_APART * d
    above, below = np.clip(kappa * (y - half), -40, 40), np.clip(kappa * (y + half), -40, 40)
    d_upper = np.cosh(above) - cosine + spread
    d_lower = np.cosh(below) + cosine + spread
    s = np.log(d_upper) - np.log(d_lower)
    s_x = kappa * (sine / d_upper + sine / d_lower)
    s_y = kappa * (np.sinh(above) / d_upper - np.sinh(below) / d_lower)

    strength = _CIRCULATION * MACH * d / (4 * math.pi)
    flow, flow_x, flow_y = g * b, g_x * b + g * b_x, g_y * b + g * b_y
    u = MACH * (p_y * flow + p * flow_y) + strength * (e * s_y + e_y * s)
    v = -MACH * (p_x * flow + p * flow_x) - strength * (e * s_x + e_x * s)
    upper, lower = e * spread / d_upper, e * spread / d_lower
    core = upper + lower
    cells = math.sin(2 * math.pi * z / _CELL)
    ends = math.sqrt(max(0.0, math.sin(math.pi * z / SPAN)))
    w = MACH * ends * ((0.15 + 0.6 * cells) * upper + (0.15 - 0.6 * cells) * lower)
    outside = r > radius * (1 + 1e-6)
    return u * outside, v * outside, w * outside, core * outside


def state(u: Plane, v: Plane, w: Plane, core: Plane) -> tuple[Plane, Plane]:
    """Density (relative to the stream) and energy per volume (in rho_inf a_inf^2), as in PLOT3D."""
    speed2 = u * u + v * v + w * w
    sound2 = 1 + 0.5 * (GAMMA - 1) * (MACH * MACH - speed2)
    density = sound2 ** (1 / (GAMMA - 1))
    pressure = density * (sound2 / GAMMA - 0.55 * MACH * MACH * core)
    return density, pressure / (GAMMA - 1) + 0.5 * density * speed2
