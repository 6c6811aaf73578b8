//! Several collections seen as one: first member wins, disjoint members, merged members, members that come and go.
