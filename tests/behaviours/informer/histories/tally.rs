//! What the histories of a run had in them: a run in which nothing happens shows nothing.

/// What the histories of a run had in them.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) writes: u64,
    pub(super) faults: u64,
    // Answers that came packed.
    pub(super) packed: u64,
    pub(super) lists: u64,
    pub(super) restores: u64,
    pub(super) told: u64,
    pub(super) merged: u64,
    pub(super) undecodable: u64,
    pub(super) exactly_once: u64,
    pub(super) seen: u64,
    pub(super) seen_deleted: u64,
    pub(super) not_seen_in_time: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Tally) {
        self.writes += other.writes;
        self.faults += other.faults;
        self.packed += other.packed;
        self.lists += other.lists;
        self.restores += other.restores;
        self.told += other.told;
        self.merged += other.merged;
        self.undecodable += other.undecodable;
        self.exactly_once += other.exactly_once;
        self.seen += other.seen;
        self.seen_deleted += other.seen_deleted;
        self.not_seen_in_time += other.not_seen_in_time;
    }

    /// A run in which some of it hardly happened has shown nothing.
    pub(super) fn check(&self, histories: u64) {
        let often = [
            self.writes / 4,
            self.faults,
            self.packed * 40,
            self.lists,
            self.restores * 5,
            self.told / 4,
            self.merged * 20,
            self.undecodable * 2,
            self.exactly_once * 4,
            self.seen * 5,
            self.seen_deleted * 20,
        ];
        assert!(often.iter().all(|count| *count > histories), "{self:?}");
    }
}
