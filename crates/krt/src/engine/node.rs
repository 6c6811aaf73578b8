//! One collection inside the engine: its inputs, its transformation, its claims on output keys.
