//! Chat templates on minijinja, set up as Transformers sets up jinja2.
use crate::border::*;
use crate::python;
use crate::stack::with_deep_stack;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State};

/// The longest template taken. Together with the deep stack this makes the deepest nesting safe.
const MAX_SOURCE_BYTES: usize = 256 << 10;

/// Work allowed for a rendering: about one per instruction and one per 64 bytes made; 0.1 s at worst.
const FUEL: u64 = 2_000_000;

/// How deep macros and includes may call each other.
const MAX_CALL_DEPTH: usize = 100;

/// The name under which `render` hands the time to `strftime_now`. No template can spell it.
const NOW: &str = " now";

/// A template's own `raise_exception`, kept apart from errors in it.
#[derive(Debug)]
struct Raised(String);

impl std::fmt::Display for Raised {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(Raised(message)))
}

fn strftime_now(state: &State, format: String) -> Result<String, Error> {
    let now = state.lookup(NOW).and_then(|now| i64::try_from(now).ok()).unwrap_or(0);
    python::strftime(now, &format)
}

/// `{% generation %}` only marks spans for training, so that its body is rendered as it is.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(tag) = rest.find("{%") {
        let (head, tail) = rest.split_at(tag + 2);
        out.push_str(head);
        let dashes = tail.len() - tail.trim_start_matches(['-', '+']).len();
        let body = tail[dashes..].trim_start();
        let word = body.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("");
        let replacement = match word {
            "generation" => " if true ",
            "endgeneration" => " endif ",
            _ => {
                rest = tail;
                continue;
            }
        };
        out.push_str(&tail[..dashes]);
        out.push_str(replacement);
        rest = body[word.len()..].trim_start();
    }
    out.push_str(rest);
    out
}

fn compile(source: &str) -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(python::method);
    environment.set_recursion_limit(MAX_CALL_DEPTH);
    environment.set_fuel(Some(FUEL));
    environment.add_filter("tojson", python::tojson);
    environment.add_filter("indent", python::indent);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    environment.add_template_owned("chat", without_generation_tags(source))?;
    Ok(environment)
}

/// What went wrong, in the template's own words if it raised.
fn explain(error: &Error) -> String {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = cause {
        if let Some(Raised(message)) = current.downcast_ref::<Raised>() {
            return message.clone();
        }
        cause = current.source();
    }
    error.to_string()
}

fn render(environment: &Environment, context: &[u8], unix_seconds: i64) -> Outcome<String> {
    let mut context: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(context).map_err(invalid)?;
    context.insert(NOW.to_owned(), unix_seconds.into());
    let template = environment.get_template("chat").map_err(invalid)?;
    template.render(Value::from(Serde(&context))).map_err(|e| Failure::Invalid(explain(&e)))
}

#[no_mangle]
pub unsafe extern "C" fn trireme_text_template_new(
    source: View,
    out: *mut *mut Environment<'static>,
    error: *mut Array<u8>,
) -> i32 {
    fence(error, || {
        let source = source.text()?;
        if source.len() > MAX_SOURCE_BYTES {
            return Err(Failure::Invalid(format!("{} bytes; the limit is {MAX_SOURCE_BYTES}", source.len())));
        }
        give(out, with_deep_stack(|| compile(source).map_err(invalid))?);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn trireme_text_template_free(compiled: *mut Environment<'static>) {
    take_back(compiled)
}

/// On a deep stack because values nest as deep as the fuel allows, and printing or dropping them recurses.
#[no_mangle]
pub unsafe extern "C" fn trireme_text_template_render(
    compiled: *const Environment<'static>,
    context: View,
    unix_seconds: i64,
    out: *mut Array<u8>,
    error: *mut Array<u8>,
) -> i32 {
    fence(error, || {
        let (environment, context) = (&*compiled, context.bytes());
        *out = with_deep_stack(|| render(environment, context, unix_seconds))?.into_bytes().into();
        Ok(())
    })
}
