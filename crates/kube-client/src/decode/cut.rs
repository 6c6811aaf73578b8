//! Finds where the elements of a JSON array end, by brackets and quotes alone.

/// Where to cut.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Here: what is before is a piece.
    Piece(usize),
    /// Before the array's closing bracket, which is here.
    End(usize),
}

/// Reads the elements of an array as their text comes, each byte once. What is no JSON is cut somewhere, and shows when it is decoded.
#[derive(Debug, Default)]
pub(crate) struct Cutter {
    // The text read so far starts where the buffer starts.
    read: usize,
    // Of it, what holds whole elements only. The comma between two is left to the second one.
    whole: usize,
    // Brackets that are open.
    depth: usize,
    quoted: bool,
    // The last byte was a backslash in quotes.
    escaped: bool,
}

impl Cutter {
    /// Reads on, at most until there are elements of so many bytes; `buffer` holds what was read before, and more.
    pub(crate) fn read(&mut self, buffer: &[u8], piece: usize) -> Option<Cut> {
        let mut at = self.read;
        while let Some(byte) = buffer.get(at) {
            if self.escaped {
                self.escaped = false;
            } else if self.quoted {
                // Strings are most of the text.
                at += memchr::memchr2(b'"', b'\\', &buffer[at..]).unwrap_or(buffer.len() - at);
                match buffer.get(at) {
                    Some(b'"') => self.quoted = false,
                    Some(_) => self.escaped = true,
                    None => break,
                }
            } else {
                match byte {
                    b'"' => self.quoted = true,
                    b'{' | b'[' => self.depth += 1,
                    b']' if self.depth == 0 => {
                        self.read = at;
                        return Some(Cut::End(at));
                    }
                    b'}' | b']' => {
                        self.depth = self.depth.saturating_sub(1);
                        if self.depth == 0 {
                            self.whole = at + 1;
                        }
                    }
                    // What is no object ends with the comma after it.
                    b',' if self.depth == 0 => self.whole = at,
                    _ => {}
                }
            }
            at += 1;
            if self.whole >= piece {
                self.read = at.min(self.whole);
                return Some(Cut::Piece(self.whole));
            }
        }
        self.read = at;
        None
    }

    /// How much of the buffer holds whole elements only.
    pub(crate) fn whole(&self) -> usize {
        self.whole
    }

    /// So much was taken from the buffer's front.
    pub(crate) fn taken(&mut self, bytes: usize) {
        self.read -= bytes;
        self.whole = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces up to the closing bracket, by a cutter that gets the text in chunks of `size`; with what follows them.
    fn cut(text: &str, size: usize, piece: usize) -> Option<(Vec<String>, String)> {
        let (mut cutter, mut buffer, mut pieces) = (Cutter::default(), Vec::new(), Vec::new());
        let text_of = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let mut chunks = text.as_bytes().chunks(size);
        let end = loop {
            match cutter.read(&buffer, piece) {
                None => buffer.extend_from_slice(chunks.next()?),
                Some(Cut::End(end)) => break end,
                Some(Cut::Piece(end)) => {
                    assert!(end >= piece && cutter.whole() == end);
                    pieces.push(text_of(&buffer[..end]));
                    buffer.drain(..end);
                    cutter.taken(end);
                }
            }
        };
        if end > 0 {
            pieces.push(text_of(&buffer[..end]));
        }
        buffer.drain(..=end);
        let rest: Vec<u8> = buffer.into_iter().chain(chunks.flatten().copied()).collect();
        Some((pieces, text_of(&rest)))
    }

    #[test]
    fn elements_end_at_commas_and_the_bracket_of_their_own_level() {
        let elements = [
            r#" {"a":"],}","b":["\"",",\\"]}"#,
            r#","x\\\"]""#,
            ",1.5e3 ",
            ", null ",
            r#", ["\\",{"{":"["}]"#,
        ];
        let text = format!("{}],\"more\":[]}}", elements.concat());
        for size in 1..=text.len() {
            let cut = |piece: usize| cut(&text, size, piece).unwrap();
            let rest = ",\"more\":[]}".to_owned();
            assert_eq!(
                cut(1),
                (elements.map(str::to_owned).to_vec(), rest.clone()),
                "chunks of {size}"
            );
            let halves = [elements[..3].concat(), elements[3..].concat()];
            assert_eq!(
                cut(halves[0].len()),
                (halves.to_vec(), rest.clone()),
                "chunks of {size}"
            );
            assert_eq!(cut(text.len()), (vec![elements.concat()], rest), "chunks of {size}");
        }
        assert_eq!(cut("]", 1, 1), Some((Vec::new(), String::new())));
        assert_eq!(cut(r#"{"a":"]""#, 3, 1), None);
    }
}
