//! Hugging Face tokenizers and chat templates behind a small C interface (trireme_text.h says what each function
//! promises). `border` holds all plumbing, `stack` the defence against deep recursion; the rest is plain Rust.
#![allow(clippy::missing_safety_doc)]
mod border;
mod chat_template;
mod python;
mod stack;
mod tokenizer;
