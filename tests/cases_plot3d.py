"""PLOT3D files as people write them, whose layout or numbers have to be looked at twice."""

from __future__ import annotations

from case_table import Cases, Try

CP = "--fields pressure_coefficient"

CASES: Cases = {
    # x, y, z, iblank and each variable of q are a Fortran record each: three of them where there are three planes. The field is
    # linear: velocity (x - 0.2, -10 y, 0.1) with the density of the zone.
    "flows/p3d-separate-records": [
        Try("info g.xyz --ranges", json={"zones.0.box": [[0, 0, 0], [1, 1, 1]], "zones.1.box": [[1, 0, 0], [2, 1, 1]]}),
        Try("info g.xyz", says=("a record for each array",), never=("PLANES order", "assumed")),
        Try("info g6.xyz+q=w6.q", says=("g6.xyz: .*a record for each array", "w6.q: .*a record for each array")),
        Try("probe g.xyz+q=w.q 1.5 0.3 0.2 --fields velocity", json={"values.velocity": [1.3, -3, 0.1]}),
        Try("probe g6.xyz+q=w6.q 1.5 0.3 0.2 --fields velocity", json={"values.velocity": [1.3, -3, 0.1]}),
        Try("convert g6.xyz+q=w6.q six.zarr"),
        Try("probe six.zarr 1.5 0.3 0.2 --fields velocity", json={"values.velocity": [1.3, -3, 0.1]}),
    ],
    # One flow, whose zones say Mach 0.5 at time 1 and Mach 0.8 at time 2; the pressure is the free stream's everywhere.
    "flows/p3d-zone-headers": [
        Try(
            "info g.xyz+q=w.q",
            says=(
                r"unlike Mach numbers: 0\.5 \(zone1\), 0\.8 \(zone2\)\. .*takes each zone's own",
                r"unlike times: 1 \(zone1\), 2 \(zone2\)\. .*the first zone",
            ),
            json={"times": [1.0], "zones.1.header.mach": 0.8},
        ),
        Try("info g.xyz+q=w.q", says=(r"flow +Mach number 0\.5 to 0\.8",)),
        Try(f"probe g.xyz+q=w.q 1.5 0.5 0.5 {CP}", says=("warning: .*unlike Mach numbers",), never=("unlike times",)),
        Try("probe g.xyz+q=w.q 1.5 0.5 0.5 --fields velocity", json={"values.velocity": [1, 0, 0]}, never=("unlike",)),
        Try("trace g.xyz+q=w.q --seeds point:0.5,0.5,0.5 -o l.npz", never=("unlike",)),
        Try(
            "trace g.xyz+q=w.q --seeds point:0.5,0.5,0.5 --scalars pressure_coefficient -o l.npz",
            says=("unlike Mach numbers",),
        ),
        Try(
            "extract slice g.xyz+q=w.q --normal z --field cp --define 'cp = 2 * pressure_coefficient' -o c.vtp",
            says=("unlike Mach numbers",),
        ),
        Try("convert g.xyz+q=w.q few.zarr --fields pressure_coefficient", says=("unlike Mach numbers",)),
        Try(f"probe g.xyz+q=w.q 1.5 0.5 0.5 {CP} --quiet", never=("unlike",)),
    ],
}
