//! The forms of seeds in text.

/// All forms, for help texts and messages.
pub const FORMS: &str =
    "point:x,y,z | line:x,y,z:x,y,z:n | plane:ORIGIN:CORNER:CORNER:n1:n2 | box:LOW:HIGH:n1:n2:n3 | \
     sphere:CENTRE:RADIUS:n | scatter:LOW:HIGH:n | random:n:seed[:CONDITION] | interest:n:seed | ijk:ZONE:i0[-i1[/n]],j...,k... | FILE.csv | FILE.npy | FILE.vtp";

/// The forms of the shapes in 3-D and 2-D.
pub(super) const SHAPES: [(&str, &str, &str); 9] = [
    ("point", "point:x,y,z", "point:x,y"),
    ("line", "line:x,y,z:x,y,z:n", "line:x,y:x,y:n"),
    ("plane", "plane:x,y,z:x,y,z:x,y,z:n1:n2 (a corner, and the two corners next to it)", "plane:x,y:x,y:x,y:n1:n2"),
    ("box", "box:x,y,z:x,y,z:n1:n2:n3 (the lowest and the highest corner)", "box:x,y:x,y:n1:n2"),
    ("sphere", "sphere:x,y,z:radius:n", "sphere:x,y:radius:n"),
    ("scatter", "scatter:x,y,z:x,y,z:n (the lowest and the highest corner)", "scatter:x,y:x,y:n"),
    ("interest", "interest:n:seed", "interest:n:seed"),
    ("random", "random:n:seed or random:n:seed:CONDITION", "random:n:seed or random:n:seed:CONDITION"),
    (
        "ijk",
        "ijk:ZONE:i,j,k with i, j, k each a number from 1 on, a range 1-5, or 1-5/n for n values",
        "ijk:ZONE:i,j with i, j each a number from 1 on, a range 1-5, or 1-5/n for n values",
    ),
];
