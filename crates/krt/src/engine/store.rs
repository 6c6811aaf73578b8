//! Objects by dense id with the versions that open snapshots still need.
