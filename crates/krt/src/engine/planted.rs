//! Bugs that tests plant into the engine, to see that the oracle finds each of them. Outside of unit tests there are none.

/// A bug. Each is asked for at the one place where the engine would have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Equal values count as changes.
    GateOpen,
    /// Different values of derived collections count as equal, if there is one already.
    GateClosed,
    /// Only the object before a change is compared with dependencies.
    ProbeOldOnly,
    /// Only the object after it is.
    ProbeNewOnly,
    /// A memo outlives a change that concerns it.
    StaleMemo,
    /// Keys with equal hashes count as equal.
    HashOnly,
    /// The first input to claim a key keeps it.
    FirstClaimant,
    /// A key is decided whenever one of its claims changes.
    ClaimsOneByOne,
    /// A collection is synced though inputs are parked.
    SyncEarly,
    /// A version is given up though a pin sees it.
    ReclaimPinned,
    /// A merged batch tells the last old object instead of the first one.
    MergedOld,
    /// Dependencies of earlier runs are kept.
    KeptDependencies,
    /// An empty selector is not looked for.
    EmptySelector,
    /// Dependencies without a scope are not looked for.
    NoAnyRow,
    /// A projection is compared before it is known that both objects match.
    ProjectionFirst,
    /// Fetches are in the order of internal ids.
    OrderById,
    /// An equal value that was set counts as no change.
    LostTouch,
    /// A value that stands for another version counts as no change if it is equal.
    LostVersion,
    /// Handlers are told an update where another individual has taken the key.
    OneIndividual,
    /// A run that discards its result loses what it fetched.
    DiscardedDependencies,
    /// A new edge to what is not final yet is taken as final.
    NotSuperseded,
    /// What a superseded run was told is remembered.
    SupersededMemo,
    /// A fetch looks at all objects though a filter tells where the matches are.
    FullScan,
    /// An object that is gone stays where fetches look for it.
    KeptPosting,
    /// A selector that looks at a label for the first time moves nobody apart.
    NotRekeyed,
    /// An edge stays though nothing holds it any more.
    KeptEdge,
    /// What was refused because of a cycle stays refused when the cycle is broken.
    RefusedForever,
    /// An input waits for what it was refused to fetch.
    ParkedOnRefused,
    /// A fetch that was refused is followed all the same.
    RefusedDependency,
    /// A condition does not know what was written before in the same transaction.
    SplitTransaction,
    /// A collection does not wait for what it was declared to depend on.
    UndeclaredSync,
    /// A group outlives its last member.
    EmptyGroup,
    /// A member of a nested join contributes before it is synced.
    MemberUnsynced,
    /// A member of a nested join goes before the one that replaces it is synced.
    MemberLeavesEarly,
    /// What a superseded run made is kept.
    SupersededChild,
    /// A reader finds the id of a key before the content cannot change any more.
    KeyFirst,
    /// An id is taken back though its key is written to again.
    TakenBack,
    /// A write wakes nobody though the engine's thread sleeps.
    WorkerNotWoken,
    /// What a handler has to do wakes nobody though one of its threads sleeps.
    PoolNotWoken,
    /// Progress wakes none of those who wait for it.
    WaiterNotWoken,
    /// Who waits for progress does not look again before it sleeps.
    NotLookedAgain,
    /// A batch wakes nobody though a stream is waited for.
    StreamNotWoken,
    /// The end of the engine does not wake the threads of handlers.
    StopNotTold,
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Whether the present thread has planted this bug.
#[cfg(test)]
pub(crate) fn has(bug: Bug) -> bool {
    PLANTED.with(std::cell::Cell::get) == Some(bug)
}

/// There are none.
#[cfg(not(test))]
#[inline]
pub(crate) const fn has(_: Bug) -> bool {
    false
}

/// Plants a bug into what the present thread runs from now on.
#[cfg(test)]
pub(crate) fn plant(bug: Option<Bug>) {
    PLANTED.with(|planted| planted.set(bug));
}
