//! What broken and hostile files get.
