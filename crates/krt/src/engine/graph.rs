//! Nodes, edges and heights: raising a height when a fetch finds a new edge, and reporting cycles with their path.
