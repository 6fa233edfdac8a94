//! Wire formats, nothing else.
#![forbid(unsafe_code)]
