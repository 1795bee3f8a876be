//! The tags of an XML file in order, without its text in memory.
//!
//! A VTK file can have gigabytes of numbers between two tags, and raw bytes behind the last. So a tree or a string of
//! the whole is impossible. This parser has the parts of XML in VTK's files only: elements, attributes, comments,
//! processing instructions, and the five named entities with numeric ones.

use super::source::Section;
use std::io::BufRead;

/// A longer tag is invalid.
const MAX_TAG_BYTES: usize = 64 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// `<name a="b">`, or `<name a="b"/>` when `empty`.
    Open { name: String, attributes: Vec<(String, String)>, empty: bool },
    /// `</name>`.
    Close { name: String },
}

/// Text between two tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Whether it is white space only.
    pub(crate) blank: bool,
}

/// Reads tags from a stream.
pub(crate) struct Tags<'a> {
    section: Section<'a>,
}

impl<'a> Tags<'a> {
    pub(crate) fn new(section: Section<'a>) -> Self {
        Self { section }
    }

    /// Position behind the last tag.
    pub(crate) fn position(&self) -> u64 {
        self.section.position()
    }

    /// The next tag with the text in front of it; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(Text, Tag)>, String> {
        let mut text = Text { start: self.section.position(), end: 0, blank: true };
        loop {
            if !self.skip_text(&mut text)? {
                return Ok(None);
            }
            let body = self.tag_body()?;
            if body.starts_with(b"?") || body.starts_with(b"!") {
                continue;
            }
            let body = String::from_utf8(body).map_err(|_| "has a tag that is not text")?;
            return parse(&body)
                .map(|tag| Some((text, tag)))
                .ok_or_else(|| format!("has a damaged tag '<{}>'", body.chars().take(60).collect::<String>()));
        }
    }

    /// Reads to the next `<` and over it; false if there is none.
    fn skip_text(&mut self, text: &mut Text) -> Result<bool, String> {
        loop {
            let have = self.section.fill_buf().map_err(|e| e.to_string())?;
            if have.is_empty() {
                return Ok(false);
            }
            let stop = have.iter().position(|&b| b == b'<');
            let part = stop.unwrap_or(have.len());
            text.blank &= have[..part].iter().all(u8::is_ascii_whitespace);
            self.section.consume(part);
            if stop.is_some() {
                text.end = self.section.position();
                self.section.consume(1);
                return Ok(true);
            }
        }
    }

    /// The text between `<` and `>`; a `>` within quotes or a comment does not end it.
    fn tag_body(&mut self) -> Result<Vec<u8>, String> {
        let mut body = Vec::new();
        let mut quote = None;
        loop {
            let byte = self.section.byte().map_err(|e| e.to_string())?.ok_or("ends within a tag")?;
            let comment = body.starts_with(b"!--");
            match (byte, quote) {
                (b'>', None) if !comment || body.ends_with(b"--") && body.len() >= 5 => return Ok(body),
                (b'"' | b'\'', None) if !comment => quote = Some(byte),
                (byte, Some(open)) if byte == open => quote = None,
                _ => {}
            }
            if comment && body.len() > 8 {
                // Only the end of a comment matters.
                body.truncate(3);
                body.extend_from_slice(b"  ");
            }
            body.push(byte);
            if body.len() > MAX_TAG_BYTES {
                return Err("has a tag without an end".into());
            }
        }
    }
}

fn parse(body: &str) -> Option<Tag> {
    if let Some(name) = body.strip_prefix('/') {
        return Some(Tag::Close { name: name.trim().to_owned() });
    }
    let (body, empty) = match body.strip_suffix('/') {
        Some(body) => (body, true),
        None => (body, false),
    };
    let (name, mut rest) = body.split_once(char::is_whitespace).unwrap_or((body, ""));
    if name.is_empty() {
        return None;
    }
    let mut attributes = Vec::new();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Some(Tag::Open { name: name.to_owned(), attributes, empty });
        }
        let (key, after) = rest.split_once('=')?;
        let after = after.trim_start();
        let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let (value, after) = after[1..].split_once(quote)?;
        attributes.push((key.trim().to_owned(), unescape(value)));
        rest = after;
    }
}

/// Replaces entities; an unknown one stays unchanged.
pub(crate) fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let known = after.split_once(';').and_then(|(entity, after)| {
            let character = match entity {
                "amp" => '&',
                "lt" => '<',
                "gt" => '>',
                "quot" => '"',
                "apos" => '\'',
                _ => {
                    let digits = entity.strip_prefix('#')?;
                    let code = match digits.strip_prefix('x') {
                        Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                        None => digits.parse().ok()?,
                    };
                    char::from_u32(code)?
                }
            };
            Some((character, after))
        });
        match known {
            Some((character, after)) => {
                out.push(character);
                rest = after;
            }
            None => {
                out.push('&');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Result<Vec<(Text, Tag)>, String> {
        let bytes = text.as_bytes();
        let mut tags = Tags::new(Section::new(&bytes, 0, u64::MAX));
        let mut out = Vec::new();
        while let Some(tag) = tags.next()? {
            out.push(tag);
        }
        Ok(out)
    }

    #[test]
    fn tags_and_texts() {
        let found =
            all("<?xml v=\"1\"?>\n<!-- <no> \" --><a b='1>2' c = \"x&amp;&#65;&unknown;\"> 12 <d/></a>").unwrap();
        let names: Vec<String> = found
            .iter()
            .map(|(_, tag)| match tag {
                Tag::Open { name, empty, .. } => format!("{name}{}", if *empty { "/" } else { "" }),
                Tag::Close { name } => format!("/{name}"),
            })
            .collect();
        assert_eq!(names, ["a", "d/", "/a"]);
        let Tag::Open { attributes, .. } = &found[0].1 else { panic!("a tag that opens") };
        assert_eq!(attributes[0], ("b".into(), "1>2".into()));
        assert_eq!(attributes[1].1, "x&A&unknown;");
        assert!(!found[1].0.blank && found[2].0.blank);
        assert_eq!(found[1].0.end - found[1].0.start, 4);
    }

    #[test]
    fn damage_is_an_error() {
        assert!(all("<a b=1>").is_err());
        assert!(all("<a b=\"1>").is_err());
        assert!(all("<>").is_err());
        assert!(all(&format!("<a {}", "x".repeat(100_000))).is_err());
        assert_eq!(all("no tags").unwrap(), vec![]);
    }
}
