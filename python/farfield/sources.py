"""What a source string means: `grid.xyz+q=sol_*.q`, `grid_*.xyz+q=sol_*.q` where the grid moves, a store's folder, a `.p3d`
file, `demo:NAME`.

>>> parse("flow.xyz+q=flow.q", check=False)
Source(path='flow.xyz', q=('flow.q',), function=(), options={}, text='flow.xyz+q=flow.q')
>>> sorted(["sol_10.q", "sol_9.q"], key=natural)
['sol_9.q', 'sol_10.q']
"""

from __future__ import annotations


