//! Merge patch (RFC 7386).
