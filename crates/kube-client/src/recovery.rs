//! How an informer goes on, whatever the server answers: its list and watch as a state machine, in one table. There is
//! nothing to call here.
//!
//! What a handler is told in each of these cases is the table [at `EventHandler`](crate::EventHandler#what-a-handler-sees).
//!
//! # States
//!
//! ```text
//! Listing(streaming) ──end bookmark──▶ Watching ──clean end, silence──▶ Watching
//!      │ refused, no bookmark              │ 410
//!      ▼                                   ▼
//! Listing(paged) ───────whole────────▶ Watching      any failure ──▶ Backoff ──▶ Listing or Watching
//! ```
//!
//! [`InformerStats::phase`](crate::InformerStats::phase) tells the state. An informer over several namespaces has such a
//! machine for each of them.
//!
//! # What follows what
//!
//! *List*, *watch*: that state is next, at once. *Newest*: a list that asks for the newest state; every other one asks for
//! what is not older than the cache. *Wait*: the back-off (0.8 s to 30 s, doubling, and up to half of it more, at random) first; at a 429 that says
//! for how long (above zero), that long, at most 5 min. *Pages*: a paged list at once, and from then on. *Told*: as a failure,
//! as all of them are: in the [statistics](crate::InformerStats::error), to the
//! [error handler](crate::ClientBuilder::watch_error_handler) and in the log; but for the refusal of a streaming list in the
//! second row, which is expected of old servers. A watch is always resumed at the version that the cache has.
//!
//! | the server | streaming list | paged list | watch |
//! | --- | --- | --- | --- |
//! | 200, whole | cache it; the stream is the watch | cache it; watch | |
//! | 400, 422, 501 | pages | wait, list | 400, 422: wait, newest; 501: as 500 |
//! | 405 | pages | final: not supported | final: not supported; the cache stays |
//! | 401, 403, 404 | wait, list | wait, list | wait, watch; the cache stays |
//! | 409, 500, 503, 504, others | wait, list | wait, list | wait, watch; the fifth in a row: wait, list; the cache stays |
//! | 410, 504 "too large resource version" | newest; if it was, wait, newest | same; on a later page: newest as one page, once per try | lived 1 s: newest; else wait, newest |
//! | 429, with and without Retry-After | wait, list | wait, list | wait, watch |
//! | a web page with 400, 404, 405, 410, 422, 501; 200 that is not JSON | wait, list | wait, list | wait, watch |
//! | connection refused or reset, TLS, no credentials | wait, list | wait, list | wait, watch |
//! | no answer for 30 s | list; the second time pages, for an hour | told; given up after 90 s: wait, list | wait, watch |
//! | clean end | wait, list | of half a list: wait, list | lived 1 s: watch; else wait, watch; the second in a row that brought nothing in 5 min or more, where no bookmarks come: newest |
//! | ERROR event 400, 405, 410, 422, or 504 "too large" | as the HTTP code | | as the HTTP code |
//! | ERROR event 429 | wait, list | | wait, watch |
//! | ERROR event with another code | as the HTTP code | | wait, watch; the second in a row: wait, newest |
//! | what is no list, no event, no gzip; a line or item over 64 MiB | wait, list | wait, list | wait, watch; the second in a row: wait, newest |
//! | silence | for 30 s: list; the second time pages, for an hour | for 90 s: wait, list | for 3 min where bookmarks come, else 30 s past its time: watch; the second in a row: newest |
//! | goes on without its end | no object that is new to the list for 2 min, or a clean end or a reset after 2 min: list; the second time, one of silence included, pages, for an hour | no object that is new to the list for 2 min of one page, be it a byte now and then; a page that leads to itself, or 1,000 in a row without an object that is new to the list; 30 min in all: wait, list | |
//! | object that does not decode, bytes that are no UTF-8 included | told; the rest goes on; the last good version stays | same | same; its version counts |
//! | deletion of which the key cannot be read | told; nothing is deleted before the next list | | same |
//! | bookmark without a version | ignored; the end bookmark: wait, list | | ignored |
//! | event with a version older than the cache | counts as received | | applied, the version stays |
//! | list with a version older than the cache | told; list once more, the cache is rebuilt | same | |
//! | list without a version | wait, list | cache it; watch from nothing | whatever versions its events and bookmarks have, the cache has none; when it ends, for whatever reason: list instead of watch |
//!
//! *In a row*: watches that ended so, at once or after a while, and brought the version no further. Such a version may be
//! one that this server cannot go on from: one it has not reached (a restored storage), or one whose next event it cannot
//! read. A list finds out, and says nothing to handlers if nothing changed.
//!
//! Forced modes: with [`ListMode::Paged`](crate::ListMode::Paged) there is no first column; with
//! [`ListMode::Streaming`](crate::ListMode::Streaming) nothing leads to pages, so 400, 422, 501, silence and a list without its
//! end are *wait, list*, and 405 is final.
