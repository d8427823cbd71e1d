//! Tokenizers: load, encode with spans, and what C++ needs to know of the vocabulary in order to decode.
use crate::border::*;
use crate::stack::with_deep_stack;
use serde_json::{json, Map, Value};
use tokenizers::{PostProcessorWrapper, Tokenizer};

/// The largest id taken. Tables are indexed by id, so that a stray huge one would cost gigabytes.
const MAX_ID: u32 = (1 << 24) - 1;

const ABSENT: u8 = 0;
const TOKEN: u8 = 1;
const SPECIAL: u8 = 2;

/// Spellings of the tokens that stand before and after a text; empty for none.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Ends {
    begin: View,
    end: View,
}

/// A post-processor that puts the token `begin` before a text and `end` after it.
fn ends_processor(tokenizer: &Tokenizer, begin: &str, end: &str) -> Outcome<PostProcessorWrapper> {
    let mut special_tokens = Map::new();
    let mut piece = |spelling: &str| -> Outcome<Option<Value>> {
        if spelling.is_empty() {
            return Ok(None);
        }
        let id = tokenizer
            .token_to_id(spelling)
            .ok_or_else(|| Failure::Invalid(format!("special token {spelling:?} is not in the vocabulary")))?;
        special_tokens.insert(spelling.into(), json!({"id": spelling, "ids": [id], "tokens": [spelling]}));
        Ok(Some(json!({"SpecialToken": {"id": spelling, "type_id": 0}})))
    };
    let (begin, end) = (piece(begin)?, piece(end)?);
    let around = |name: &str| {
        let text = json!({"Sequence": {"id": name, "type_id": 0}});
        [begin.clone(), Some(text), end.clone()].into_iter().flatten().collect::<Vec<_>>()
    };
    let pair = [around("A"), around("B")].concat();
    serde_json::from_value(json!({
        "type": "TemplateProcessing", "single": around("A"), "pair": pair, "special_tokens": special_tokens
    }))
    .map_err(invalid)
}

fn load(json: &[u8], ends: Option<(&str, &str)>) -> Outcome<Tokenizer> {
    let mut tokenizer = Tokenizer::from_bytes(json).map_err(invalid)?;
    tokenizer.with_padding(None);
    tokenizer.with_truncation(None).map_err(invalid)?;
    if let Some((begin, end)) = ends {
        let processor = ends_processor(&tokenizer, begin, end)?;
        tokenizer.with_post_processor(Some(processor));
    }
    let max_id = match tokenizer.get_vocab(true).into_iter().max_by_key(|(_, id)| *id) {
        Some((token, id)) if id > MAX_ID => {
            return Err(Failure::Invalid(format!("token {token:?} has id {id}; ids above {MAX_ID} are not supported")))
        }
        Some((_, id)) => id,
        None => return Err(Failure::Invalid("the vocabulary is empty".into())),
    };
    try_out(&tokenizer, max_id)?;
    Ok(tokenizer)
}

/// A file whose parts do not fit each other, such as a post-processor that names a token it does not define, is read
/// without complaint and panics at every text.
fn try_out(tokenizer: &Tokenizer, max_id: u32) -> Outcome<()> {
    let Ok(encoding) = tokenizer.encode("a b, é\n", true) else {
        return Ok(()); // a text that this vocabulary cannot spell
    };
    match encoding.get_ids().iter().find(|id| **id > max_id) {
        Some(id) => Err(Failure::Invalid(format!("the post-processor adds id {id}; the last token's is {max_id}"))),
        None => Ok(()),
    }
}

#[no_mangle]
pub unsafe extern "C" fn trireme_text_tokenizer_new(
    json: View,
    ends: *const Ends,
    out: *mut *mut Tokenizer,
    error: *mut Array<u8>,
) -> i32 {
    fence(error, || {
        let json = json.bytes();
        let ends = match ends.as_ref() {
            Some(ends) => Some((ends.begin.text()?, ends.end.text()?)),
            None => None,
        };
        // Some malformed files make tokenizers panic while it reads them: that is the file's fault.
        let tokenizer = with_deep_stack(|| load(json, ends)).map_err(|failure| match failure {
            Failure::Panic(text) => Failure::Invalid(format!("cannot be read: {text}")),
            invalid => invalid,
        })?;
        give(out, tokenizer);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn trireme_text_tokenizer_free(tokenizer: *mut Tokenizer) {
    take_back(tokenizer)
}

fn encode(tokenizer: &Tokenizer, text: &str, add_special: bool, with_spans: bool) -> Outcome<(Vec<u32>, Vec<u32>)> {
    if !with_spans {
        let encoding = tokenizer.encode_fast(text, add_special).map_err(invalid)?;
        return Ok((encoding.get_ids().to_vec(), vec![]));
    }
    let encoding = tokenizer.encode(text, add_special).map_err(invalid)?;
    let spans = encoding.get_offsets().iter().flat_map(|&(begin, end)| [begin as u32, end as u32]).collect();
    Ok((encoding.get_ids().to_vec(), spans))
}

/// A regular expression that tries too long at one place panics; that is the text's fault. It takes a run of millions
/// of characters that the expression does not cut.
fn blame_text(failure: Failure) -> Failure {
    match failure {
        Failure::Panic(text) if text.starts_with("Onig: Regex search error") => {
            Failure::Invalid(format!("holds a run of characters that is too long to be cut into words ({text})"))
        }
        other => other,
    }
}

#[no_mangle]
pub unsafe extern "C" fn trireme_text_tokenizer_encode(
    tokenizer: *const Tokenizer,
    text: View,
    add_special_tokens: bool,
    ids: *mut Array<u32>,
    spans: *mut Array<u32>,
    error: *mut Array<u8>,
) -> i32 {
    fence(error, || {
        let text = text.text()?;
        let with_spans = !spans.is_null();
        let (got_ids, got_spans) =
            catch(|| encode(&*tokenizer, text, add_special_tokens, with_spans)).map_err(blame_text)?;
        *ids = got_ids.into();
        if let Some(spans) = spans.as_mut() {
            *spans = got_spans.into();
        }
        Ok(())
    })
}

#[derive(Default)]
struct Vocabulary {
    spellings: Vec<u8>,
    ends: Vec<u32>,
    kinds: Vec<u8>,
}

fn vocabulary(tokenizer: &Tokenizer) -> Outcome<Vocabulary> {
    let bound = tokenizer.get_vocab(true).into_values().max().map_or(0, |id| id + 1);
    let added = tokenizer.get_added_vocabulary();
    let mut all = Vocabulary::default();
    for id in 0..bound {
        let token = tokenizer.id_to_token(id);
        all.kinds.push(match &token {
            None => ABSENT,
            Some(spelling) if added.is_special_token(spelling) => SPECIAL,
            Some(_) => TOKEN,
        });
        all.spellings.extend(token.unwrap_or_default().bytes());
        all.ends.push(u32::try_from(all.spellings.len()).map_err(|_| invalid("the vocabulary is over 4 GiB"))?);
    }
    Ok(all)
}

#[no_mangle]
pub unsafe extern "C" fn trireme_text_tokenizer_vocabulary(
    tokenizer: *const Tokenizer,
    spellings: *mut Array<u8>,
    ends: *mut Array<u32>,
    kinds: *mut Array<u8>,
    error: *mut Array<u8>,
) -> i32 {
    fence(error, || {
        let all = vocabulary(&*tokenizer)?;
        *spellings = all.spellings.into();
        *ends = all.ends.into();
        *kinds = all.kinds.into();
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn trireme_text_tokenizer_decoder(
    tokenizer: *const Tokenizer,
    json: *mut Array<u8>,
    error: *mut Array<u8>,
) -> i32 {
    fence(error, || {
        *json = serde_json::to_vec(&(*tokenizer).get_decoder()).map_err(invalid)?.into();
        Ok(())
    })
}
