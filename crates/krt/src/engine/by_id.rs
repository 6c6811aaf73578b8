//! Tables in which things are found by their dense ids.

/// Makes a table at least so long. It grows by an eighth: when a table of everything in a collection doubles, up to half of it is
/// empty, in each of the tables that the collection has.
pub(crate) fn lengthen<T>(table: &mut Vec<T>, length: usize, empty: impl FnMut() -> T) {
    if length <= table.len() {
        return;
    }
    if length > table.capacity() {
        let more = length - table.len();
        table.reserve_exact(more.max(table.len() / 8).max(4));
    }
    table.resize_with(length, empty);
}

/// Adds something at the end, which has the id that is returned.
pub(crate) fn push<T>(table: &mut Vec<T>, new: T) -> u32 {
    let id = super::id::id32(table.len());
    if table.len() == table.capacity() {
        table.reserve_exact((table.len() / 8).max(4));
    }
    table.push(new);
    id
}
