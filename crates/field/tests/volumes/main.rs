//! Volumes in place, read through the pager and compared with the arrays that the test made.

mod damage;
mod making;
mod reading;
