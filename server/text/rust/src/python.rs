//! What Python does and a chat template may see: `json.dumps`, jinja2's `indent`, `strftime`, methods of strings.
use minijinja::value::{Kwargs, Rest, Value};
use minijinja::{Error, ErrorKind, State};
use serde_json::Value as Json;
use std::fmt::Write;

fn wrong(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, text.into())
}

/// The widest indent given; Python has no limit, a server needs one.
const MAX_INDENT: usize = 1024;

/// An indent as Python takes it: a number of spaces or a text.
fn indent_text(value: &Value) -> Result<String, Error> {
    match value.as_str() {
        Some(text) if text.len() <= MAX_INDENT => Ok(text.to_owned()),
        Some(_) => Err(wrong(format!("an indent of more than {MAX_INDENT} bytes"))),
        None => Ok(" ".repeat(usize::try_from(value.clone())?.min(MAX_INDENT))),
    }
}

/// Writes JSON as Python's `json.dumps` does.
struct Dump {
    ascii: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
    out: String,
}

impl Dump {
    fn value(&mut self, value: &Json, depth: usize) {
        match value {
            Json::Null => self.out.push_str("null"),
            Json::Bool(b) => self.out.push_str(if *b { "true" } else { "false" }),
            Json::Number(n) => match n.as_f64().filter(|_| n.is_f64()) {
                Some(f) => self.out.push_str(&float_text(f)),
                None => self.out.push_str(&n.to_string()),
            },
            Json::String(s) => self.string(s),
            Json::Array(items) => self.array(items, depth),
            Json::Object(entries) => self.object(entries, depth),
        }
    }

    fn array(&mut self, items: &[Json], depth: usize) {
        if items.is_empty() {
            return self.out.push_str("[]");
        }
        self.out.push('[');
        for (i, item) in items.iter().enumerate() {
            self.start_item(i, depth + 1);
            self.value(item, depth + 1);
        }
        self.newline(depth);
        self.out.push(']');
    }

    fn object(&mut self, entries: &serde_json::Map<String, Json>, depth: usize) {
        if entries.is_empty() {
            return self.out.push_str("{}");
        }
        let mut entries: Vec<_> = entries.iter().collect();
        if self.sort_keys {
            entries.sort_by_key(|entry| entry.0);
        }
        self.out.push('{');
        for (i, (key, item)) in entries.into_iter().enumerate() {
            self.start_item(i, depth + 1);
            self.string(key);
            self.out.push_str(&self.key_separator);
            self.value(item, depth + 1);
        }
        self.newline(depth);
        self.out.push('}');
    }

    fn start_item(&mut self, index: usize, depth: usize) {
        if index > 0 {
            self.out.push_str(&self.item_separator);
        }
        self.newline(depth);
    }

    fn newline(&mut self, depth: usize) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            (0..depth).for_each(|_| self.out.push_str(indent));
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        text.chars().for_each(|c| self.character(c));
        self.out.push('"');
    }

    fn character(&mut self, c: char) {
        match c {
            '"' => self.out.push_str("\\\""),
            '\\' => self.out.push_str("\\\\"),
            '\n' => self.out.push_str("\\n"),
            '\r' => self.out.push_str("\\r"),
            '\t' => self.out.push_str("\\t"),
            '\u{8}' => self.out.push_str("\\b"),
            '\u{c}' => self.out.push_str("\\f"),
            c if c < ' ' || (self.ascii && c > '~') => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(self.out, "\\u{unit:04x}"); // writing to a String cannot fail
                }
            }
            c => self.out.push(c),
        }
    }
}

/// A float as Python's `repr` writes it: shortest digits, an exponent below 1e-4 and from 1e16 on.
fn float_text(f: f64) -> String {
    let scientific = format!("{f:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if f != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = f.to_string();
    if plain.contains('.') {
        plain
    } else {
        plain + ".0"
    }
}

/// The filter `tojson` with the arguments that Transformers gives it: ensure_ascii, indent, separators, sort_keys.
/// (minijinja's own escapes HTML.)
pub fn tojson(value: &Value, positional: Rest<Value>, keywords: Kwargs) -> Result<Value, Error> {
    let argument = |index: usize, name: &str| -> Result<Option<Value>, Error> {
        let given = match positional.get(index) {
            Some(value) => Some(value.clone()),
            None => keywords.get::<Option<Value>>(name)?,
        };
        Ok(given.filter(|value| !value.is_none() && !value.is_undefined()))
    };
    let ascii = argument(0, "ensure_ascii")?.is_some_and(|v| v.is_true());
    let indent = argument(1, "indent")?.map(|v| indent_text(&v)).transpose()?;
    let separators = argument(2, "separators")?;
    let sort_keys = argument(3, "sort_keys")?.is_some_and(|v| v.is_true());
    keywords.assert_all_used()?;
    let (item_separator, key_separator) = match separators {
        Some(pair) => (pair.get_item_by_index(0)?.to_string(), pair.get_item_by_index(1)?.to_string()),
        None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
    };
    let json = serde_json::to_value(value).map_err(|e| wrong(e.to_string()))?;
    let mut dump = Dump { ascii, indent, item_separator, key_separator, sort_keys, out: String::new() };
    dump.value(&json, 0);
    Ok(Value::from(dump.out))
}

/// jinja2's `indent`: unlike minijinja's it keeps a trailing newline.
pub fn indent(
    text: String,
    width: Option<Value>,
    first: Option<bool>,
    blank: Option<bool>,
    keywords: Kwargs,
) -> Result<String, Error> {
    let width = match width {
        Some(width) => Some(width),
        None => keywords.get::<Option<Value>>("width")?,
    };
    let first = first.map_or_else(|| keywords.get::<Option<bool>>("first"), |f| Ok(Some(f)))?.unwrap_or(false);
    let blank = blank.map_or_else(|| keywords.get::<Option<bool>>("blank"), |b| Ok(Some(b)))?.unwrap_or(false);
    keywords.assert_all_used()?;
    let pad = width.map_or_else(|| Ok(" ".repeat(4)), |w| indent_text(&w))?;
    let mut out = String::with_capacity(text.len());
    for (i, line) in text.split('\n').enumerate() {
        if i > 0 {
            out.push('\n');
        }
        if if i == 0 { first } else { blank || !line.is_empty() } {
            out.push_str(&pad);
        }
        out.push_str(line);
    }
    Ok(out)
}

/// The longest format that `strftime` takes.
const MAX_TIME_FORMAT: usize = 1024;

/// Python's `datetime.fromtimestamp(unix_seconds).strftime(format)`: local time.
pub fn strftime(unix_seconds: i64, format: &str) -> Result<String, Error> {
    if format.len() > MAX_TIME_FORMAT {
        return Err(wrong(format!("a time format of more than {MAX_TIME_FORMAT} bytes")));
    }
    let format_c = std::ffi::CString::new(format).map_err(|_| wrong("a time format with a NUL byte"))?;
    let mut buffer = vec![0u8; 64 + 64 * format.len()];
    // SAFETY: plain C calls on memory that we own; strftime writes at most buffer.len() bytes.
    let written = unsafe {
        let mut fields: libc::tm = std::mem::zeroed();
        libc::localtime_r(&unix_seconds, &mut fields);
        libc::strftime(buffer.as_mut_ptr().cast(), buffer.len(), format_c.as_ptr(), &fields)
    };
    buffer.truncate(written);
    Ok(String::from_utf8_lossy(&buffer).into_owned())
}

/// Python methods; minijinja-contrib has most of them, but not these two.
pub fn method(state: &mut State, value: &Value, name: &str, arguments: &[Value]) -> Result<Value, Error> {
    if let (Some(text), "removeprefix" | "removesuffix", [affix]) = (value.as_str(), name, arguments) {
        let affix = affix.as_str().ok_or_else(|| wrong(format!("{name} takes a string")))?;
        let cut = if name == "removeprefix" { text.strip_prefix(affix) } else { text.strip_suffix(affix) };
        return Ok(cut.unwrap_or(text).into());
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, name, arguments)
}
