//! The reverse index: from a changed object to the inputs whose fetches it may affect.
