// The border between C++ and the Rust static library: Hugging Face tokenizers and chat templates.
//
// Only server/text includes this; everybody else uses tokenizer.h and chat_template.h.
//
// A function that returns int returns TRIREME_TEXT_OK, or another code and a UTF-8 text in *error, its other
// outputs being untouched. Outputs are overwritten, not freed: hand in empty ones. Arguments are never NULL
// unless said so. A view is borrowed for the call. Bytes and words that come out belong to the caller, who
// gives them back with trireme_text_bytes_free and trireme_text_words_free.
//
// Threads: a tokenizer and a template are immutable; any number of threads may use one at once.
// A Rust panic never crosses this border: it is TRIREME_TEXT_PANIC and a text.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  TRIREME_TEXT_OK = 0,
  TRIREME_TEXT_INVALID = 1,  // what was handed in is wrong
  TRIREME_TEXT_PANIC = 2,    // a mistake in the library, or below it
};

typedef struct trireme_text_tokenizer trireme_text_tokenizer;
typedef struct trireme_text_template trireme_text_template;

typedef struct {
  const char* data;  // may be NULL if size is 0
  size_t size;
} trireme_text_view;

typedef struct {
  char* data;
  size_t size, capacity;
} trireme_text_bytes;

typedef struct {
  uint32_t* data;
  size_t size, capacity;
} trireme_text_words;

void trireme_text_bytes_free(trireme_text_bytes* bytes);
void trireme_text_words_free(trireme_text_words* words);

// Spellings of the tokens that stand before and after a text; empty for none.
typedef struct {
  trireme_text_view begin, end;
} trireme_text_ends;

// Reads a tokenizer.json. `ends`, if not NULL, replaces what the file says that add_special_tokens adds.
// Truncation and padding settings are dropped: a server wants neither.
int trireme_text_tokenizer_new(trireme_text_view json, const trireme_text_ends* ends, trireme_text_tokenizer** out,
                               trireme_text_bytes* error);
void trireme_text_tokenizer_free(trireme_text_tokenizer* tokenizer);  // may be NULL

// `spans`, if not NULL, gets two numbers a token: the bytes [begin, end) of `text` it stands for.
int trireme_text_tokenizer_encode(const trireme_text_tokenizer* tokenizer, trireme_text_view text,
                                  bool add_special_tokens, trireme_text_words* ids, trireme_text_words* spans,
                                  trireme_text_bytes* error);

enum { TRIREME_TEXT_ABSENT = 0, TRIREME_TEXT_TOKEN = 1, TRIREME_TEXT_SPECIAL = 2 };

// All tokens in order of id, as they are spelled in the vocabulary: that of `id` is the bytes [ends[id - 1],
// ends[id]) of `spellings`, and `kinds[id]` is one of the above.
int trireme_text_tokenizer_vocabulary(const trireme_text_tokenizer* tokenizer, trireme_text_bytes* spellings,
                                      trireme_text_words* ends, trireme_text_bytes* kinds, trireme_text_bytes* error);

// The decoder as tokenizer.json spells it; "null" if there is none.
int trireme_text_tokenizer_decoder(const trireme_text_tokenizer* tokenizer, trireme_text_bytes* json,
                                   trireme_text_bytes* error);

// Compiles a Jinja chat template of at most 256 KiB.
int trireme_text_template_new(trireme_text_view source, trireme_text_template** out, trireme_text_bytes* error);
void trireme_text_template_free(trireme_text_template* compiled);  // may be NULL

// Renders with `context`, a JSON object. `unix_seconds` is the time that the template's strftime_now tells.
int trireme_text_template_render(const trireme_text_template* compiled, trireme_text_view context, int64_t unix_seconds,
                                 trireme_text_bytes* out, trireme_text_bytes* error);

#ifdef __cplusplus
}
#endif
