//! Unpacks a body as it comes, if the server has packed it with gzip.
//!
//! A list is one gzip member; a streaming list is one member after another, each ending where the server flushed. What
//! can be unpacked of a chunk is given out at once, so that a line is read as soon as it is there.

use std::borrow::Cow;
use std::io::Write;

use flate2::write::MultiGzDecoder;

/// The most that is unpacked at once: packed text may grow a thousandfold.
pub(crate) const PACKED_PIECE: usize = 4 << 10;

/// The body is said to be packed and is not, or is damaged.
#[derive(Debug, thiserror::Error)]
#[error("the gzip stream is damaged: {0}")]
pub(crate) struct Damaged(#[from] std::io::Error);

/// How a body is packed, and how far it is unpacked.
#[derive(Debug, Default)]
pub(crate) struct Inflate(Option<MultiGzDecoder<Vec<u8>>>);

impl Inflate {
    /// For a body that comes as it is.
    pub(crate) fn plain() -> Self {
        Self(None)
    }

    /// For a body that is packed with gzip.
    pub(crate) fn gzip() -> Self {
        Self(Some(MultiGzDecoder::new(Vec::new())))
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.0.is_none()
    }

    /// What a piece of the body holds; give pieces of at most [`PACKED_PIECE`] bytes if it is packed.
    pub(crate) fn push<'a>(&mut self, piece: &'a [u8]) -> Result<Cow<'a, [u8]>, Damaged> {
        let Some(decoder) = &mut self.0 else {
            return Ok(Cow::Borrowed(piece));
        };
        decoder.write_all(piece)?;
        decoder.flush()?;
        Ok(Cow::Owned(std::mem::take(decoder.get_mut())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;

    /// One gzip member as the server sends it: flushed, then ended.
    fn member(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::new(1));
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.flush().unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn members_are_unpacked_the_same_in_any_split() {
        let texts = ["{\"a\":1}\n", "{\"b\":\"ü😀\"}\n{\"c\":3}\n", "{\"d\":4}\n"];
        let packed: Vec<u8> = texts.iter().flat_map(|text| member(text)).collect();
        for cut in 1..packed.len() {
            let mut inflate = Inflate::gzip();
            let mut unpacked = Vec::new();
            for piece in [&packed[..cut], &packed[cut..]] {
                unpacked.extend_from_slice(&inflate.push(piece).unwrap());
            }
            assert_eq!(unpacked, texts.concat().as_bytes(), "cut at {cut}");
        }
        let mut inflate = Inflate::gzip();
        let bytes: Vec<u8> = packed
            .iter()
            .flat_map(|byte| inflate.push(&[*byte]).unwrap().into_owned())
            .collect();
        assert_eq!(bytes, texts.concat().as_bytes());
    }

    #[test]
    fn whole_member_gives_all_that_it_holds_at_once() {
        let mut inflate = Inflate::gzip();
        for text in ["{\"a\":1}\n", "{\"b\":2}\n"] {
            assert_eq!(inflate.push(&member(text)).unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn damaged_stream_is_refused() {
        assert!(Inflate::gzip().push(b"{\"kind\":\"PodList\"").is_err());
        let mut packed = member("{\"a\":1}\n");
        let end = packed.len() - 5;
        packed[end] ^= 0xff; // its checksum
        let mut inflate = Inflate::gzip();
        let refused = inflate.push(&packed).is_err() || inflate.push(&member("x")).is_err();
        assert!(refused);
    }

    #[test]
    fn plain_body_passes_as_it_is() {
        let mut inflate = Inflate::plain();
        assert!(inflate.is_plain());
        assert_eq!(inflate.push(b"abc").unwrap(), &b"abc"[..]);
    }
}
