// Owners for what the Rust library gives out. Internal to server/text.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/text/rust/trireme_text.h"

namespace trireme::server {

class RustBytes {
 public:
  RustBytes() = default;
  ~RustBytes() { trireme_text_bytes_free(&bytes_); }
  RustBytes(const RustBytes&) = delete;
  RustBytes& operator=(const RustBytes&) = delete;

  trireme_text_bytes* out() { return &bytes_; }
  std::string_view view() const {
    return bytes_.size == 0 ? std::string_view() : std::string_view(bytes_.data, bytes_.size);
  }

 private:
  trireme_text_bytes bytes_ = {};
};

class RustWords {
 public:
  RustWords() = default;
  ~RustWords() { trireme_text_words_free(&words_); }
  RustWords(const RustWords&) = delete;
  RustWords& operator=(const RustWords&) = delete;

  trireme_text_words* out() { return &words_; }
  std::vector<std::uint32_t> Copy() const {
    return words_.size == 0 ? std::vector<std::uint32_t>()
                            : std::vector<std::uint32_t>(words_.data, words_.data + words_.size);
  }

 private:
  trireme_text_words words_ = {};
};

template <auto kFree>
struct RustDelete {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using RustTokenizer = std::unique_ptr<trireme_text_tokenizer, RustDelete<trireme_text_tokenizer_free>>;
using RustTemplate = std::unique_ptr<trireme_text_template, RustDelete<trireme_text_template_free>>;

inline trireme_text_view View(std::string_view text) { return {text.data(), text.size()}; }

// InvalidArgument for what was handed in wrong, Internal for a mistake in the library. `context`, if not
// empty, stands before the library's text.
absl::Status RustStatus(int code, const RustBytes& error, std::string_view context);

}  // namespace trireme::server
